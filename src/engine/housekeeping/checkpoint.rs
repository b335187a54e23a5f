//! Checkpoint: updates check rows from the logs, so that startup has little to replay and old pings
//! may be removed.

use super::super::state::State;
use super::{HousekeepingLimits, HousekeepingSlice};
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::store::{Batch, MetaKey, StoreError};

/// Number of checks that are visited before the written bytes are counted again.
const CHECKS_PER_STEP: usize = 64;

/// Position in the log of pings, with the corresponding position in the log of flips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct PingLogPosition {
    pub(in crate::engine) arrival: Arrival,
    pub(in crate::engine) flip: FlipNumber,
    /// Bytes of all bodies ever logged up to here, beyond the first 1,024 of each.
    pub(in crate::engine) bytes: u64,
}

/// Progress of the checkpoint.
pub(super) struct Checkpoint {
    /// Check rows contain every ping and flip up to here.
    pub(super) position: PingLogPosition,
    /// True if a checkpoint is due although the tail is short.
    due: bool,
    in_progress: Option<RunningCheckpoint>,
}

struct RunningCheckpoint {
    /// Position that the check rows will have reached at the end.
    target: PingLogPosition,
    /// Index of the next check to visit.
    next: usize,
    /// Checks to visit, in order.
    checks: Vec<CheckId>,
}

impl Checkpoint {
    pub(super) fn new(position: PingLogPosition) -> Self {
        Self {
            position,
            due: false,
            in_progress: None,
        }
    }

    /// Requests a checkpoint, even if the tail is short.
    pub(super) fn request(&mut self) {
        self.due = true;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.due || self.in_progress.is_some()
    }

    /// Writes the next rows of a checkpoint that is due or in progress. Returns `false` if there
    /// was nothing to write.
    pub(super) fn run_slice(&mut self, slice: &HousekeepingSlice<'_>) -> Result<bool, StoreError> {
        let HousekeepingSlice {
            limits,
            batch,
            state,
            newest,
            ..
        } = *slice;
        if self.in_progress.is_none() {
            let requested = std::mem::take(&mut self.due) && newest != self.position;
            if !requested && !self.is_tail_long(slice) {
                return Ok(false);
            }
            let checks = state
                .projects()
                .flat_map(|project_state| &project_state.checks)
                .copied()
                .collect();
            self.in_progress = Some(RunningCheckpoint {
                target: newest,
                next: 0,
                checks,
            });
        }
        let Some(RunningCheckpoint {
            target,
            next,
            checks,
        }) = &mut self.in_progress
        else {
            return Ok(false);
        };
        let mut bytes = 0;
        for ids in checks
            .get(*next..)
            .unwrap_or_default()
            .chunks(CHECKS_PER_STEP)
            .take(limits.slice_rows.div_ceil(CHECKS_PER_STEP))
        {
            let outdated_checks = ids
                .iter()
                .filter_map(|id| state.check(*id))
                .filter(|check| check.state.last_arrival > self.position.arrival);
            bytes += batch.put_checks(outdated_checks)?;
            *next += ids.len();
            if bytes >= limits.checkpoint_bytes {
                break;
            }
        }
        if *next < checks.len() {
            return Ok(bytes > 0);
        }
        store_position(batch, *target)?;
        self.position = *target;
        self.in_progress = None;
        Ok(true)
    }

    /// Updates all check rows at once, for a clean shutdown.
    pub(super) fn write_full(
        &self,
        batch: &Batch,
        state: &State,
        newest: PingLogPosition,
    ) -> Result<(), StoreError> {
        let checks = state
            .projects()
            .flat_map(|project_state| &project_state.checks)
            .filter_map(|id| state.check(*id));
        batch
            .put_checks(checks.filter(|check| check.state.last_arrival > self.position.arrival))?;
        store_position(batch, newest)
    }

    /// True if the tail of the log, which a startup must replay, is long enough for a checkpoint.
    fn is_tail_long(&self, slice: &HousekeepingSlice<'_>) -> bool {
        let newest = slice.newest;
        let pings = newest.arrival.0 - self.position.arrival.0;
        let bytes = newest.bytes - self.position.bytes;
        let HousekeepingLimits {
            min_tail,
            tail_per_check,
            tail_bytes,
            ..
        } = slice.limits;
        bytes >= tail_bytes
            || pings >= min_tail.max(tail_per_check * slice.state.check_count() as u64)
    }
}

fn store_position(batch: &Batch, position: PingLogPosition) -> Result<(), StoreError> {
    batch.set_meta_value(MetaKey::CheckpointArrival, position.arrival.0)?;
    batch.set_meta_value(MetaKey::CheckpointFlip, position.flip.0)?;
    batch.set_meta_value(MetaKey::CheckpointBytes, position.bytes)
}
