//! Rate and latency of pings.

use std::time::Duration;

use super::sampler::median_fdatasync;
use super::setup::{BenchSetup, TimedLoad, ratio};
use super::{TableRow, median, thousands};
use crate::baseline::BaselineServer;
use crate::driver::{LoadResult, Request, Result};
use crate::server_process::MeasuredServer;

fn ping_load<'a>(
    name: &'a str,
    server: &'a MeasuredServer,
    checks: u64,
    connections: usize,
) -> TimedLoad<'a> {
    let request = Request::ping(&server.endpoint, &server.ping_key, checks, false);
    TimedLoad {
        name,
        endpoint: &server.endpoint,
        request,
        connections,
        rate: None,
    }
}

/// Measures durable pings against the same requests to a server that does nothing.
pub(super) fn against_baseline(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(10_000);
    let server = setup.start_filled_server(checks, 1)?;
    let baseline = BaselineServer::start()?;
    let idle = |name, connections| {
        let request = Request::ping(&baseline.endpoint, &server.ping_key, checks, false);
        TimedLoad {
            name,
            endpoint: &baseline.endpoint,
            request,
            connections,
            rate: None,
        }
    };
    let before = server.endpoint.logged_pings(&server.api_key)?;
    let [bare_64, pings_64, bare_256, pings_256] = setup.run_alternating(&[
        idle("bare hyper, 64 connections", 64),
        ping_load("pings, 64 connections", &server, checks, 64),
        idle("bare hyper, 256 connections", 256),
        ping_load("pings, 256 connections", &server, checks, 256),
    ])?;
    let logged = server.endpoint.logged_pings(&server.api_key)? - before;
    let answered: u64 = pings_64
        .iter()
        .chain(&pings_256)
        .map(LoadResult::succeeded)
        .sum();
    if logged != answered {
        return Err(format!("{answered} pings were answered, {logged} are in the log").into());
    }
    let over = thousands(checks as f64);
    let what = |connections| {
        format!("durable pings over {over} checks, {connections} connections, against bare hyper")
    };
    Ok(vec![
        TableRow::new(
            what(64),
            "at least 0.45, the aim is 0.50",
            ratio(&pings_64, &bare_64, 2),
        ),
        TableRow::new(
            what(256),
            "at least 0.60, the aim is 0.70",
            ratio(&pings_256, &bare_256, 2),
        ),
        TableRow::new(
            "of those pings, answered and logged",
            "all",
            thousands(logged as f64),
        ),
    ])
}

/// Measures pings with 100,000 checks against pings with 100.
pub(super) fn many_against_few(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let few = 100;
    let many = setup.scaled(100_000);
    let with_few = setup.start_filled_server(few, 1)?;
    let with_many = setup.start_filled_server(many, 1)?;
    let [few_runs, many_runs] = setup.run_alternating(&[
        ping_load("pings, few checks", &with_few, few, 64),
        ping_load("pings, many checks", &with_many, many, 64),
    ])?;
    let what = format!(
        "pings with {} checks against {few} checks, 64 connections",
        thousands(many as f64)
    );
    Ok(vec![TableRow::new(
        what,
        "at least 0.80",
        ratio(&many_runs, &few_runs, 2),
    )])
}

/// Measures the 99th percentile at half the peak rate, open loop.
pub(super) fn latency(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(10_000);
    let server = setup.start_filled_server(checks, 1)?;
    let sync = median_fdatasync(server.directory.path())?;
    let peak = ping_load("pings, 64 connections: the peak", &server, checks, 64);
    let mut peaks = Vec::new();
    let mut p50 = Vec::new();
    let mut p99 = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..setup.rounds {
        let most = setup.run_once(&peak)?.per_second();
        let half = TimedLoad {
            rate: Some((most / 2.0) as u32),
            ..ping_load("pings at half the peak", &server, checks, 256)
        };
        let run = setup.run_once(&half)?;
        peaks.push(most);
        rates.push(run.per_second());
        p50.push(run.latency.value_at_quantile(0.5) as f64);
        p99.push(run.latency.value_at_quantile(0.99) as f64);
    }
    let millis =
        |micros: Vec<f64>| Duration::from_secs_f64(median(micros) / 1e6).as_secs_f64() * 1e3;
    let at = format!(
        "{:.2} ms at {}/s, peak {}/s",
        millis(p99),
        thousands(median(rates)),
        thousands(median(peaks))
    );
    Ok(vec![
        TableRow::new(
            "p99 of a ping at half the peak rate, 256 connections",
            "5 ms where fdatasync takes 0.3 ms",
            at,
        ),
        TableRow::new("p50 of the same", "", format!("{:.2} ms", millis(p50))),
        TableRow::new(
            "one fdatasync of a page of this disk, idle",
            "",
            format!("{:.2} ms", sync.as_secs_f64() * 1e3),
        ),
    ])
}
