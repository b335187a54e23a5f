//! Growth of memory, disk and start time with the number of checks.

use std::fs;
use std::path::Path;

use super::setup::BenchSetup;
use super::{TableRow, median, megabytes, thousands};
use crate::driver::Result;

mod plot;

/// Path of the plot of a whole run.
const PLOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/growth.svg");
/// Path of the plot of the smoke test.
const SMOKE_PLOT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/growth.svg");

/// Fills, measures, stops and starts a server at each size.
pub(super) fn growth(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let mut lines = Vec::new();
    let mut memory = plot::Panel::new("resident memory, MB");
    let mut disk = plot::Panel::new("database file, MB");
    let mut start = plot::Panel::new("ready after a clean stop, ms");
    for checks in [1000, 10_000, 100_000, 1_000_000].map(|checks| setup.scaled(checks)) {
        let mut server = setup.start_filled_server(checks, 1)?;
        let used = server.resident_bytes()?;
        let mut times = Vec::new();
        for _ in 0..setup.rounds {
            server.stop()?;
            times.push(server.restart()?.as_secs_f64());
        }
        let file = server.database_bytes()?;
        let ready = median(times);
        memory.points.push((checks as f64, used / 1e6));
        disk.points.push((checks as f64, file / 1e6));
        start.points.push((checks as f64, ready * 1e3));
        let what = format!(
            "{} checks: memory, file, ready after a clean stop",
            thousands(checks as f64)
        );
        lines.push(TableRow::new(
            what,
            "",
            format!("{}, {}, {ready:.3} s", megabytes(used), megabytes(file)),
        ));
    }
    let path = Path::new(if setup.smoke { SMOKE_PLOT } else { PLOT });
    fs::write(path, plot::draw(&[memory, disk, start]))?;
    lines.push(TableRow::new("plot", "", path.display()));
    Ok(lines)
}
