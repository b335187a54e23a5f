//! Time to the first response of a server that was stopped or killed.

use std::time::Duration;

use super::setup::BenchSetup;
use super::{TableRow, median, thousands};
use crate::driver::{self, LoadPlan, Request, Result, StopCondition};
use crate::server_process::MeasuredServer;

/// Duration of a load that SIGKILL ends long before.
const LONG: Duration = Duration::from_secs(3600);

/// Measures the time to the first answered ping after a clean stop.
pub(super) fn after_stop(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let mut lines = Vec::new();
    for (checks, target) in [
        (setup.scaled(10_000), "0.2 s"),
        (setup.scaled(100_000), "1.0 s"),
    ] {
        let mut server = setup.start_filled_server(checks, 1)?;
        let mut times = Vec::new();
        for _ in 0..setup.rounds {
            server.stop()?;
            times.push(server.restart()?.as_secs_f64());
            setup.fill(&server, checks, 1)?;
        }
        let what = format!(
            "ready to answer after a clean stop, {} checks",
            thousands(checks as f64)
        );
        lines.push(TableRow::new(
            what,
            target,
            format!("{:.3} s", median(times)),
        ));
    }
    Ok(lines)
}

/// Times from start to the first answered ping after SIGKILL, and pings before it.
#[derive(Default)]
struct Kills {
    seconds: Vec<f64>,
    answered: u64,
    logged: u64,
}

impl Kills {
    /// Kills the server under load and starts it again with these flags.
    fn kill(
        &mut self,
        setup: &BenchSetup,
        server: &mut MeasuredServer,
        checks: u64,
        flags: &[&str],
    ) -> Result<()> {
        let before = server.endpoint.logged_pings(&server.api_key)?;
        self.answered += killed_while_pinged(setup, server, checks)?;
        self.seconds.push(server.restart_with(flags)?.as_secs_f64());
        // One ping has shown that it is ready.
        self.logged += server.endpoint.logged_pings(&server.api_key)? - before - 1;
        Ok(())
    }

    /// Rows of the table.
    ///
    /// # Errors
    /// Returns an error if an answered ping is not in the log.
    fn into_rows(self, what: String) -> Result<Vec<TableRow>> {
        let Self {
            seconds,
            answered,
            logged,
        } = self;
        if logged < answered {
            return Err(format!(
                "{answered} pings were answered before SIGKILL, {logged} of them are in the log"
            )
            .into());
        }
        let counts = format!(
            "{} answered, {} logged",
            thousands(answered as f64),
            thousands(logged as f64)
        );
        Ok(vec![
            TableRow::new(what, "2.0 s", format!("{:.3} s", median(seconds))),
            TableRow::new("pings before SIGKILL", "none lost", counts),
        ])
    }
}

/// Measures the time to the first answered ping after SIGKILL under load, and tests that all
/// answered pings are stored.
pub(super) fn after_kill(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(100_000);
    let mut server = setup.start_filled_server(checks, 10)?;
    let mut kills = Kills::default();
    for _ in 0..setup.rounds {
        kills.kill(setup, &mut server, checks, &[])?;
    }
    let pings = thousands(10.0 * checks as f64);
    let checks = thousands(checks as f64);
    kills.into_rows(format!(
        "ready to answer after SIGKILL under load, {checks} checks, {pings} and more logged pings"
    ))
}

/// Measures the same with the journal and with `--journal off`, in turns on one database.
pub(super) fn with_and_without_journal(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    const FLAGS: [&[&str]; 2] = [&[], &["--journal", "off"]];
    let checks = setup.scaled(100_000);
    let mut server = setup.start_filled_server(checks, 10)?;
    let mut kills = [Kills::default(), Kills::default()];
    for _ in 0..setup.rounds {
        for (flags, kills) in FLAGS.into_iter().zip(&mut kills) {
            server.stop()?;
            server.restart_with(flags)?;
            kills.kill(setup, &mut server, checks, flags)?;
        }
    }
    let mut rows = Vec::new();
    for (flags, kills) in FLAGS.into_iter().zip(kills) {
        let mode = if flags.is_empty() {
            "with the journal"
        } else {
            "with --journal off"
        };
        let checks = thousands(checks as f64);
        rows.extend(kills.into_rows(format!(
            "ready to answer after SIGKILL under load, {checks} checks, {mode}"
        ))?);
    }
    Ok(rows)
}

/// Kills the server under load; returns the number of pings that it answered successfully until
/// then.
fn killed_while_pinged(
    setup: &BenchSetup,
    server: &mut MeasuredServer,
    checks: u64,
) -> Result<u64> {
    let endpoint = server.endpoint.clone();
    let request = Request::ping(&endpoint, &server.ping_key, checks, false);
    let until = StopCondition::Time {
        warm_up: Duration::ZERO,
        measured: LONG,
    };
    let plan = LoadPlan {
        endpoint: &endpoint,
        request: &request,
        connections: 64,
        threads: 1,
        rate: None,
        until,
    };
    setup.bar.set_prefix("pings until SIGKILL");
    let run = std::thread::scope(|scope| {
        let pinging = scope.spawn(|| driver::run(&plan, &setup.bar));
        std::thread::sleep(setup.warm_up + setup.measured);
        server.child.kill()?;
        server.child.wait()?;
        pinging.join().map_err(|_| "the pings panicked")?
    })?;
    Ok(run.succeeded())
}
