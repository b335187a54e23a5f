//! Throttle for long work: it works for a moment and pauses for longer, so that no ping waits for
//! long.
//!
//! A low priority does not suffice. A thread with low priority also holds locks of the database,
//! and is scheduled late while others wait for them. And a processor that is always busy delays
//! urgent work.

use std::time::Duration;

use super::Handle;
use crate::util::clock::Clock;

/// Time of work between two pauses, unless a single step takes longer.
const WORK_SPAN: Duration = Duration::from_micros(250);
/// Ratio of a pause to the work before it.
const PAUSE_FACTOR: u32 = 4;
/// Longest pause. A step that took longer than usual has waited for something else.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// Interval at which the number of received pings is read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum total pause: see [limits](crate::docs::limits). Then the work continues without pauses,
/// so that it ends.
const MAX_TOTAL_PAUSE: Duration = Duration::from_secs(1200);

/// Server whose pings the work may delay.
#[derive(Clone, Copy)]
pub enum ServerLocation<'h> {
    /// The server of this process.
    InProcess(&'h Handle),
    /// A server in another process. Its pings are not known here.
    OtherProcess,
    /// No server runs.
    NotRunning,
}

/// Throttle of long work.
pub struct Throttle<'h> {
    server: ServerLocation<'h>,
    clock: Clock,
    /// Uptime at the end of the last pause.
    resumed_at: Duration,
    sampled_at: Duration,
    /// Number of pings at the last sample.
    sampled_pings: u64,
    /// True if pings arrived between the last two samples.
    is_busy: bool,
    total_pause: Duration,
}

impl<'h> Throttle<'h> {
    /// Creates a throttle for work that begins now.
    pub fn new(server: ServerLocation<'h>) -> Self {
        let (clock, pings) = match server {
            ServerLocation::InProcess(handle) => {
                (handle.clock().clone(), handle.metrics().ping_count())
            }
            ServerLocation::OtherProcess | ServerLocation::NotRunning => (Clock::System, 0),
        };
        let now = clock.uptime();
        // Until the first sample, pings are assumed to arrive.
        Self {
            server,
            clock,
            resumed_at: now,
            sampled_at: now,
            sampled_pings: pings,
            is_busy: !matches!(server, ServerLocation::NotRunning),
            total_pause: Duration::ZERO,
        }
    }

    /// Pauses if a pause is due. Called after each step of the work.
    pub fn pause_if_due(&mut self) {
        if let Some(pause) = self.next_pause() {
            // A spurious wake-up shortens the pause a little.
            std::thread::park_timeout(pause);
            self.resumed_at = self.clock.uptime();
        }
    }

    /// Total pause so far.
    pub fn total_pause(&self) -> Duration {
        self.total_pause
    }

    /// Duration of the pause that is due now.
    fn next_pause(&mut self) -> Option<Duration> {
        let now = self.clock.uptime();
        if let ServerLocation::InProcess(handle) = self.server
            && now.saturating_sub(self.sampled_at) >= SAMPLE_INTERVAL
        {
            let pings = handle.metrics().ping_count();
            (self.is_busy, self.sampled_pings, self.sampled_at) =
                (pings > self.sampled_pings, pings, now);
        }
        let work = now.saturating_sub(self.resumed_at);
        if !self.is_busy {
            self.resumed_at = now;
            return None;
        }
        let pause = (work * PAUSE_FACTOR).min(LONGEST_PAUSE);
        let is_due = work >= WORK_SPAN && self.total_pause < MAX_TOTAL_PAUSE;
        is_due.then(|| {
            self.total_pause += pause;
            pause
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::Timestamp;
    use crate::util::clock::ManualClock;

    #[test]
    fn a_pause_is_longer_than_the_work_before_it_and_the_total_pause_is_limited() {
        let clock = ManualClock::at(Timestamp::default());
        let pass = |micros| clock.set(Clock::Manual(clock.clone()).now().plus_micros(micros));
        let mut throttle = Throttle {
            clock: Clock::Manual(clock.clone()),
            ..Throttle::new(ServerLocation::OtherProcess)
        };
        throttle.resumed_at = Duration::ZERO;
        pass(200);
        assert_eq!(throttle.next_pause(), None, "the work was too short");
        pass(200);
        assert_eq!(throttle.next_pause(), Some(Duration::from_micros(1600)));
        throttle.resumed_at = throttle.clock.uptime();
        pass(1_000_000);
        assert_eq!(throttle.next_pause(), Some(LONGEST_PAUSE));
        throttle.total_pause = MAX_TOTAL_PAUSE;
        assert_eq!(
            throttle.next_pause(),
            None,
            "the maximum total pause is reached"
        );
    }

    #[test]
    fn work_does_not_pause_if_no_server_runs() {
        let clock = ManualClock::at(Timestamp::default());
        let mut throttle = Throttle {
            clock: Clock::Manual(clock.clone()),
            ..Throttle::new(ServerLocation::NotRunning)
        };
        clock.advance_secs(1);
        assert_eq!(throttle.next_pause(), None);
    }
}
