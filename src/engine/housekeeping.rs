//! Work that keeps the file small and start-up short, done in slices beside the batches so that no ping waits for it:
//! the checkpoint of check rows, the sweep of the arrival log, and the pruning of old flips.

use super::state::State;
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::moment::Moment;
use crate::store::{Batch, Mark, PingCursor, StoreError};

/// Rows that a slice writes or removes at the most.
const SLICE: usize = 512;
/// The tail of the log that start-up may have to replay: at least this many pings, or ten for each check.
const LEAST_TAIL: u64 = 50_000;
/// Dead entries that the log may hold beside twice the live ones.
const SLACK: u64 = 10_000;

/// Flips are kept for the current month and so many full months before it (contract, Limits).
const FLIP_MONTHS: i64 = 2;

/// How far each of the jobs is.
pub(super) struct Housekeeping {
    /// Check rows hold every ping up to this arrival.
    checkpoint: Arrival,
    round: Option<Round>,
    log_len: u64,
    kept_len: u64,
    /// The log is swept down to `target` entries once it has more than `ceiling`.
    ceiling: u64,
    target: u64,
    sweeping: bool,
    /// Where the pruning of kept pings is, and how many it is to look at.
    kept_cursor: PingCursor,
    kept_credit: usize,
    prune_flips: bool,
}

/// A checkpoint under way.
struct Round {
    /// What the check rows will hold when it is done.
    arrival: Arrival,
    flip: FlipNumber,
    /// The next check to be looked at.
    next: usize,
    /// The checks to be looked at, in order.
    checks: Vec<CheckId>,
}

impl Housekeeping {
    pub(super) fn new(checkpoint: Arrival, log_len: u64, kept_len: u64) -> Self {
        Self {
            checkpoint,
            round: None,
            log_len,
            kept_len,
            ceiling: 0,
            target: 0,
            sweeping: false,
            kept_cursor: PingCursor::default(),
            kept_credit: 0,
            prune_flips: false,
        }
    }

    /// Time for the hourly round: old flips go, and every kept ping is looked at once.
    pub(super) fn hourly(&mut self) {
        self.prune_flips = true;
        self.kept_credit = usize::try_from(self.kept_len).unwrap_or(usize::MAX);
    }

    /// Whether there is work that does not wait for pings.
    pub(super) fn pending(&self) -> bool {
        self.round.is_some() || self.sweeping || self.prune_flips || (self.kept_credit > 0 && self.kept_len > 0)
    }

    /// Writes one slice of whatever is to be done into a batch that has just appended `appended` pings.
    pub(super) fn slice(
        &mut self,
        batch: &Batch,
        state: &State,
        appended: u64,
        last: (Arrival, FlipNumber),
        now: Moment,
    ) -> Result<(), StoreError> {
        self.log_len += appended;
        self.checkpoint(batch, state, last)?;
        self.sweep(batch, state, appended)?;
        self.prune_kept(batch, state)?;
        if self.prune_flips {
            self.prune_flips = batch.prune_flips(now.start_of_month(FLIP_MONTHS), SLICE)? == SLICE;
        }
        Ok(())
    }

    /// Brings every check row up to date at once, for a clean stop.
    pub(super) fn checkpoint_whole(
        batch: &Batch,
        state: &State,
        checkpoint: Arrival,
        last: (Arrival, FlipNumber),
    ) -> Result<(), StoreError> {
        let checks = state.households().flat_map(|household| &household.checks).filter_map(|id| state.check(*id));
        batch.put_checks(checks.filter(|check| check.state.last_arrival > checkpoint))?;
        batch.set_mark(Mark::CheckpointArrival, last.0.0)?;
        batch.set_mark(Mark::CheckpointFlip, last.1.0)
    }

    /// Check rows hold every ping up to this arrival.
    pub(super) fn checkpointed(&self) -> Arrival {
        self.checkpoint
    }

    fn checkpoint(&mut self, batch: &Batch, state: &State, (arrival, flip): (Arrival, FlipNumber)) -> Result<(), StoreError> {
        if self.round.is_none() {
            let tail = arrival.0.saturating_sub(self.checkpoint.0);
            if tail < LEAST_TAIL {
                return Ok(());
            }
            let checks: Vec<_> = state.households().flat_map(|household| &household.checks).copied().collect();
            if tail < 10 * checks.len() as u64 {
                return Ok(());
            }
            self.round = Some(Round { arrival, flip, next: 0, checks });
        }
        let Some(round) = &mut self.round else { return Ok(()) };
        let slice = round.checks.iter().skip(round.next).take(SLICE);
        let behind = slice.filter_map(|id| state.check(*id)).filter(|check| check.state.last_arrival > self.checkpoint);
        batch.put_checks(behind)?;
        round.next += SLICE;
        if round.next >= round.checks.len() {
            batch.set_mark(Mark::CheckpointArrival, round.arrival.0)?;
            batch.set_mark(Mark::CheckpointFlip, round.flip.0)?;
            self.checkpoint = round.arrival;
            self.round = None;
        }
        Ok(())
    }

    fn sweep(&mut self, batch: &Batch, state: &State, appended: u64) -> Result<(), StoreError> {
        if !self.sweeping {
            if self.log_len <= self.ceiling {
                return Ok(());
            }
            // Counting costs a step for each check, which the entries since the last count pay for.
            let live = live_pings(state).saturating_sub(self.kept_len);
            self.target = live + live / 2 + SLACK / 2;
            self.ceiling = 2 * live + SLACK;
            self.sweeping = self.log_len > self.ceiling;
            if !self.sweeping {
                return Ok(());
            }
        }
        // Twice what came in, so that the sweep gets ahead of any rate.
        let most = SLICE.max(usize::try_from(2 * appended).unwrap_or(SLICE));
        let swept = batch.sweep_pings(self.checkpoint, most, |check, n| state.keeps_ping(check, n))?;
        self.log_len = self.log_len.saturating_sub(swept.removed as u64);
        self.kept_len += swept.kept as u64;
        self.kept_credit = self.kept_credit.saturating_add(2 * swept.kept);
        // What a replay would need stays until the next checkpoint.
        self.sweeping = swept.removed == most && self.log_len > self.target;
        if !self.sweeping {
            self.ceiling = self.ceiling.max(self.log_len + SLACK / 2);
        }
        Ok(())
    }

    fn prune_kept(&mut self, batch: &Batch, state: &State) -> Result<(), StoreError> {
        if self.kept_credit == 0 || self.kept_len == 0 {
            return Ok(());
        }
        let most = SLICE.min(self.kept_credit);
        let pruned = batch.prune_kept_pings(self.kept_cursor, most, |check, n| state.keeps_ping(check, n))?;
        self.kept_len = self.kept_len.saturating_sub(pruned.removed as u64);
        self.kept_credit -= most;
        self.kept_cursor = pruned.next.unwrap_or_default();
        Ok(())
    }
}

/// Entries that are within their limit.
fn live_pings(state: &State) -> u64 {
    state
        .households()
        .map(|household| {
            let limit = u64::from(household.project.ping_log_limit);
            let checks = household.checks.iter().filter_map(|id| state.check(*id));
            checks.map(|check| check.state.n_pings.min(limit)).sum::<u64>()
        })
        .sum()
}
