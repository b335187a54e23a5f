//! `overdue cluster`: creation and status of a cluster.

use std::path::Path;
use std::time::Duration;

use super::log::{ClusterLog, ClusterRow, HandOverRow, LeaseRow};
use super::status::read_cluster_status;
use super::{ClusterAccess, ClusterConfigError, config_error};
use tokio::time::{sleep, timeout};

use crate::metrics::{ClusterStatus, NodeRole, NodeStatus};
use crate::outbound::{Outbound, OutboundConfig};
use crate::store::{CLUSTER_FORMAT, FILE_NAME, FollowerStore, Medium, ProgressReporter, Store};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Maximum time until another machine leads after a request to hand over.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which a command that waits for it looks.
const HAND_OVER_POLL_INTERVAL: Duration = Duration::from_millis(50);

fn log_of(access: &ClusterAccess) -> Result<super::ClusterLog, ClusterConfigError> {
    let outbound = Outbound::new(OutboundConfig::default(), &Clock::System, Random::System)
        .map_err(config_error)?;
    access.log(&outbound)
}

/// Handling of a cluster that exists already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExistingCluster {
    /// It is an error.
    Refuse,
    /// Nothing is done.
    Keep,
}

/// Makes the database of a directory the first one of a new cluster. A missing database is created.
///
/// Returns false if an existing cluster was kept.
///
/// # Errors
/// If there is a cluster already, unless it is kept, or the database cannot be written.
pub async fn create_cluster(
    access: &ClusterAccess,
    directory: &Path,
    existing: ExistingCluster,
) -> Result<bool, ClusterConfigError> {
    let log = log_of(access)?;
    let view = log.view().await.map_err(config_error)?;
    let medium = Medium::Directory(directory.into());
    if let Some(cluster) = &view.cluster {
        let progress = ProgressReporter::default();
        let is_own = directory.join(FILE_NAME).exists()
            && FollowerStore::open(&medium, &progress)
                .is_ok_and(|store| store.cluster() == cluster.id);
        if is_own {
            // An earlier attempt got no answer of etcd.
            return Ok(true);
        }
        if existing == ExistingCluster::Keep {
            return Ok(false);
        }
        return Err(ClusterConfigError(
            "there is a cluster below this prefix already: start the server with --cluster and an \
             empty data directory to join it, or choose another prefix"
                .into(),
        ));
    }
    let id = u64::from_le_bytes(Random::System.bytes()).max(1);
    Store::create_cluster(&medium, id).map_err(config_error)?;
    let cluster = ClusterRow {
        id,
        format: CLUSTER_FORMAT,
    };
    match log.create(&cluster).await.map_err(config_error)? {
        true => Ok(true),
        false => Err(ClusterConfigError(
            "another machine has created the cluster in the meantime: move the data directory \
             away to join it"
                .into(),
        )),
    }
}

/// Takes the database of a directory out of its cluster. The server must be stopped.
///
/// # Errors
/// If the database cannot be written, or is in use.
pub fn leave_cluster(directory: &Path) -> Result<(), ClusterConfigError> {
    let medium = Medium::Directory(directory.into());
    Store::open_of_cluster(&medium, &ProgressReporter::default())
        .and_then(|store| store.leave_cluster())
        .map_err(config_error)
}

/// Removes a machine that does not come back from the list of machines.
///
/// # Errors
/// If there is no machine with this name, or etcd does not answer.
pub async fn forget_node(access: &ClusterAccess, name: &str) -> Result<(), ClusterConfigError> {
    match log_of(access)?.forget(name).await.map_err(config_error)? {
        true => Ok(()),
        false => Err(ClusterConfigError(format!(
            "the cluster has no machine {name}: `overdue cluster status` lists them"
        ))),
    }
}

/// Makes the leader hand over, to the machine with this name or to any. Returns the name of the
/// machine that leads afterwards.
///
/// # Errors
/// If no machine can take over, the leader does not answer, or another machine than the named one
/// leads.
pub async fn hand_over(
    access: &ClusterAccess,
    to: Option<&str>,
) -> Result<String, ClusterConfigError> {
    let log = log_of(access)?;
    let status = status_of(&log, access.quota).await?;
    find_successor(&status, to)?;
    let request = HandOverRow {
        epoch: status.epoch,
        to: to.map(str::to_owned),
    };
    log.request_hand_over(&request)
        .await
        .map_err(config_error)?;
    let replaced = async {
        loop {
            let view = log.view().await.map_err(config_error)?;
            let leads = |lease: &LeaseRow| lease.epoch > status.epoch;
            if view.lease.as_ref().is_some_and(leads) {
                return Ok(view.epoch.node);
            }
            sleep(HAND_OVER_POLL_INTERVAL).await;
        }
    };
    let leader = timeout(HAND_OVER_TIMEOUT, replaced)
        .await
        .unwrap_or_else(|_| {
            Err(ClusterConfigError(format!(
                "no other machine has taken over within {} seconds: see the logs of the machines",
                HAND_OVER_TIMEOUT.as_secs()
            )))
        })?;
    match to {
        Some(name) if name != leader => Err(ClusterConfigError(format!(
            "{leader} leads, because {name} did not take over in time: see the log of {name}"
        ))),
        _ => Ok(leader),
    }
}

/// Verifies that a machine can take over: the one with this name, or any.
fn find_successor(status: &ClusterStatus, to: Option<&str>) -> Result<(), ClusterConfigError> {
    let named = |node: &&NodeStatus| to.is_none_or(|name| node.name == name);
    let mut nodes = status.nodes.iter().filter(named);
    let reason = match to {
        _ if !status.has_leader() => {
            "no machine leads at the moment: `overdue cluster status` shows the machines".into()
        }
        _ if nodes.clone().any(|node| node.role == NodeRole::Follower) => return Ok(()),
        None => "no other machine follows the leader: start one".into(),
        Some(name) => match nodes.next().map(|node| node.role) {
            Some(NodeRole::Leader) => format!("{name} leads already"),
            Some(_) => format!("{name} does not follow the leader at the moment: start it"),
            None => {
                format!("the cluster has no machine {name}: `overdue cluster status` lists them")
            }
        },
    };
    Err(ClusterConfigError(reason))
}

/// Reads the status of a cluster.
///
/// # Errors
/// If etcd does not answer, or there is no cluster.
pub async fn read_status(access: &ClusterAccess) -> Result<ClusterStatus, ClusterConfigError> {
    status_of(&log_of(access)?, access.quota).await
}

async fn status_of(
    log: &ClusterLog,
    quota: Option<u64>,
) -> Result<ClusterStatus, ClusterConfigError> {
    let status = read_cluster_status(log, Clock::System.now(), quota).await;
    status.map_err(config_error)?.ok_or_else(|| {
        ClusterConfigError(
            "there is no cluster below this prefix: create it with `overdue cluster init`".into(),
        )
    })
}
