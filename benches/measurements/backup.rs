//! Effect of a backup on pings.

use super::sampler::wait_for_command;
use super::setup::{BenchSetup, TimedLoad};
use super::{TableRow, median, megabytes, thousands};
use crate::driver::{LoadResult, Request, Result};
use crate::server_process::MeasuredServer;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Incoming pings a second.
const PINGS_PER_SECOND: u32 = 20_000;

/// Measures backups of 1,100,000 pings, one after the other, during 20,000 pings a second, against
/// the same pings without backups.
pub(super) fn backup(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(10_000);
    let server = setup.start_server()?;
    // All of them stay in the file.
    server.run(&["project", "set", "default", "--ping-log-limit", "10000"])?;
    setup.fill(&server, checks, 110)?;
    let rate = if setup.smoke {
        PINGS_PER_SECOND / 100
    } else {
        PINGS_PER_SECOND
    };
    let load = |name| {
        let request = Request::ping(&server.endpoint, &server.ping_key, checks, false);
        TimedLoad {
            name,
            endpoint: &server.endpoint,
            request,
            connections: 64,
            rate: Some(rate),
        }
    };
    let mut without = Vec::new();
    let mut with = Vec::new();
    let mut times = Vec::new();
    for _ in 0..setup.rounds {
        without.push(p99(&setup.run_once(&load("pings without a backup"))?));
        let has_ended = AtomicBool::new(false);
        let (run, made) = std::thread::scope(|scope| {
            let making = scope.spawn(|| backups(&server, &has_ended));
            let run = setup.run_once(&load("pings during backups"));
            has_ended.store(true, Ordering::Relaxed);
            Ok::<_, crate::driver::BenchError>((
                run?,
                making.join().map_err(|_| "the backups panicked")??,
            ))
        })?;
        with.push(p99(&run));
        times.extend(made);
    }
    let size = std::fs::metadata(server.directory.path().join("backup"))?.len();
    let ratio = median(
        with.iter()
            .zip(&without)
            .map(|(with, without)| with / without),
    );
    let millis = |micros: &[f64]| median(micros.iter().copied()) / 1e3;
    let pings = thousands(checks as f64 * 110.0);
    Ok(vec![
        TableRow::new(
            format!(
                "p99 of a ping at {}/s during backups of {pings} pings and more, against that \
                 without",
                thousands(rate.into())
            ),
            "at most 1.5",
            format!(
                "{ratio:.2} ({:.2} ms of {:.2} ms)",
                millis(&with),
                millis(&without)
            ),
        ),
        TableRow::new(
            "time of a backup during these pings",
            "",
            format!("{:.1} s, {}", median(times), megabytes(size as f64)),
        ),
    ])
}

fn p99(run: &LoadResult) -> f64 {
    run.latency.value_at_quantile(0.99) as f64
}

/// Creates one backup after the other until the pings end; returns the seconds of each, including
/// the last one.
fn backups(server: &MeasuredServer, has_ended: &AtomicBool) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    while !has_ended.load(Ordering::Relaxed) {
        let mut backup = Command::new(&server.binary);
        backup
            .arg("backup")
            .arg(server.directory.path().join("backup"))
            .arg("--data")
            .arg(server.directory.path());
        let backup = backup
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        times.push(wait_for_command(backup, "backup")?.0);
    }
    Ok(times)
}
