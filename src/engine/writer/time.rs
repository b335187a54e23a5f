//! The writer's time: what commands are stamped with, and what becomes of a step of the clock. See
//! [promises](crate::docs::promises).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{MOST_EXPIRED, Memory, Writer};
use crate::domain::ids::CheckId;
use crate::domain::moment::{MICROS, Moment};
use crate::engine::load::Times;

/// The longest the writer waits without looking at the time: clocks are set.
const PATIENCE: Duration = Duration::from_secs(1);

impl Writer {
    /// How long the writer may wait for commands.
    pub(super) fn patience(&self) -> Duration {
        let Memory { working, more_due, .. } = &self.memory;
        if !self.shared.writable.load(Ordering::Relaxed)
            || self.ahead.is_some()
            || *more_due
            || self.has_housekeeping()
            || working.unfinished().next().is_some()
        {
            return Duration::ZERO;
        }
        let until_next = self.memory.alarm.micros_until_next(self.shared.clock.now()).map(Duration::from_micros);
        match until_next {
            // A clock that is moved by hand calls.
            Some(until_next) if self.shared.clock.is_system() => until_next.min(PATIENCE),
            _ => PATIENCE,
        }
    }

    /// The time of the next command.
    pub(super) fn stamp(&mut self) -> Moment {
        let before = self.memory.last_stamp;
        self.memory.last_stamp = self.shared.clock.now().following(before);
        if self.memory.last_stamp < before {
            self.flips_out_of_order = Some(self.newest().flip);
        }
        self.memory.last_stamp
    }

    /// Looks whether the clock was set, and tells it.
    pub(super) fn look_at_clock(&mut self) {
        let reading = self.shared.clock.reading();
        let (passed, step) = self.steps.look(reading);
        if self.shared.clock.is_system() {
            // The writer looks at least once a second, unless the process was frozen or the disk has taken its time.
            self.presence.passed(reading.now.plus_micros(-passed.saturating_add(step.unwrap_or(0).max(0))), reading.now);
        }
        let Some(step) = step else { return };
        self.presence.stepped(step, reading.now);
        let secs = (step / MICROS).unsigned_abs();
        if step > 0 {
            tracing::warn!(
                "the clock has gone {secs} s further than the time that passed: it was set, or the machine slept. The new time counts at \
                 once, also for deadlines that lie in between; for an hour nothing is removed for its age"
            );
        } else {
            tracing::warn!(
                "the clock was set back by {secs} s. The new time counts at once, and what was logged keeps its times; checks that wait \
                 from a time ahead of the clock are watched anew when they are pinged, or in an hour"
            );
        }
        self.memory.ahead = None;
        self.steady_is_written = false;
    }

    /// Tells that what a start has found lies ahead of the clock.
    pub(super) fn tell_ahead(times: &Times, now: Moment) {
        if times.latest.is_ahead_of(now) {
            tracing::warn!(
                "the newest record lies {} s ahead of the clock, which was wrong then or is wrong now. Its time counts at once; checks that \
                 wait from a time ahead of it are watched anew when they are pinged, or in an hour",
                times.latest.micros_since(now) / MICROS
            );
        }
    }

    /// Some of the checks that wait from a time ahead of the clock, once the clock has shown for an hour that it is right.
    pub(super) fn some_ahead(&mut self, now: Moment) -> Vec<CheckId> {
        if !self.steps.is_confirmed_here() {
            return Vec::new();
        }
        let Memory { working, ahead, more_due, .. } = &mut self.memory;
        let all = || working.state.checks().filter(|check| check.state.is_ahead_of(&check.settings, now)).map(|check| check.id).collect();
        let ahead = ahead.get_or_insert_with(all);
        let some = ahead.split_off(ahead.len().saturating_sub(MOST_EXPIRED));
        *more_due |= !ahead.is_empty();
        some
    }
}
