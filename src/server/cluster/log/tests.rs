use super::super::etcd::test_server::{EtcdTestOptions, EtcdTestServer};
use super::*;

fn epoch(number: u64, node: &str) -> EpochRow {
    EpochRow {
        epoch: number,
        node: node.into(),
        address: "127.0.0.1:1".into(),
        nonce: number,
        patience_millis: 5000,
    }
}

/// Returns a new cluster on a real etcd; `None` if etcd is not installed.
async fn new_cluster() -> Option<(EtcdTestServer, ClusterLog)> {
    let (server, etcd) = EtcdTestServer::start(&EtcdTestOptions::default(), None).await?;
    let log = ClusterLog::new(etcd, "test");
    let cluster = ClusterRow { id: 7, format: 1 };
    assert!(log.create(&cluster).await.unwrap());
    assert!(!log.create(&cluster).await.unwrap(), "there is one already");
    Some((server, log))
}

async fn lead(log: &ClusterLog, node: &str) -> Bytes {
    let view = log.view().await.unwrap();
    let row = epoch(view.epoch.epoch + 1, node);
    let fence = log.take_over(&view.epoch_value, &row).await.unwrap();
    fence.unwrap()
}

/// Record whose header states its length.
fn record(len: usize, filling: u8) -> Bytes {
    let mut bytes = b"odl1".to_vec();
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    bytes.resize(48, 0);
    bytes.resize(48 + len, filling);
    bytes.into()
}

#[tokio::test]
async fn a_former_leader_changes_nothing() {
    let Some((_server, log)) = new_cluster().await else {
        return;
    };
    let view = log.view().await.unwrap();
    assert_eq!((view.epoch.epoch, &view.lease, view.trimmed), (0, &None, 0));
    let first = lead(&log, "one").await;
    // Both saw the same epoch; only one of them was first.
    let late = log.take_over(&view.epoch_value, &epoch(1, "two")).await;
    assert_eq!(late.unwrap(), None);
    log.append(&first, 1, &record(10, 1)).await.unwrap();
    // The result was lost, and the leader repeats the append.
    log.append(&first, 1, &record(10, 1)).await.unwrap();
    let other = log.append(&first, 1, &record(10, 2)).await;
    assert_eq!(other, Err(FencedError::Fenced), "the place is taken");
    let second = lead(&log, "two").await;
    let lease = LeaseRow {
        epoch: 1,
        renewals: 1,
        place: 1,
        ..LeaseRow::default()
    };
    for refused in [
        log.append(&first, 2, &record(10, 3)).await,
        log.append(&first, 2, &record(3 << 20, 3)).await,
        log.put_lease(&first, &lease).await.map(drop),
    ] {
        assert_eq!(refused, Err(FencedError::Fenced));
    }
    log.append(&second, 2, &record(10, 4)).await.unwrap();
    let request = HandOverRow {
        epoch: 2,
        to: Some("one".into()),
    };
    assert_eq!(log.put_lease(&second, &lease).await, Ok(None));
    log.request_hand_over(&request).await.unwrap();
    assert_eq!(log.put_lease(&second, &lease).await, Ok(Some(request)));
    let view = log.view().await.unwrap();
    assert_eq!((view.epoch.node.as_str(), view.lease), ("two", Some(lease)));
    let read = log.read(1, true).await.unwrap();
    assert_eq!(read.records, [record(10, 1), record(10, 4)]);
    assert!(read.is_end && !read.is_trimmed);
}

#[tokio::test]
async fn records_are_read_without_gaps_and_long_ones_in_parts() {
    let Some((_server, log)) = new_cluster().await else {
        return;
    };
    let fence = lead(&log, "one").await;
    let long = record((5 << 19) + 1, 9);
    let count = u64::from(RECORDS_PER_READ) + 5;
    for place in 1..=count {
        let record = if place == 3 {
            long.clone()
        } else {
            record(8, place as u8)
        };
        log.append(&fence, place, &record).await.unwrap();
    }
    let first = log.read(1, false).await.unwrap();
    assert_eq!(first.records.len() as u32, RECORDS_PER_READ);
    assert_eq!((&first.records[2], first.is_end), (&long, false));
    let rest = log
        .read(1 + u64::from(RECORDS_PER_READ), true)
        .await
        .unwrap();
    assert_eq!(rest.records.last(), Some(&record(8, count as u8)));
    let end = log.read(count + 1, true).await.unwrap();
    assert_eq!(
        (end.records.len(), end.is_end, end.is_trimmed),
        (0, true, false)
    );
    let before = log.view().await.unwrap();
    log.trim(&fence, &before, 3).await.unwrap();
    assert_eq!(log.view().await.unwrap().trimmed, 3);
    // A trim that was delayed, and one of a former leader.
    log.trim(&fence, &before, 2).await.unwrap();
    let other = lead(&log, "two").await;
    let view = log.view().await.unwrap();
    log.trim(&fence, &view, 5).await.unwrap();
    assert_eq!(log.view().await.unwrap().trimmed, 3);
    let trimmed = log.read(3, true).await.unwrap();
    assert!(
        trimmed.is_trimmed && trimmed.records.is_empty(),
        "{trimmed:?}"
    );
    let parts = log.etcd.range(log.key("part/"), log.key("part0"), 0, true);
    assert!(parts.await.unwrap().key_values.is_empty());
    let next = log.read(4, true).await.unwrap();
    assert_eq!(next.records.first(), Some(&record(8, 4)));
    log.trim(&other, &view, count).await.unwrap();
    let end = log.read(count + 1, true).await.unwrap();
    assert_eq!((end.is_end, end.is_trimmed), (true, false));
}

#[tokio::test]
async fn machines_are_announced_and_forgotten() {
    let Some((_server, log)) = new_cluster().await else {
        return;
    };
    let node = NodeRow {
        address: "127.0.0.1:1".into(),
        release: "1.0".into(),
        place: 5,
        synced: 4,
        clock: 3,
        ..NodeRow::default()
    };
    log.announce("one", &node).await.unwrap();
    log.announce("two", &node).await.unwrap();
    assert!(log.forget("one").await.unwrap());
    assert!(!log.forget("one").await.unwrap());
    assert_eq!(log.nodes().await.unwrap(), [("two".to_owned(), node)]);
}
