//! What a server keeps in memory.

use super::setup::Setup;
use super::{Line, median, megabytes, thousands};
use crate::driver::Result;
use crate::subject::Subject;

/// Resident memory: idle, with full logs, with many checks; the last two also after a restart.
pub(super) fn memory(setup: &Setup) -> Result<Vec<Line>> {
    let idle = (0..setup.rounds).map(|_| setup.filled(0, 0)?.resident()).collect::<Result<Vec<_>>>()?;
    let mut lines = vec![Line::new("resident memory: idle", "12 MB", megabytes(median(idle)))];
    for (checks, pings, wanted) in [(setup.size(10_000), 100, "60 MB"), (setup.size(100_000), 1, "300 MB")] {
        let rounds = (0..setup.rounds).map(|_| used_and_after_restart(&mut setup.filled(checks, pings)?)).collect::<Result<Vec<_>>>()?;
        let used = megabytes(median(rounds.iter().map(|round| round.0)));
        let restarted = megabytes(median(rounds.iter().map(|round| round.1)));
        let what = format!("resident memory: {} checks, logged pings of each: {pings}", thousands(checks as f64));
        lines.push(Line::new(what, wanted, format!("{used} ({restarted} after a restart)")));
    }
    Ok(lines)
}

fn used_and_after_restart(subject: &mut Subject) -> Result<(f64, f64)> {
    let used = subject.resident()?;
    subject.stop()?;
    subject.start_again()?;
    Ok((used, subject.resident()?))
}
