//! `overdue cluster`: creation and status of a cluster.

use std::path::Path;

use super::log::{ClusterRow, ClusterView, NodeRow};
use super::{ClusterAccess, ClusterConfigError, config_error};
use serde::Serialize;

use crate::outbound::{Outbound, OutboundConfig};
use crate::store::{CLUSTER_FORMAT, FILE_NAME, FollowerStore, Medium, ProgressReporter, Store};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Role of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// It answers clients.
    Leader,
    /// It follows the leader.
    Follower,
    /// It has not announced itself for a while.
    Absent,
}

impl NodeRole {
    /// Name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Absent => "absent",
        }
    }
}

/// Status of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NodeStatus {
    /// Name.
    pub name: String,
    /// Role.
    pub role: NodeRole,
    /// Place of the last record in its database.
    pub place: u64,
    /// Place up to which its database is synced.
    pub synced: u64,
    /// Seconds since its last announcement by its clock and that of this machine.
    pub announced_secs_ago: i64,
    /// Release.
    pub release: String,
    /// Address of its peer port.
    pub address: String,
}

/// Status of a member of etcd.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemberStatus {
    /// Address.
    pub address: String,
    /// Release of etcd; empty if it is unknown.
    pub release: String,
    /// Size of its database in bytes.
    pub bytes: u64,
    /// Reason why its status is unknown.
    pub error: Option<String>,
}

/// Status of a cluster.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClusterStatus {
    /// Random number of the cluster.
    pub id: u64,
    /// Version of its format.
    pub format: u64,
    /// Number of the epoch.
    pub epoch: u64,
    /// Place of the last record.
    pub place: u64,
    /// Place up to which records were removed from the log.
    pub trimmed: u64,
    /// Machines, by name.
    pub nodes: Vec<NodeStatus>,
    /// Members of etcd, in the order of the URL.
    pub members: Vec<MemberStatus>,
}

fn log_of(access: &ClusterAccess) -> Result<super::ClusterLog, ClusterConfigError> {
    let outbound = Outbound::new(OutboundConfig::default(), &Clock::System, Random::System)
        .map_err(config_error)?;
    access.log(&outbound)
}

/// Makes the database of a directory the first one of a new cluster. A missing database is created.
///
/// # Errors
/// If there is a cluster already, or the database cannot be written.
pub async fn create_cluster(
    access: &ClusterAccess,
    directory: &Path,
) -> Result<(), ClusterConfigError> {
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
            return Ok(());
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
        true => Ok(()),
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

/// Reads the status of a cluster.
///
/// # Errors
/// If etcd does not answer, or there is no cluster.
pub async fn read_status(access: &ClusterAccess) -> Result<ClusterStatus, ClusterConfigError> {
    let log = log_of(access)?;
    let view = log.view().await.map_err(config_error)?;
    let Some(cluster) = view.cluster.clone() else {
        return Err(ClusterConfigError(
            "there is no cluster below this prefix: create it with `overdue cluster init`".into(),
        ));
    };
    let now = Clock::System.now().micros();
    let nodes = log.nodes().await.map_err(config_error)?;
    let nodes = nodes
        .into_iter()
        .map(|(name, node)| node_status(name, node, &view, now))
        .collect::<Vec<_>>();
    let mut members = Vec::new();
    for (index, endpoint) in log.etcd().endpoints().iter().enumerate() {
        let address = endpoint.to_string();
        members.push(match log.etcd().status(index).await {
            Ok(status) => MemberStatus {
                address,
                release: status.version,
                bytes: status.database_bytes,
                error: None,
            },
            Err(error) => MemberStatus {
                address,
                error: Some(error.to_string()),
                ..MemberStatus::default()
            },
        });
    }
    Ok(ClusterStatus {
        id: cluster.id,
        format: cluster.format,
        epoch: view.epoch.epoch,
        place: nodes.iter().map(|node| node.place).max().unwrap_or(0),
        trimmed: view.trimmed,
        nodes,
        members,
    })
}

fn node_status(name: String, node: NodeRow, view: &ClusterView, now: i64) -> NodeStatus {
    let age = now.saturating_sub(node.clock);
    let absent = i64::try_from(super::follower::ABSENCE_TIMEOUT.as_micros()).unwrap_or(i64::MAX);
    let role = if age > absent {
        NodeRole::Absent
    } else if view.epoch.node == name {
        NodeRole::Leader
    } else {
        NodeRole::Follower
    };
    NodeStatus {
        name,
        role,
        place: node.place,
        synced: node.synced,
        announced_secs_ago: age / 1_000_000,
        release: node.release,
        address: node.address,
    }
}
