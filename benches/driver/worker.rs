//! One thread of the driver: an epoll loop over its share of the connections.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::answer::ResponseParser;
use super::{LoadPlan, LoadResult, Result, StopCondition};

/// Time for which responses are awaited after the last request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum sleep, so that the end of the run is noticed in time.
const MAX_SLEEP: Duration = Duration::from_millis(100);
/// Bytes read at once.
const READ_BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Worker<'a> {
    plan: &'a LoadPlan<'a>,
    schedule: SendSchedule,
    epoll: OwnedFd,
    connections: Vec<LoadConnection>,
    /// Connections without a request in flight.
    idle: Vec<usize>,
    in_flight: usize,
    read_buffer: Vec<u8>,
    last_answer: Instant,
    run: LoadResult,
    /// Responses that are not added to `answered` yet.
    uncounted_answers: u64,
    answered: &'a AtomicU64,
}

struct LoadConnection {
    stream: TcpStream,
    request: Vec<u8>,
    /// Bytes of the request that the socket has not accepted.
    unsent: usize,
    parser: ResponseParser,
    /// Time at which the request in flight was due.
    scheduled: Option<Instant>,
}

/// Requests of this thread, and their times.
struct SendSchedule {
    /// Start of the run.
    start: Instant,
    /// Position of the next request in the whole run; the positions between belong to the other
    /// threads.
    next_position: u64,
    threads: u64,
    rate: Option<u32>,
    until: StopCondition,
}

impl SendSchedule {
    /// Returns the time from which requests are measured.
    fn measured_from(&self) -> Instant {
        match self.until {
            StopCondition::Count(_) => self.start,
            StopCondition::Time { warm_up, .. } => self.start + warm_up,
        }
    }

    /// Returns the time at which the next request is due; a run without a rate sends at once.
    /// `None` if there is none.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = match self.rate {
            Some(rate) => {
                self.start + Duration::from_secs_f64(self.next_position as f64 / f64::from(rate))
            }
            None => now,
        };
        let more = match self.until {
            StopCondition::Count(count) => self.next_position < count,
            StopCondition::Time { warm_up, measured } => {
                due.max(now) < self.start + warm_up + measured
            }
        };
        more.then_some(due)
    }

    /// Returns the number of requests that were due and not sent, in a run whose time is up.
    fn missed_requests(&self) -> u64 {
        match (self.rate, self.until) {
            (Some(rate), StopCondition::Time { warm_up, measured }) => {
                let all = ((warm_up + measured).as_secs_f64() * f64::from(rate)) as u64;
                all.saturating_sub(self.next_position)
                    .div_ceil(self.threads)
            }
            _ => 0,
        }
    }
}

impl<'a> Worker<'a> {
    /// Creates the thread `nth` of `threads`, with its share of the connections.
    pub(super) fn connect(
        plan: &'a LoadPlan<'a>,
        (nth, threads): (usize, usize),
        answered: &'a AtomicU64,
    ) -> Result<Self> {
        let start = Instant::now();
        let mut worker = Self {
            plan,
            schedule: SendSchedule {
                start,
                next_position: nth as u64,
                threads: threads as u64,
                rate: plan.rate,
                until: plan.until,
            },
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            idle: Vec::new(),
            in_flight: 0,
            read_buffer: vec![0; READ_BUFFER_BYTES],
            last_answer: start,
            run: LoadResult::new()?,
            uncounted_answers: 0,
            answered,
        };
        for at in 0..plan.connections.saturating_sub(nth).div_ceil(threads) {
            let stream = worker.open_stream(at)?;
            let request = plan.request.bytes.clone();
            worker.connections.push(LoadConnection {
                stream,
                request,
                unsent: 0,
                parser: ResponseParser::default(),
                scheduled: None,
            });
            worker.idle.push(at);
        }
        Ok(worker)
    }

    /// Opens a new connection in place of an old one.
    fn open_stream(&self, at: usize) -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.plan.endpoint.address(), CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let edges = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(
            &self.epoll,
            &stream,
            epoll::EventData::new_u64(at as u64),
            edges,
        )?;
        Ok(stream)
    }

    /// Sends due requests and receives responses, until all requests are sent and answered.
    pub(super) fn run(mut self, start: Instant) -> Result<LoadResult> {
        self.schedule.start = start;
        let mut events = Vec::with_capacity(1024);
        let mut drained_by = None;
        loop {
            let now = Instant::now();
            let next = self.send_due(now)?;
            if next.is_none() {
                let until = *drained_by.get_or_insert(now + DRAIN_TIMEOUT);
                if self.in_flight == 0 || now > until {
                    break;
                }
            }
            // Without an idle connection the next request waits for a response, not for its time.
            let nap = next
                .filter(|_| !self.idle.is_empty())
                .map_or(MAX_SLEEP, |next| {
                    next.saturating_duration_since(now).min(MAX_SLEEP)
                });
            let nap = Timespec {
                tv_sec: 0,
                tv_nsec: nap.subsec_nanos().into(),
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&nap)) {
                Err(rustix::io::Errno::INTR) => continue,
                waited => waited?,
            };
            for event in events.drain(..) {
                self.on_ready(usize::try_from(event.data.u64())?)?;
            }
            self.answered.fetch_add(
                std::mem::take(&mut self.uncounted_answers),
                Ordering::Relaxed,
            );
        }
        self.run.lost += self.in_flight as u64;
        self.run.unsent = self.schedule.missed_requests();
        self.run.took = match self.schedule.until {
            StopCondition::Time { measured, .. } => measured,
            StopCondition::Count(_) => self
                .last_answer
                .saturating_duration_since(self.schedule.measured_from()),
        };
        Ok(self.run)
    }

    /// Sends due requests while there are idle connections; returns the time of the next one.
    fn send_due(&mut self, now: Instant) -> Result<Option<Instant>> {
        while let Some(due) = self.schedule.next_due(now) {
            if due > now {
                return Ok(Some(due));
            }
            let Some(at) = self.idle.pop() else {
                return Ok(Some(due));
            };
            self.send(at, due)?;
        }
        Ok(None)
    }

    fn send(&mut self, at: usize, scheduled: Instant) -> Result<()> {
        let Some(connection) = self.connections.get_mut(at) else {
            return Ok(());
        };
        self.plan
            .request
            .number(&mut connection.request, self.schedule.next_position);
        self.schedule.next_position += self.schedule.threads;
        self.in_flight += 1;
        connection.scheduled = Some(scheduled);
        connection.unsent = connection.request.len();
        if connection.flush() {
            Ok(())
        } else {
            self.reconnect(at)
        }
    }

    /// Handles a connection that is ready to be read or written.
    fn on_ready(&mut self, at: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(at) else {
            return Ok(());
        };
        if !connection.flush() {
            return self.reconnect(at);
        }
        loop {
            let read = match connection.stream.read(&mut self.read_buffer) {
                Ok(0) => return self.reconnect(at),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return self.reconnect(at),
            };
            let status = connection
                .parser
                .feed(self.read_buffer.get(..read).unwrap_or_default())?;
            let Some(scheduled) = connection.scheduled.take_if(|_| status.is_some()) else {
                continue;
            };
            let now = Instant::now();
            self.in_flight -= 1;
            self.uncounted_answers += 1;
            *self
                .run
                .statuses
                .entry(status.unwrap_or_default())
                .or_default() += 1;
            if scheduled >= self.schedule.measured_from() {
                self.run
                    .latency
                    .saturating_record(u64::try_from((now - scheduled).as_micros())?);
            }
            self.last_answer = now;
            // The response is complete and no other request is in flight: there is nothing left to
            // read.
            return match self.schedule.next_due(now) {
                Some(due) if due <= now => self.send(at, due),
                _ => {
                    self.idle.push(at);
                    Ok(())
                }
            };
        }
    }

    /// Reopens a connection that the server has closed, unless the server is gone.
    fn reconnect(&mut self, at: usize) -> Result<()> {
        let stream = self.open_stream(at);
        let Some(connection) = self.connections.get_mut(at) else {
            return Ok(());
        };
        connection.parser = ResponseParser::default();
        connection.unsent = 0;
        let was_in_flight = connection.scheduled.take().is_some();
        self.run.lost += u64::from(was_in_flight);
        self.in_flight -= usize::from(was_in_flight);
        match stream {
            Ok(stream) => {
                connection.stream = stream;
                if was_in_flight {
                    self.idle.push(at);
                }
            }
            // The run ends here; requests in flight on other connections are awaited.
            Err(_) => self.schedule.until = StopCondition::Count(0),
        }
        Ok(())
    }
}

impl LoadConnection {
    /// Writes the rest of the request to the socket; returns false if the socket is full.
    fn flush(&mut self) -> bool {
        while self.unsent > 0 {
            let rest = self
                .request
                .get(self.request.len() - self.unsent..)
                .unwrap_or_default();
            match self.stream.write(rest) {
                Ok(written) => self.unsent -= written,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}
