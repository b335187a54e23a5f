//! The only place that reads the time.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::domain::timestamp::Timestamp;
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Maximum time between the reads of the clock and of the uptime. If they take longer, both are
/// read again, because the values would not belong together.
const MAX_READ_TIME: Duration = Duration::from_secs(1);

/// Time and uptime, read at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// Time of the clock.
    pub now: Timestamp,
    /// Uptime at that time, see [`Clock::uptime`].
    pub uptime: Duration,
}

/// Source of the time.
#[derive(Clone)]
pub enum Clock {
    /// Clock of the machine.
    System,
    /// Clock that a test moves.
    Manual(Arc<ManualClock>),
    /// Clock that always shows one time. The uptime passes as usual.
    Still(Timestamp),
}

impl Clock {
    /// Current time. It may be earlier than the previous result, because clocks are set.
    pub fn now(&self) -> Timestamp {
        match self {
            #[allow(clippy::disallowed_methods, reason = "this is the place")]
            Self::System => Timestamp::from_micros(jiff::Timestamp::now().as_microsecond()),
            Self::Manual(clock) => clock.lock().now,
            Self::Still(now) => *now,
        }
    }

    /// Time since a fixed moment in the past. Setting the clock does not change it. On Linux it
    /// stands still while the machine is suspended.
    #[allow(clippy::disallowed_methods, reason = "this is the place")]
    pub fn uptime(&self) -> Duration {
        static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
        match self {
            // The order matters: the beginning must be read first.
            Self::System | Self::Still(_) => {
                let beginning = *BEGINNING;
                Instant::now().duration_since(beginning)
            }
            Self::Manual(clock) => clock.lock().uptime,
        }
    }

    /// Time since a fixed moment in the past, including the time for which the machine was
    /// suspended. Setting the clock does not change it.
    pub fn time_since_boot(&self) -> Duration {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::System | Self::Still(_) => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Duration::new(
                    u64::try_from(time.tv_sec).unwrap_or_default(),
                    u32::try_from(time.tv_nsec).unwrap_or_default(),
                )
            }
            // Elsewhere the uptime is the best there is.
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            Self::System | Self::Still(_) => self.uptime(),
            Self::Manual(clock) => {
                let time = clock.lock();
                time.uptime + time.suspended
            }
        }
    }

    /// Time and uptime of the same moment, to within a second.
    pub fn read(&self) -> ClockReading {
        if let Self::Manual(clock) = self {
            let time = clock.lock();
            return ClockReading {
                now: time.now,
                uptime: time.uptime,
            };
        }
        let mut before = self.uptime();
        loop {
            let reading = ClockReading {
                now: self.now(),
                uptime: self.uptime(),
            };
            if reading.uptime.saturating_sub(before) < MAX_READ_TIME {
                return reading;
            }
            before = reading.uptime;
        }
    }

    /// True if the time passes by itself. With any other clock no thread has to sleep: see
    /// [`Clock::on_move`].
    pub fn is_system(&self) -> bool {
        match self {
            Self::System => true,
            Self::Manual(clock) => clock.lock().is_running,
            Self::Still(_) => false,
        }
    }

    /// Registers `call`, which runs after every move of a manual clock.
    pub fn on_move(&self, call: impl Fn() + Send + Sync + 'static) {
        if let Self::Manual(clock) = self {
            clock.lock().callbacks.push(Arc::new(call));
        }
    }
}

/// Clock that stands still until it is moved.
pub struct ManualClock(Mutex<ManualTime>);

struct ManualTime {
    now: Timestamp,
    uptime: Duration,
    /// Time for which the machine was suspended.
    suspended: Duration,
    /// True if the clock acts like one that passes by itself.
    is_running: bool,
    /// Called after every move.
    callbacks: Vec<Arc<dyn Fn() + Send + Sync>>,
}

impl ManualClock {
    /// Clock that shows `now`.
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ManualTime {
            now,
            uptime: Duration::ZERO,
            suspended: Duration::ZERO,
            is_running: false,
            callbacks: Vec::new(),
        })))
    }

    /// Makes the clock act like one that passes by itself: after a long time without a read, the
    /// reader assumes that it was suspended.
    pub fn act_as_system(&self) {
        self.lock().is_running = true;
    }

    /// Sets the clock forward or backward. Forward, the uptime advances by the same duration.
    pub fn set(&self, now: Timestamp) {
        let mut time = self.lock();
        let passed = now.micros_since(time.now).max(0);
        time.uptime += Duration::from_micros(passed.unsigned_abs());
        time.now = now;
        Self::report_move(time);
    }

    /// Sets the clock to another time although no time has passed, like an operator who sets it.
    pub fn jump_to(&self, now: Timestamp) {
        let mut time = self.lock();
        time.now = now;
        Self::report_move(time);
    }

    /// Moves the clock forward like a machine that is suspended: its uptime stands still.
    pub fn suspend(&self, duration: Duration) {
        let mut time = self.lock();
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        time.now = time.now.plus_micros(micros);
        time.suspended += duration;
        Self::report_move(time);
    }

    /// Moves the clock forward.
    pub fn advance_secs(&self, secs: i64) {
        let now = self.lock().now;
        self.set(now.plus_secs(secs));
    }

    /// Unlocks the time and calls the callbacks, which may take locks that other threads hold while
    /// they read the time.
    fn report_move(time: MutexGuard<'_, ManualTime>) {
        let callbacks = time.callbacks.clone();
        drop(time);
        callbacks.iter().for_each(|call| call());
    }

    fn lock(&self) -> MutexGuard<'_, ManualTime> {
        lock(&self.0)
    }
}
