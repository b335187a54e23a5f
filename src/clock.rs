//! The only place that asks what time it is.

use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::moment::Moment;

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

    /// Whether the time passes by itself. Otherwise nobody needs to wait for a moment: see [`Clock::on_move`].
    pub fn is_system(&self) -> bool {
        matches!(self, Self::System)
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
    /// Called after every move.
    calls: Vec<Box<dyn Fn() + Send>>,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Moment) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ManualTime { now, calls: Vec::new() })))
    }

    /// Sets the clock, forward or backward.
    pub fn set(&self, now: Moment) {
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
