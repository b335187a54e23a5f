//! Rate at which the list of checks can be read.

use std::time::Duration;

use super::setup::{BenchSetup, TimedLoad, ratio};
use super::{TableRow, thousands};
use crate::baseline::BaselineServer;
use crate::driver::{self, LoadPlan, LoadResult, Request, Result, StopCondition};
use crate::server_process::MeasuredServer;

/// The same number as in the measurements of other servers.
const CONNECTIONS: usize = 16;
/// Pings a second beside the reading, so that every list differs from the one before.
const PINGS_PER_SECOND: u32 = 100;
const PATH: &str = "/api/v3/checks/";

/// Measures the list of 1,000 checks against the same requests to a server that does nothing.
pub(super) fn lists(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(1000);
    let server = setup.start_filled_server(checks, 1)?;
    let baseline = BaselineServer::start()?;
    let key = ("X-Api-Key", server.api_key.as_str());
    let listed = server.endpoint.call("GET", PATH, &[key], "")?;
    let tag = listed.header("etag").ok_or("the list has no ETag")?;
    let load = |name, endpoint, headers: &[(&str, &str)]| {
        let request = Request::new(endpoint, "GET", PATH, headers, "", 1);
        TimedLoad {
            name,
            endpoint,
            request,
            connections: CONNECTIONS,
            rate: None,
        }
    };
    let [bare_runs, list_runs, same_runs] = setup.run_alternating(&[
        load("bare hyper", &baseline.endpoint, &[key]),
        load("list", &server.endpoint, &[key]),
        load(
            "list that has not changed",
            &server.endpoint,
            &[key, ("If-None-Match", tag)],
        ),
    ])?;
    let pinged = while_pinged(
        setup,
        &server,
        checks,
        &load("list during pings", &server.endpoint, &[key]),
    )?;
    let what = format!(
        "GET {PATH} with {} checks, {CONNECTIONS} connections, against bare hyper",
        thousands(checks as f64)
    );
    Ok(vec![
        TableRow::new(what, "at least 0.005", ratio(&list_runs, &bare_runs, 4)),
        TableRow::new(
            format!("the same during {PINGS_PER_SECOND} pings a second"),
            "",
            ratio(&pinged, &bare_runs, 4),
        ),
        TableRow::new(
            "the same with If-None-Match, unchanged",
            "",
            ratio(&same_runs, &bare_runs, 4),
        ),
    ])
}

/// Returns the results of the load in each round while checks change.
fn while_pinged(
    setup: &BenchSetup,
    server: &MeasuredServer,
    checks: u64,
    load: &TimedLoad<'_>,
) -> Result<Vec<LoadResult>> {
    let endpoint = &server.endpoint;
    let request = &Request::ping(endpoint, &server.ping_key, checks, false);
    let until = StopCondition::Time {
        warm_up: Duration::ZERO,
        measured: setup.warm_up + setup.measured,
    };
    let pings = LoadPlan {
        endpoint,
        request,
        connections: CONNECTIONS,
        threads: 1,
        rate: Some(PINGS_PER_SECOND),
        until,
    };
    let round = |_| {
        std::thread::scope(|scope| {
            let pinging = scope.spawn(|| driver::run(&pings, &indicatif::ProgressBar::hidden()));
            let run = setup.run_once(load)?;
            let pinged = pinging.join().map_err(|_| "the pings panicked")??;
            if pinged.failed() > 0 {
                Err("not all pings during the lists succeeded".into())
            } else {
                Ok(run)
            }
        })
    };
    (0..setup.rounds).map(round).collect()
}
