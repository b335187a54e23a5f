//! Detects that the clock was set, or that the machine slept: then the difference of the clock is
//! not the time that passed.

use std::time::Duration;

use crate::domain::timestamp::{CLOCK_JUMP_MICROS, Timestamp};
use crate::util::clock::ClockReading;

/// Time for which a clock must run without a jump before it is trusted.
const CONFIRMATION_TIME: Duration = Duration::from_secs(3600);

/// Detector of clock jumps, from repeated readings. Pure: the caller supplies the readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockJumpDetector {
    last_reading: ClockReading,
    /// Uptime at the first reading, or at the last jump.
    steady_from: Duration,
    /// Time without a jump before the first reading, according to the file.
    steady_before_start: Duration,
}

impl ClockJumpDetector {
    /// Starts with the first reading. The file supplies the time since which the clock had no jump,
    /// if known, and the time of the newest event.
    pub(super) fn new(
        first: ClockReading,
        steady_since: Option<Timestamp>,
        newest: Timestamp,
    ) -> Self {
        // The clock was not read in between, so the pause must be short.
        let pause = first.now.micros_since(newest);
        let is_continued = pause > -CLOCK_JUMP_MICROS
            && u128::try_from(pause).unwrap_or(0) < CONFIRMATION_TIME.as_micros();
        let steady_before = steady_since
            .filter(|_| is_continued)
            .map_or(0, |since| first.now.micros_since(since).max(0));
        Self {
            last_reading: first,
            steady_from: first.uptime,
            steady_before_start: Duration::from_micros(steady_before.unsigned_abs()),
        }
    }

    /// Adds a reading. Returns the microseconds since the last one, and the size of a jump in
    /// microseconds, if there was one. A jump is at least 5 s, forward (positive) or back
    /// (negative).
    pub(super) fn observe(&mut self, reading: ClockReading) -> (i64, Option<i64>) {
        let passed = reading.uptime.saturating_sub(self.last_reading.uptime);
        let passed = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let jump = reading
            .now
            .micros_since(self.last_reading.now)
            .saturating_sub(passed);
        self.last_reading = reading;
        if jump.unsigned_abs() < CLOCK_JUMP_MICROS.unsigned_abs() {
            return (passed, None);
        }
        (self.steady_from, self.steady_before_start) = (reading.uptime, Duration::ZERO);
        (passed, Some(jump))
    }

    /// Time since which the clock has had no jump, by its current reading.
    pub(super) fn steady_since(&self) -> Timestamp {
        let steady =
            i64::try_from((self.steady_in_process() + self.steady_before_start).as_micros())
                .unwrap_or(i64::MAX);
        self.last_reading.now.plus_micros(-steady)
    }

    /// True if the clock has had no jump for an hour, including time before this process. Nothing
    /// is removed for its age before that.
    pub(super) fn is_confirmed(&self) -> bool {
        self.steady_in_process() + self.steady_before_start >= CONFIRMATION_TIME
    }

    /// True if this process has seen no jump for an hour.
    pub(super) fn is_confirmed_in_process(&self) -> bool {
        self.steady_in_process() >= CONFIRMATION_TIME
    }

    fn steady_in_process(&self) -> Duration {
        self.last_reading.uptime.saturating_sub(self.steady_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::MICROS_PER_SEC;

    fn reading(now: i64, uptime: i64) -> ClockReading {
        let uptime = Duration::from_micros(u64::try_from(uptime).unwrap());
        ClockReading {
            now: Timestamp::from_secs(1_800_000_000).plus_micros(now),
            uptime,
        }
    }

    fn first() -> ClockJumpDetector {
        ClockJumpDetector::new(reading(0, 0), None, reading(0, 0).now)
    }

    #[test]
    fn a_jump_is_the_difference_between_the_clock_and_the_uptime() {
        for (now, uptime, jump) in [
            (0, 0, None),
            (9 * MICROS_PER_SEC, 9 * MICROS_PER_SEC, None),
            // A small jump, a small correction, a clock that runs fast.
            (4_999_999, 0, None),
            (0, 4_999_999, None),
            (86_400 * MICROS_PER_SEC, 86_396 * MICROS_PER_SEC, None),
            (5 * MICROS_PER_SEC, 0, Some(5 * MICROS_PER_SEC)),
            (0, 5 * MICROS_PER_SEC, Some(-5 * MICROS_PER_SEC)),
            (
                -3600 * MICROS_PER_SEC,
                MICROS_PER_SEC,
                Some(-3601 * MICROS_PER_SEC),
            ),
            // Eight hours of sleep.
            (
                28_800 * MICROS_PER_SEC,
                MICROS_PER_SEC,
                Some(28_799 * MICROS_PER_SEC),
            ),
        ] {
            let mut detector = first();
            assert_eq!(
                detector.observe(reading(now, uptime)),
                (uptime, jump),
                "{now} {uptime}"
            );
            assert_eq!(
                detector.observe(reading(now + 1, uptime + 1)),
                (1, None),
                "a jump is reported once"
            );
        }
    }

    #[test]
    fn a_clock_is_confirmed_after_an_hour_without_a_jump() {
        const HOUR: i64 = 3600 * MICROS_PER_SEC;
        let mut detector = first();
        detector.observe(reading(HOUR - 1, HOUR - 1));
        assert!(!detector.is_confirmed() && !detector.is_confirmed_in_process());
        detector.observe(reading(HOUR, HOUR));
        assert!(detector.is_confirmed() && detector.is_confirmed_in_process());
        detector.observe(reading(9 * HOUR, HOUR));
        assert!(!detector.is_confirmed() && !detector.is_confirmed_in_process());
        assert_eq!(detector.steady_since(), reading(9 * HOUR, 0).now);
        detector.observe(reading(10 * HOUR, 2 * HOUR));
        assert!(detector.is_confirmed());
        assert_eq!(detector.steady_since(), reading(9 * HOUR, 0).now);
    }

    #[test]
    fn a_start_continues_the_steady_time_of_a_run_that_ended_within_an_hour() {
        const HOUR: i64 = 3600 * MICROS_PER_SEC;
        let at = |micros| reading(micros, 0).now;
        for (since, newest, confirmed) in [
            (Some(-HOUR), -1, true),
            (Some(-HOUR), 1 - HOUR, true),
            (Some(-HOUR), -HOUR, false),
            (Some(-HOUR), 4_999_999, true),
            (Some(-HOUR), 5_000_000, false),
            (Some(1 - HOUR), -1, false),
            (Some(HOUR), -1, false),
            (None, -1, false),
        ] {
            let detector = ClockJumpDetector::new(reading(0, 0), since.map(at), at(newest));
            assert_eq!(detector.is_confirmed(), confirmed, "{since:?} {newest}");
            assert!(!detector.is_confirmed_in_process());
        }
    }
}
