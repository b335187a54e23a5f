//! A load generator that is cheap enough to share two cores with the measured server: plain
//! non-blocking sockets, and requests that differ in a few digits. Only status and length of a
//! response are parsed.

mod answer;
mod chunks;
mod endpoint;
mod request;
mod worker;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;

pub(crate) use endpoint::Endpoint;
pub(crate) use request::Request;

/// Errors are only shown to a person.
pub(crate) type BenchError = Box<dyn std::error::Error + Send + Sync>;
/// Result of the driver.
pub(crate) type Result<T> = std::result::Result<T, BenchError>;

/// Interval of updates of the progress bar.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Requests to send, their number, and their rate.
pub(crate) struct LoadPlan<'a> {
    /// Server to measure.
    pub(crate) endpoint: &'a Endpoint,
    /// Request that is sent.
    pub(crate) request: &'a Request,
    /// Keep-alive connections, each with at most one request in flight.
    pub(crate) connections: usize,
    /// Threads that share the connections.
    pub(crate) threads: usize,
    /// Requests a second, independent of responses (open loop). Latency counts from the time at
    /// which a request was due, so a slow response also delays later requests. `None`: each
    /// response is followed by the next request.
    pub(crate) rate: Option<u32>,
    /// Stop condition.
    pub(crate) until: StopCondition,
}

/// Condition at which a run ends.
#[derive(Clone, Copy)]
pub(crate) enum StopCondition {
    /// After this number of requests; all of them are measured.
    Count(u64),
    /// After this time; requests of the warm-up before it are not measured.
    Time {
        warm_up: Duration,
        measured: Duration,
    },
}

/// Result of a run.
pub(crate) struct LoadResult {
    /// Responses by status, warm-up included.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Requests whose connection ended before the response.
    pub(crate) lost: u64,
    /// Requests that were due, at a fixed rate, but not sent within the time.
    pub(crate) unsent: u64,
    /// Latencies in microseconds, from each measured request to the end of its response.
    pub(crate) latency: Histogram<u64>,
    /// Duration of the measured requests, from the end of the warm-up.
    pub(crate) took: Duration,
}

impl LoadResult {
    fn new() -> Result<Self> {
        let latency = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        Ok(Self {
            statuses: BTreeMap::new(),
            lost: 0,
            unsent: 0,
            latency,
            took: Duration::ZERO,
        })
    }

    fn add(mut self, other: &Self) -> Result<Self> {
        other
            .statuses
            .iter()
            .for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        self.lost += other.lost;
        self.unsent += other.unsent;
        self.latency.add(&other.latency)?;
        self.took = self.took.max(other.took);
        Ok(self)
    }

    /// Returns the measured responses a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the number of 2xx and 3xx responses.
    pub(crate) fn succeeded(&self) -> u64 {
        self.statuses.range(200..400).map(|(_, count)| count).sum()
    }

    /// Returns the number of other responses, and of requests without one.
    pub(crate) fn failed(&self) -> u64 {
        self.statuses.values().sum::<u64>() - self.succeeded() + self.lost
    }
}

/// Runs a plan; `bar` shows the progress.
pub(crate) fn run(plan: &LoadPlan<'_>, bar: &ProgressBar) -> Result<LoadResult> {
    let answered = AtomicU64::new(0);
    let length = match plan.until {
        StopCondition::Count(count) => count,
        StopCondition::Time { warm_up, measured } => {
            u64::try_from((warm_up + measured).as_millis())?
        }
    };
    bar.set_length(length);
    std::thread::scope(|scope| {
        let threads = plan.threads.clamp(1, plan.connections.max(1));
        let workers = (0..threads)
            .map(|nth| worker::Worker::connect(plan, (nth, threads), &answered))
            .collect::<Result<Vec<_>>>()?;
        let start = Instant::now();
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || worker.run(start)))
            .collect();
        while !running.iter().all(|thread| thread.is_finished()) {
            std::thread::park_timeout(PROGRESS_INTERVAL);
            let elapsed = start.elapsed();
            let answered = answered.load(Ordering::Relaxed);
            bar.set_position(match plan.until {
                StopCondition::Count(_) => answered,
                StopCondition::Time { .. } => u64::try_from(elapsed.as_millis())?.min(length),
            });
            bar.set_message(format!("{:.0}/s", answered as f64 / elapsed.as_secs_f64()));
        }
        running
            .into_iter()
            .try_fold(LoadResult::new()?, |sum, thread| {
                sum.add(
                    &thread
                        .join()
                        .map_err(|_| "a thread of the driver panicked")??,
                )
            })
    })
}
