//! The only place that asks what time it is.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::timestamp::Timestamp;

/// A look at the clock and at the uptime that takes longer than this is made again: what was read would not belong together.
const MAX_READ_TIME: Duration = Duration::from_secs(1);

/// The time and the uptime of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// What the clock shows.
    pub now: Timestamp,
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
    pub fn now(&self) -> Timestamp {
        match self {
            #[allow(clippy::disallowed_methods, reason = "this is the place")]
            Self::System => Timestamp::from_micros(jiff::Timestamp::now().as_microsecond()),
            Self::Manual(clock) => clock.lock().now,
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
            Self::Manual(clock) => clock.lock().uptime,
        }
    }

    /// The time and the uptime of the same moment, to within a second.
    pub fn read(&self) -> ClockReading {
        if let Self::Manual(clock) = self {
            let time = clock.lock();
            return ClockReading { now: time.now, uptime: time.uptime };
        }
        let mut before = self.uptime();
        loop {
            let reading = ClockReading { now: self.now(), uptime: self.uptime() };
            if reading.uptime.saturating_sub(before) < MAX_READ_TIME {
                return reading;
            }
            before = reading.uptime;
        }
    }

    /// Whether the time passes by itself. Otherwise nobody needs to wait for a moment: see [`Clock::on_move`].
    pub fn is_system(&self) -> bool {
        match self {
            Self::System => true,
            Self::Manual(clock) => clock.lock().is_running,
        }
    }

    /// Has `call` called whenever a manual clock has moved.
    pub fn on_move(&self, call: impl Fn() + Send + 'static) {
        if let Self::Manual(clock) = self {
            clock.lock().callbacks.push(Box::new(call));
        }
    }
}

/// A clock that stands still until it is moved.
pub struct ManualClock(Mutex<ManualTime>);

struct ManualTime {
    now: Timestamp,
    uptime: Duration,
    /// It is taken for one that passes by itself.
    is_running: bool,
    /// Called after every move.
    callbacks: Vec<Box<dyn Fn() + Send>>,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ManualTime { now, uptime: Duration::ZERO, is_running: false, callbacks: Vec::new() })))
    }

    /// From now on it is taken for a clock that passes by itself: whoever has not looked at it for long was held up.
    pub fn act_as_system(&self) {
        self.lock().is_running = true;
    }

    /// Sets the clock, forward or backward. Forward the time passes.
    pub fn set(&self, now: Timestamp) {
        let mut time = self.lock();
        let passed = now.micros_since(time.now).max(0);
        time.uptime += Duration::from_micros(passed.unsigned_abs());
        time.now = now;
        time.callbacks.iter().for_each(|call| call());
    }

    /// Makes the clock show another time, as when somebody sets it, although no time has passed.
    pub fn jump_to(&self, now: Timestamp) {
        let mut time = self.lock();
        time.now = now;
        time.callbacks.iter().for_each(|call| call());
    }

    /// Moves the clock forward.
    pub fn advance_secs(&self, secs: i64) {
        let now = self.lock().now;
        self.set(now.plus_secs(secs));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ManualTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
