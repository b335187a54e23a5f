//! Memory usage of a server.

use super::setup::BenchSetup;
use super::{TableRow, median, megabytes, thousands};
use crate::driver::Result;
use crate::server_process::MeasuredServer;

/// Measures resident memory: idle, with full logs, with many checks; the last two also after a
/// restart.
pub(super) fn memory(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let idle = (0..setup.rounds)
        .map(|_| setup.start_filled_server(0, 0)?.resident_bytes())
        .collect::<Result<Vec<_>>>()?;
    let mut lines = vec![TableRow::new(
        "resident memory: idle",
        "12 MB",
        megabytes(median(idle)),
    )];
    for (checks, pings, target) in [
        (setup.scaled(10_000), 100, "60 MB"),
        (setup.scaled(100_000), 1, "300 MB"),
    ] {
        let rounds = (0..setup.rounds)
            .map(|_| used_and_after_restart(&mut setup.start_filled_server(checks, pings)?))
            .collect::<Result<Vec<_>>>()?;
        let used = megabytes(median(rounds.iter().map(|round| round.0)));
        let restarted = megabytes(median(rounds.iter().map(|round| round.1)));
        let what = format!(
            "resident memory: {} checks, logged pings of each: {pings}",
            thousands(checks as f64)
        );
        lines.push(TableRow::new(
            what,
            target,
            format!("{used} ({restarted} after a restart)"),
        ));
    }
    Ok(lines)
}

fn used_and_after_restart(server: &mut MeasuredServer) -> Result<(f64, f64)> {
    let used = server.resident_bytes()?;
    server.stop()?;
    server.restart()?;
    Ok((used, server.resident_bytes()?))
}
