//! Follower: applies the records of the log to the database of this machine, and takes over once
//! the leader is silent.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::ClusterConfig;
use super::announcer::{AnnounceError, Announcer, NodePosition};
use super::clock_comparison::ClockComparison;
use super::etcd::EtcdError;
use super::forward::{LeaderState, NoLeaderReason, PeerAddress};
use super::lease::Lease;
use super::log::{ClusterLog, ClusterView, EpochRow, HandOverRow, LeaseRow, Release};
use super::peer::PeerConnector;
use super::replica::{Replica, ReplicaError};
use super::snapshot;
use super::stale_reads::{StaleConnections, StaleReads, StaleReadsConfig};
use super::succession::{Silence, release_of};
use crate::server::ServeError;
use crate::server::startup_progress::startup_progress;
use crate::server::watchdog::LastActivity;
use crate::store::{CLUSTER_FORMAT, FILE_NAME, FollowError, FollowerStore, Medium, StoreError};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Interval at which the state of the cluster and new records are read.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval while the leader is about to hand over.
const HAND_OVER_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for which the shorter interval is used after a request to hand over.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the file is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Log line of a machine that cannot follow, and has no leader to copy the database from.
const NO_DATABASE_MESSAGE: &str = "this machine needs a copy of the database, and waits for a \
                                   leader; if no machine has a database any more, restore a \
                                   backup and create a cluster below another prefix";
/// Interval at which a machine announces itself.
pub(super) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Time after which another machine counts as absent.
pub(super) const ABSENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without a leader after which a machine leads although its clock differs from others.
const CLOCK_DELAY: Duration = Duration::from_secs(20);
/// Pause between attempts to lead while the quota of etcd is used up.
const NO_SPACE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Pause after a failed copy of the database.
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(2);
/// Time for which records are applied before the state of the cluster is read again.
const MAX_CATCH_UP_TIME: Duration = Duration::from_millis(500);
/// Minimum time of catching up that is logged.
const MIN_LOGGED_CATCH_UP: Duration = Duration::from_millis(200);
/// Time limit for a read of etcd.
const VIEW_TIMEOUT: Duration = Duration::from_secs(3);

/// Machine that follows the log.
pub(super) struct Follower {
    pub(super) announcer: Announcer,
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
    /// Uptime at which the database last contained all records; `None` if it has not been complete
    /// since the start.
    complete_at: Option<Duration>,
    /// Uptime at which this machine began to apply records that it had missed, and the place of the
    /// first of them.
    behind_since: Option<(Duration, u64)>,
    /// Answers to reads while no machine leads, if this machine gives them.
    stale_reads: Option<StaleReads>,
    /// Difference between the clock of this machine and that of the leader, in milliseconds.
    clock_ahead_millis: i64,
    /// Time without a renewal after which another machine takes over from this one.
    patience: Duration,
    /// Last request to hand over, and the uptime at which it was first seen.
    hand_over: Option<(HandOverRow, Duration)>,
    /// Uptime at which the next attempt to lead may come after etcd refused a change because its
    /// quota is used up, and the message about that.
    etcd_full: Option<(Duration, String)>,
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
        stale_reads: Option<StaleReadsConfig>,
        (clock, random): (Clock, Random),
        last_progress: LastActivity,
    ) -> Result<Self, StoreError> {
        let instance = u64::from_le_bytes(random.bytes());
        let mut follower = Self {
            announcer: Announcer::new(
                config.node.clone(),
                config.advertised.clone(),
                instance,
                clock.clone(),
            ),
            log,
            directory,
            replica: None,
            connector,
            leader: watch::Sender::new(LeaderState::Unknown(NoLeaderReason::Election)),
            silence: Silence::new(clock.uptime(), config.options.patience),
            complete_at: None,
            behind_since: None,
            stale_reads: stale_reads
                .map(|stale| StaleReads::new(stale, random.clone(), config.options.hold_time)),
            clock_ahead_millis: 0,
            patience: config.options.patience,
            hand_over: None,
            etcd_full: None,
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

    /// Connections that this machine answers itself while no machine leads, if it does.
    pub(super) fn stale_connections(&self) -> Option<StaleConnections> {
        self.stale_reads.as_ref().map(StaleReads::connections)
    }

    /// Makes this machine the leader for connections that are held.
    pub(super) fn set_leader_to_self(&self) {
        let address = PeerAddress::from(self.announcer.address.as_str());
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
                Err(PollError::Etcd(error)) if error.is_no_space() => {
                    let retry_at = self.clock.uptime() + NO_SPACE_RETRY_DELAY;
                    let message = format!("no machine can lead: {error}");
                    self.etcd_full = Some((retry_at, message.clone()));
                    self.log_once(message);
                }
                Err(PollError::Etcd(error)) => self.log_once(error.to_string()),
                Err(PollError::Outdated) => self.copy_database(),
                Err(PollError::Fatal(error)) => return Err(error),
            }
            if !self.has_message {
                self.last_message.clear();
            }
            self.update_stale_reads().await;
            self.last_progress.record(self.clock.uptime());
            sleep(self.poll_interval()).await;
        }
    }

    /// Begins or ends the answers to reads while no machine leads.
    async fn update_stale_reads(&mut self) {
        let Some(stale_reads) = &mut self.stale_reads else {
            return;
        };
        let has_leader = matches!(*self.leader.borrow(), LeaderState::Known(_));
        let reading = self.clock.read();
        let complete_at = self.complete_at.map(|complete_at| {
            let age = reading.uptime.saturating_sub(complete_at);
            let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
            reading.now.plus_micros(-micros)
        });
        let replica = self.replica.as_ref();
        stale_reads
            .update(has_leader, replica, complete_at, reading)
            .await;
    }

    /// Ends the answers to reads. Returns true if the database can be closed: no read has it open.
    fn end_stale_reads(&mut self) -> bool {
        if let Some(stale_reads) = &mut self.stale_reads {
            stale_reads.end();
        }
        self.replica
            .as_ref()
            .is_none_or(|replica| !replica.is_shared())
    }

    fn poll_interval(&self) -> Duration {
        let now = self.clock.uptime();
        match &self.hand_over {
            Some((_, since)) if now < *since + HAND_OVER_TIMEOUT => HAND_OVER_POLL_INTERVAL,
            _ => POLL_INTERVAL,
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
                    let unknown = LeaderState::Unknown(NoLeaderReason::EtcdUnreachable);
                    let is_over = self.silence.is_over_limit(self.clock.uptime());
                    is_over && *leader != unknown && {
                        *leader = unknown;
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
            self.announce_if_due().await?;
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
            self.announce_if_due().await?;
            return Err(PollError::Outdated);
        }
        if let Some(replica) = &mut self.replica {
            replica.verify_history(view.trimmed).await?;
        }
        self.catch_up(false).await?;
        self.sync_if_due()?;
        self.announce_if_due().await?;
        if !self.may_take_over(&view) || !self.end_stale_reads() {
            return Ok(None);
        }
        self.take_over(&view).await
    }

    /// Records renewals of the lease, and the leader.
    fn observe(&mut self, view: &ClusterView) {
        let now = self.clock.uptime();
        let lease = view.lease.as_ref();
        let [random] = self.random.bytes::<1>();
        if self.silence.observe(view, (self.patience, random), now) {
            let ahead = lease.map_or(0, |lease| self.clock.now().micros() - lease.clock);
            // A renewal is as old as half the pause between two polls on average.
            let delay = i64::try_from(POLL_INTERVAL.as_millis() / 2).unwrap_or_default();
            self.clock_ahead_millis = ahead / 1000 - delay;
        }
        let request = view.hand_over.as_ref();
        let request = request.filter(|request| request.epoch == view.epoch.epoch);
        if self.hand_over.as_ref().map(|(known, _)| known) != request {
            self.hand_over = request.map(|request| (request.clone(), now));
        }
        let leads =
            view.epoch.epoch > 0 && release_of(view).is_none() && !self.silence.is_over_limit(now);
        if leads {
            self.etcd_full = None;
        }
        let state = if leads {
            LeaderState::Known(PeerAddress::from(view.epoch.address.as_str()))
        } else if self.etcd_full.is_some() {
            LeaderState::Unknown(NoLeaderReason::EtcdFull)
        } else {
            LeaderState::Unknown(NoLeaderReason::Election)
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
            let read_at = self.clock.uptime();
            let first = replica.place() + 1;
            let read = replica.catch_up(is_linearizable).await?;
            let now = self.clock.uptime();
            self.last_progress.record(now);
            if read.is_end {
                self.complete_at = Some(read_at);
                if let Some((since, first)) = self.behind_since.take()
                    && now >= since + MIN_LOGGED_CATCH_UP
                {
                    let secs = now.saturating_sub(since).as_secs_f32();
                    let last = replica.place();
                    tracing::info!(first, last, "applied missed records in {secs:.2} s");
                }
            } else if !read.is_empty {
                self.behind_since.get_or_insert((read_at, first));
            }
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
        let replica = self.replica.as_ref();
        let position = NodePosition {
            place: replica.map_or(0, Replica::place),
            synced: replica.map_or(0, Replica::synced_place),
            lag: now.saturating_sub(self.complete_at.unwrap_or_default()),
            clock_ahead_millis: self.clock_ahead_millis,
        };
        let nodes = self.log.nodes().await?;
        self.clocks.record(&nodes, self.clock.now().micros());
        let announced = self.announcer.announce(&self.log, &nodes, position).await;
        announced.map_err(|error| match error {
            AnnounceError::Etcd(error) => PollError::Etcd(error),
            AnnounceError::NameTaken(address) => PollError::Fatal(ServeError::Cluster(format!(
                "the machine at {address} has the same name, {}: give each its own with \
                 --cluster-node",
                self.announcer.name
            ))),
        })?;
        self.announced_at = Some(now);
        Ok(())
    }

    /// True if there is no leader, and this machine may become it.
    fn may_take_over(&mut self, view: &ClusterView) -> bool {
        let now = self.clock.uptime();
        let place = self.replica.as_ref().map_or(0, Replica::place);
        let is_vacant = self
            .silence
            .is_vacant(view, (&self.announcer.name, place), now);
        if !is_vacant {
            return false;
        }
        if let Some((retry_at, message)) = self.etcd_full.clone()
            && now < retry_at
        {
            self.log_once(message);
            return false;
        }
        if let Some((name, difference)) = self
            .clocks
            .far_machine([&self.announcer.name, &view.epoch.node])
        {
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
            node: self.announcer.name.clone(),
            address: self.announcer.address.clone(),
            nonce: u64::from_le_bytes(self.random.bytes()),
            patience_millis: u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX),
        };
        let sent_at = self.clock.time_since_boot();
        let taken = self.log.take_over(&view.epoch_value, &epoch).await?;
        self.etcd_full = None;
        let Some(fence) = taken else {
            return Ok(None);
        };
        tracing::info!(epoch = epoch.epoch, "taking over the cluster");
        let place = self.replica.as_ref().map_or(0, Replica::place);
        let former = view.lease.as_ref();
        let is_failover = view.epoch.epoch > 0 && release_of(view).is_none();
        let first = LeaseRow {
            epoch: epoch.epoch,
            place,
            log_bytes: former.map_or(0, |lease| lease.log_bytes),
            failovers: former.map_or(0, |lease| lease.failovers) + u64::from(is_failover),
            ..LeaseRow::default()
        };
        let lease = Lease::new(
            self.log.clone(),
            (fence, first),
            (sent_at, self.patience),
            self.clock.clone(),
        );
        let renewed = lease.clone();
        tokio::spawn(async move { renewed.keep_renewed().await });
        let finished = self.finish_takeover(&lease, view).await;
        if finished.is_err() {
            lease.release(Release::Stopped).await;
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
            return self.log_once(NO_DATABASE_MESSAGE.into());
        };
        if !self.end_stale_reads() {
            // The next poll tries again.
            return;
        }
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
