//! What takes long takes turns with pings: it works for a moment and rests for longer, so that no ping waits for long.
//!
//! A low priority is not enough. Whoever has it holds locks of the database as well, and is woken late while others wait for them; and a
//! processor that is busy all the time has no room for what comes at once.

use std::time::Duration;

use super::Handle;
use crate::clock::Clock;

/// Work from one rest to the next, unless a piece takes longer.
const WORK_SPAN: Duration = Duration::from_micros(250);
/// How many times longer than its work a rest is.
const PAUSE_FACTOR: u32 = 4;
/// The longest rest. A piece that took longer than usual waited for somebody.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// How often it is looked whether pings come.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Rests together: see [limits](crate::docs::limits). Then it goes on without, to come to its end.
const MAX_TOTAL_PAUSE: Duration = Duration::from_secs(1200);

/// Whose pings may have to wait.
#[derive(Clone, Copy)]
pub enum ServerLocation<'h> {
    /// Those of this server.
    InProcess(&'h Handle),
    /// Those of a server that is another process: whether any come is not known here.
    OtherProcess,
    /// No server runs.
    NotRunning,
}

/// Work that rests in between.
pub struct Throttle<'h> {
    server: ServerLocation<'h>,
    clock: Clock,
    /// When it went on after its last rest.
    resumed_at: Duration,
    sampled_at: Duration,
    /// Pings at the last glance, and whether there were more than at the one before.
    sampled_pings: u64,
    is_busy: bool,
    total_pause: Duration,
}

impl<'h> Throttle<'h> {
    /// Begins to work.
    pub fn new(beside: ServerLocation<'h>) -> Self {
        let (clock, pings) = match beside {
            ServerLocation::InProcess(handle) => (handle.clock().clone(), handle.metrics().ping_count()),
            ServerLocation::OtherProcess | ServerLocation::NotRunning => (Clock::System, 0),
        };
        let now = clock.uptime();
        // What comes is seen at the first glance; until then it is taken for granted.
        Self {
            server: beside,
            clock,
            resumed_at: now,
            sampled_at: now,
            sampled_pings: pings,
            is_busy: !matches!(beside, ServerLocation::NotRunning),
            total_pause: Duration::ZERO,
        }
    }

    /// A piece is done: rests if it is time to.
    pub fn pause_if_due(&mut self) {
        if let Some(rest) = self.next_pause() {
            // Woken for nothing it rests a little less.
            std::thread::park_timeout(rest);
            self.resumed_at = self.clock.uptime();
        }
    }

    /// For how long it has rested by now.
    pub fn total_pause(&self) -> Duration {
        self.total_pause
    }

    /// How long to rest now.
    fn next_pause(&mut self) -> Option<Duration> {
        let now = self.clock.uptime();
        if let ServerLocation::InProcess(handle) = self.server
            && now.saturating_sub(self.sampled_at) >= SAMPLE_INTERVAL
        {
            let pings = handle.metrics().ping_count();
            (self.is_busy, self.sampled_pings, self.sampled_at) = (pings > self.sampled_pings, pings, now);
        }
        let work = now.saturating_sub(self.resumed_at);
        if !self.is_busy {
            self.resumed_at = now;
            return None;
        }
        let rest = (work * PAUSE_FACTOR).min(LONGEST_PAUSE);
        let is_due = work >= WORK_SPAN && self.total_pause < MAX_TOTAL_PAUSE;
        is_due.then(|| {
            self.total_pause += rest;
            rest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::timestamp::Timestamp;

    #[test]
    fn a_rest_is_longer_than_the_work_before_it_and_all_of_them_have_a_bound() {
        let clock = ManualClock::at(Timestamp::default());
        let pass = |micros| clock.set(Clock::Manual(clock.clone()).now().plus_micros(micros));
        let mut pace = Throttle { clock: Clock::Manual(clock.clone()), ..Throttle::new(ServerLocation::OtherProcess) };
        pace.resumed_at = Duration::ZERO;
        pass(200);
        assert_eq!(pace.next_pause(), None, "too little was done");
        pass(200);
        assert_eq!(pace.next_pause(), Some(Duration::from_micros(1600)));
        pace.resumed_at = pace.clock.uptime();
        pass(1_000_000);
        assert_eq!(pace.next_pause(), Some(LONGEST_PAUSE));
        pace.total_pause = MAX_TOTAL_PAUSE;
        assert_eq!(pace.next_pause(), None, "it has rested enough");
    }

    #[test]
    fn nobody_needs_a_rest_where_no_server_runs() {
        let clock = ManualClock::at(Timestamp::default());
        let mut pace = Throttle { clock: Clock::Manual(clock.clone()), ..Throttle::new(ServerLocation::NotRunning) };
        clock.advance_secs(1);
        assert_eq!(pace.next_pause(), None);
    }
}
