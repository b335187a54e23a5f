//! Watches the writer, which may hang with its disk: whoever waits for it is told, and health knows.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::command::Unavailable;
use super::command_queue::ReplyTarget;
use super::{Handle, Shared};

/// A step of the writer that takes longer than this is told, and whoever waits is refused: see [limits](crate::docs::limits).
const STALL_TIME: Duration = Duration::from_secs(8);
/// How often the watch looks.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// So many looks in a row have to find the same step old. A process that was frozen, or a clock that jumped, makes every step look so once.
const STALL_CONFIRMATIONS: u32 = 3;

/// What the writer is doing, for the watch to see.
#[derive(Default)]
pub(super) struct WriterActivity {
    /// When the step began that is going on, in microseconds of uptime, at least 1; 0: it waits for something to do. All that is in hand,
    /// and all that waits, came later or just before.
    step_began: AtomicU64,
    /// `step_began` of a step that was found old, and by how many looks in a row.
    slow_step: AtomicU64,
    slow_observations: AtomicU32,
    /// The step takes too long.
    is_stalled: AtomicBool,
    /// The step has handed a transaction to the disk, and waits for it.
    is_committing: AtomicBool,
    /// The callers of the batch that is being written.
    batch_callers: Mutex<Vec<ReplyTarget>>,
}

impl WriterActivity {
    /// A step begins at this uptime.
    pub(super) fn begin_step(&self, uptime: Duration) {
        self.step_began.store(u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    /// The step has ended.
    pub(super) fn end_step(&self) {
        self.step_began.store(0, Ordering::Relaxed);
    }

    /// Has `commit` carried out, during which the writer waits for the disk.
    pub(super) fn during_commit<T>(&self, commit: impl FnOnce() -> T) -> T {
        self.is_committing.store(true, Ordering::Relaxed);
        let done = commit();
        self.is_committing.store(false, Ordering::Relaxed);
        done
    }

    /// These wait for the batch that is being written.
    pub(super) fn set_batch_callers(&self, callers: Vec<ReplyTarget>) {
        *self.batch_callers.lock().unwrap_or_else(PoisonError::into_inner) = callers;
    }

    /// Those who still wait for it.
    pub(super) fn take_batch_callers(&self) -> Vec<ReplyTarget> {
        std::mem::take(&mut *self.batch_callers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the step that is going on takes too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Returns what the log says of a step that takes too long. The disk is blamed for nothing but its own part.
    fn stall_message(&self, age: Duration) -> String {
        let secs = age.as_secs();
        if self.is_committing.load(Ordering::Relaxed) {
            format!("the disk has kept the writer waiting for {secs} s: pings are refused until it answers")
        } else {
            format!("a step of the writer has taken {secs} s so far: pings are refused until it ends")
        }
    }

    fn step_age(&self, uptime: Duration) -> Duration {
        match self.step_began.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => uptime.saturating_sub(Duration::from_micros(since)),
        }
    }

    /// Counts a look at a step of this age; whether it takes too long.
    fn observe_step_age(&self, age: Duration) -> bool {
        // The first looks come before the time is up, so that they take none.
        let is_old = age >= STALL_TIME - WATCH_INTERVAL * (STALL_CONFIRMATIONS - 1);
        let since = self.step_began.load(Ordering::Relaxed);
        let goes_on = is_old && self.slow_step.swap(since, Ordering::Relaxed) == since;
        let looks = if goes_on { self.slow_observations.load(Ordering::Relaxed).saturating_add(1) } else { is_old.into() };
        self.slow_observations.store(looks, Ordering::Relaxed);
        age >= STALL_TIME && looks >= STALL_CONFIRMATIONS
    }
}

impl Shared {
    /// One look at the writer.
    pub(super) fn check_writer(&self) {
        let WriterActivity { is_stalled: stalled, .. } = &self.writer_activity;
        let age = self.writer_activity.step_age(self.clock.uptime());
        if !self.writer_activity.observe_step_age(age) {
            if stalled.swap(false, Ordering::Relaxed) {
                tracing::info!("the writer goes on: pings are taken again");
            }
            self.retry_damaged_page();
            return;
        }
        // A recovery says itself what it does.
        if !stalled.swap(true, Ordering::Relaxed) && self.writable.load(Ordering::Relaxed) {
            tracing::error!("{}", self.writer_activity.stall_message(age));
        }
        self.writer_activity.take_batch_callers().into_iter().for_each(|(_, caller)| drop(caller.send(Err(Unavailable::StorageFailed))));
        self.queue.refuse_all(Unavailable::StorageFailed);
    }

    /// Once a page that could not be read can be, the database is to be opened anew: it remembers the page as unreadable.
    fn retry_damaged_page(&self) {
        if self.store.get().is_ok_and(|store| store.retry_unreadable()) {
            self.is_page_readable_again.store(true, Ordering::Relaxed);
            self.queue.wake();
        }
    }
}

impl Handle {
    /// How long the step of the writer that is going on has taken; zero: it waits for something to do.
    pub fn step_age(&self) -> Duration {
        self.0.writer_activity.step_age(self.0.clock.uptime())
    }

    /// One look at the writer, which [`super::Writer::run`] has taken twice a second. For tests that step it themselves.
    pub fn check_writer(&self) {
        self.0.check_writer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_blamed_only_while_the_writer_waits_for_it() {
        let (doing, age) = (WriterActivity::default(), Duration::from_secs(9));
        let during = doing.during_commit(|| doing.stall_message(age));
        assert!(during.starts_with("the disk has kept the writer waiting for 9 s"), "{during}");
        let beside = doing.stall_message(age);
        assert!(beside.starts_with("a step of the writer has taken 9 s") && !beside.contains("disk"), "{beside}");
    }
}
