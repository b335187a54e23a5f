//! What pings cost the disk.
//!
//! How many pings share a commit is told by the number of fdatasync calls:
//! `strace -f --seccomp-bpf -c -e trace=fdatasync overdue serve ...`.

use super::setup::{Load, Setup};
use super::{Line, median, megabytes, thousands};
use crate::driver::{Request, Result};

/// Bytes written for each ping at peak, while the logs are full and are swept.
pub(super) fn writes(setup: &Setup) -> Result<Vec<Line>> {
    let checks = setup.size(10_000);
    // The sweep begins when the log holds about twice what is kept.
    let subject = setup.filled(checks, 250)?;
    let mut lines = Vec::new();
    for connections in [64, 256] {
        let request = Request::ping(&subject.endpoint, &subject.ping_key, checks, false);
        let load = Load { name: "pings, logs full", endpoint: &subject.endpoint, request, connections, rate: None };
        let (mut bytes, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..setup.rounds {
            let before = subject.written()?;
            let run = setup.turn(&load)?;
            bytes.push((subject.written()? - before) / run.good() as f64);
            rates.push(run.per_second());
        }
        let what = format!("bytes written to disk for each ping at peak, logs full and swept, {connections} connections");
        lines.push(Line::new(what, "measured", format!("{} at {}/s", thousands(median(bytes)), thousands(median(rates)))));
    }
    Ok(lines)
}

/// Size of the file while each of 10,000 full logs is replaced again and again.
pub(super) fn turnovers(setup: &Setup) -> Result<Vec<Line>> {
    let checks = setup.size(10_000);
    let subject = setup.filled(checks, 100)?;
    let mut sizes = vec![subject.file()?];
    for _ in 0..setup.turnovers {
        setup.fill(&subject, checks, 100)?;
        sizes.push(subject.file()?);
    }
    let what = format!("file after each of {} turnovers of {} logs of 100 pings", setup.turnovers, thousands(checks as f64));
    let most = sizes.iter().copied().fold(0.0, f64::max);
    let sizes: Vec<_> = sizes.into_iter().map(|bytes| format!("{:.0}", bytes / 1e6)).collect();
    Ok(vec![
        Line::new("file, high-water mark", "bounded", megabytes(most)),
        Line::new(what, "", format!("{} MB", sizes.join(", "))),
        Line::new("resident memory after that", "", megabytes(subject.resident()?)),
    ])
}
