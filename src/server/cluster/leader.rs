//! Tasks of a leader in addition to the tasks of any server: announcements, trimming of the log,
//! and services for the other machines.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::announcer::{Announcer, NodePosition};
use super::follower::{ABSENCE_TIMEOUT, ANNOUNCE_INTERVAL, Follower, POLL_INTERVAL};
use super::lease::{ClusterAppender, Lease};
use super::log::{ClusterView, FencedError, NodeRow, Release};
use super::peer::{self, PeerListener, PeerPort, PeerService};
use super::snapshot;
use super::status::{DEFAULT_QUOTA_BYTES, cluster_status, read_members};
use crate::admin::{AdminSocket, SOCKET_NAME};
use crate::domain::alert::Outage;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::Command;
use crate::engine::{Handle, Leadership};
use crate::metrics::MemberStatus;

/// Bytes of the newest records that stay in the log, for machines that are absent for a short time.
/// It is an eighth of the quota of etcd if that is less.
const TAIL_BYTES: u64 = 64 << 20;
/// Bytes of records beyond which records in a single database are removed, too: the size of etcd is
/// limited. It is a quarter of the quota of etcd if that is less.
const MAX_LOG_BYTES: u64 = 256 << 20;
/// Time after which the records of earlier epochs count as old enough to be removed.
const EARLIER_EPOCHS_TIME: Duration = Duration::from_secs(600);
/// Maximum number of records that are removed at once: etcd does nothing else meanwhile.
const RECORDS_PER_TRIM: u64 = 10_000;
/// Seconds that a recorded outage lasts beyond the present, because the next record may be late.
const REFUSAL_SECS: i64 = 10;
/// Interval at which the members of etcd are asked for their status.
const MEMBER_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Part of the quota of etcd after whose appended bytes they are asked earlier.
const MEMBER_CHECK_QUOTA_PART: u64 = 32;
/// Time for which a step of the writer may take before another machine should lead: its disk hangs.
const MAX_STEP_TIME: Duration = Duration::from_secs(20);
/// Bytes of records between two positions that are remembered for the tail.
const POSITION_BYTES: u64 = 1 << 20;
/// Interval at which the history of keys is removed although no record is.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(60);

/// Machine that leads: what it needs besides the engine.
pub(in crate::server) struct Leader {
    pub(super) lease: Lease,
    /// Socket on which the machine listened as a follower.
    pub(in crate::server) admin: Arc<AdminSocket>,
    pub(super) port: PeerPort,
    /// Dropped with the process.
    pub(super) keep_port_open: watch::Sender<bool>,
    pub(super) stop_forwarding: watch::Sender<bool>,
    pub(super) follower: Follower,
    /// Number of machines whose databases must contain a record before it is removed from the log.
    pub(super) copies: usize,
    /// Quota of etcd in bytes, if it is configured.
    pub(super) quota: Option<u64>,
}

impl Leader {
    /// Leadership for the engine. `runtime`: runtime of the client of etcd.
    pub(in crate::server) fn leadership(&self, runtime: &tokio::runtime::Runtime) -> Leadership {
        Leadership {
            epoch: self.lease.epoch(),
            log: Box::new(ClusterAppender {
                lease: self.lease.clone(),
                runtime: runtime.handle().clone(),
            }),
        }
    }

    /// Returns the condition for answers of this machine: see [`Lease::is_valid`].
    pub(in crate::server) fn answer_condition(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let lease = self.lease.clone();
        move || lease.is_valid()
    }

    /// Listener for connections that other machines forward.
    pub(in crate::server) fn listen(&self, service: PeerService) -> PeerListener {
        self.port.listen(service)
    }

    /// Serves the other machines until `stop` holds true, and lets connections continue here that
    /// this machine held or forwarded.
    pub(in crate::server) fn start(
        &self,
        handle: &Handle,
        directory: &Path,
        stop: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let socket = directory.join(SOCKET_NAME);
        let admin = self.port.listen(PeerService::Admin);
        let copies = self.port.listen(PeerService::Snapshot);
        let stopped = stop.clone();
        tasks.spawn(async move { peer::serve_admin_connections(admin, &socket, stopped).await });
        tasks.spawn(snapshot::serve(handle.clone(), copies, stop.clone()));
        tasks.spawn(maintain(
            self.lease.clone(),
            handle.clone(),
            self.follower.announcer.clone(),
            (self.copies, self.quota),
        ));
        handle
            .metrics()
            .set_cluster(Arc::clone(self.lease.metrics()));
        self.follower.set_leader_to_self();
        self.stop_forwarding.send_replace(true);
        tasks
    }

    /// Reason why this machine no longer leads, unless it gave up the leadership itself.
    pub(in crate::server) fn loss(&self) -> Option<String> {
        self.lease.loss()
    }

    /// Waits until this machine no longer leads, and returns the reason.
    pub(in crate::server) async fn wait_for_end(&self) -> String {
        self.lease.wait_for_end().await
    }

    /// Waits until this machine shall hand over, and until the others expect it. Returns the name
    /// of the machine that shall lead, if one is named.
    pub(in crate::server) async fn wait_for_hand_over(&self) -> Option<String> {
        let request = self.lease.wait_for_hand_over().await;
        sleep(POLL_INTERVAL).await;
        request.to
    }

    /// Lets another machine take over at once, because this one stops.
    pub(in crate::server) async fn release(&self) {
        self.lease.release(Release::Stopped).await;
        self.keep_port_open.send_replace(true);
    }

    /// Lets another machine take over at once: the one with this name, if there is a name.
    pub(in crate::server) async fn hand_over(&self, to: Option<String>) {
        self.lease.release(Release::HandedOver(to)).await;
    }
}

/// Announces this machine, trims the log and watches etcd, until the leadership ends.
async fn maintain(
    lease: Lease,
    handle: Handle,
    mut announcer: Announcer,
    (copies, quota): (usize, Option<u64>),
) {
    let began_at = handle.clock().uptime();
    let mut trimming = Trimming::new(lease.clone(), copies, began_at);
    let mut members = Vec::new();
    // Uptime and appended bytes when the members were last read.
    let mut members_read: Option<(Duration, u64)> = None;
    let mut refused_since = None;
    let mut last_error = None;
    loop {
        if handle.step_age() > MAX_STEP_TIME {
            lease.end("its writer makes no progress: a disk may hang".into());
            return;
        }
        let uptime = handle.clock().uptime();
        let appended = lease.appended_bytes();
        let is_due = |(read_at, bytes): (Duration, u64)| {
            uptime >= read_at + MEMBER_CHECK_INTERVAL
                || appended - bytes >= trimming.quota / MEMBER_CHECK_QUOTA_PART
        };
        if members_read.is_none_or(is_due) {
            members = read_members(lease.log().etcd(), quota).await;
            members_read = Some((uptime, appended));
            trimming.set_quota(&members);
            refuse_pings_if_full(&handle, &members);
        }
        record_refusal(&handle, &mut refused_since);
        let result = async {
            let (place, synced) = handle.log_places();
            let position = NodePosition {
                place,
                synced,
                ..NodePosition::default()
            };
            announcer.announce_leader(lease.log(), position).await?;
            let nodes = lease.log().nodes().await?;
            let view = lease.log().view().await?;
            trimming.trim(&handle, &nodes, &view).await?;
            let status = cluster_status(&view, &nodes, members.clone(), handle.now());
            lease.metrics().set_status(status.unwrap_or_default());
            Ok::<_, FencedError>(())
        };
        match result.await {
            Ok(()) => last_error = None,
            // The renewal of the lease fails, too.
            Err(FencedError::Fenced) => return,
            Err(FencedError::Etcd(error)) => {
                if last_error.as_ref() != Some(&error) {
                    tracing::warn!("{error}");
                }
                last_error = Some(error);
            }
        }
        sleep(ANNOUNCE_INTERVAL).await;
    }
}

/// Refuses pings while a member of etcd uses half of its quota: at its quota, etcd would accept
/// nothing until it is repaired by hand.
fn refuse_pings_if_full(handle: &Handle, members: &[MemberStatus]) {
    let refuses = handle.refuses_pings();
    let full = members
        .iter()
        .find(|member| is_nearly_full(member, refuses));
    match full {
        Some(member) if !refuses => tracing::error!(
            "etcd {} uses {} of {} MiB: pings are refused until it uses less; start the machines \
             that are absent, so that records can be removed, or raise --quota-backend-bytes of \
             etcd and --cluster-etcd-quota",
            member.address,
            used_bytes(member) >> 20,
            member.quota_bytes >> 20
        ),
        None if refuses => tracing::info!("etcd uses less of its quota: pings are accepted again"),
        _ => {}
    }
    handle.refuse_pings(full.is_some());
}

/// Records an outage while pings are refused, so that no check goes down for a refused ping.
fn record_refusal(handle: &Handle, refused_since: &mut Option<Timestamp>) {
    if !handle.refuses_pings() {
        *refused_since = None;
        return;
    }
    let now = handle.now();
    let outage = Outage {
        from: *refused_since.get_or_insert(now),
        // It ends with the next record at the latest.
        to: now.plus_secs(REFUSAL_SECS),
    };
    // If the queue is full, the next record has the same beginning.
    drop(handle.submit(Command::RecordOutage(outage)));
}

/// True if a member uses half of its quota; a little less if that was so before.
fn is_nearly_full(member: &MemberStatus, was_so: bool) -> bool {
    let limit = if was_so {
        member.quota_bytes / 10 * 4
    } else {
        member.quota_bytes / 2
    };
    member.quota_bytes > 0 && used_bytes(member) >= limit
}

/// Bytes that a member uses. The rest of its file is used again.
fn used_bytes(member: &MemberStatus) -> u64 {
    match member.bytes_in_use {
        0 => member.bytes,
        bytes => bytes,
    }
}

/// Removal of records that enough databases contain.
struct Trimming {
    lease: Lease,
    copies: usize,
    /// Smallest quota of a member of etcd in bytes.
    quota: u64,
    /// Places with the bytes of the records of this epoch before them, oldest first.
    positions: VecDeque<(u64, u64)>,
    /// Bytes of the records of earlier epochs at the begin of this one, and the place up to which
    /// records had been removed then.
    earlier: (u64, Option<u64>),
    /// Place of the last record of earlier epochs.
    first_place: u64,
    /// Uptime at which the epoch began.
    began_at: Duration,
    /// Uptime at which the history of keys was last removed.
    compacted_at: Duration,
}

impl Trimming {
    fn new(lease: Lease, copies: usize, began_at: Duration) -> Self {
        let place = lease.place();
        Self {
            copies,
            quota: DEFAULT_QUOTA_BYTES,
            positions: VecDeque::from([(0, place)]),
            earlier: (lease.log_bytes(), None),
            first_place: place,
            began_at,
            compacted_at: began_at,
            lease,
        }
    }

    fn set_quota(&mut self, members: &[MemberStatus]) {
        let known = members.iter().map(|member| member.quota_bytes);
        let smallest = known.filter(|bytes| *bytes > 0).min();
        self.quota = smallest.unwrap_or(self.quota);
    }

    /// Bytes of the records of earlier epochs that are still in the log, estimated.
    fn earlier_bytes(&mut self, trimmed: u64) -> u64 {
        let (bytes, first_trimmed) = &mut self.earlier;
        let first_trimmed = *first_trimmed.get_or_insert(trimmed);
        let count = |from: u64| u128::from(self.first_place.saturating_sub(from));
        let left = u128::from(*bytes) * count(trimmed) / count(first_trimmed).max(1);
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    async fn trim(
        &mut self,
        handle: &Handle,
        nodes: &[(String, NodeRow)],
        view: &ClusterView,
    ) -> Result<(), FencedError> {
        let appended = self.lease.appended_bytes();
        let is_due = |last: &(u64, u64)| appended >= last.0 + POSITION_BYTES;
        if self.positions.back().is_none_or(is_due) {
            self.positions.push_back((appended, self.lease.place()));
        }
        let now = handle.now().micros();
        let is_present = |node: &NodeRow| {
            let absent = u64::try_from(ABSENCE_TIMEOUT.as_micros()).unwrap_or(u64::MAX);
            now.abs_diff(node.clock) < absent
        };
        let synced = nodes
            .iter()
            .filter(|(_, node)| is_present(node))
            .map(|(_, node)| node.synced)
            .collect();
        let oldest = self.positions.front().copied().unwrap_or_default();
        let log_bytes = appended - oldest.0 + self.earlier_bytes(view.trimmed);
        self.lease.set_log_bytes(log_bytes);
        let is_too_long = log_bytes > MAX_LOG_BYTES.min(self.quota / 4);
        let copied = copied_place(synced, self.copies, is_too_long);
        let uptime = handle.clock().uptime();
        let tail = TAIL_BYTES.min(self.quota / 8);
        let is_before_tail = |(bytes, _): &&(u64, u64)| appended - bytes >= tail;
        let before_tail = match self.positions.iter().rev().find(is_before_tail) {
            Some((_, place)) => *place,
            None if is_too_long || uptime >= self.began_at + EARLIER_EPOCHS_TIME => oldest.1,
            None => 0,
        };
        let up_to = copied
            .min(before_tail)
            .min(view.trimmed.saturating_add(RECORDS_PER_TRIM));
        if up_to <= view.trimmed && uptime < self.compacted_at + COMPACTION_INTERVAL {
            return Ok(());
        }
        let up_to = up_to.max(view.trimmed);
        self.lease
            .log()
            .trim(self.lease.fence(), view, up_to)
            .await?;
        self.compacted_at = uptime;
        while self
            .positions
            .get(1)
            .is_some_and(|(_, place)| *place <= up_to)
        {
            self.positions.pop_front();
        }
        Ok(())
    }
}

/// Place up to which enough databases contain all records. `synced`: places up to which the
/// databases of the present machines are synced. If the log is too long, one database is enough: a
/// machine that is behind copies it.
pub fn copied_place(mut synced: Vec<u64>, copies: usize, is_too_long: bool) -> u64 {
    synced.sort_unstable_by(|one, other| other.cmp(one));
    let needed = if is_too_long { 1 } else { copies };
    synced.get(needed.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::timeout;

    use super::super::etcd::Op;
    use super::super::etcd::test_server::{EtcdTestOptions, EtcdTestServer};
    use super::*;
    use crate::engine::command::Unavailable;
    use crate::engine::{self, EngineConfig};
    use crate::store::Medium;

    #[test]
    fn records_stay_until_enough_databases_have_them() {
        for (synced, copies, is_too_long, expected) in [
            (vec![5, 9, 7], 2, false, 7),
            (vec![5, 9, 7], 3, false, 5),
            (vec![9], 2, false, 0),
            (vec![9], 1, false, 9),
            // With a single machine alive, its database is enough in the end.
            (vec![9], 2, true, 9),
            (vec![5, 9, 7], 2, true, 9),
            (vec![], 2, true, 0),
        ] {
            assert_eq!(copied_place(synced, copies, is_too_long), expected);
        }
    }

    #[test]
    fn pings_are_refused_from_half_of_the_quota_of_etcd() {
        let member = |bytes, bytes_in_use| MemberStatus {
            bytes,
            bytes_in_use,
            quota_bytes: 100,
            ..MemberStatus::default()
        };
        for (member, was_so, expected) in [
            (member(99, 49), false, false),
            (member(99, 50), false, true),
            (member(99, 49), true, true),
            (member(99, 39), true, false),
            // Its release does not report how much it uses.
            (member(50, 0), false, true),
            // It does not answer.
            (MemberStatus::default(), false, false),
        ] {
            assert_eq!(is_nearly_full(&member, was_so), expected, "{member:?}");
        }
    }

    #[tokio::test]
    async fn pings_are_refused_until_etcd_has_space_again() {
        let options = EtcdTestOptions {
            quota_bytes: Some(16 << 20),
            ..EtcdTestOptions::default()
        };
        let Some((_server, etcd)) = EtcdTestServer::start(&options, None).await else {
            return;
        };
        let config = EngineConfig::new(Medium::memory(), 0);
        let (handle, writer) = engine::open(config).unwrap();
        let running = std::thread::spawn(|| writer.run());
        let key = |number: u8| Bytes::from(vec![b'k', number]);
        let check = async || {
            // etcd counts its pages when it writes.
            let put = Op::Put {
                key: "other".into(),
                value: Bytes::new(),
            };
            etcd.transact(&[], &[put], &[]).await.unwrap();
            let members = read_members(&etcd, Some(16 << 20)).await;
            refuse_pings_if_full(&handle, &members);
            handle.refuses_pings()
        };
        let wait_until = async |refuses: bool| {
            let waiting = async {
                while check().await != refuses {
                    sleep(Duration::from_millis(100)).await;
                }
            };
            let waited = timeout(Duration::from_secs(60), waiting).await;
            waited.expect("etcd reports how much it uses");
        };
        assert!(!check().await);
        let mut revision = 0;
        for number in 0..9 {
            let put = Op::Put {
                key: key(number),
                value: vec![number; 1 << 20].into(),
            };
            revision = etcd.transact(&[], &[put], &[]).await.unwrap().revision;
        }
        wait_until(true).await;
        assert!(!handle.is_writable());
        let refused = handle.call(Command::Mail(Vec::new())).await;
        assert_eq!(refused.err(), Some(Unavailable::StorageFailed));
        let mut refused_since = None;
        record_refusal(&handle, &mut refused_since);
        // The writer has applied it once a later command is answered.
        let _ = handle.call(Command::DropFutureOutages).await.unwrap();
        assert_eq!(handle.with_state(|state| state.outages.len()), 1);
        let removal = Op::DeleteRange {
            from: key(0),
            to: key(255),
        };
        revision = revision.max(etcd.transact(&[], &[removal], &[]).await.unwrap().revision);
        etcd.compact(revision).await.unwrap();
        wait_until(false).await;
        assert!(handle.call(Command::Mail(Vec::new())).await.is_ok());
        record_refusal(&handle, &mut refused_since);
        assert_eq!(refused_since, None);
        handle.close();
        running.join().unwrap();
    }
}
