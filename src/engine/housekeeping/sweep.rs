//! Sweep: removes pings beyond the log limit of their check. The oldest entries of the arrival log
//! are removed; the few that are still within their limit move to tables of kept pings, and are
//! removed from there when they exceed it.

use super::super::state::{ProjectState, State};
use super::HousekeepingSlice;
use crate::domain::ids::Arrival;
use crate::store::{KeptPingCursor, KeptPruneResult, KeptPutResult, MetaKey, StoreError};

/// Number and size of the pings in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct PingLogSize {
    /// Number of entries in the arrival log.
    pub(in crate::engine) log_len: u64,
    /// Bytes of their bodies beyond the first 1,024 of each.
    pub(in crate::engine) log_bytes: u64,
    /// Number of kept pings.
    pub(in crate::engine) kept_len: u64,
    /// Bytes of their bodies beyond the first 1,024 of each.
    pub(in crate::engine) kept_bytes: u64,
}

/// Progress of the sweep.
pub(super) struct Sweep {
    size: PingLogSize,
    goal: SweepGoal,
    /// True if a sweep of the whole log is requested, once check rows contain all of it.
    requested: bool,
    /// Number of entries above which the log is swept.
    max_log_len: u64,
    /// Arrivals before this stay, since some of them cannot be read.
    pub(super) from: Arrival,
    /// Arrival up to which the log was swept.
    swept_to: Arrival,
    /// Cursor of the visit of all kept pings, and the number of those left.
    cursor: KeptPingCursor,
    kept_to_visit: u64,
    /// True if removed pings had bodies in chunks, which are still in the file.
    has_new_unreferenced: bool,
}

/// Goal of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SweepGoal {
    None,
    /// At most this number of entries. Most of the removed entries are dead, so this sweep is the
    /// cheap one.
    Entries(u64),
    /// No entries up to this arrival, regardless of the number to keep.
    UpTo(Arrival),
}

impl Sweep {
    pub(super) fn new(size: PingLogSize) -> Self {
        Self {
            size,
            goal: SweepGoal::None,
            requested: false,
            max_log_len: 0,
            from: Arrival(0),
            swept_to: Arrival(0),
            cursor: KeptPingCursor::default(),
            kept_to_visit: 0,
            has_new_unreferenced: false,
        }
    }

    pub(super) fn size(&self) -> PingLogSize {
        self.size
    }

    /// Requests the removal of all dead pings.
    pub(super) fn request(&mut self) {
        self.requested = true;
    }

    /// Requests a visit of all kept pings.
    pub(super) fn request_kept_pruning(&mut self) {
        (self.cursor, self.kept_to_visit) = (KeptPingCursor::default(), self.size.kept_len);
    }

    /// Counts added kept pings. Returns the bytes of all their bodies beyond the first 1,024 of
    /// each.
    pub(super) fn add_kept(
        &mut self,
        KeptPutResult {
            pings,
            bytes,
            has_new_unreferenced,
        }: KeptPutResult,
    ) -> u64 {
        self.has_new_unreferenced |= has_new_unreferenced;
        self.size.kept_len += pings;
        self.size.kept_bytes += bytes;
        self.size.kept_bytes
    }

    pub(super) fn is_pending(&self) -> bool {
        self.requested || self.goal != SweepGoal::None || self.kept_to_visit > 0
    }

    /// True if bodies in chunks have lost their last ping since the last call.
    pub(super) fn take_unreferenced(&mut self) -> bool {
        std::mem::take(&mut self.has_new_unreferenced)
    }

    /// Counts the pings that a batch has appended.
    pub(super) fn count_appended(&mut self, (pings, bytes): (u64, u64)) {
        self.size.log_len += pings;
        self.size.log_bytes += bytes;
    }

    /// Runs the next part of the due work. Returns `false` if there was nothing to write. Check
    /// rows contain every ping up to `checkpoint`; later ones cannot be removed, since a startup
    /// needs them.
    pub(super) fn run_slice(
        &mut self,
        slice: &HousekeepingSlice<'_>,
        checkpoint: Arrival,
    ) -> Result<bool, StoreError> {
        let HousekeepingSlice { batch, newest, .. } = *slice;
        // The newest ping stays, since startup takes the time from it.
        let checkpoint = checkpoint.min(Arrival(newest.arrival.0.saturating_sub(1)));
        if self.goal == SweepGoal::None {
            self.choose_goal(slice, checkpoint);
        }
        let swept = self.sweep(slice, checkpoint)?;
        let pruned = self.prune_kept(slice)?;
        if swept || pruned {
            batch.set_meta_value(
                MetaKey::SweptBytes,
                newest.bytes.saturating_sub(self.size.log_bytes),
            )?;
            batch.set_meta_value(MetaKey::KeptBytes, self.size.kept_bytes)?;
        }
        Ok(swept || pruned)
    }

    fn choose_goal(&mut self, slice: &HousekeepingSlice<'_>, checkpoint: Arrival) {
        let HousekeepingSlice { limits, state, .. } = *slice;
        let PingLogSize {
            log_len,
            log_bytes,
            kept_len,
            kept_bytes,
        } = self.size;
        // Each body is moved at most once: the log may grow with the kept bodies.
        let is_heavy = log_bytes > limits.slack_bytes + 2 * kept_bytes;
        if (self.requested || is_heavy) && checkpoint > self.swept_to {
            self.goal = SweepGoal::UpTo(checkpoint);
        } else if log_len > self.max_log_len {
            // Counting costs a step for each check, which the entries since the last count justify.
            // Some of the kept pings may be dead.
            let live = live_ping_count(state).saturating_sub(kept_len);
            self.max_log_len = 2 * live + limits.slack_entries;
            if log_len > self.max_log_len {
                self.goal = SweepGoal::Entries(live + live / 2 + limits.slack_entries / 2);
            }
        }
        if self.requested {
            self.requested = false;
            if self.goal == SweepGoal::None {
                self.kept_to_visit = kept_len;
            }
        }
    }

    fn sweep(
        &mut self,
        slice: &HousekeepingSlice<'_>,
        checkpoint: Arrival,
    ) -> Result<bool, StoreError> {
        let HousekeepingSlice {
            limits,
            batch,
            state,
            appended: (pings, bytes),
            ..
        } = *slice;
        let (up_to, surplus) = match self.goal {
            SweepGoal::None => return Ok(false),
            SweepGoal::Entries(target) => (checkpoint, self.size.log_len.saturating_sub(target)),
            SweepGoal::UpTo(arrival) => (arrival, u64::MAX),
        };
        // Twice the received amount, so that the sweep is faster than any rate.
        let max_rows = usize::try_from((2 * pings).max(limits.slice_rows as u64).min(surplus))
            .unwrap_or(limits.slice_rows);
        let max_bytes = (2 * bytes).max(limits.sweep_bytes);
        let swept = batch.sweep_pings((self.from, up_to), (max_rows, max_bytes), |check, n| {
            state.is_ping_live(check, n)
        })?;
        if swept.unreadable_rows > 0 {
            tracing::error!(
                "removing {} damaged rows of the table `pings`",
                swept.unreadable_rows
            );
        }
        let size = &mut self.size;
        debug_assert!(
            size.log_len >= swept.removed as u64,
            "{size:?}, {} removed",
            swept.removed
        );
        size.log_len -= swept.removed as u64;
        // The size of the body of a damaged row is unknown.
        size.log_bytes = size.log_bytes.saturating_sub(swept.removed_bytes);
        size.kept_len += swept.kept as u64;
        size.kept_bytes += swept.kept_bytes;
        self.has_new_unreferenced |= swept.has_new_unreferenced;
        let mut rows_left = swept.removed.max(limits.slice_rows);
        let mut bytes_left = max_bytes;
        for check in &swept.checks {
            let pruned = batch.prune_kept_pings_of(
                *check,
                state.first_live_ping(*check),
                (rows_left, bytes_left),
            )?;
            rows_left -= pruned.removed;
            bytes_left = bytes_left.saturating_sub(pruned.removed_bytes);
            self.subtract_pruned(&pruned);
        }
        if rows_left == 0 || bytes_left == 0 {
            self.kept_to_visit = self.size.kept_len;
        }
        let exhausted = swept.removed < max_rows && !swept.is_byte_limit_reached;
        let reached = match self.goal {
            SweepGoal::Entries(target) => exhausted || self.size.log_len <= target,
            SweepGoal::None | SweepGoal::UpTo(_) => exhausted,
        };
        if reached {
            self.end_sweep(slice, up_to);
        }
        Ok(swept.removed > 0)
    }

    fn end_sweep(&mut self, slice: &HousekeepingSlice<'_>, up_to: Arrival) {
        if let SweepGoal::UpTo(_) = self.goal {
            self.swept_to = up_to;
            if self.has_dead(slice.state) {
                self.kept_to_visit = self.size.kept_len;
            }
        }
        // Entries after the checkpoint stay: the next count has to wait for more entries.
        self.max_log_len = self
            .max_log_len
            .max(self.size.log_len + slice.limits.slack_entries / 2);
        self.goal = SweepGoal::None;
    }

    /// Visits some kept pings and removes the dead ones.
    fn prune_kept(&mut self, slice: &HousekeepingSlice<'_>) -> Result<bool, StoreError> {
        let HousekeepingSlice {
            limits,
            batch,
            state,
            ..
        } = *slice;
        if self.kept_to_visit == 0 {
            return Ok(false);
        }
        let max_rows = limits
            .slice_rows
            .min(usize::try_from(self.kept_to_visit).unwrap_or(usize::MAX));
        let pruned =
            batch.prune_kept_pings(self.cursor, (max_rows, limits.sweep_bytes), |check, n| {
                state.is_ping_live(check, n)
            })?;
        self.subtract_pruned(&pruned);
        self.kept_to_visit -= if pruned.is_byte_limit_reached {
            pruned.removed
        } else {
            max_rows
        } as u64;
        self.cursor = pruned.next.unwrap_or_default();
        Ok(pruned.removed > 0)
    }

    fn subtract_pruned(&mut self, pruned: &KeptPruneResult) {
        debug_assert!(
            self.size.kept_len >= pruned.removed as u64,
            "{:?}, {pruned:?}",
            self.size
        );
        self.size.kept_len -= pruned.removed as u64;
        // A damaged row may have stated a shorter body.
        self.size.kept_bytes = self.size.kept_bytes.saturating_sub(pruned.removed_bytes);
        self.has_new_unreferenced |= pruned.has_new_unreferenced;
    }

    /// True if the file has more pings than their limits allow.
    pub(super) fn has_dead(&self, state: &State) -> bool {
        self.size.log_len + self.size.kept_len > live_ping_count(state)
    }
}

/// Number of pings within their limit.
fn live_ping_count(state: &State) -> u64 {
    let of_project = |project_state: &ProjectState| {
        let limit = u64::from(project_state.project.ping_log_limit);
        let checks = project_state
            .checks
            .iter()
            .filter_map(|id| state.check(*id));
        checks
            .map(|check| check.state.n_pings.min(limit))
            .sum::<u64>()
    };
    state.projects().map(of_project).sum()
}
