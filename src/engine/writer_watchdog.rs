//! Watchdog of the writer, which may hang if the disk hangs: waiting callers are refused, and the
//! health status changes.

use std::time::Duration;

use super::command::Unavailable;
use super::command_queue::ReplyTarget;
use super::{Handle, Shared};

use crate::util::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::util::sync::{Mutex, lock};

/// Duration of a step of the writer after which it is logged and callers are refused: see
/// [limits](crate::docs::limits).
const STALL_TIME: Duration = Duration::from_secs(8);
/// Interval of the checks.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// Number of consecutive checks that must find the same step slow. A frozen process or a clock jump
/// makes any step look slow once.
const STALL_CONFIRMATIONS: u32 = 3;

/// Activity of the writer, as seen by the watchdog.
#[derive(Default)]
pub(super) struct WriterActivity {
    /// Beginning of the current step in microseconds of uptime, at least 1. 0 if the writer waits
    /// for work. All commands in progress or waiting came after it or just before.
    step_began: AtomicU64,
    /// `step_began` of a slow step, and the number of consecutive checks that found it slow.
    slow_step: AtomicU64,
    slow_observations: AtomicU32,
    /// True if the step takes too long.
    is_stalled: AtomicBool,
    /// True while the step waits for the disk to commit a transaction.
    is_committing: AtomicBool,
    /// Callers of the batch that is being written.
    batch_callers: Mutex<Vec<ReplyTarget>>,
}

impl WriterActivity {
    /// Records the beginning of a step at this uptime.
    pub(super) fn begin_step(&self, uptime: Duration) {
        self.step_began.store(
            u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX).max(1),
            Ordering::Relaxed,
        );
    }

    /// Records the end of the step.
    pub(super) fn end_step(&self) {
        self.step_began.store(0, Ordering::Relaxed);
    }

    /// Runs `commit`, during which the writer waits for the disk.
    pub(super) fn during_commit<T>(&self, commit: impl FnOnce() -> T) -> T {
        self.is_committing.store(true, Ordering::Relaxed);
        let result = commit();
        self.is_committing.store(false, Ordering::Relaxed);
        result
    }

    /// Sets the callers of the batch that is being written.
    pub(super) fn set_batch_callers(&self, callers: Vec<ReplyTarget>) {
        *lock(&self.batch_callers) = callers;
    }

    /// Takes the callers that still wait for the batch.
    pub(super) fn take_batch_callers(&self) -> Vec<ReplyTarget> {
        std::mem::take(&mut *lock(&self.batch_callers))
    }

    /// Replies to the callers of the present batch that it was not applied, unless they have a
    /// reply.
    pub(super) fn refuse_batch_callers(&self, unavailable: Unavailable) {
        for (_, caller) in self.take_batch_callers() {
            drop(caller.send(Err(unavailable)));
        }
    }

    /// True if the current step takes too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Returns the log message for a step that takes too long. It blames the disk only during a
    /// commit.
    fn stall_message(&self, age: Duration) -> String {
        let secs = age.as_secs();
        if self.is_committing.load(Ordering::Relaxed) {
            format!(
                "the disk has blocked the writer for {secs} s: pings are refused until it responds"
            )
        } else {
            format!(
                "a step of the writer has taken {secs} s so far: pings are refused until it ends"
            )
        }
    }

    fn step_age(&self, uptime: Duration) -> Duration {
        match self.step_began.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => uptime.saturating_sub(Duration::from_micros(since)),
        }
    }

    /// Counts a check that found a step of this age. Returns true if the step takes too long.
    fn observe_step_age(&self, age: Duration) -> bool {
        // The first checks come before the limit, so that confirmation causes no delay.
        let is_old = age >= STALL_TIME - WATCH_INTERVAL * (STALL_CONFIRMATIONS - 1);
        let since = self.step_began.load(Ordering::Relaxed);
        let is_same_step = is_old && self.slow_step.swap(since, Ordering::Relaxed) == since;
        let count = if is_same_step {
            self.slow_observations
                .load(Ordering::Relaxed)
                .saturating_add(1)
        } else {
            is_old.into()
        };
        self.slow_observations.store(count, Ordering::Relaxed);
        age >= STALL_TIME && count >= STALL_CONFIRMATIONS
    }
}

impl Shared {
    /// Checks the writer once.
    pub(super) fn observe_writer(&self) {
        let WriterActivity { is_stalled, .. } = &self.writer_activity;
        let age = self.writer_activity.step_age(self.clock.uptime());
        if !self.writer_activity.observe_step_age(age) {
            if is_stalled.swap(false, Ordering::Relaxed) {
                tracing::info!("the writer continues: pings are accepted again");
            }
            self.request_reopen_if_readable();
            return;
        }
        // A recovery logs its own messages.
        if !is_stalled.swap(true, Ordering::Relaxed) && self.writable.load(Ordering::Relaxed) {
            tracing::error!("{}", self.writer_activity.stall_message(age));
        }
        self.writer_activity
            .refuse_batch_callers(Unavailable::StorageFailed);
        self.queue.refuse_all(Unavailable::StorageFailed);
    }

    /// Requests that the database is reopened once an unreadable page is readable: an open database
    /// remembers the page as unreadable.
    fn request_reopen_if_readable(&self) {
        if self.store.get().is_ok_and(|store| store.retry_unreadable()) {
            self.is_page_readable_again.store(true, Ordering::Relaxed);
            self.queue.wake();
        }
    }
}

impl Handle {
    /// Age of the current step of the writer. Zero if it waits for work.
    pub fn step_age(&self) -> Duration {
        self.0.writer_activity.step_age(self.0.clock.uptime())
    }

    /// Checks the writer once, as [`super::Writer::run`] does twice a second. For tests that step
    /// the writer themselves.
    pub fn observe_writer(&self) {
        self.0.observe_writer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_blamed_only_while_the_writer_waits_for_it() {
        let activity = WriterActivity::default();
        let age = Duration::from_secs(9);
        let during_commit = activity.during_commit(|| activity.stall_message(age));
        assert!(
            during_commit.starts_with("the disk has blocked the writer for 9 s"),
            "{during_commit}"
        );
        let outside_commit = activity.stall_message(age);
        assert!(
            outside_commit.starts_with("a step of the writer has taken 9 s")
                && !outside_commit.contains("disk"),
            "{outside_commit}"
        );
    }
}
