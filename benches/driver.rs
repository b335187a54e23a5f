//! A load generator that costs so little that it can share two cores with the server it measures: plain non-blocking sockets,
//! requests that differ in a few digits, and of an answer nothing read but its status and length.

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

/// Errors are told to a person and nobody else.
pub(crate) type BenchError = Box<dyn std::error::Error + Send + Sync>;
/// What can fail here.
pub(crate) type Result<T> = std::result::Result<T, BenchError>;

/// How often the progress bar moves.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What to send, how much of it, and how fast.
pub(crate) struct LoadPlan<'a> {
    /// The server.
    pub(crate) endpoint: &'a Endpoint,
    /// What is sent.
    pub(crate) request: &'a Request,
    /// Keep-alive connections, each with one request under way at the most.
    pub(crate) connections: usize,
    /// Threads that the connections are spread over.
    pub(crate) threads: usize,
    /// Requests a second, whether answers come or not; latency counts from the time at which a request was to be sent, so an answer
    /// that holds up later requests makes them late too. Without: each answer is followed by the next request.
    pub(crate) rate: Option<u32>,
    /// When it is enough.
    pub(crate) until: StopCondition,
}

/// When it is enough.
#[derive(Clone, Copy)]
pub(crate) enum StopCondition {
    /// This many requests were sent; all of them are measured.
    Count(u64),
    /// This long; requests of the warm-up before it are not measured.
    Time { warm_up: Duration, measured: Duration },
}

/// What came of it.
pub(crate) struct LoadResult {
    /// Answers by status, those of the warm-up too.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Requests whose connection ended before the answer.
    pub(crate) lost: u64,
    /// Requests that were due, at a fixed rate, and had not been sent when the time was up.
    pub(crate) unsent: u64,
    /// Microseconds from each measured request to the end of its answer.
    pub(crate) latency: Histogram<u64>,
    /// What the measured requests took together, from the end of the warm-up on.
    pub(crate) took: Duration,
}

impl LoadResult {
    fn new() -> Result<Self> {
        let latency = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        Ok(Self { statuses: BTreeMap::new(), lost: 0, unsent: 0, latency, took: Duration::ZERO })
    }

    fn add(mut self, other: &Self) -> Result<Self> {
        other.statuses.iter().for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        self.lost += other.lost;
        self.unsent += other.unsent;
        self.latency.add(&other.latency)?;
        self.took = self.took.max(other.took);
        Ok(self)
    }

    /// Measured answers a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latency.len() as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Answers of the 2xx and 3xx kind.
    pub(crate) fn succeeded(&self) -> u64 {
        self.statuses.range(200..400).map(|(_, count)| count).sum()
    }

    /// Other answers, and requests without one.
    pub(crate) fn failed(&self) -> u64 {
        self.statuses.values().sum::<u64>() - self.succeeded() + self.lost
    }
}

/// Carries out a plan; `bar` shows how far it is.
pub(crate) fn run(plan: &LoadPlan<'_>, bar: &ProgressBar) -> Result<LoadResult> {
    let answered = AtomicU64::new(0);
    let whole = match plan.until {
        StopCondition::Count(count) => count,
        StopCondition::Time { warm_up, measured } => u64::try_from((warm_up + measured).as_millis())?,
    };
    bar.set_length(whole);
    std::thread::scope(|scope| {
        let threads = plan.threads.clamp(1, plan.connections.max(1));
        let workers = (0..threads).map(|nth| worker::Worker::connect(plan, (nth, threads), &answered)).collect::<Result<Vec<_>>>()?;
        let start = Instant::now();
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || worker.run(start))).collect();
        while !running.iter().all(|thread| thread.is_finished()) {
            std::thread::park_timeout(PROGRESS_INTERVAL);
            let (elapsed, answered) = (start.elapsed(), answered.load(Ordering::Relaxed));
            bar.set_position(match plan.until {
                StopCondition::Count(_) => answered,
                StopCondition::Time { .. } => u64::try_from(elapsed.as_millis())?.min(whole),
            });
            bar.set_message(format!("{:.0}/s", answered as f64 / elapsed.as_secs_f64()));
        }
        running
            .into_iter()
            .try_fold(LoadResult::new()?, |sum, thread| sum.add(&thread.join().map_err(|_| "a thread of the driver panicked")??))
    })
}
