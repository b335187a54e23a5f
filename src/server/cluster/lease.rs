//! Leadership of this machine: its log, its heartbeats, and their end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::etcd::{EtcdError, RefusalKind};
use super::log::{BeatRow, ClusterLog, FencedError};
use crate::store::SharedLog;
use crate::util::clock::Clock;
use crate::util::sync::lock;

/// Time for which a leader answers after the last heartbeat that etcd confirmed, counted from
/// when it was sent. A follower takes over later: see
/// [`SILENCE_TIMEOUT`](super::follower::SILENCE_TIMEOUT). Records do not count, because a follower
/// does not look for them.
const LEASE_TIME: Duration = Duration::from_secs(4);
/// Interval of the heartbeats.
pub(super) const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a machine that stops waits for etcd.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before an append with an unknown result is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Leadership of this machine. It ends once, with a reason.
#[derive(Clone)]
pub(super) struct Lease {
    log: ClusterLog,
    /// Stored value of the epoch, which no other machine writes.
    fence: Bytes,
    epoch: u64,
    clock: Clock,
    shared: Arc<LeaseState>,
}

struct LeaseState {
    /// Uptime in microseconds at which the last confirmed heartbeat was sent.
    confirmed_at: AtomicU64,
    /// Place of the last record.
    place: AtomicU64,
    /// Bytes of the records of this epoch.
    bytes: AtomicU64,
    end: watch::Sender<Option<String>>,
    /// True once this machine gives up the leadership: no heartbeat may follow.
    is_released: AtomicBool,
    /// Locked while a heartbeat is sent.
    beating: tokio::sync::Mutex<()>,
    /// Last logged error of etcd, which is not repeated.
    last_error: Mutex<Option<EtcdError>>,
}

impl Lease {
    /// Begins the leadership of an epoch, whose start was confirmed just now. `place`: place of the
    /// last record.
    pub(super) fn new(
        log: ClusterLog,
        (fence, epoch): (Bytes, u64),
        place: u64,
        clock: Clock,
    ) -> Self {
        let now = clock.uptime();
        let lease = Self {
            log,
            fence,
            epoch,
            clock,
            shared: Arc::new(LeaseState {
                confirmed_at: AtomicU64::new(0),
                place: AtomicU64::new(place),
                bytes: AtomicU64::new(0),
                end: watch::Sender::new(None),
                is_released: AtomicBool::new(false),
                beating: tokio::sync::Mutex::default(),
                last_error: Mutex::default(),
            }),
        };
        lease.confirm(now);
        lease
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn fence(&self) -> &Bytes {
        &self.fence
    }

    pub(super) fn log(&self) -> &ClusterLog {
        &self.log
    }

    /// Bytes of the records of this epoch.
    pub(super) fn appended_bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Place of the last record.
    pub(super) fn place(&self) -> u64 {
        self.shared.place.load(Ordering::Relaxed)
    }

    /// Sets the place of the last record, before the first one of this epoch.
    pub(super) fn set_place(&self, place: u64) {
        self.shared.place.store(place, Ordering::Relaxed);
    }

    fn confirm(&self, sent_at: Duration) {
        let micros = u64::try_from(sent_at.as_micros()).unwrap_or(u64::MAX);
        self.shared
            .confirmed_at
            .fetch_max(micros, Ordering::Relaxed);
    }

    /// Ends the leadership, unless it has ended.
    pub(super) fn end(&self, reason: String) {
        self.shared.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(reason);
            is_first
        });
    }

    /// Waits until this machine no longer leads, and returns the reason.
    pub(super) async fn wait_for_end(&self) -> String {
        let mut end = self.shared.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The sender lives as long as this lease.
            Err(_) => String::new(),
        }
    }

    fn has_ended(&self) -> bool {
        self.shared.end.borrow().is_some()
    }

    /// Reason why this machine no longer leads, unless it gave up the leadership itself.
    pub(super) fn loss(&self) -> Option<String> {
        let is_released = self.shared.is_released.load(Ordering::Relaxed);
        self.shared.end.borrow().clone().filter(|_| !is_released)
    }

    /// Time for which this machine may still answer.
    fn time_left(&self) -> Duration {
        let confirmed_at = self.shared.confirmed_at.load(Ordering::Relaxed);
        (Duration::from_micros(confirmed_at) + LEASE_TIME).saturating_sub(self.clock.uptime())
    }

    /// True if no other machine leads yet: this machine may answer from memory. A machine that was
    /// paused finds out here, before any of its tasks runs.
    pub(super) fn is_valid(&self) -> bool {
        self.time_left() > Duration::ZERO
    }

    /// Records the result of a change. Returns true if it was made.
    fn record(&self, result: &Result<(), FencedError>) -> bool {
        match result {
            Ok(()) => {
                *lock(&self.shared.last_error) = None;
                return true;
            }
            Err(FencedError::Fenced) => self.end("another machine leads".into()),
            Err(FencedError::Etcd(error)) => {
                self.log_once(error);
                if let EtcdError::Refused(refusal) = error
                    && refusal.kind != RefusalKind::Other
                {
                    self.end(error.to_string());
                }
            }
        }
        if self.time_left() == Duration::ZERO {
            self.end(format!(
                "etcd has confirmed nothing for {} seconds",
                LEASE_TIME.as_secs()
            ));
        }
        false
    }

    /// Logs an error, unless it is the last one again.
    fn log_once(&self, error: &EtcdError) {
        let mut last = lock(&self.shared.last_error);
        if last.as_ref() != Some(error) {
            tracing::warn!("{error}");
            *last = Some(error.clone());
        }
    }

    /// Sends heartbeats until the leadership ends.
    pub(super) async fn beat(&self) {
        let mut count = 0;
        while !self.has_ended() {
            count += 1;
            let beat = BeatRow {
                epoch: self.epoch,
                count,
                place: self.place(),
                is_released: false,
            };
            let beating = self.shared.beating.lock().await;
            if self.shared.is_released.load(Ordering::Relaxed) {
                return;
            }
            let sent_at = self.clock.uptime();
            let is_confirmed = tokio::select! {
                result = self.log.put_beat(&self.fence, &beat) => self.record(&result),
                // A call that hangs must not prolong the leadership.
                () = self.wait_until_expired() => self.record(&Err(no_answer())),
            };
            drop(beating);
            if is_confirmed {
                self.confirm(sent_at);
            }
            sleep(if is_confirmed {
                BEAT_INTERVAL
            } else {
                RETRY_DELAY
            })
            .await;
        }
    }

    async fn wait_until_expired(&self) {
        loop {
            let left = self.time_left();
            if left == Duration::ZERO {
                return;
            }
            sleep(left).await;
        }
    }

    /// Lets another machine take over at once.
    pub(super) async fn release(&self) {
        if self.has_ended() || self.shared.is_released.swap(true, Ordering::Relaxed) {
            return;
        }
        if timeout(RELEASE_TIMEOUT, self.put_release()).await.is_err() {
            tracing::warn!("etcd does not answer: the other machines take over after a timeout");
        }
        self.end("this machine has stopped".into());
    }

    async fn put_release(&self) {
        // A heartbeat that is on its way would replace it.
        let _beating = self.shared.beating.lock().await;
        let beat = BeatRow {
            epoch: self.epoch,
            count: 0,
            place: self.place(),
            is_released: true,
        };
        if let Err(FencedError::Etcd(error)) = self.log.put_beat(&self.fence, &beat).await {
            tracing::warn!("the other machines take over only after a timeout: {error}");
        }
    }

    /// Appends a record, and repeats that until the result is known.
    async fn append(&self, place: u64, record: &Bytes) -> bool {
        while !self.has_ended() {
            let is_appended = tokio::select! {
                result = self.log.append(&self.fence, place, record) => self.record(&result),
                () = self.wait_until_expired() => self.record(&Err(no_answer())),
            };
            if is_appended {
                self.shared.place.store(place, Ordering::Relaxed);
                let bytes = record.len() as u64;
                self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
                return true;
            }
            sleep(RETRY_DELAY).await;
        }
        false
    }
}

fn no_answer() -> FencedError {
    FencedError::Etcd(EtcdError::Unknown("it does not answer".into()))
}

/// Appends the records of the writer to the log of the cluster.
pub(super) struct ClusterAppender {
    pub(super) lease: Lease,
    /// Runtime of the client of etcd.
    pub(super) runtime: RuntimeHandle,
}

impl SharedLog for ClusterAppender {
    fn append(&mut self, place: u64, record: &[u8]) -> io::Result<()> {
        let record = Bytes::copy_from_slice(record);
        if self.runtime.block_on(self.lease.append(place, &record)) {
            Ok(())
        } else {
            Err(io::Error::other("this machine no longer leads the cluster"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::follower::SILENCE_TIMEOUT;
    use super::super::{ClusterAccess, ClusterTlsFiles};
    use super::*;
    use crate::domain::timestamp::Timestamp;
    use crate::outbound::{Outbound, OutboundConfig};
    use crate::util::clock::ManualClock;
    use crate::util::random::Random;

    #[test]
    fn a_machine_that_was_paused_answers_nothing_once_another_one_may_lead() {
        let manual = ManualClock::at(Timestamp::from_secs(1_800_000_000));
        let clock = Clock::Manual(Arc::clone(&manual));
        let outbound = Outbound::new(OutboundConfig::default(), &clock, Random::seeded(1)).unwrap();
        let access = ClusterAccess::new("etcd://127.0.0.1:1/test", &ClusterTlsFiles::default());
        let log = access.unwrap().log(&outbound).unwrap();
        let lease = Lease::new(log, (Bytes::new(), 1), 0, clock);
        manual.advance_secs(3);
        assert!(lease.is_valid());
        manual.advance_secs(2);
        assert_eq!(Duration::from_secs(3 + 2), SILENCE_TIMEOUT);
        assert!(!lease.is_valid());
    }
}
