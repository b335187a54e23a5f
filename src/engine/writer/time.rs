//! Timestamps of commands, and handling of clock jumps. See [promises](crate::docs::promises).

use std::time::Duration;

use super::{MAX_EVALUATED_CHECKS, Writer, WriterMemory};
use crate::domain::ids::CheckId;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::engine::load::FileTimestamps;
use crate::util::sync::atomic::Ordering;

/// Longest wait of the writer before it reads the clock again, since clocks may be set.
const MAX_WAIT: Duration = Duration::from_secs(1);

impl Writer {
    /// Maximum time for which the writer may wait for commands.
    pub(super) fn wait_limit(&self) -> Duration {
        let WriterMemory {
            working, more_due, ..
        } = &self.memory;
        if !self.shared.writable.load(Ordering::Relaxed)
            || self.upload.is_some()
            || *more_due
            || self.has_housekeeping()
            || working.continuation_commands().next().is_some()
        {
            return Duration::ZERO;
        }
        let until_next = self
            .memory
            .deadlines
            .micros_until_next(self.shared.clock.now())
            .map(Duration::from_micros);
        match until_next {
            // A test clock wakes the writer itself.
            Some(until_next) if self.shared.clock.is_system() => until_next.min(MAX_WAIT),
            _ => MAX_WAIT,
        }
    }

    /// True if the writer has no work left until a command comes or the time passes. For tests.
    pub fn is_idle(&self) -> bool {
        !self.wait_limit().is_zero()
    }

    /// Timestamp of the next command.
    pub(super) fn next_timestamp(&mut self) -> Timestamp {
        let before = self.memory.last_timestamp;
        self.memory.last_timestamp = self.shared.clock.now().not_before(before);
        if self.memory.last_timestamp < before {
            self.flips_out_of_order = Some(self.log_end().flip);
        }
        self.memory.last_timestamp
    }

    /// Checks for a clock jump and logs it.
    pub(super) fn detect_clock_jump(&mut self) {
        let reading = self.shared.clock.read();
        let (passed, jump) = self.clock_jumps.observe(reading);
        if self.shared.clock.is_system() {
            // The writer reads the clock at least once a second, unless the process was frozen or
            // the disk was slow.
            self.availability.add_outage(
                reading
                    .now
                    .plus_micros(-passed.saturating_add(jump.unwrap_or(0).max(0))),
                reading.now,
            );
        }
        let Some(jump) = jump else { return };
        self.availability.adjust_to_clock_jump(jump, reading.now);
        let secs = (jump / MICROS_PER_SEC).unsigned_abs();
        if jump > 0 {
            tracing::warn!(
                "the clock jumped forward by {secs} s: it was set, or the machine slept. The new \
                time applies at once, also to deadlines in between. For an hour, nothing is \
                removed because of its age"
            );
        } else {
            tracing::warn!(
                "the clock was set back by {secs} s. The new time applies at once; log entries \
                keep their times. Checks with times ahead of the clock are monitored again from \
                their next ping, or in an hour"
            );
        }
        self.memory.future_checks = None;
        self.is_steady_time_stored = false;
    }

    /// Logs a warning if records in the file are ahead of the clock at the start.
    pub(super) fn warn_of_future_records(timestamps: &FileTimestamps, now: Timestamp) {
        if timestamps.latest.is_ahead_of(now) {
            tracing::warn!(
                "the newest record is {} s ahead of the clock, which was wrong then or is wrong \
                now. The time of the clock applies; checks with times ahead of it are monitored \
                again from their next ping, or in an hour",
                timestamps.latest.micros_since(now) / MICROS_PER_SEC
            );
        }
    }

    /// Takes some of the checks with times in the future, once the clock had no jump for an hour.
    pub(super) fn take_future_checks(&mut self, now: Timestamp) -> Vec<CheckId> {
        if !self.clock_jumps.is_confirmed_in_process() {
            return Vec::new();
        }
        let WriterMemory {
            working,
            future_checks,
            more_due,
            ..
        } = &mut self.memory;
        let all = || {
            working
                .state
                .checks()
                .filter(|check| check.state.has_future_times(&check.settings, now))
                .map(|check| check.id)
                .collect()
        };
        let future_checks = future_checks.get_or_insert_with(all);
        let batch =
            future_checks.split_off(future_checks.len().saturating_sub(MAX_EVALUATED_CHECKS));
        *more_due |= !future_checks.is_empty();
        batch
    }
}
