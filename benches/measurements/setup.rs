//! Common parts of all rows: durations and rounds, servers filled with checks, and alternating
//! loads.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{median, thousands};
use crate::driver::{self, Endpoint, LoadPlan, LoadResult, Request, Result, StopCondition};
use crate::server_process::MeasuredServer;

/// Number of connections that fill a server: many, so that many pings share a commit.
const FILL_CONNECTIONS: usize = 256;
/// Factor by which the smoke test is smaller.
const SMOKE_TEST_DIVISOR: u64 = 100;

/// Options of the measurements.
pub(crate) struct BenchSetup {
    /// Number of rounds of each load.
    pub(crate) rounds: usize,
    /// Measured time of a round.
    pub(crate) measured: Duration,
    /// Warm-up time before that.
    pub(crate) warm_up: Duration,
    /// Directory of databases.
    pub(crate) directory: Option<PathBuf>,
    /// Binary, unless it is built.
    pub(crate) server: Option<PathBuf>,
    /// Number of times that full logs turn over.
    pub(crate) turnovers: u64,
    /// True for a smoke test.
    pub(crate) smoke: bool,
    /// Progress bar.
    pub(crate) bar: ProgressBar,
}

/// A load that runs once in every round.
pub(super) struct TimedLoad<'a> {
    pub(super) name: &'a str,
    pub(super) endpoint: &'a Endpoint,
    pub(super) request: Request,
    pub(super) connections: usize,
    pub(super) rate: Option<u32>,
}

impl BenchSetup {
    /// Returns a bar on the terminal, if there is one.
    pub(crate) fn progress_bar() -> Result<ProgressBar> {
        let style = ProgressStyle::with_template("{prefix:>50} {bar:30} {percent:>3} %  {msg}")?;
        Ok(ProgressBar::new(0).with_style(style))
    }

    /// Returns a number of checks or pings, reduced for the smoke test.
    pub(super) fn scaled(&self, number: u64) -> u64 {
        if self.smoke {
            (number / SMOKE_TEST_DIVISOR).max(10)
        } else {
            number
        }
    }

    /// Starts an empty server.
    pub(super) fn start_server(&self) -> Result<MeasuredServer> {
        MeasuredServer::start(self.directory.as_deref(), self.server.as_deref())
    }

    /// Starts a server with this number of checks, each of them pinged this often.
    pub(super) fn start_filled_server(&self, checks: u64, pings: u64) -> Result<MeasuredServer> {
        let server = self.start_server()?;
        self.fill(&server, checks, pings)?;
        Ok(server)
    }

    /// Pings each of the checks this often; missing ones are created.
    pub(super) fn fill(&self, server: &MeasuredServer, checks: u64, pings: u64) -> Result<()> {
        let endpoint = &server.endpoint;
        let request = &Request::ping(endpoint, &server.ping_key, checks, true);
        self.bar
            .set_prefix(format!("{pings} pings to each of {checks} checks"));
        self.send(&LoadPlan {
            endpoint,
            request,
            connections: FILL_CONNECTIONS,
            threads: 1,
            rate: None,
            until: StopCondition::Count(checks * pings),
        })?;
        Ok(())
    }

    /// Runs a plan; every request must succeed.
    pub(super) fn send(&self, plan: &LoadPlan<'_>) -> Result<LoadResult> {
        let run = driver::run(plan, &self.bar)?;
        if run.failed() > 0 {
            return Err(format!(
                "not all requests succeeded: {:?}, {} without answer",
                run.statuses, run.lost
            )
            .into());
        }
        Ok(run)
    }

    /// Runs one round of a load.
    pub(super) fn run_once(&self, load: &TimedLoad<'_>) -> Result<LoadResult> {
        let TimedLoad {
            name,
            endpoint,
            request,
            connections,
            rate,
        } = load;
        self.bar.set_prefix((*name).to_owned());
        let until = StopCondition::Time {
            warm_up: self.warm_up,
            measured: self.measured,
        };
        self.send(&LoadPlan {
            endpoint,
            request,
            connections: *connections,
            threads: 1,
            rate: *rate,
            until,
        })
    }

    /// Runs the loads in turns, round after round; returns the results of each load in each round.
    pub(super) fn run_alternating<const N: usize>(
        &self,
        loads: &[TimedLoad<'_>; N],
    ) -> Result<[Vec<LoadResult>; N]> {
        let mut runs = [const { Vec::new() }; N];
        for _ in 0..self.rounds {
            for (load, runs) in loads.iter().zip(&mut runs) {
                runs.push(self.run_once(load)?);
            }
        }
        Ok(runs)
    }
}

/// Returns the median of the ratios of each round, and the median rates that it is based on.
pub(super) fn ratio(of: &[LoadResult], to: &[LoadResult], digits: usize) -> String {
    let ratio = median(
        of.iter()
            .zip(to)
            .map(|(of, to)| of.per_second() / to.per_second()),
    );
    let rate = |runs: &[LoadResult]| thousands(median(runs.iter().map(LoadResult::per_second)));
    format!("{ratio:.digits$} ({}/s of {}/s)", rate(of), rate(to))
}
