//! Watches the writer, which may hang with its disk: whoever waits for it is told, and health knows.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::command::Unavailable;
use super::queue::Caller;
use super::{Handle, Shared};

/// A step of the writer that takes longer than this is told, and whoever waits is refused: see [limits](crate::docs::limits).
const STALL: Duration = Duration::from_secs(8);
/// How often the watch looks.
pub(super) const ROUND: Duration = Duration::from_millis(500);
/// So many looks in a row have to find the same step old. A process that was frozen, or a clock that jumped, makes every step look so once.
const LOOKS: u32 = 3;

/// What the writer is doing, for the watch to see.
#[derive(Default)]
pub(super) struct Doing {
    /// When the step began that is going on, in microseconds of uptime, at least 1; 0: it waits for something to do. All that is in hand,
    /// and all that waits, came later or just before.
    since: AtomicU64,
    /// `since` of a step that was found old, and by how many looks in a row.
    found_old: AtomicU64,
    looks: AtomicU32,
    /// The step takes too long.
    stalled: AtomicBool,
    /// The step has handed a transaction to the disk, and waits for it.
    commits: AtomicBool,
    /// The callers of the batch that is being written.
    in_hand: Mutex<Vec<Caller>>,
}

impl Doing {
    /// A step begins at this uptime.
    pub(super) fn begin(&self, uptime: Duration) {
        self.since.store(u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    /// The step has ended.
    pub(super) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Has `commit` carried out, during which the writer waits for the disk.
    pub(super) fn committing<T>(&self, commit: impl FnOnce() -> T) -> T {
        self.commits.store(true, Ordering::Relaxed);
        let done = commit();
        self.commits.store(false, Ordering::Relaxed);
        done
    }

    /// These wait for the batch that is being written.
    pub(super) fn hold(&self, callers: Vec<Caller>) {
        *self.in_hand.lock().unwrap_or_else(PoisonError::into_inner) = callers;
    }

    /// Those who still wait for it.
    pub(super) fn release(&self) -> Vec<Caller> {
        std::mem::take(&mut *self.in_hand.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the step that is going on takes too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Returns what the log says of a step that takes too long. The disk is blamed for nothing but its own part.
    fn complaint(&self, age: Duration) -> String {
        let secs = age.as_secs();
        if self.commits.load(Ordering::Relaxed) {
            format!("the disk has kept the writer waiting for {secs} s: pings are refused until it answers")
        } else {
            format!("a step of the writer has taken {secs} s so far: pings are refused until it ends")
        }
    }

    fn age(&self, uptime: Duration) -> Duration {
        match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => uptime.saturating_sub(Duration::from_micros(since)),
        }
    }

    /// Counts a look at a step of this age; whether it takes too long.
    fn takes_too_long(&self, age: Duration) -> bool {
        // The first looks come before the time is up, so that they take none.
        let is_old = age >= STALL - ROUND * (LOOKS - 1);
        let since = self.since.load(Ordering::Relaxed);
        let goes_on = is_old && self.found_old.swap(since, Ordering::Relaxed) == since;
        let looks = if goes_on { self.looks.load(Ordering::Relaxed).saturating_add(1) } else { is_old.into() };
        self.looks.store(looks, Ordering::Relaxed);
        age >= STALL && looks >= LOOKS
    }
}

impl Shared {
    /// One look at the writer.
    pub(super) fn watch(&self) {
        let Doing { stalled, .. } = &self.doing;
        let age = self.doing.age(self.clock.uptime());
        if !self.doing.takes_too_long(age) {
            if stalled.swap(false, Ordering::Relaxed) {
                tracing::info!("the writer goes on: pings are taken again");
            }
            self.look_at_damage();
            return;
        }
        // A recovery says itself what it does.
        if !stalled.swap(true, Ordering::Relaxed) && self.writable.load(Ordering::Relaxed) {
            tracing::error!("{}", self.doing.complaint(age));
        }
        self.doing.release().into_iter().for_each(|(_, caller)| drop(caller.send(Err(Unavailable::Storage))));
        self.queue.refuse_all(Unavailable::Storage);
    }

    /// Once a page that could not be read can be, the database is to be opened anew: it remembers the page as unreadable.
    fn look_at_damage(&self) {
        if self.store.get().is_ok_and(|store| store.reads_again()) {
            self.healed.store(true, Ordering::Relaxed);
            self.queue.nudge();
        }
    }
}

impl Handle {
    /// How long the step of the writer that is going on has taken; zero: it waits for something to do.
    pub fn step_age(&self) -> Duration {
        self.0.doing.age(self.0.clock.uptime())
    }

    /// One look at the writer, which [`super::Writer::run`] has taken twice a second. For tests that step it themselves.
    pub fn watch(&self) {
        self.0.watch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_blamed_only_while_the_writer_waits_for_it() {
        let (doing, age) = (Doing::default(), Duration::from_secs(9));
        let during = doing.committing(|| doing.complaint(age));
        assert!(during.starts_with("the disk has kept the writer waiting for 9 s"), "{during}");
        let beside = doing.complaint(age);
        assert!(beside.starts_with("a step of the writer has taken 9 s") && !beside.contains("disk"), "{beside}");
    }
}
