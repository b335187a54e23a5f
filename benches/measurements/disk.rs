//! Disk usage of pings.
//!
//! The number of fdatasync calls shows how many pings share a commit: `strace -f --seccomp-bpf -c
//! -e trace=fdatasync overdue serve ...`.

use super::setup::{BenchSetup, TimedLoad};
use super::{TableRow, median, megabytes, thousands};
use crate::driver::{Request, Result};

/// Measures the bytes that the disk writes for each ping at peak, while the logs are full and are
/// swept. Other processes should not write meanwhile.
pub(super) fn writes(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(10_000);
    // The sweep begins when the log holds about twice the limit.
    let server = setup.start_filled_server(checks, 250)?;
    let mut lines = Vec::new();
    for connections in [64, 256] {
        let request = Request::ping(&server.endpoint, &server.ping_key, checks, false);
        let load = TimedLoad {
            name: "pings, logs full",
            endpoint: &server.endpoint,
            request,
            connections,
            rate: None,
        };
        let mut bytes = Vec::new();
        let mut rates = Vec::new();
        for _ in 0..setup.rounds {
            let before = server.written_bytes()?;
            let run = setup.run_once(&load)?;
            bytes.push((server.written_bytes()? - before) / run.succeeded() as f64);
            rates.push(run.per_second());
        }
        let what = format!(
            "bytes written to disk for each ping at peak, logs full and swept, {connections} \
             connections"
        );
        lines.push(TableRow::new(
            what,
            "measured",
            format!(
                "{} at {}/s",
                thousands(median(bytes)),
                thousands(median(rates))
            ),
        ));
    }
    Ok(lines)
}

/// Measures the size of the file while each of 10,000 full logs is replaced repeatedly.
pub(super) fn turnovers(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(10_000);
    let server = setup.start_filled_server(checks, 100)?;
    let mut sizes = vec![server.database_bytes()?];
    for _ in 0..setup.turnovers {
        setup.fill(&server, checks, 100)?;
        sizes.push(server.database_bytes()?);
    }
    let what = format!(
        "file after each of {} turnovers of {} logs of 100 pings",
        setup.turnovers,
        thousands(checks as f64)
    );
    let most = sizes.iter().copied().fold(0.0, f64::max);
    let sizes: Vec<_> = sizes
        .into_iter()
        .map(|bytes| format!("{:.0}", bytes / 1e6))
        .collect();
    Ok(vec![
        TableRow::new("file, high-water mark", "bounded", megabytes(most)),
        TableRow::new(what, "", format!("{} MB", sizes.join(", "))),
        TableRow::new(
            "resident memory after that",
            "",
            megabytes(server.resident_bytes()?),
        ),
    ])
}
