//! What time it is for the engine, and what it can know of its clock. All in microseconds.

use super::replay::CLOCK_JUMP;

const HOUR: i64 = 3_600_000_000;

/// See the module.
#[derive(Default)]
pub(crate) struct ModelClock {
    /// The time of the last command, or of the engine's last look at the clock.
    pub(crate) stamp: i64,
    /// The latest time at which anything may have been pruned for its age.
    pub(crate) pruned_at: i64,
    /// What the clock shows, less the time that has passed, as of the last look.
    offset: i64,
    /// When the engine was opened or found the last step of 5 s or more, in time that has passed.
    steady_from: i64,
    /// The file may say that there was no step long before.
    went_on: bool,
    /// Checks that wait from a time ahead of the clock were brought back since.
    brought_back: bool,
}

impl ModelClock {
    /// Nothing has happened before this time.
    pub(crate) fn new(beginning: i64) -> Self {
        Self {
            stamp: beginning,
            pruned_at: beginning,
            ..Self::default()
        }
    }

    /// The engine was opened; the newest ping in the file is one of these.
    pub(crate) fn open(&mut self, clock: i64, uptime: i64, newest: impl Iterator<Item = i64>) {
        (self.offset, self.steady_from, self.brought_back) = (clock - uptime, uptime, false);
        self.went_on = newest
            .into_iter()
            .any(|newest| clock - newest < HOUR && newest - clock < CLOCK_JUMP);
    }

    /// The time at which a command would be stamped.
    pub(crate) fn now(&self, clock: i64) -> i64 {
        if self.stamp - clock < CLOCK_JUMP {
            self.stamp.max(clock)
        } else {
            clock
        }
    }

    /// The engine looks at the clock, which it does in each step of its writer; whether it brings
    /// checks back in this one.
    pub(crate) fn look_at_clock(&mut self, clock: i64, uptime: i64) -> bool {
        self.stamp = self.now(clock);
        if (clock - uptime - self.offset).abs() >= CLOCK_JUMP {
            (self.steady_from, self.went_on, self.brought_back) = (uptime, false, false);
        }
        self.offset = clock - uptime;
        let confirmed = uptime - self.steady_from >= HOUR;
        if confirmed || self.went_on {
            self.pruned_at = self.pruned_at.max(self.stamp);
        }
        confirmed && !std::mem::replace(&mut self.brought_back, confirmed)
    }

    /// Whether nothing waits from a time ahead of the clock any more.
    pub(crate) fn is_trusted(&self) -> bool {
        self.brought_back
    }

    /// The engine has read its memory anew: it forgets what is not on the disk.
    pub(crate) fn forget(&mut self) {
        self.brought_back = false;
    }
}
