//! How often the list of checks can be read.

use std::time::Duration;

use super::setup::{Load, Setup, ratio};
use super::{Line, thousands};
use crate::bare::Bare;
use crate::driver::{self, Plan, Request, Result, Run, Until};
use crate::subject::Subject;

/// As many as the figures of other servers were taken with.
const CONNECTIONS: usize = 16;
/// Pings a second beside the reading, so that no list is like the one before.
const PINGS: u32 = 100;
const PATH: &str = "/api/v3/checks/";

/// The list of 1,000 checks against the same requests to a server that does nothing.
pub(super) fn lists(setup: &Setup) -> Result<Vec<Line>> {
    let checks = setup.size(1000);
    let (subject, bare) = (setup.filled(checks, 1)?, Bare::start()?);
    let key = ("X-Api-Key", subject.api_key.as_str());
    let listed = subject.endpoint.call("GET", PATH, &[key], "")?;
    let tag = listed.header("etag").ok_or("the list has no ETag")?;
    let load = |name, endpoint, headers: &[(&str, &str)]| {
        let request = Request::new(endpoint, "GET", PATH, headers, "", 1);
        Load { name, endpoint, request, connections: CONNECTIONS, rate: None }
    };
    let [bare_runs, list_runs, same_runs] = setup.alternate(&[
        load("bare hyper", &bare.endpoint, &[key]),
        load("list", &subject.endpoint, &[key]),
        load("list that has not changed", &subject.endpoint, &[key, ("If-None-Match", tag)]),
    ])?;
    let pinged = while_pinged(setup, &subject, checks, &load("list while pings come", &subject.endpoint, &[key]))?;
    let what = format!("GET {PATH} with {} checks, {CONNECTIONS} connections, against bare hyper", thousands(checks as f64));
    Ok(vec![
        Line::new(what, "at least 0.005", ratio(&list_runs, &bare_runs, 4)),
        Line::new(format!("the same while {PINGS} pings a second come"), "", ratio(&pinged, &bare_runs, 4)),
        Line::new("the same with If-None-Match, unchanged", "", ratio(&same_runs, &bare_runs, 4)),
    ])
}

/// What came of the load in each round while checks change.
fn while_pinged(setup: &Setup, subject: &Subject, checks: u64, load: &Load<'_>) -> Result<Vec<Run>> {
    let endpoint = &subject.endpoint;
    let request = &Request::ping(endpoint, &subject.ping_key, checks, false);
    let until = Until::Time { warm_up: Duration::ZERO, measured: setup.warm_up + setup.measured };
    let pings = Plan { endpoint, request, connections: CONNECTIONS, threads: 1, rate: Some(PINGS), until };
    let round = |_| {
        std::thread::scope(|scope| {
            let pinging = scope.spawn(|| driver::run(&pings, &indicatif::ProgressBar::hidden()));
            let run = setup.turn(load)?;
            let pinged = pinging.join().map_err(|_| "the pings panicked")??;
            if pinged.bad() > 0 { Err("not all pings beside the lists were answered well".into()) } else { Ok(run) }
        })
    };
    (0..setup.rounds).map(round).collect()
}
