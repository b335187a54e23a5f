//! Page and metrics of the machines of a cluster.

use std::sync::Arc;
use std::time::Duration;

use overdue::metrics::{ClusterMetrics, ClusterStatus, MemberStatus, NodeRole, NodeStatus};

use super::browser::{owner, server, signed_in};
use super::visible_text;

fn node(name: &str, role: NodeRole, behind_places: u64) -> NodeStatus {
    NodeStatus {
        name: name.into(),
        role,
        place: 100 - behind_places,
        behind_places,
        behind_secs: 0.25 * behind_places as f64,
        synced: 90,
        clock_ahead_secs: -0.2,
        announced_secs_ago: 1,
        release: "0.1.0".into(),
        address: format!("{name}.example.com:8001"),
    }
}

fn status() -> ClusterStatus {
    ClusterStatus {
        id: "7f3a".into(),
        format: 1,
        epoch: 14,
        place: 100,
        trimmed: 80,
        log_bytes: 5_200_000,
        copies: 1,
        failovers: 3,
        nodes: vec![
            node("ham-1", NodeRole::Leader, 0),
            node("ham-2", NodeRole::Follower, 2),
            node("<wit>", NodeRole::Absent, 40),
        ],
        members: vec![
            MemberStatus {
                address: "10.0.0.1:2379".into(),
                release: "3.5.16".into(),
                bytes: 46_000_000,
                bytes_in_use: 40_000_000,
                quota_bytes: 2_000_000_000,
                problems: Vec::new(),
            },
            MemberStatus {
                address: "10.0.0.2:2379".into(),
                problems: vec!["etcd cannot be reached".into()],
                ..MemberStatus::default()
            },
        ],
    }
}

#[tokio::test]
async fn owners_see_the_machines_of_a_cluster() {
    let server = server().await;
    owner(&server, "ann").await;
    let mut browser = signed_in(&server, "ann").await;
    let text = visible_text(browser.get("/system/machines/").await.text());
    assert!(text.contains("This server belongs to no cluster"), "{text}");
    let page = browser.get("/system/").await;
    assert!(!page.text().contains("/system/machines/"));

    let cluster = Arc::new(ClusterMetrics::default());
    cluster.set_status(status());
    server.handle.metrics().set_cluster(cluster);
    let page = browser.get("/system/").await;
    assert!(page.text().contains("href=\"/system/machines/\""));
    let page = browser.get("/system/machines/").await;
    let text = visible_text(page.text());
    for part in [
        "of the cluster 7f3a",
        "ham-1 leader Place 100 Behind – Synced 90 Clock – Release 0.1.0 ham-1.example.com:8001",
        "ham-2 follower Place 98 Behind 0.5 s Synced 90 Clock -0.2 s",
        "absent Place 60 Behind 10.0 s",
        "14 3 failovers since",
        "5.2 MB in etcd, removed up to 80",
        "1 Start another machine",
        "10.0.0.1:2379 healthy Database 46.0 MB of 2000.0 MB Release 3.5.16",
        "10.0.0.2:2379 not healthy etcd cannot be reached",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!page.text().contains("<wit>"));
    server.stop().await;
}

#[tokio::test]
async fn metrics_contain_the_cluster() {
    let server = server().await;
    let handle = &server.handle;
    let text = handle.metrics().render(&handle.metrics_snapshot());
    assert!(!text.contains("overdue_cluster"));
    let cluster = Arc::new(ClusterMetrics::default());
    cluster.set_status(status());
    cluster.record_append(Duration::from_millis(3));
    handle.metrics().set_cluster(cluster);
    let text = handle.metrics().render(&handle.metrics_snapshot());
    for line in [
        "overdue_cluster_epoch 14",
        "overdue_cluster_place 100",
        "overdue_cluster_trimmed_place 80",
        "overdue_cluster_log_bytes 5200000",
        "overdue_cluster_copies 1",
        "overdue_cluster_failovers_total 3",
        "overdue_cluster_etcd_members 2",
        "overdue_cluster_etcd_healthy_members 1",
        "overdue_cluster_etcd_bytes 46000000",
        "overdue_cluster_etcd_quota_bytes 2000000000",
        "overdue_cluster_machines{role=\"leader\"} 1",
        "overdue_cluster_machines{role=\"joining\"} 0",
        "overdue_cluster_behind_places{machine=\"ham-2\"} 2",
        "overdue_cluster_behind_seconds{machine=\"ham-2\"} 0.5",
        "overdue_cluster_append_seconds_bucket{le=\"0.0025\"} 0",
        "overdue_cluster_append_seconds_bucket{le=\"0.005\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    server.stop().await;
}
