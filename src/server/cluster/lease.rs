//! Leadership of this machine: its log, the renewals of its lease, and its end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::etcd::{EtcdError, RefusalKind};
use super::log::{ClusterLog, FencedError, HandOverRow, LeaseRow, Release};
use crate::metrics::ClusterMetrics;
use crate::store::SharedLog;
use crate::util::clock::Clock;
use crate::util::sync::{Mutex, lock};

/// Interval of the renewals.
pub(super) const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a machine that stops waits for etcd.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which the time limit is checked. Timers stand still while a machine is suspended.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(100);
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
    metrics: Arc<ClusterMetrics>,
    shared: Arc<LeaseState>,
}

struct LeaseState {
    /// Time since boot in microseconds at which the last confirmed renewal was sent.
    confirmed_at: AtomicU64,
    /// Time for which this machine answers after that renewal.
    time_limit: Duration,
    /// Place of the last record.
    place: AtomicU64,
    /// Bytes of the records of this epoch.
    bytes: AtomicU64,
    /// Bytes of the records in the log, estimated.
    log_bytes: AtomicU64,
    failovers: u64,
    end: watch::Sender<Option<String>>,
    /// Request to hand over.
    hand_over: watch::Sender<Option<HandOverRow>>,
    /// True once this machine gives up the leadership: no renewal may follow.
    is_released: AtomicBool,
    /// Locked while a renewal is sent.
    renewing: tokio::sync::Mutex<()>,
    /// Last logged error of etcd, which is not repeated.
    last_error: Mutex<Option<EtcdError>>,
}

impl Lease {
    /// Begins the leadership of an epoch. `sent_at`: time since boot at which its start was sent,
    /// which etcd has confirmed; `patience`: time after which another machine takes over.
    pub(super) fn new(
        log: ClusterLog,
        (fence, first): (Bytes, LeaseRow),
        (sent_at, patience): (Duration, Duration),
        clock: Clock,
    ) -> Self {
        let lease = Self {
            log,
            fence,
            epoch: first.epoch,
            clock,
            metrics: Arc::default(),
            shared: Arc::new(LeaseState {
                confirmed_at: AtomicU64::new(0),
                time_limit: time_limit(patience),
                place: AtomicU64::new(first.place),
                log_bytes: AtomicU64::new(first.log_bytes),
                failovers: first.failovers,
                bytes: AtomicU64::new(0),
                end: watch::Sender::new(None),
                hand_over: watch::Sender::new(None),
                is_released: AtomicBool::new(false),
                renewing: tokio::sync::Mutex::default(),
                last_error: Mutex::default(),
            }),
        };
        lease.confirm(sent_at);
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

    /// Metrics of the cluster.
    pub(super) fn metrics(&self) -> &Arc<ClusterMetrics> {
        &self.metrics
    }

    /// Bytes of the records in the log, estimated.
    pub(super) fn log_bytes(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Relaxed)
    }

    /// Sets the bytes of the records in the log, which the next renewal publishes.
    pub(super) fn set_log_bytes(&self, bytes: u64) {
        self.shared.log_bytes.store(bytes, Ordering::Relaxed);
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
        let end = Duration::from_micros(confirmed_at) + self.shared.time_limit;
        end.saturating_sub(self.clock.time_since_boot())
    }

    /// Ends the leadership if its time is over.
    fn end_if_expired(&self) {
        if self.time_left() == Duration::ZERO {
            self.end(format!(
                "etcd has confirmed no renewal for {} seconds",
                self.shared.time_limit.as_secs_f32()
            ));
        }
    }

    /// True if no other machine leads yet: this machine may answer from memory. A machine that was
    /// paused finds out here, before any of its tasks runs.
    pub(super) fn is_valid(&self) -> bool {
        self.time_left() > Duration::ZERO
    }

    /// Records the result of a change. Returns the reply if it was made.
    fn record<T>(&self, result: Result<T, FencedError>) -> Option<T> {
        match result {
            Ok(reply) => {
                *lock(&self.shared.last_error) = None;
                return Some(reply);
            }
            Err(FencedError::Fenced) => self.end("another machine leads".into()),
            Err(FencedError::Etcd(error)) => {
                self.log_once(&error);
                if let EtcdError::Refused(refusal) = &error
                    && refusal.kind != RefusalKind::Other
                {
                    self.end(error.to_string());
                }
            }
        }
        self.end_if_expired();
        None
    }

    /// Logs an error, unless it is the last one again.
    fn log_once(&self, error: &EtcdError) {
        let mut last = lock(&self.shared.last_error);
        if last.as_ref() != Some(error) {
            tracing::warn!("{error}");
            *last = Some(error.clone());
        }
    }

    /// Renews the lease until the leadership ends.
    pub(super) async fn keep_renewed(&self) {
        let mut renewals = 0;
        while !self.has_ended() {
            renewals += 1;
            let row = self.row(renewals, None);
            let renewing = self.shared.renewing.lock().await;
            if self.shared.is_released.load(Ordering::Relaxed) {
                return;
            }
            let sent_at = self.clock.time_since_boot();
            let confirmed = tokio::select! {
                result = self.log.put_lease(&self.fence, &row) => self.record(result),
                // A call that hangs must not prolong the leadership.
                () = self.wait_until_expired() => self.record(Err(no_answer())),
            };
            drop(renewing);
            let pause = if confirmed.is_some() {
                RENEWAL_INTERVAL
            } else {
                RETRY_DELAY
            };
            if let Some(request) = confirmed {
                self.confirm(sent_at);
                let request = request.filter(|request| request.epoch == self.epoch);
                self.shared.hand_over.send_if_modified(|known| {
                    let is_new = *known != request;
                    *known = request;
                    is_new
                });
            }
            // After a suspension, the end is noticed before the next renewal.
            if timeout(pause, self.wait_until_expired()).await.is_ok() {
                self.end_if_expired();
            }
        }
    }

    /// State of the lease in etcd.
    fn row(&self, renewals: u64, release: Option<Release>) -> LeaseRow {
        LeaseRow {
            epoch: self.epoch,
            renewals,
            place: self.place(),
            release,
            clock: self.clock.now().micros(),
            log_bytes: self.log_bytes(),
            failovers: self.shared.failovers,
        }
    }

    async fn wait_until_expired(&self) {
        loop {
            let left = self.time_left();
            if left == Duration::ZERO {
                return;
            }
            sleep(left.min(EXPIRY_CHECK_INTERVAL)).await;
        }
    }

    /// Waits until this machine shall hand over, and returns the request.
    pub(super) async fn wait_for_hand_over(&self) -> HandOverRow {
        let mut requests = self.shared.hand_over.subscribe();
        loop {
            let requested = requests.borrow_and_update().clone();
            if let Some(request) = requested {
                return request;
            }
            if requests.changed().await.is_err() {
                // The sender lives as long as this lease.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Lets another machine take over at once.
    pub(super) async fn release(&self, release: Release) {
        if self.has_ended() || self.shared.is_released.swap(true, Ordering::Relaxed) {
            return;
        }
        let reason = match release {
            Release::Stopped => "this machine has stopped",
            Release::HandedOver(_) => "this machine has handed over",
        };
        if timeout(RELEASE_TIMEOUT, self.put_release(release))
            .await
            .is_err()
        {
            tracing::warn!("etcd does not answer: the other machines take over after a timeout");
        }
        self.end(reason.into());
    }

    async fn put_release(&self, release: Release) {
        // A renewal that is on its way would replace it.
        let _renewing = self.shared.renewing.lock().await;
        let row = self.row(0, Some(release));
        if let Err(FencedError::Etcd(error)) = self.log.put_lease(&self.fence, &row).await {
            tracing::warn!("the other machines take over only after a timeout: {error}");
        }
    }

    /// Appends a record, and repeats that until the result is known.
    async fn append(&self, place: u64, record: &Bytes) -> bool {
        let began_at = self.clock.uptime();
        while !self.has_ended() {
            let appended = tokio::select! {
                result = self.log.append(&self.fence, place, record) => self.record(result),
                () = self.wait_until_expired() => self.record(Err(no_answer())),
            };
            if appended.is_some() {
                self.shared.place.store(place, Ordering::Relaxed);
                let bytes = record.len() as u64;
                self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
                self.metrics
                    .record_append(self.clock.uptime().saturating_sub(began_at));
                return true;
            }
            sleep(RETRY_DELAY).await;
        }
        false
    }
}

/// Time for which a leader answers after the last renewal that etcd confirmed, counted from when it
/// was sent. The other machines take over later, after their patience. Records do not count,
/// because a follower does not look for them.
fn time_limit(patience: Duration) -> Duration {
    patience * 4 / 5
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
    use super::super::etcd::test_server::{free_ports, local_endpoint, test_client};
    use super::*;
    use crate::domain::timestamp::Timestamp;
    use crate::util::clock::ManualClock;

    /// Returns a lease of five seconds from the start of the clock, in an etcd that does not
    /// answer.
    fn new_lease(clock: &Arc<ManualClock>) -> Lease {
        let [closed] = free_ports();
        let etcd = test_client(vec![local_endpoint(closed)], None, None).unwrap();
        Lease::new(
            ClusterLog::new(etcd, "test"),
            (Bytes::new(), LeaseRow::default()),
            (Duration::ZERO, Duration::from_secs(5)),
            Clock::Manual(Arc::clone(clock)),
        )
    }

    #[test]
    fn a_lease_expires_while_the_machine_is_suspended() {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let lease = new_lease(&clock);
        assert_eq!(lease.time_left(), Duration::from_secs(4));
        clock.advance_secs(1);
        lease.end_if_expired();
        assert!(!lease.has_ended());
        assert_eq!(lease.time_left(), Duration::from_secs(3));
        clock.suspend(Duration::from_secs(2));
        assert_eq!(lease.time_left(), Duration::from_secs(1));
        lease.confirm(Duration::from_secs(2));
        assert_eq!(lease.time_left(), Duration::from_secs(3));
        assert!(lease.is_valid());
        clock.suspend(Duration::from_secs(3600));
        assert!(!lease.is_valid());
        lease.end_if_expired();
        assert!(lease.has_ended() && lease.loss().is_some());
    }

    #[test]
    fn a_machine_that_was_paused_answers_nothing_once_another_one_may_lead() {
        let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
        let lease = new_lease(&clock);
        clock.advance_secs(3);
        assert!(lease.is_valid());
        clock.advance_secs(2);
        assert!(!lease.is_valid());
    }
}
