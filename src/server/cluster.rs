//! Operation of several machines as a cluster. One machine leads and answers all clients; the
//! others follow it. The log, which makes each change durable, is in etcd.
//!
//! A follower applies the records of the log to its own database, and forwards each connection of a
//! client to the leader, byte by byte, so TLS and every protocol end at the leader. Once the leader
//! is silent, a follower begins a new epoch, and leads. A machine that no longer leads starts its
//! process again.
//!
//! | part | contents |
//! | --- | --- |
//! | `etcd` | client of etcd |
//! | `key_values` | interface of etcd that `log` uses |
//! | `log` | keys of the cluster in etcd: records, epoch, lease, machines |
//! | `replica` | database that applies the records of the log, up to a takeover |
//! | `lease` | leadership of this machine |
//! | `follower`, `succession` | follows the log, and takes over; rules for that |
//! | `leader` | tasks of a leader in addition to the tasks of any server |
//! | `stale_reads` | answers to reads while no machine leads |
//! | `peer`, `forward` | connections between machines; connections of clients to the leader |
//! | `announcer`, `status` | announcements of this machine; status of the cluster |
//! | `snapshot` | copy of the database for a machine that joins |
//! | `command` | `overdue cluster` |

use std::fmt;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::listeners::Listeners;
use super::signals::StopSignals;
use super::watchdog::{self, LastActivity};
use super::{ServeError, ServerConfig, notify_supervisor};
use crate::admin::AdminSocket;
use crate::outbound::Outbound;
use crate::store::StoreError;
use crate::util::clock::Clock;
use crate::util::random::Random;
pub use command::{
    ExistingCluster, create_cluster, forget_node, hand_over, leave_cluster, read_status,
};
pub use etcd::{
    Compare, Etcd, EtcdError, KeyValue, Op, RangeReply, Refusal, RefusalKind, TransactionReply,
};
use etcd::{EtcdConfig, EtcdIdentity, EtcdTls, EtcdUrl};
use follower::Follower;
use forward::{Forwarder, ForwarderConfig};
pub use key_values::KeyValueStore;
pub(super) use leader::Leader;
pub use leader::copied_place;
pub use log::{
    ClusterLog, ClusterRow, ClusterView, EpochRow, FencedError, HandOverRow, LeaseRow, LogRead,
    NodeRow, Release,
};
use peer::{PeerConnector, PeerPort, PeerSecret, PeerService, PeerTls, PeerTlsPem};
pub use replica::{CatchUp, Replica, ReplicaError};
use sd_notify::NotifyState;
use stale_reads::StaleReadsConfig;

mod announcer;
mod clock_comparison;
mod command;
pub(crate) mod etcd;
mod follower;
pub(crate) mod forward;
mod key_values;
mod leader;
mod lease;
mod log;
pub(crate) mod peer;
mod pem;
mod replica;
mod snapshot;
mod splice;
mod stale_reads;
mod status;
mod succession;

/// Time limit of a request to one member of etcd.
const ETCD_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of the name of a machine, in bytes.
const MAX_NODE_NAME_BYTES: usize = 64;

/// Access to the etcd of a cluster, from the command line.
#[derive(Clone)]
pub struct ClusterAccess {
    url: EtcdUrl,
    tls: Option<EtcdTls>,
    /// Quota of etcd in bytes. `None`: the one that it reports, or its default.
    quota: Option<u64>,
}

/// PEM files for TLS between machines.
pub struct PeerTlsFiles {
    /// Certificates of the authorities that issued the certificates of all machines.
    pub authorities: PathBuf,
    /// Certificate of this machine and its key.
    pub identity: (PathBuf, PathBuf),
}

/// PEM files for TLS with etcd.
#[derive(Clone, Default)]
pub struct EtcdTlsFiles {
    /// Certificates of the authorities that are trusted. `None`: the authorities of the system.
    pub authorities: Option<PathBuf>,
    /// Certificate of this machine and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Error in the configuration of a cluster. Displays as a sentence without a full stop.
#[derive(Debug)]
pub struct ClusterConfigError(String);

impl fmt::Display for ClusterConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ClusterConfigError {}

fn config_error(error: impl fmt::Display) -> ClusterConfigError {
    ClusterConfigError(error.to_string())
}

fn read_pem(path: &PathBuf) -> Result<Vec<u8>, ClusterConfigError> {
    std::fs::read(path)
        .map_err(|error| ClusterConfigError(format!("{} cannot be read: {error}", path.display())))
}

impl PeerTlsFiles {
    fn read(&self) -> Result<PeerTls, ClusterConfigError> {
        let (chain, key) = &self.identity;
        let pem = PeerTlsPem {
            authorities: read_pem(&self.authorities)?,
            chain: read_pem(chain)?,
            key: read_pem(key)?,
        };
        PeerTls::new(&pem).map_err(ClusterConfigError)
    }
}

impl ClusterAccess {
    /// Parses a URL, `etcd://HOST:PORT,…/PREFIX`, and reads the files. `quota`: quota of etcd in
    /// bytes; `None`: the one that it reports, or its default.
    ///
    /// # Errors
    /// If the URL is invalid, or a file cannot be read.
    pub fn new(
        url: &str,
        files: &EtcdTlsFiles,
        quota: Option<u64>,
    ) -> Result<Self, ClusterConfigError> {
        let url = EtcdUrl::parse(url).map_err(config_error)?;
        let authorities = files.authorities.as_ref().map(read_pem).transpose()?;
        let identity = match &files.identity {
            Some((chain, key)) => Some(EtcdIdentity {
                chain: read_pem(chain)?,
                key: read_pem(key)?,
            }),
            None => None,
        };
        let uses_tls = url.uses_tls || authorities.is_some() || identity.is_some();
        Ok(Self {
            url,
            quota,
            tls: uses_tls.then_some(EtcdTls {
                authorities,
                identity,
            }),
        })
    }

    fn log(&self, outbound: &Outbound) -> Result<ClusterLog, ClusterConfigError> {
        let config = EtcdConfig {
            endpoints: self.url.endpoints.clone(),
            user: self.url.user.clone(),
            tls: self.tls.clone(),
            timeout: ETCD_TIMEOUT,
        };
        let etcd = Etcd::new(config, outbound).map_err(config_error)?;
        let prefix = match self.url.key_prefix.as_str() {
            "" => "overdue",
            prefix => prefix,
        };
        Ok(ClusterLog::new(etcd, prefix))
    }
}

/// Options of a machine of a cluster that have defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterOptions {
    /// Time for which connections are held while no machine leads.
    pub hold_time: Duration,
    /// Time without a renewal of the lease after which another machine takes over from this one: at
    /// least [`MIN_PATIENCE`].
    pub patience: Duration,
    /// Number of machines whose databases must contain a record before it is removed from the log:
    /// at least 1.
    pub copies: usize,
    /// True if this machine answers reads itself once no machine has led for the hold time.
    pub answers_stale_reads: bool,
}

/// Minimum of [`ClusterOptions::patience`]: a lease is renewed every second.
pub const MIN_PATIENCE: Duration = Duration::from_secs(3);

/// Configuration of a machine of a cluster.
#[derive(Clone)]
pub struct ClusterConfig {
    access: ClusterAccess,
    /// Name of this machine.
    node: String,
    /// Address of the peer port.
    listen: SocketAddr,
    /// Address at which other machines reach the peer port, `HOST:PORT`.
    advertised: String,
    secret: PeerSecret,
    /// TLS between machines, if it is used.
    tls: Option<PeerTls>,
    options: ClusterOptions,
}

impl ClusterConfig {
    /// Number of files that a connection of a client needs: its socket, and on a follower the
    /// connection to the leader. With TLS a leader passes the decrypted bytes on within this
    /// machine.
    pub(super) fn files_per_connection(&self) -> usize {
        if self.tls.is_some() { 3 } else { 2 }
    }

    /// Returns the configuration of a machine. `address`: address at which others reach it; that of
    /// `listen` if missing. `secret`: content of the file that all machines share.
    /// `tls`: certificates, if connections between machines are encrypted.
    ///
    /// # Errors
    /// If the name or the secret is invalid, or other machines could not reach this one.
    pub fn new(
        access: ClusterAccess,
        node: Option<String>,
        listen: SocketAddr,
        address: Option<String>,
        secret: &[u8],
        tls: Option<&PeerTlsFiles>,
        options: ClusterOptions,
    ) -> Result<Self, ClusterConfigError> {
        let node = node
            .or_else(|| {
                rustix::system::uname()
                    .nodename()
                    .to_str()
                    .ok()
                    .map(str::to_owned)
            })
            .unwrap_or_default();
        let is_name = |name: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            (1..=MAX_NODE_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
        };
        if !is_name(&node) {
            return Err(ClusterConfigError(format!(
                "{node:?} is no name for a machine of a cluster: give --cluster-node with 1 to \
                 {MAX_NODE_NAME_BYTES} letters, digits, dots, hyphens and underscores"
            )));
        }
        let advertised = match address {
            Some(address) => address,
            None if listen.ip().is_unspecified() => {
                return Err(ClusterConfigError(format!(
                    "other machines cannot reach {listen}: give --cluster-address with the \
                     address of this machine"
                )));
            }
            None => listen.to_string(),
        };
        Ok(Self {
            access,
            node,
            listen,
            advertised,
            secret: PeerSecret::new(secret).map_err(config_error)?,
            tls: tls.map(PeerTlsFiles::read).transpose()?,
            options,
        })
    }
}

/// Follows the cluster until this machine leads. Returns `None` if a signal stops it before.
///
/// # Errors
/// If this machine cannot belong to the cluster, or its database cannot be used.
pub(super) async fn follow_until_leader(
    cluster: &ClusterConfig,
    config: &ServerConfig,
    (listeners, signals): (&Listeners, &mut StopSignals),
    outbound: &Outbound,
    last_progress: &LastActivity,
) -> Result<Option<Leader>, ServeError> {
    let clock = Clock::System;
    let random = Random::System;
    let log = cluster
        .access
        .log(outbound)
        .map_err(|error| ServeError::Cluster(error.to_string()))?;
    let connector = PeerConnector::new(
        outbound.clone(),
        cluster.secret.clone(),
        cluster.tls.clone(),
        random.clone(),
    );
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.data_directory)
        .map_err(|error| {
            ServeError::Store(StoreError::Path(config.data_directory.clone(), error))
        })?;
    let feeding = watchdog::start_following(last_progress.clone());
    let stale_reads = cluster
        .options
        .answers_stale_reads
        .then(|| StaleReadsConfig {
            http: listeners.http_config(config),
            certificate: listeners.http_certificate(),
            ping_body_limit: config.ping_body_limit,
        });
    let mut follower = Follower::new(
        cluster,
        log,
        config.data_directory.clone(),
        connector.clone(),
        stale_reads,
        (clock.clone(), random.clone()),
        last_progress.clone(),
    )
    .map_err(ServeError::Store)?;
    let admin = Arc::new(AdminSocket::bind(&config.data_directory).map_err(ServeError::Admin)?);
    let forwarder = Forwarder::new(
        connector,
        follower.leader(),
        clock.clone(),
        ForwarderConfig {
            hold_time: cluster.options.hold_time,
            max_connections: forward::MAX_CONNECTIONS,
            connections_per_address: config.connections_per_address,
            trusted_proxies: config.trusted_proxies.clone(),
            stale_connections: follower.stale_connections(),
        },
    );
    let (stop_forwarding, stopped) = watch::channel(false);
    let mut forwarding = JoinSet::new();
    for (listener, service) in listeners.client_listeners() {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "forwarding {} to the leader", service.protocol());
        }
        let forwarder = forwarder.clone();
        forwarding.spawn(forwarder.serve(listener, service, stopped.clone()));
    }
    for listener in listeners.metrics_listeners() {
        forwarding.spawn(forward::refuse_metrics(listener, stopped.clone()));
    }
    forwarding.spawn(forwarder.serve_admin(Arc::clone(&admin), stopped));
    let tls = cluster.tls.clone().map(|tls| (tls, outbound.clone()));
    let port = PeerPort::new(cluster.secret.clone(), tls, clock, random);
    let peer_listener = super::listeners::bind_peer_listener(cluster.listen)?;
    // The port stays open as long as the process.
    let (keep_open, stop_port) = watch::channel(false);
    tokio::spawn(port.clone().serve(peer_listener, stop_port));
    tracing::info!(
        node = cluster.node,
        address = cluster.advertised,
        "following the cluster"
    );
    notify_supervisor(NotifyState::Ready);
    let lease = tokio::select! {
        lease = follower.follow() => lease?,
        name = signals.next() => {
            tracing::info!(signal = name, "stopping");
            notify_supervisor(NotifyState::Stopping);
            stop_forwarding.send_replace(true);
            super::stop_listeners(forwarding, None).await;
            return Ok(None);
        }
    };
    feeding.abort();
    forwarding.detach_all();
    Ok(Some(Leader {
        lease,
        admin,
        port,
        keep_port_open: keep_open,
        stop_forwarding,
        follower,
        copies: cluster.options.copies,
        quota: cluster.access.quota,
    }))
}

/// Waits until this machine no longer leads, and returns the reason. Without a cluster, waits
/// forever.
pub(super) async fn wait_until_replaced(leader: Option<&Leader>) -> String {
    match leader {
        Some(leader) => leader.wait_for_end().await,
        None => std::future::pending().await,
    }
}

/// Waits until this machine shall hand over, and returns the name of the machine that shall lead,
/// if one is named. Without a cluster, waits forever.
pub(super) async fn wait_for_hand_over(leader: Option<&Leader>) -> Option<String> {
    match leader {
        Some(leader) => leader.wait_for_hand_over().await,
        None => std::future::pending().await,
    }
}

/// Listener of clients that is forwarded to the leader, with its service.
pub(super) type ForwardedListener = (Arc<TcpListener>, PeerService);
