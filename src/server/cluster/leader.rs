//! Tasks of a leader in addition to the tasks of any server: heartbeats, announcements, trimming
//! of the log, and services for the other machines.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::follower::{ABSENCE_TIMEOUT, ANNOUNCE_INTERVAL, Follower};
use super::lease::{ClusterAppender, Lease};
use super::log::{FencedError, NodeRow};
use super::peer::{self, PeerListener, PeerPort, PeerService};
use super::snapshot;
use crate::admin::{AdminSocket, SOCKET_NAME};
use crate::engine::{Handle, Leadership};

/// Number of machines whose databases must contain a record before it is removed from the log.
const COPIES: usize = 2;
/// Bytes of the newest records that stay in the log, for machines that are absent for a short time.
const TAIL_BYTES: u64 = 64 << 20;
/// Bytes of the records of an epoch beyond which records in a single database are removed, too: the
/// size of etcd is limited.
const MAX_LOG_BYTES: u64 = 256 << 20;
/// Time after which the records of earlier epochs count as old enough to be removed.
const EARLIER_EPOCHS_TIME: Duration = Duration::from_secs(600);
/// Maximum number of records that are removed at once: etcd does nothing else meanwhile.
const RECORDS_PER_TRIM: u64 = 10_000;
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
            (self.follower.name.clone(), self.follower.address.clone()),
        ));
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

    /// Lets another machine take over at once.
    pub(in crate::server) async fn release(&self) {
        self.lease.release().await;
        self.keep_port_open.send_replace(true);
    }
}

/// Announces this machine and trims the log, until the leadership ends.
async fn maintain(lease: Lease, handle: Handle, (name, address): (String, String)) {
    let mut trimming = Trimming {
        lease: lease.clone(),
        positions: VecDeque::from([(0, lease.place())]),
        began_at: handle.clock().uptime(),
        compacted_at: handle.clock().uptime(),
    };
    let mut last_error = None;
    loop {
        if handle.step_age() > MAX_STEP_TIME {
            lease.end("its writer makes no progress: a disk may hang".into());
            return;
        }
        let result = async {
            let (place, synced) = handle.log_places();
            let node = NodeRow {
                address: address.clone(),
                release: env!("CARGO_PKG_VERSION").into(),
                place,
                synced,
                clock: handle.now().micros(),
            };
            lease.log().announce(&name, &node).await?;
            trimming.trim(&handle).await
        };
        match result.await {
            Ok(()) => last_error = None,
            // The heartbeats show it, too.
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

/// Removal of records that enough databases contain.
struct Trimming {
    lease: Lease,
    /// Places with the bytes of the records of this epoch before them, oldest first.
    positions: VecDeque<(u64, u64)>,
    /// Uptime at which the epoch began.
    began_at: Duration,
    /// Uptime at which the history of keys was last removed.
    compacted_at: Duration,
}

impl Trimming {
    async fn trim(&mut self, handle: &Handle) -> Result<(), FencedError> {
        let appended = self.lease.appended_bytes();
        let is_due = |last: &(u64, u64)| appended >= last.0 + POSITION_BYTES;
        if self.positions.back().is_none_or(is_due) {
            self.positions.push_back((appended, self.lease.place()));
        }
        let now = handle.now().micros();
        let nodes = self.lease.log().nodes().await?;
        let view = self.lease.log().view().await?;
        let is_present = |node: &NodeRow| {
            let absent = u64::try_from(ABSENCE_TIMEOUT.as_micros()).unwrap_or(u64::MAX);
            now.abs_diff(node.clock) < absent
        };
        let present = nodes.iter().filter(|(_, node)| is_present(node));
        let synced = present.map(|(_, node)| node.synced).collect();
        let oldest = self.positions.front().copied().unwrap_or_default();
        let is_too_long = appended - oldest.0 > MAX_LOG_BYTES;
        let copied = copied_place(synced, is_too_long);
        let uptime = handle.clock().uptime();
        let is_before_tail = |(bytes, _): &&(u64, u64)| appended - bytes >= TAIL_BYTES;
        let before_tail = match self.positions.iter().rev().find(is_before_tail) {
            Some((_, place)) => *place,
            None if uptime >= self.began_at + EARLIER_EPOCHS_TIME => oldest.1,
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
            .trim(self.lease.fence(), &view, up_to)
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

/// Place up to which enough databases contain the records of the log, so that it may be trimmed.
/// `synced`: places up to which the machines have synced their databases.
pub fn copied_place(mut synced: Vec<u64>, is_too_long: bool) -> u64 {
    synced.sort_unstable_by(|one, other| other.cmp(one));
    match synced.get(COPIES - 1) {
        Some(place) if !is_too_long => *place,
        None if !is_too_long => 0,
        // A machine that is behind copies the database.
        _ => synced.first().copied().unwrap_or(0),
    }
}
