//! What takes long takes turns with pings: it works for a moment and rests for longer, so that no ping waits for long.
//!
//! A low priority is not enough. Whoever has it holds locks of the database as well, and is woken late while others wait for them; and a
//! processor that is busy all the time has no room for what comes at once.

use std::time::Duration;

use super::Handle;
use crate::clock::Clock;

/// Work from one rest to the next, unless a piece takes longer.
const WORK: Duration = Duration::from_micros(250);
/// How many times longer than its work a rest is.
const REST: u32 = 4;
/// The longest rest. A piece that took longer than usual waited for somebody.
const LONGEST: Duration = Duration::from_millis(20);
/// How often it is looked whether pings come.
const GLANCE: Duration = Duration::from_millis(100);
/// Rests together: see [limits](crate::docs::limits). Then it goes on without, to come to its end.
const MOST: Duration = Duration::from_secs(1200);

/// Whose pings may have to wait.
#[derive(Clone, Copy)]
pub enum Beside<'h> {
    /// Those of this server.
    Server(&'h Handle),
    /// Those of a server that is another process: whether any come is not known here.
    Another,
    /// No server runs.
    Nobody,
}

/// Work that rests in between.
pub struct Pace<'h> {
    beside: Beside<'h>,
    clock: Clock,
    /// When it went on after its last rest.
    woke: Duration,
    glanced: Duration,
    /// Pings at the last glance, and whether there were more than at the one before.
    pings: u64,
    is_busy: bool,
    rested: Duration,
}

impl<'h> Pace<'h> {
    /// Begins to work.
    pub fn new(beside: Beside<'h>) -> Self {
        let (clock, pings) = match beside {
            Beside::Server(handle) => (handle.clock().clone(), handle.metrics().pings()),
            Beside::Another | Beside::Nobody => (Clock::System, 0),
        };
        let now = clock.uptime();
        // What comes is seen at the first glance; until then it is taken for granted.
        Self { beside, clock, woke: now, glanced: now, pings, is_busy: !matches!(beside, Beside::Nobody), rested: Duration::ZERO }
    }

    /// A piece is done: rests if it is time to.
    pub fn rest(&mut self) {
        if let Some(rest) = self.due() {
            // Woken for nothing it rests a little less.
            std::thread::park_timeout(rest);
            self.woke = self.clock.uptime();
        }
    }

    /// For how long it has rested by now.
    pub fn rested(&self) -> Duration {
        self.rested
    }

    /// How long to rest now.
    fn due(&mut self) -> Option<Duration> {
        let now = self.clock.uptime();
        if let Beside::Server(handle) = self.beside
            && now.saturating_sub(self.glanced) >= GLANCE
        {
            let pings = handle.metrics().pings();
            (self.is_busy, self.pings, self.glanced) = (pings > self.pings, pings, now);
        }
        let work = now.saturating_sub(self.woke);
        if !self.is_busy {
            self.woke = now;
            return None;
        }
        let rest = (work * REST).min(LONGEST);
        let is_due = work >= WORK && self.rested < MOST;
        is_due.then(|| {
            self.rested += rest;
            rest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::moment::Moment;

    #[test]
    fn a_rest_is_longer_than_the_work_before_it_and_all_of_them_have_a_bound() {
        let clock = ManualClock::at(Moment::default());
        let pass = |micros| clock.set(Clock::Manual(clock.clone()).now().plus_micros(micros));
        let mut pace = Pace { clock: Clock::Manual(clock.clone()), ..Pace::new(Beside::Another) };
        pace.woke = Duration::ZERO;
        pass(200);
        assert_eq!(pace.due(), None, "too little was done");
        pass(200);
        assert_eq!(pace.due(), Some(Duration::from_micros(1600)));
        pace.woke = pace.clock.uptime();
        pass(1_000_000);
        assert_eq!(pace.due(), Some(LONGEST));
        pace.rested = MOST;
        assert_eq!(pace.due(), None, "it has rested enough");
    }

    #[test]
    fn nobody_needs_a_rest_where_no_server_runs() {
        let clock = ManualClock::at(Moment::default());
        let mut pace = Pace { clock: Clock::Manual(clock.clone()), ..Pace::new(Beside::Nobody) };
        clock.advance_secs(1);
        assert_eq!(pace.due(), None);
    }
}
