//! Work that keeps the file small and start-up short: the checkpoint of check rows, the sweep of the arrival log, the pruning of old
//! flips. It is done in slices beside the batches, so that no ping waits for it.

use super::state::State;
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::moment::Moment;
use crate::store::{Batch, Mark, PingCursor, StoreError};

/// How much of each job is put off, and how much is done at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Rows that a slice writes or removes at the most.
    pub slice: usize,
    /// Pings that the tail of the log needs before a checkpoint is made. The tail is what start-up has to replay.
    pub least_tail: u64,
    /// Pings that the tail needs for each check that there is. A checkpoint writes one row for each check; this spreads its cost.
    pub tail_per_check: u64,
    /// Entries that the log may have above twice its live ones before it is swept.
    pub slack: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { slice: 512, least_tail: 50_000, tail_per_check: 10, slack: 10_000 }
    }
}

/// Flips are kept for the current month and so many full months before it: see [limits](crate::docs::limits).
const FLIP_MONTHS: i64 = 2;

/// A place in the log of pings and the place in the log of flips that belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogPlace {
    pub(super) arrival: Arrival,
    pub(super) flip: FlipNumber,
}

/// How far each of the jobs is.
pub(super) struct Housekeeping {
    thresholds: Thresholds,
    /// Check rows hold every ping and flip up to here.
    checkpoint: LogPlace,
    /// A checkpoint is due although the tail is short.
    checkpoint_due: bool,
    in_progress: Option<CheckpointInProgress>,
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
struct CheckpointInProgress {
    /// What the check rows will hold when it is done.
    to: LogPlace,
    /// The next check to be looked at.
    next: usize,
    /// The checks to be looked at, in order.
    checks: Vec<CheckId>,
}

impl Housekeeping {
    pub(super) fn new(thresholds: Thresholds, checkpoint: LogPlace, log_len: u64, kept_len: u64) -> Self {
        Self {
            thresholds,
            checkpoint,
            checkpoint_due: false,
            in_progress: None,
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

    /// Time for the hourly round: check rows are brought up to date, old flips go, and every kept ping is looked at once.
    pub(super) fn hourly(&mut self) {
        self.checkpoint_due = true;
        self.prune_flips = true;
        self.kept_credit = usize::try_from(self.kept_len).unwrap_or(usize::MAX);
    }

    /// Whether there is work that does not wait for pings.
    pub(super) fn pending(&self) -> bool {
        self.in_progress.is_some()
            || self.checkpoint_due
            || self.sweeping
            || self.prune_flips
            || (self.kept_credit > 0 && self.kept_len > 0)
    }

    /// Writes one slice of whatever is to be done into a batch that has just appended `appended` pings.
    pub(super) fn slice(&mut self, batch: &Batch, state: &State, appended: u64, newest: LogPlace, now: Moment) -> Result<(), StoreError> {
        self.log_len += appended;
        self.checkpoint(batch, state, newest)?;
        if !readable(self.sweep(batch, state, appended))? {
            (self.sweeping, self.ceiling) = (false, u64::MAX);
        }
        self.prune_kept(batch, state)?;
        if self.prune_flips && !readable(self.prune_flips(batch, now))? {
            self.prune_flips = false;
        }
        Ok(())
    }

    /// Brings every check row up to date at once, for a clean stop.
    pub(super) fn checkpoint_whole(batch: &Batch, state: &State, checkpoint: LogPlace, newest: LogPlace) -> Result<(), StoreError> {
        let checks = state.projects().flat_map(|project_state| &project_state.checks).filter_map(|id| state.check(*id));
        batch.put_checks(checks.filter(|check| check.state.last_arrival > checkpoint.arrival))?;
        batch.set_mark(Mark::CheckpointArrival, newest.arrival.0)?;
        batch.set_mark(Mark::CheckpointFlip, newest.flip.0)
    }

    /// Check rows hold every ping and flip up to here.
    pub(super) fn checkpointed(&self) -> LogPlace {
        self.checkpoint
    }

    fn checkpoint(&mut self, batch: &Batch, state: &State, newest: LogPlace) -> Result<(), StoreError> {
        if self.in_progress.is_none() {
            let tail = newest.arrival.0 - self.checkpoint.arrival.0;
            let Thresholds { least_tail, tail_per_check, .. } = self.thresholds;
            let is_due = self.checkpoint_due && newest != self.checkpoint;
            self.checkpoint_due = false;
            if !is_due && tail < least_tail.max(tail_per_check * state.checks().len() as u64) {
                return Ok(());
            }
            let checks = state.projects().flat_map(|project_state| &project_state.checks).copied().collect();
            self.in_progress = Some(CheckpointInProgress { to: newest, next: 0, checks });
        }
        let Some(checkpoint) = &mut self.in_progress else { return Ok(()) };
        let slice = checkpoint.checks.iter().skip(checkpoint.next).take(self.thresholds.slice);
        let behind = slice.filter_map(|id| state.check(*id)).filter(|check| check.state.last_arrival > self.checkpoint.arrival);
        batch.put_checks(behind)?;
        checkpoint.next += self.thresholds.slice;
        if checkpoint.next >= checkpoint.checks.len() {
            batch.set_mark(Mark::CheckpointArrival, checkpoint.to.arrival.0)?;
            batch.set_mark(Mark::CheckpointFlip, checkpoint.to.flip.0)?;
            self.checkpoint = checkpoint.to;
            self.in_progress = None;
        }
        Ok(())
    }

    fn sweep(&mut self, batch: &Batch, state: &State, appended: u64) -> Result<(), StoreError> {
        let Thresholds { slice, slack, .. } = self.thresholds;
        if !self.sweeping {
            if self.log_len <= self.ceiling {
                return Ok(());
            }
            // Counting costs a step for each check, which the entries since the last count pay for.
            // Some of the kept may be dead already.
            let live = live_pings(state).saturating_sub(self.kept_len);
            self.target = live + live / 2 + slack / 2;
            self.ceiling = 2 * live + slack;
            self.sweeping = self.log_len > self.ceiling;
            if !self.sweeping {
                return Ok(());
            }
        }
        // Twice what came in, so that the sweep gets ahead of any rate.
        let most = (2 * appended).max(slice as u64).min(self.log_len.saturating_sub(self.target));
        let most = usize::try_from(most).unwrap_or(slice);
        let swept = batch.sweep_pings(self.checkpoint.arrival, most, |check, n| state.keeps_ping(check, n))?;
        debug_assert!(self.log_len >= swept.removed as u64, "the log had {} entries, {} were removed", self.log_len, swept.removed);
        self.log_len -= swept.removed as u64;
        self.kept_len += swept.kept as u64;
        self.kept_credit = self.kept_credit.saturating_add(2 * swept.kept);
        // What a replay would need stays until the next checkpoint.
        self.sweeping = swept.removed == most && self.log_len > self.target;
        if !self.sweeping {
            self.ceiling = self.ceiling.max(self.log_len + slack / 2);
        }
        Ok(())
    }

    fn prune_kept(&mut self, batch: &Batch, state: &State) -> Result<(), StoreError> {
        if self.kept_credit == 0 || self.kept_len == 0 {
            return Ok(());
        }
        let most = self.thresholds.slice.min(self.kept_credit);
        let pruned = batch.prune_kept_pings(self.kept_cursor, most, |check, n| state.keeps_ping(check, n))?;
        debug_assert!(self.kept_len >= pruned.removed as u64, "{} were kept, {} were removed", self.kept_len, pruned.removed);
        self.kept_len -= pruned.removed as u64;
        self.kept_credit -= most;
        self.kept_cursor = pruned.next.unwrap_or_default();
        Ok(())
    }

    fn prune_flips(&mut self, batch: &Batch, now: Moment) -> Result<(), StoreError> {
        let slice = self.thresholds.slice;
        self.prune_flips = batch.prune_flips(now.start_of_month(FLIP_MONTHS), self.checkpoint.flip, slice)? == slice;
        Ok(())
    }
}

/// `false` for a row that cannot be read: the job that met it, which has written nothing yet, is given up until the next start, because
/// an old row must not keep new pings from being taken.
fn readable(done: Result<(), StoreError>) -> Result<bool, StoreError> {
    match done {
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::error!("old entries stay in the file: {error}");
            Ok(false)
        }
        done => done.map(|()| true),
    }
}

/// Entries that are within their limit.
fn live_pings(state: &State) -> u64 {
    state
        .projects()
        .map(|project_state| {
            let limit = u64::from(project_state.project.ping_log_limit);
            let checks = project_state.checks.iter().filter_map(|id| state.check(*id));
            checks.map(|check| check.state.n_pings.min(limit)).sum::<u64>()
        })
        .sum()
}
