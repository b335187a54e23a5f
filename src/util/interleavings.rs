//! Runs tests of threads under many schedules, with the locks of [`super::sync`].
//!
//! shuttle runs all threads of a test on one thread of the system, one at a time, and chooses the
//! next one at each operation of a lock, an atomic, a channel or a thread. Half of the schedules
//! choose at random; the others by random priorities, which change a few times. A wait never times
//! out, so a lost wake-up is a deadlock, which fails the test. Atomics are sequentially consistent
//! here: a wrong `Ordering` is not found.
//!
//! tokio's semaphores, channels and notifications are used as they are, and wake a waiting thread.
//! No other thread runs between two of their operations, unless a lock is taken in between: an
//! error in their order may not be found. tokio's timers never fire. Code that waits for sockets or
//! timers, and readers of the tables while the writer writes (redb has locks of its own), cannot be
//! tested here.
//!
//! - `OVERDUE_SCHEDULES`: number of schedules of each test.
//! - `OVERDUE_SECONDS`: time after which a test stops, whatever their number.
//! - `OVERDUE_SEED`: number that decides the schedules.
//! - `OVERDUE_SCHEDULE`: runs the only schedule that a failed test has printed.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

const DEFAULT_SCHEDULES: usize = 200;
const DEFAULT_SEED: u64 = 1;
/// Number of changes of priorities in a schedule. Two suffice for most faults that were reported
/// for this method.
const PRIORITY_CHANGES: usize = 3;
/// Size of the stack of each thread. redb needs more than the default.
const STACK_BYTES: usize = 1 << 20;
/// Number of operations after which a schedule counts as endless.
const MAX_STEPS: usize = 100_000;

/// Runs `test` under each schedule. It fails with the schedule under which it panics or a thread
/// waits forever.
pub(crate) fn check(test: impl Fn() + Send + Sync + Clone + 'static) {
    let timers = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _timers = timers.enter();
    if let Ok(schedule) = std::env::var("OVERDUE_SCHEDULE") {
        // A long one is printed in several lines.
        let schedule: String = schedule.split_whitespace().collect();
        run(ReplayScheduler::new_from_encoded(&schedule), test);
        return;
    }
    let schedules = variable("OVERDUE_SCHEDULES").unwrap_or(DEFAULT_SCHEDULES);
    let seed = variable("OVERDUE_SEED").unwrap_or(DEFAULT_SEED);
    let half = schedules.div_ceil(2);
    let random = run(RandomScheduler::new_from_seed(seed, half), test.clone());
    let by_priority = PctScheduler::new_from_seed(seed, PRIORITY_CHANGES, half);
    println!("{} schedules", random + run(by_priority, test));
}

/// Returns the number of schedules that were run.
fn run(scheduler: impl Scheduler + 'static, test: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    let seconds: Option<u64> = variable("OVERDUE_SECONDS");
    config.max_time = seconds.map(|seconds| Duration::from_secs(seconds) / 2);
    Runner::new(scheduler, config).run(test)
}

fn variable<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let parsed = text.parse();
    Some(parsed.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}
