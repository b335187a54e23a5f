//! Follower: applies the records of the log to the database of this machine, and takes over once
//! the leader is silent.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::ClusterConfig;
use super::clock_comparison::ClockComparison;
use super::etcd::EtcdError;
use super::forward::{LeaderState, PeerAddress};
use super::lease::Lease;
use super::log::{ClusterLog, ClusterView, EpochRow, NodeRow};
use super::peer::PeerConnector;
use super::replica::{Replica, ReplicaError};
use super::snapshot;
use crate::server::ServeError;
use crate::server::startup_progress::startup_progress;
use crate::server::watchdog::LastActivity;
use crate::store::{CLUSTER_FORMAT, FILE_NAME, FollowError, FollowerStore, Medium, StoreError};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Time without a heartbeat after which a follower takes over. It is longer than the time for
/// which a leader answers without one.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum additional time, chosen by chance, so that two followers seldom try at once.
const MAX_RANDOM_DELAY: Duration = Duration::from_millis(500);
/// Interval at which the state of the cluster and new records are read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which the file is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a machine announces itself.
pub(super) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Time after which another machine counts as absent.
pub(super) const ABSENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without a leader after which a machine leads although its clock differs from others.
const CLOCK_DELAY: Duration = Duration::from_secs(20);
/// Time for which a machine with fewer records waits for another one after a leader has stopped.
const BEHIND_DELAY: Duration = Duration::from_secs(1);
/// Pause after a failed copy of the database.
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(2);
/// Time for which records are applied before the state of the cluster is read again.
const MAX_CATCH_UP_TIME: Duration = Duration::from_millis(500);
/// Time limit for a read of etcd.
const VIEW_TIMEOUT: Duration = Duration::from_secs(3);

/// Machine that follows the log.
pub(super) struct Follower {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) log: ClusterLog,
    pub(super) directory: PathBuf,
    /// `None` while there is no database that can follow.
    replica: Option<Replica>,
    connector: PeerConnector,
    leader: watch::Sender<LeaderState>,
    clock: Clock,
    random: Random,
    silence: Silence,
    synced_at: Duration,
    announced_at: Option<Duration>,
    clocks: ClockComparison,
    /// Copy of the database that is being received.
    copying: Option<JoinHandle<Result<(), String>>>,
    /// Activity that the watchdog observes.
    last_progress: LastActivity,
    /// True if the present poll had a message.
    has_message: bool,
    /// Last logged message about the cluster, which is not repeated.
    last_message: String,
}

/// Detection of a silent leader.
struct Silence {
    /// Last seen heartbeat: epoch, number, and place of the last record.
    last: (u64, u64, u64),
    /// Uptime at which it was first seen.
    since: Duration,
    /// Silence after which this machine takes over.
    limit: Duration,
}

impl Silence {
    fn is_over_limit(&self, uptime: Duration) -> bool {
        uptime.saturating_sub(self.since) >= self.limit
    }
}

impl Follower {
    /// Returns a follower with the database in the data directory, if there is one.
    ///
    /// # Errors
    /// Returns an error if the database cannot be opened, or does not belong to a cluster.
    pub(super) fn new(
        config: &ClusterConfig,
        log: ClusterLog,
        directory: PathBuf,
        connector: PeerConnector,
        (clock, random): (Clock, Random),
        last_progress: LastActivity,
    ) -> Result<Self, StoreError> {
        let mut follower = Self {
            name: config.node.clone(),
            address: config.advertised.clone(),
            log,
            directory,
            replica: None,
            connector,
            leader: watch::Sender::new(LeaderState::Unknown),
            silence: Silence {
                last: (0, 0, 0),
                since: clock.uptime(),
                limit: SILENCE_TIMEOUT,
            },
            clock,
            random,
            synced_at: Duration::ZERO,
            announced_at: None,
            clocks: ClockComparison::default(),
            copying: None,
            last_progress,
            has_message: false,
            last_message: String::new(),
        };
        follower.open_store()?;
        Ok(follower)
    }

    /// Leader as far as this machine knows.
    pub(super) fn leader(&self) -> watch::Receiver<LeaderState> {
        self.leader.subscribe()
    }

    /// Makes this machine the leader for connections that are held.
    pub(super) fn set_leader_to_self(&self) {
        let address = PeerAddress::from(self.address.as_str());
        self.leader.send_replace(LeaderState::Known(address));
    }

    fn open_store(&mut self) -> Result<(), StoreError> {
        self.replica = if self.directory.join(FILE_NAME).exists() {
            let medium = Medium::Directory(self.directory.clone());
            let progress = startup_progress(self.last_progress.clone());
            let store = FollowerStore::open(&medium, &progress)?;
            Some(Replica::new(self.log.clone(), store))
        } else {
            None
        };
        Ok(())
    }

    /// Follows the log until this machine leads. The database is closed then.
    ///
    /// # Errors
    /// Returns an error if this machine cannot belong to the cluster, or its database cannot be
    /// written.
    pub(super) async fn follow(&mut self) -> Result<Lease, ServeError> {
        loop {
            self.has_message = false;
            match self.poll().await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                Err(PollError::Etcd(error)) => self.log_once(error.to_string()),
                Err(PollError::Outdated) => self.copy_database(),
                Err(PollError::Fatal(error)) => return Err(error),
            }
            if !self.has_message {
                self.last_message.clear();
            }
            self.last_progress.record(self.clock.uptime());
            sleep(POLL_INTERVAL).await;
        }
    }

    fn log_once(&mut self, message: String) {
        self.has_message = true;
        if self.last_message != message {
            tracing::warn!("{message}");
            self.last_message = message;
        }
    }

    /// Reads the state of the cluster and new records. Returns the lease if this machine leads now.
    async fn poll(&mut self) -> Result<Option<Lease>, PollError> {
        let view = timeout(VIEW_TIMEOUT, self.log.view())
            .await
            .unwrap_or_else(|_| Err(EtcdError::Unknown("it does not answer".into())));
        let view = match view {
            Ok(view) => view,
            Err(error) => {
                self.leader.send_if_modified(|leader| {
                    // Connections to the leader may go on.
                    let was_known = *leader != LeaderState::Unknown;
                    was_known && self.silence.is_over_limit(self.clock.uptime()) && {
                        *leader = LeaderState::Unknown;
                        true
                    }
                });
                return Err(error.into());
            }
        };
        let Some(cluster) = &view.cluster else {
            return Err(PollError::Fatal(ServeError::Cluster(
                "there is no cluster below the prefix of --cluster in etcd: create it on one \
                 machine with `overdue cluster init`"
                    .into(),
            )));
        };
        if cluster.format > CLUSTER_FORMAT {
            return Err(PollError::Fatal(ServeError::Cluster(format!(
                "the cluster has format {}, and this release knows up to {CLUSTER_FORMAT}: \
                 install the release of the other machines",
                cluster.format
            ))));
        }
        self.observe(&view);
        if self.finish_copy().await? {
            return Ok(None);
        }
        let must_copy = match &self.replica {
            None => true,
            Some(replica) if replica.cluster() != cluster.id => {
                return Err(PollError::Fatal(ServeError::Cluster(
                    "the database of this machine belongs to another cluster: move its data \
                     directory away, and this machine gets a copy from the leader"
                        .into(),
                )));
            }
            Some(replica) => replica.is_outdated(&view),
        };
        if must_copy {
            return Err(PollError::Outdated);
        }
        if let Some(replica) = &mut self.replica {
            replica.verify_history(view.trimmed).await?;
        }
        self.catch_up(false).await?;
        self.sync_if_due()?;
        self.announce_if_due().await?;
        if !self.may_take_over(&view) {
            return Ok(None);
        }
        self.take_over(&view).await
    }

    /// Records heartbeats, and the leader.
    fn observe(&mut self, view: &ClusterView) {
        let now = self.clock.uptime();
        let beat = view.beat.as_ref();
        let seen = (
            view.epoch.epoch,
            beat.map_or(0, |beat| beat.count),
            beat.map_or(0, |beat| beat.place),
        );
        if seen != self.silence.last {
            let [random] = self.random.bytes::<1>();
            self.silence = Silence {
                last: seen,
                since: now,
                limit: SILENCE_TIMEOUT + MAX_RANDOM_DELAY * u32::from(random) / 255,
            };
        }
        let leads = view.epoch.epoch > 0 && !has_released(view) && !self.silence.is_over_limit(now);
        let state = if leads {
            LeaderState::Known(PeerAddress::from(view.epoch.address.as_str()))
        } else {
            LeaderState::Unknown
        };
        self.leader.send_if_modified(|leader| {
            let is_changed = *leader != state;
            *leader = state;
            is_changed
        });
    }

    /// Applies records of the log: up to the end if the reads are linearizable, else for a short
    /// time.
    async fn catch_up(&mut self, is_linearizable: bool) -> Result<(), PollError> {
        let began_at = self.clock.uptime();
        while let Some(replica) = &mut self.replica {
            let read = replica.catch_up(is_linearizable).await?;
            self.last_progress.record(self.clock.uptime());
            self.sync_if_due()?;
            self.announce_if_due().await?;
            let is_late = self.clock.uptime() >= began_at + MAX_CATCH_UP_TIME;
            if read.is_empty || !is_linearizable && (read.is_end || is_late) {
                break;
            }
        }
        Ok(())
    }

    fn sync_if_due(&mut self) -> Result<(), PollError> {
        let now = self.clock.uptime();
        if now >= self.synced_at + SYNC_INTERVAL
            && let Some(replica) = &mut self.replica
        {
            replica
                .sync()
                .map_err(|error| PollError::Fatal(ServeError::Store(error)))?;
            self.synced_at = now;
        }
        Ok(())
    }

    async fn announce_if_due(&mut self) -> Result<(), PollError> {
        let now = self.clock.uptime();
        let is_due = self
            .announced_at
            .is_none_or(|announced_at| now >= announced_at + ANNOUNCE_INTERVAL);
        if !is_due {
            return Ok(());
        }
        let Some(replica) = &self.replica else {
            return Ok(());
        };
        let node = NodeRow {
            address: self.address.clone(),
            release: env!("CARGO_PKG_VERSION").into(),
            place: replica.place(),
            synced: replica.synced_place(),
            clock: self.clock.now().micros(),
        };
        let nodes = self.log.nodes().await?;
        self.clocks.record(&nodes, self.clock.now().micros());
        let mut namesakes = nodes.iter().filter(|(name, _)| *name == self.name);
        if let Some(other) = namesakes.find(|(_, other)| other.address != self.address)
            && self.announced_at.is_some()
        {
            let message = format!(
                "the machine at {} has the same name, {}: give each its own with --cluster-node",
                other.1.address, self.name
            );
            self.log_once(message);
        }
        self.log.announce(&self.name, &node).await?;
        self.announced_at = Some(now);
        Ok(())
    }

    /// True if there is no leader, and this machine may become it.
    fn may_take_over(&mut self, view: &ClusterView) -> bool {
        let now = self.clock.uptime();
        let place = self.replica.as_ref().map_or(0, Replica::place);
        let is_vacant = match &view.beat {
            _ if view.epoch.epoch == 0 => true,
            Some(beat) if has_released(view) => {
                place >= beat.place || now >= self.silence.since + BEHIND_DELAY
            }
            _ => self.silence.is_over_limit(now),
        };
        if !is_vacant {
            return false;
        }
        if let Some((name, difference)) = self.clocks.far_machine([&self.name, &view.epoch.node]) {
            let message = format!(
                "this machine does not lead, because its clock differs from that of {name} by \
                 about {} seconds: synchronise the clocks of both",
                difference.abs()
            );
            self.log_once(message);
            // The others may be the wrong ones.
            return now >= self.silence.since + CLOCK_DELAY;
        }
        true
    }

    /// Tries to become the leader. Returns the lease once the database contains all records, and is
    /// closed.
    async fn take_over(&mut self, view: &ClusterView) -> Result<Option<Lease>, PollError> {
        let epoch = EpochRow {
            epoch: view.epoch.epoch + 1,
            node: self.name.clone(),
            address: self.address.clone(),
            nonce: u64::from_le_bytes(self.random.bytes()),
        };
        tracing::info!(epoch = epoch.epoch, "taking over the cluster");
        let Some(fence) = self.log.take_over(&view.epoch_value, &epoch).await? else {
            return Ok(None);
        };
        let place = self.replica.as_ref().map_or(0, Replica::place);
        let lease = Lease::new(
            self.log.clone(),
            (fence, epoch.epoch),
            place,
            self.clock.clone(),
        );
        let beating = lease.clone();
        tokio::spawn(async move { beating.beat().await });
        let finished = self.finish_takeover(&lease, view).await;
        if finished.is_err() {
            lease.release().await;
        }
        finished.map(|()| Some(lease))
    }

    /// Applies the last records of the former leaders. No other machine appends now.
    async fn finish_takeover(
        &mut self,
        lease: &Lease,
        former: &ClusterView,
    ) -> Result<(), PollError> {
        self.catch_up(true).await?;
        let Some(mut replica) = self.replica.take() else {
            return Err(PollError::Outdated);
        };
        if let Err(error) = replica.finish_takeover(former).await {
            self.replica = Some(replica);
            return Err(error.into());
        }
        lease.set_place(replica.place());
        Ok(())
    }

    /// Begins to replace the database by a copy of that of the leader, if there is one.
    fn copy_database(&mut self) {
        let leader = self.leader.borrow().clone();
        let LeaderState::Known(address) = leader else {
            let message = "this machine needs a copy of the database, and waits for a leader";
            return self.log_once(message.into());
        };
        tracing::info!(%address, "copying the database of the leader");
        self.replica = None;
        let connector = self.connector.clone();
        let directory = self.directory.clone();
        self.copying = Some(tokio::spawn(async move {
            let copied = snapshot::receive(&connector, &address.to_string(), directory).await;
            if copied.is_err() {
                sleep(SNAPSHOT_PAUSE).await;
            }
            copied.map_err(|reason| format!("the database of {address} was not copied: {reason}"))
        }));
    }

    /// Opens the copy of the database once it is complete. Returns true if it is not.
    async fn finish_copy(&mut self) -> Result<bool, PollError> {
        if self
            .copying
            .as_ref()
            .is_some_and(|copying| !copying.is_finished())
        {
            return Ok(true);
        }
        if let Some(copying) = self.copying.take() {
            match copying.await {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => self.log_once(reason),
                Err(error) => self.log_once(error.to_string()),
            }
            self.open_store()
                .map_err(|error| PollError::Fatal(ServeError::Store(error)))?;
        }
        Ok(false)
    }
}

/// True if the leader of the epoch has stopped.
fn has_released(view: &ClusterView) -> bool {
    let beat = view.beat.as_ref();
    beat.is_some_and(|beat| beat.is_released && beat.epoch == view.epoch.epoch)
}

/// Reason why a poll did not succeed.
enum PollError {
    /// The next poll may succeed.
    Etcd(EtcdError),
    /// The database needs records that the log no longer has.
    Outdated,
    /// The server cannot go on.
    Fatal(ServeError),
}

impl From<EtcdError> for PollError {
    fn from(error: EtcdError) -> Self {
        Self::Etcd(error)
    }
}

impl From<ReplicaError> for PollError {
    fn from(error: ReplicaError) -> Self {
        match error {
            ReplicaError::Etcd(error) => Self::Etcd(error),
            ReplicaError::Outdated => Self::Outdated,
            ReplicaError::Follow(FollowError::Store(error)) => {
                Self::Fatal(ServeError::Store(error))
            }
            ReplicaError::Follow(error) => Self::Fatal(ServeError::Follow(error)),
        }
    }
}
