//! Status of a cluster, as commands, pages and metrics show it, and metrics of its log.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde::Serialize;

use crate::util::sync::{Mutex, lock};

/// Upper bounds of the duration of an append to the log of a cluster, in seconds.
const APPEND_SECONDS_BUCKETS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// Role of a machine of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// It answers clients.
    Leader,
    /// It follows the leader, and can lead.
    Follower,
    /// It needs a copy of the database.
    Joining,
    /// It has not announced itself for a while.
    Absent,
}

impl NodeRole {
    /// All roles.
    const ALL: [Self; 4] = [Self::Leader, Self::Follower, Self::Joining, Self::Absent];

    /// Name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Joining => "joining",
            Self::Absent => "absent",
        }
    }
}

/// Status of a machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeStatus {
    /// Name.
    pub name: String,
    /// Role.
    pub role: NodeRole,
    /// Place of the last record in its database.
    pub place: u64,
    /// Number of records that its database lacks.
    pub behind_places: u64,
    /// Seconds since its database last contained all records.
    pub behind_secs: f64,
    /// Place up to which its database is synced.
    pub synced: u64,
    /// Seconds by which its clock is ahead of that of the leader.
    pub clock_ahead_secs: f64,
    /// Seconds since its last announcement, by its clock and that of the reader.
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
    /// Size of the file of its database in bytes.
    pub bytes: u64,
    /// Bytes in use in that file.
    pub bytes_in_use: u64,
    /// Size at which it refuses changes.
    pub quota_bytes: u64,
    /// Problems, such as that it does not answer, or its alarms. Empty if it is healthy.
    pub problems: Vec<String>,
}

/// Status of a cluster.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ClusterStatus {
    /// Random number of the cluster, in hexadecimal.
    pub id: String,
    /// Version of its format.
    pub format: u64,
    /// Number of the epoch.
    pub epoch: u64,
    /// Place of the last record.
    pub place: u64,
    /// Place up to which records were removed from the log.
    pub trimmed: u64,
    /// Bytes of the records in the log, estimated by the leader.
    pub log_bytes: u64,
    /// Number of present machines whose databases have all records that the log no longer has.
    pub copies: usize,
    /// Number of times that a machine took over from a silent leader.
    pub failovers: u64,
    /// Machines, by name.
    pub nodes: Vec<NodeStatus>,
    /// Members of etcd, in the order of the URL.
    pub members: Vec<MemberStatus>,
}

impl ClusterStatus {
    /// True if a machine leads.
    pub fn has_leader(&self) -> bool {
        self.nodes.iter().any(|node| node.role == NodeRole::Leader)
    }

    /// Number of members of etcd without a problem.
    pub fn healthy_members(&self) -> usize {
        let is_healthy = |member: &&MemberStatus| member.problems.is_empty();
        self.members.iter().filter(is_healthy).count()
    }

    /// Size of the largest database of a member of etcd in bytes.
    pub fn etcd_bytes(&self) -> u64 {
        let bytes = self.members.iter().map(|member| member.bytes);
        bytes.max().unwrap_or(0)
    }
}

/// Metrics of the cluster that this machine leads.
pub struct ClusterMetrics {
    append_seconds: Histogram,
    status: Mutex<Arc<ClusterStatus>>,
}

impl Default for ClusterMetrics {
    fn default() -> Self {
        Self {
            append_seconds: Histogram::new(APPEND_SECONDS_BUCKETS),
            status: Mutex::default(),
        }
    }
}

impl ClusterMetrics {
    /// Records an append to the log.
    pub fn record_append(&self, took: Duration) {
        self.append_seconds.observe(took.as_secs_f64());
    }

    /// Sets the status that metrics and pages show.
    pub fn set_status(&self, status: ClusterStatus) {
        *lock(&self.status) = Arc::new(status);
    }

    /// Status of the cluster a few seconds ago.
    pub fn status(&self) -> Arc<ClusterStatus> {
        Arc::clone(&lock(&self.status))
    }

    /// Registers the metrics.
    pub(super) fn register(&self, registry: &mut Registry) {
        let status = self.status();
        let histogram = self.append_seconds.clone();
        let help = "Time to append a record to the log in etcd";
        registry.register("cluster_append_seconds", help, histogram);
        let members = status.members.len();
        let quotas = status.members.iter().map(|member| member.quota_bytes);
        let quota = quotas.filter(|bytes| *bytes > 0).min();
        for (name, help, value) in [
            ("cluster_epoch", "Number of the epoch", status.epoch),
            (
                "cluster_place",
                "Place of the last record in the log",
                status.place,
            ),
            (
                "cluster_trimmed_place",
                "Place up to which records were removed from the log",
                status.trimmed,
            ),
            (
                "cluster_log_bytes",
                "Bytes of the records in the log, estimated",
                status.log_bytes,
            ),
            (
                "cluster_copies",
                "Machines whose databases have all records that the log no longer has",
                status.copies as u64,
            ),
            ("cluster_etcd_members", "Members of etcd", members as u64),
            (
                "cluster_etcd_healthy_members",
                "Members of etcd that answer and have no alarm",
                status.healthy_members() as u64,
            ),
            (
                "cluster_etcd_bytes",
                "Size of the largest database of a member of etcd",
                status.etcd_bytes(),
            ),
            (
                "cluster_etcd_quota_bytes",
                "Size at which etcd refuses changes",
                quota.unwrap_or(0),
            ),
        ] {
            super::register_gauge(registry, name, help, value);
        }
        registry.register(
            "cluster_failovers",
            "Times that a machine took over from a silent leader",
            ConstCounter::new(status.failovers),
        );
        register_nodes(&status, registry);
    }
}

/// Registers the metrics of each machine.
fn register_nodes(status: &ClusterStatus, registry: &mut Registry) {
    let roles = Family::<super::Labels<1>, Gauge>::default();
    for role in NodeRole::ALL {
        let count = status.nodes.iter().filter(|node| node.role == role).count();
        roles
            .get_or_create(&[("role", role.name())])
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register("cluster_machines", "Machines, by role", roles);
    let places = Family::<NodeLabel, Gauge>::default();
    let seconds = Family::<NodeLabel, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
    for node in &status.nodes {
        let label = [("machine", node.name.clone())];
        places
            .get_or_create(&label)
            .set(i64::try_from(node.behind_places).unwrap_or(i64::MAX));
        seconds.get_or_create(&label).set(node.behind_secs);
    }
    let help = "Records that the database of a machine lacks";
    registry.register("cluster_behind_places", help, places);
    let help = "Time since the database of a machine last had all records";
    registry.register("cluster_behind_seconds", help, seconds);
}

/// Label with the name of a machine.
type NodeLabel = [(&'static str, String); 1];
