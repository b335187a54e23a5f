//! The checkpoint: check rows are brought up to date with the logs, so that a start has little to replay and old pings may go.

use super::super::state::State;
use super::{Slice, Thresholds};
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::store::{Batch, Mark, StoreError};

/// Checks that are looked at together, between two looks at the bytes written.
const TOGETHER: usize = 64;

/// A place in the log of pings, with the place in the log of flips that belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct LogPlace {
    pub(in crate::engine) arrival: Arrival,
    pub(in crate::engine) flip: FlipNumber,
    /// Bytes of all bodies that were ever logged up to here, as far as they count as long.
    pub(in crate::engine) bytes: u64,
}

/// How far the check rows are.
pub(super) struct Checkpoint {
    /// Check rows hold every ping and flip up to here.
    pub(super) done: LogPlace,
    /// One is due although the tail is short.
    due: bool,
    in_progress: Option<InProgress>,
}

struct InProgress {
    /// What the check rows will hold when it is done.
    to: LogPlace,
    /// The next check to be looked at.
    next: usize,
    /// The checks to be looked at, in order.
    checks: Vec<CheckId>,
}

impl Checkpoint {
    pub(super) fn new(done: LogPlace) -> Self {
        Self { done, due: false, in_progress: None }
    }

    /// Makes one due, however short the tail is.
    pub(super) fn request(&mut self) {
        self.due = true;
    }

    pub(super) fn pending(&self) -> bool {
        self.due || self.in_progress.is_some()
    }

    /// Writes the next rows of a checkpoint that is due or in progress; `false` when there was nothing to write.
    pub(super) fn slice(&mut self, slice: &Slice<'_>) -> Result<bool, StoreError> {
        let Slice { thresholds, batch, state, newest, .. } = *slice;
        if self.in_progress.is_none() {
            let requested = std::mem::take(&mut self.due) && newest != self.done;
            if !requested && !self.is_long(slice) {
                return Ok(false);
            }
            let checks = state.projects().flat_map(|project_state| &project_state.checks).copied().collect();
            self.in_progress = Some(InProgress { to: newest, next: 0, checks });
        }
        let Some(InProgress { to, next, checks }) = &mut self.in_progress else { return Ok(false) };
        let mut bytes = 0;
        for ids in checks.get(*next..).unwrap_or_default().chunks(TOGETHER).take(thresholds.slice.div_ceil(TOGETHER)) {
            let behind = ids.iter().filter_map(|id| state.check(*id)).filter(|check| check.state.last_arrival > self.done.arrival);
            bytes += batch.put_checks(behind)?;
            *next += ids.len();
            if bytes >= thresholds.checkpoint_bytes {
                break;
            }
        }
        if *next < checks.len() {
            return Ok(bytes > 0);
        }
        set_marks(batch, *to)?;
        self.done = *to;
        self.in_progress = None;
        Ok(true)
    }

    /// Brings every check row up to date at once, for a clean stop.
    pub(super) fn whole(&self, batch: &Batch, state: &State, newest: LogPlace) -> Result<(), StoreError> {
        let checks = state.projects().flat_map(|project_state| &project_state.checks).filter_map(|id| state.check(*id));
        batch.put_checks(checks.filter(|check| check.state.last_arrival > self.done.arrival))?;
        set_marks(batch, newest)
    }

    /// Whether the tail of the log, which a start has to replay, is long enough for a checkpoint.
    fn is_long(&self, slice: &Slice<'_>) -> bool {
        let newest = slice.newest;
        let (pings, bytes) = (newest.arrival.0 - self.done.arrival.0, newest.bytes - self.done.bytes);
        let Thresholds { least_tail, tail_per_check, tail_bytes, .. } = slice.thresholds;
        bytes >= tail_bytes || pings >= least_tail.max(tail_per_check * slice.state.check_count() as u64)
    }
}

fn set_marks(batch: &Batch, place: LogPlace) -> Result<(), StoreError> {
    batch.set_mark(Mark::CheckpointArrival, place.arrival.0)?;
    batch.set_mark(Mark::CheckpointFlip, place.flip.0)?;
    batch.set_mark(Mark::CheckpointBytes, place.bytes)
}
