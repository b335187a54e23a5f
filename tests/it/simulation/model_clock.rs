//! The engine's view of the clock: its current time, and how far it trusts the clock. All times are
//! microseconds.

use super::replay::CLOCK_JUMP;

const HOUR: i64 = 3_600_000_000;

/// See the module.
#[derive(Default)]
pub(crate) struct ModelClock {
    /// Time of the last command or of the engine's last tick.
    pub(crate) stamp: i64,
    /// Latest time at which anything may have been pruned for its age.
    pub(crate) pruned_at: i64,
    /// Difference between clock and uptime at the last tick.
    offset: i64,
    /// Uptime at which the engine was opened or last found a clock jump of 5 s or more.
    stable_since: i64,
    /// True if the newest ping in the file is close to the clock, so that the engine assumes no
    /// jump before it was opened.
    is_continuous: bool,
    /// True if checks whose times lie ahead of the clock were resumed since.
    has_resumed_checks: bool,
}

impl ModelClock {
    /// Returns a clock before the first command.
    pub(crate) fn new(beginning: i64) -> Self {
        Self {
            stamp: beginning,
            pruned_at: beginning,
            ..Self::default()
        }
    }

    /// Records that the engine was opened. `newest` has the candidates for the newest ping in the
    /// file.
    pub(crate) fn open(&mut self, clock: i64, uptime: i64, newest: impl Iterator<Item = i64>) {
        (self.offset, self.stable_since, self.has_resumed_checks) = (clock - uptime, uptime, false);
        self.is_continuous = newest
            .into_iter()
            .any(|newest| clock - newest < HOUR && newest - clock < CLOCK_JUMP);
    }

    /// Returns the time of a command that is submitted now.
    pub(crate) fn now(&self, clock: i64) -> i64 {
        if self.stamp - clock < CLOCK_JUMP {
            self.stamp.max(clock)
        } else {
            clock
        }
    }

    /// Reads the clock, as the engine does at each step of its writer. Returns true if the engine
    /// resumes checks in this step.
    pub(crate) fn tick(&mut self, clock: i64, uptime: i64) -> bool {
        self.stamp = self.now(clock);
        if (clock - uptime - self.offset).abs() >= CLOCK_JUMP {
            (
                self.stable_since,
                self.is_continuous,
                self.has_resumed_checks,
            ) = (uptime, false, false);
        }
        self.offset = clock - uptime;
        let confirmed = uptime - self.stable_since >= HOUR;
        if confirmed || self.is_continuous {
            self.pruned_at = self.pruned_at.max(self.stamp);
        }
        confirmed && !std::mem::replace(&mut self.has_resumed_checks, confirmed)
    }

    /// True if no check waits for a time ahead of the clock.
    pub(crate) fn is_trusted(&self) -> bool {
        self.has_resumed_checks
    }

    /// Records that the engine has reloaded its memory from the disk.
    pub(crate) fn forget(&mut self) {
        self.has_resumed_checks = false;
    }
}
