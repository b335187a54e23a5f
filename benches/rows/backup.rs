//! What pings notice of a backup that is made meanwhile.

use super::gauge::ended;
use super::setup::{Load, Setup};
use super::{Line, median, megabytes, thousands};
use crate::driver::{Request, Result, Run};
use crate::subject::Subject;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pings a second that come in.
const RATE: u32 = 20_000;

/// A backup of 1,100,000 pings while 20,000 pings a second come in, one backup after the other, against the same pings without.
pub(super) fn backup(setup: &Setup) -> Result<Vec<Line>> {
    let checks = setup.size(10_000);
    let subject = setup.start()?;
    // All of them stay in the file.
    subject.run(&["project", "set", "default", "--ping-log-limit", "10000"])?;
    setup.fill(&subject, checks, 110)?;
    let rate = if setup.smoke { RATE / 100 } else { RATE };
    let load = |name| {
        let request = Request::ping(&subject.endpoint, &subject.ping_key, checks, false);
        Load { name, endpoint: &subject.endpoint, request, connections: 64, rate: Some(rate) }
    };
    let (mut without, mut with, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setup.rounds {
        without.push(p99(&setup.turn(&load("pings without a backup"))?));
        let ends = AtomicBool::new(false);
        let (run, made) = std::thread::scope(|scope| {
            let making = scope.spawn(|| backups(&subject, &ends));
            let run = setup.turn(&load("pings beside backups"));
            ends.store(true, Ordering::Relaxed);
            Ok::<_, crate::driver::Failure>((run?, making.join().map_err(|_| "the backups panicked")??))
        })?;
        with.push(p99(&run));
        times.extend(made);
    }
    let size = std::fs::metadata(subject.directory.path().join("backup"))?.len();
    let ratio = median(with.iter().zip(&without).map(|(with, without)| with / without));
    let millis = |micros: &[f64]| median(micros.iter().copied()) / 1e3;
    let pings = thousands(checks as f64 * 110.0);
    Ok(vec![
        Line::new(
            format!("p99 of a ping at {}/s beside backups of {pings} pings and more, against that without", thousands(rate.into())),
            "at most 1.5",
            format!("{ratio:.2} ({:.2} ms of {:.2} ms)", millis(&with), millis(&without)),
        ),
        Line::new("time of a backup beside these pings", "", format!("{:.1} s, {}", median(times), megabytes(size as f64))),
    ])
}

fn p99(run: &Run) -> f64 {
    run.latency.value_at_quantile(0.99) as f64
}

/// Makes one backup after the other until the pings end; the seconds that each took, also the last one.
fn backups(subject: &Subject, ends: &AtomicBool) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let mut backup = Command::new(&subject.binary);
        backup.arg("backup").arg(subject.directory.path().join("backup")).arg("--data").arg(subject.directory.path());
        let backup = backup.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        times.push(ended(backup, "backup")?.0);
    }
    Ok(times)
}
