//! Status of a cluster, from its keys and the members of etcd.

use std::collections::BTreeMap;

use tokio::task::JoinSet;

use super::etcd::{Etcd, EtcdError};
use super::follower::ABSENCE_TIMEOUT;
use super::log::{ClusterLog, ClusterView, NodeRow};
use crate::domain::timestamp::Timestamp;
use crate::metrics::{ClusterStatus, MemberStatus, NodeRole, NodeStatus};

/// Quota of etcd unless it is configured. Members before 3.6 do not report it.
pub(super) const DEFAULT_QUOTA_BYTES: u64 = 2 << 30;

/// Milliseconds beyond its patience after which a leader without a renewal counts as silent. They
/// leave time for clocks that differ.
const RENEWAL_DELAY_MILLIS: i64 = 3000;

/// Reads the status of a cluster; `None` if there is none. `quota`: quota of etcd, if it is
/// configured.
///
/// # Errors
/// If etcd does not answer.
pub(super) async fn read_cluster_status(
    log: &ClusterLog,
    now: Timestamp,
    quota: Option<u64>,
) -> Result<Option<ClusterStatus>, EtcdError> {
    let view = log.view().await?;
    let nodes = log.nodes().await?;
    let members = read_members(log.etcd(), quota).await;
    Ok(cluster_status(&view, &nodes, members, now))
}

/// Returns the status of a cluster; `None` if there is none.
pub(super) fn cluster_status(
    view: &ClusterView,
    nodes: &[(String, NodeRow)],
    members: Vec<MemberStatus>,
    now: Timestamp,
) -> Option<ClusterStatus> {
    let cluster = view.cluster.as_ref()?;
    let lease = view.lease.as_ref();
    let last = nodes.iter().map(|(_, node)| node.place).max().unwrap_or(0);
    let place = last.max(lease.map_or(0, |lease| lease.place));
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(name, node)| node_status(name, node, view, place, now))
        .collect();
    let has_copy =
        |node: &&NodeStatus| node.role != NodeRole::Absent && node.synced >= view.trimmed;
    Some(ClusterStatus {
        id: format!("{:x}", cluster.id),
        format: cluster.format,
        epoch: view.epoch.epoch,
        place,
        trimmed: view.trimmed,
        log_bytes: lease.map_or(0, |lease| lease.log_bytes),
        copies: nodes.iter().filter(has_copy).count(),
        failovers: lease.map_or(0, |lease| lease.failovers),
        nodes,
        members,
    })
}

fn node_status(
    name: &str,
    node: &NodeRow,
    view: &ClusterView,
    place: u64,
    now: Timestamp,
) -> NodeStatus {
    let age = now.micros().saturating_sub(node.clock);
    let absent = i64::try_from(ABSENCE_TIMEOUT.as_micros()).unwrap_or(i64::MAX);
    let role = if age > absent {
        NodeRole::Absent
    } else if node.place < view.trimmed || node.place == 0 {
        NodeRole::Joining
    } else if view.epoch.node == name && is_led(view, now) {
        NodeRole::Leader
    } else {
        NodeRole::Follower
    };
    let lag = node.lag_millis as f64 / 1000.0;
    NodeStatus {
        name: name.to_owned(),
        role,
        place: node.place,
        behind_places: place.saturating_sub(node.place),
        behind_secs: match role {
            NodeRole::Leader => 0.0,
            NodeRole::Absent => lag + age as f64 / 1e6,
            NodeRole::Follower | NodeRole::Joining => lag,
        },
        synced: node.synced,
        clock_ahead_secs: node.clock_ahead_millis as f64 / 1000.0,
        announced_secs_ago: age / 1_000_000,
        release: node.release.clone(),
        address: node.address.clone(),
    }
}

/// True if the leader of the present epoch renews its lease.
fn is_led(view: &ClusterView, now: Timestamp) -> bool {
    view.lease.as_ref().is_some_and(|lease| {
        let age = now.micros().saturating_sub(lease.clock);
        let patience = i64::try_from(view.epoch.patience_millis).unwrap_or(i64::MAX);
        let limit = patience.saturating_add(RENEWAL_DELAY_MILLIS);
        let is_present = lease.epoch == view.epoch.epoch && lease.release.is_none();
        is_present && age / 1000 <= limit
    })
}

/// Reads the status of all members of etcd, in the order of the endpoints.
pub(super) async fn read_members(etcd: &Etcd, quota: Option<u64>) -> Vec<MemberStatus> {
    let mut reads = JoinSet::new();
    for (index, endpoint) in etcd.endpoints().iter().enumerate() {
        let etcd = etcd.clone();
        let address = endpoint.to_string();
        reads.spawn(async move { (index, read_member(&etcd, index, address, quota).await) });
    }
    let mut members = BTreeMap::new();
    while let Some(read) = reads.join_next().await {
        members.extend(read);
    }
    members.into_values().collect()
}

async fn read_member(
    etcd: &Etcd,
    index: usize,
    address: String,
    quota: Option<u64>,
) -> MemberStatus {
    match etcd.status(index).await {
        Ok(status) => MemberStatus {
            address,
            release: status.version,
            bytes: status.database_bytes,
            bytes_in_use: status.used_bytes,
            quota_bytes: quota.or(status.quota_bytes).unwrap_or(DEFAULT_QUOTA_BYTES),
            problems: status.errors,
        },
        Err(error) => MemberStatus {
            address,
            problems: vec![error.to_string()],
            ..MemberStatus::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::super::log::{ClusterRow, EpochRow, LeaseRow, Release};
    use super::*;

    fn node(place: u64, age: Duration, now: Timestamp) -> NodeRow {
        NodeRow {
            place,
            synced: place - place.min(10),
            clock: now.micros() - age.as_micros() as i64,
            lag_millis: 300,
            ..NodeRow::default()
        }
    }

    #[test]
    fn roles_and_copies_follow_from_the_announcements() {
        let now = Timestamp::from_micros(1_000_000_000);
        let mut view = ClusterView {
            cluster: Some(ClusterRow { id: 255, format: 1 }),
            epoch: EpochRow {
                epoch: 3,
                node: "a".into(),
                patience_millis: 5000,
                ..EpochRow::default()
            },
            epoch_value: Bytes::new(),
            lease: Some(LeaseRow {
                epoch: 3,
                place: 100,
                log_bytes: 5,
                failovers: 2,
                clock: now.micros() - 1_000_000,
                ..LeaseRow::default()
            }),
            trimmed: 80,
            trimmed_value: None,
            hand_over: None,
        };
        let soon = Duration::from_secs(1);
        let nodes = [
            ("a", node(100, soon, now)),
            ("b", node(95, soon, now)),
            ("c", node(79, soon, now)),
            ("d", node(100, Duration::from_secs(31), now)),
            ("e", node(0, soon, now)),
        ];
        let nodes = nodes.map(|(name, node)| (name.to_owned(), node));
        let status = cluster_status(&view, &nodes, Vec::new(), now).unwrap();
        let shown: Vec<_> = status
            .nodes
            .iter()
            .map(|node| (node.role.name(), node.behind_places, node.behind_secs))
            .collect();
        let expected = [
            ("leader", 0, 0.0),
            ("follower", 5, 0.3),
            ("joining", 21, 0.3),
            ("absent", 0, 31.3),
            ("joining", 100, 0.3),
        ];
        assert_eq!(shown, expected);
        assert_eq!((&*status.id, status.copies, status.failovers), ("ff", 2, 2));
        assert_eq!((status.place, status.log_bytes), (100, 5));
        // It has been silent for longer than its patience.
        let later = now.plus_secs(8);
        let status = cluster_status(&view, &nodes, Vec::new(), later).unwrap();
        assert!(!status.has_leader());
        // The leader has stopped, and no machine leads.
        view.lease.as_mut().unwrap().release = Some(Release::Stopped);
        let status = cluster_status(&view, &nodes, Vec::new(), now).unwrap();
        assert!(!status.has_leader());
        // Everything that the log has lost is in one database.
        view.trimmed = 90;
        let status = cluster_status(&view, &nodes, Vec::new(), now).unwrap();
        assert_eq!(status.copies, 1);
        view.cluster = None;
        assert_eq!(cluster_status(&view, &nodes, Vec::new(), now), None);
    }
}
