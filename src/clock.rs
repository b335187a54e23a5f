//! The only place that asks what time it is.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::moment::Moment;

/// A look at the clock and at the uptime that takes longer than this is made again: what was read would not belong together.
const HELD_UP: Duration = Duration::from_secs(1);

/// The time and the uptime of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// What the clock shows.
    pub now: Moment,
    /// See [`Clock::uptime`].
    pub uptime: Duration,
}

/// Where the time comes from.
#[derive(Clone)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// A clock that a test moves by hand.
    Manual(Arc<ManualClock>),
}

impl Clock {
    /// The time now. It may be earlier than what was read before: clocks are set.
    pub fn now(&self) -> Moment {
        match self {
            #[allow(clippy::disallowed_methods, reason = "this is the place")]
            Self::System => Moment::from_micros(jiff::Timestamp::now().as_microsecond()),
            Self::Manual(clock) => clock.locked().now,
        }
    }

    /// Time that has passed since some moment in the past. Nobody sets it. On Linux it stands still while the machine sleeps.
    #[allow(clippy::disallowed_methods, reason = "this is the place")]
    pub fn uptime(&self) -> Duration {
        static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
        match self {
            // In this order: the beginning comes first.
            Self::System => {
                let beginning = *BEGINNING;
                Instant::now().duration_since(beginning)
            }
            Self::Manual(clock) => clock.locked().uptime,
        }
    }

    /// The time and the uptime of the same moment, to within a second.
    pub fn reading(&self) -> Reading {
        if let Self::Manual(clock) = self {
            let time = clock.locked();
            return Reading { now: time.now, uptime: time.uptime };
        }
        let mut before = self.uptime();
        loop {
            let reading = Reading { now: self.now(), uptime: self.uptime() };
            if reading.uptime.saturating_sub(before) < HELD_UP {
                return reading;
            }
            before = reading.uptime;
        }
    }

    /// Whether the time passes by itself. Otherwise nobody needs to wait for a moment: see [`Clock::on_move`].
    pub fn is_system(&self) -> bool {
        match self {
            Self::System => true,
            Self::Manual(clock) => clock.locked().passes,
        }
    }

    /// Has `call` called whenever a manual clock has moved.
    pub fn on_move(&self, call: impl Fn() + Send + 'static) {
        if let Self::Manual(clock) = self {
            clock.locked().calls.push(Box::new(call));
        }
    }
}

/// A clock that stands still until it is moved.
pub struct ManualClock(Mutex<ManualTime>);

struct ManualTime {
    now: Moment,
    uptime: Duration,
    /// It is taken for one that passes by itself.
    passes: bool,
    /// Called after every move.
    calls: Vec<Box<dyn Fn() + Send>>,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Moment) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ManualTime { now, uptime: Duration::ZERO, passes: false, calls: Vec::new() })))
    }

    /// From now on it is taken for a clock that passes by itself: whoever has not looked at it for long was held up.
    pub fn pass(&self) {
        self.locked().passes = true;
    }

    /// Sets the clock, forward or backward. Forward the time passes.
    pub fn set(&self, now: Moment) {
        let mut time = self.locked();
        let passed = now.micros_since(time.now).max(0);
        time.uptime += Duration::from_micros(passed.unsigned_abs());
        time.now = now;
        time.calls.iter().for_each(|call| call());
    }

    /// Makes the clock show another time, as when somebody sets it, although no time has passed.
    pub fn correct(&self, now: Moment) {
        let mut time = self.locked();
        time.now = now;
        time.calls.iter().for_each(|call| call());
    }

    /// Moves the clock forward.
    pub fn advance_secs(&self, secs: i64) {
        let now = self.locked().now;
        self.set(now.plus_secs(secs));
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, ManualTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
