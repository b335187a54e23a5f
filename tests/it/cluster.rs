//! Databases of a cluster: a follower has the rows of the leader and can lead; a leader without its
//! log stops.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use overdue::domain::ping::PingKind;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::Unavailable;
use overdue::engine::{self, EngineConfig, Handle, HousekeepingLimits, Leadership, WriterExit};
use overdue::store::{
    FILE_NAME, FollowError, FollowerStore, Medium, ProgressReporter, SCHEMA, SharedLog, Store,
    StoreError,
};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;
use redb::ReadableDatabase as _;

use crate::layouts::LAYOUTS;
use crate::support::commands::ping;
use crate::support::engine::{TestEngine, create_check_command, open};

/// Number of the cluster of the tests.
const CLUSTER: u64 = 7;

/// Log in memory that a test reads, and can make fail.
#[derive(Clone, Default)]
struct RecordedLog {
    records: Arc<Mutex<Vec<Vec<u8>>>>,
    is_failing: Arc<AtomicBool>,
}

impl RecordedLog {
    fn records_after(&self, place: u64) -> Vec<Vec<u8>> {
        self.records.lock().unwrap()[place as usize..].to_vec()
    }
}

impl SharedLog for RecordedLog {
    fn append(&mut self, place: u64, record: &[u8]) -> io::Result<()> {
        if self.is_failing.load(Ordering::Relaxed) {
            return Err(io::Error::other("on purpose"));
        }
        let mut records = self.records.lock().unwrap();
        assert_eq!(place, records.len() as u64 + 1);
        records.push(record.to_vec());
        Ok(())
    }
}

/// Data directory with an empty database of the cluster.
fn new_node() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Store::create_cluster(&medium(directory.path()), CLUSTER).unwrap();
    directory
}

fn medium(directory: &Path) -> Medium {
    Medium::Directory(directory.into())
}

fn lead(directory: &Path, epoch: u64, log: &RecordedLog, clock: &Arc<ManualClock>) -> TestEngine {
    let config = EngineConfig {
        clock: Clock::Manual(Arc::clone(clock)),
        random: Random::seeded(epoch),
        housekeeping: HousekeepingLimits {
            min_tail: 20,
            tail_per_check: 1,
            slack_entries: 10,
            ..HousekeepingLimits::default()
        },
        ..EngineConfig::new(medium(directory), 100_000)
    };
    let leadership = Leadership {
        epoch,
        log: Box::new(log.clone()),
    };
    let (handle, writer) = engine::open_as_leader(config, leadership).unwrap();
    TestEngine {
        handle,
        writer,
        clock: Arc::clone(clock),
    }
}

fn follow(directory: &Path) -> FollowerStore {
    FollowerStore::open(&medium(directory), &ProgressReporter::default()).unwrap()
}

fn apply(follower: &mut FollowerStore, records: &[Vec<u8>]) -> Result<(), FollowError> {
    follower.apply(records.iter().map(Vec::as_slice))
}

/// Rows of all tables, without the position in the log.
fn rows(handle: &Handle) -> BTreeMap<(String, Vec<u8>), Vec<u8>> {
    let mut found = BTreeMap::new();
    handle
        .visit_table_rows(|rows| {
            for (key, value) in rows.iter() {
                if !key.starts_with(b"log_") {
                    found.insert((rows.table().to_owned(), key.to_vec()), value.to_vec());
                }
            }
            true
        })
        .unwrap();
    found
}

/// Creates checks, pings them with bodies, and lets their deadlines pass.
fn work(engine: &mut TestEngine, checks: u128) {
    engine.create_project(5);
    for number in 1..=checks {
        engine.create_check(number);
    }
    for round in 0..30_u8 {
        let body = vec![round; usize::from(round) * 90];
        engine.batch((1..=checks).map(|uuid| ping(uuid, PingKind::Success, body.clone())));
        engine.clock.advance_secs(61);
    }
    // Deadlines pass, and the hourly round removes old pings.
    for _ in 0..200 {
        engine.clock.advance_secs(3_600);
        assert_eq!(engine.writer.step(false), Ok(true));
    }
}

#[test]
fn a_follower_has_the_rows_of_the_leader_and_can_lead() {
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let (first, second) = (new_node(), new_node());
    let log = RecordedLog::default();
    let mut leader = lead(first.path(), 1, &log, &clock);
    work(&mut leader, 6);
    let mut follower = follow(second.path());
    // In portions of any size, with a restart in between.
    let records = log.records_after(0);
    apply(&mut follower, &records[..3]).unwrap();
    apply(&mut follower, &records[3..20]).unwrap();
    follower.sync().unwrap();
    assert_eq!((follower.place(), follower.synced_place()), (20, 20));
    drop(follower);
    let mut follower = follow(second.path());
    assert_eq!((follower.cluster(), follower.place()), (CLUSTER, 20));
    follower.verify_last(Some(&records[19])).unwrap();
    apply(&mut follower, &records[20..]).unwrap();
    assert_eq!(follower.place(), records.len() as u64);
    drop(follower);
    let expected = rows(&leader.handle);
    let pings = leader.handle.with_state(|state| state.checks().count());
    assert_eq!(pings, 6);
    drop(leader);
    let mut next = lead(second.path(), 2, &log, &clock);
    assert_eq!(rows(&next.handle), expected);
    next.execute(ping(1, PingKind::Success, "after"));
    // The former leader follows the new one.
    let mut follower = follow(first.path());
    let missing = log.records_after(follower.place());
    apply(&mut follower, &missing).unwrap();
    drop(follower);
    let again = lead(first.path(), 3, &log, &clock);
    assert_eq!(rows(&again.handle), rows(&next.handle));
}

#[test]
fn another_history_is_refused() {
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let (log, other_log) = (RecordedLog::default(), RecordedLog::default());
    let (first, second, third) = (new_node(), new_node(), new_node());
    lead(first.path(), 1, &log, &clock).create_project(5);
    lead(second.path(), 2, &other_log, &clock).create_project(6);
    let mut follower = follow(third.path());
    let records = log.records_after(0);
    let others = other_log.records_after(0);
    let is_refused = |result| matches!(result, Err(FollowError::OtherHistory(_)));
    assert!(is_refused(apply(&mut follower, &records[1..])), "a gap");
    apply(&mut follower, &records[..1]).unwrap();
    assert!(
        is_refused(apply(&mut follower, &others[1..])),
        "another one"
    );
    let mut altered = records[1].clone();
    *altered.last_mut().unwrap() ^= 1;
    assert!(is_refused(apply(&mut follower, &[altered])), "altered");
    assert!(is_refused(apply(&mut follower, &[b"odl1".to_vec()])));
    assert_eq!(follower.place(), 1, "nothing was applied");
    assert!(is_refused(follower.verify_last(Some(&others[0]))));
    assert!(is_refused(follower.verify_last(None)), "the log is shorter");
    follower.verify_last(Some(&records[0])).unwrap();
    apply(&mut follower, &records[1..]).unwrap();
}

#[test]
fn a_leader_without_its_log_stops_and_changes_nothing() {
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let node = new_node();
    let log = RecordedLog::default();
    let mut leader = lead(node.path(), 1, &log, &clock);
    leader.create_project(5);
    leader.create_check(1);
    let before = log.records_after(0).len();
    log.is_failing.store(true, Ordering::Relaxed);
    let mut reply = leader
        .handle
        .submit(ping(1, PingKind::Success, "lost"))
        .unwrap();
    assert_eq!(leader.writer.step(false), Err(WriterExit::Unable));
    assert!(matches!(
        reply.try_recv(),
        Ok(Err(Unavailable::StorageFailed))
    ));
    assert!(leader.handle.submit(create_check_command(2)).is_err());
    drop(leader);
    let follower = follow(node.path());
    assert_eq!(follower.place(), before as u64);
    drop(follower);
    log.is_failing.store(false, Ordering::Relaxed);
    let again = lead(node.path(), 2, &log, &clock);
    let check = again.handle.with_state(|state| {
        let check = state.checks().next().unwrap();
        check.state.n_pings
    });
    assert_eq!(check, 0);
}

#[test]
fn a_database_of_a_cluster_is_not_changed_alone() {
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let node = new_node();
    let refused = open(medium(node.path()), &clock, |_| {}).err().unwrap();
    assert!(
        matches!(&refused, StoreError::File { reason, .. } if reason.contains("--cluster")),
        "{refused}"
    );
    // A database that belongs to no cluster does not follow.
    let alone = tempfile::tempdir().unwrap();
    drop(open(medium(alone.path()), &clock, |_| {}).unwrap());
    let opened = FollowerStore::open(&medium(alone.path()), &ProgressReporter::default());
    let refused = opened.err().unwrap();
    assert!(
        refused.to_string().contains("overdue cluster init"),
        "{refused}"
    );
}

/// Data directory with a database of the cluster that an earlier release wrote, or one that a newer
/// release has migrated.
fn new_node_with_schema(schema: Option<u64>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(FILE_NAME);
    std::fs::copy(Path::new(LAYOUTS).join("12").join(FILE_NAME), &file).unwrap();
    let database = redb::Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta");
    let mut table = transaction.open_table(meta).unwrap();
    let mut set = |name, number: u64| {
        table.insert(name, number.to_le_bytes().as_slice()).unwrap();
    };
    set("log_database", CLUSTER);
    set("clustered", 1);
    if let Some(schema) = schema {
        set("schema", schema);
    }
    drop(table);
    transaction.commit().unwrap();
    directory
}

/// Version of the layout of a closed database.
fn stored_schema(directory: &Path) -> u64 {
    let database = redb::Database::open(directory.join(FILE_NAME)).unwrap();
    let transaction = database.begin_read().unwrap();
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta");
    let table = transaction.open_table(meta).unwrap();
    let schema = table.get("schema").unwrap().unwrap();
    u64::from_le_bytes(schema.value().try_into().unwrap())
}

#[test]
fn a_follower_migrates_its_database_when_the_log_states_a_newer_layout() {
    let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
    let (first, second) = (new_node_with_schema(None), new_node_with_schema(None));
    let log = RecordedLog::default();
    let mut leader = lead(first.path(), 1, &log, &clock);
    leader.create_project(5);
    let expected = rows(&leader.handle);
    drop(leader);
    let mut follower = follow(second.path());
    assert_eq!(follower.place(), 0);
    drop(follower);
    assert_eq!(
        stored_schema(second.path()),
        12,
        "opening it changes nothing"
    );
    follower = follow(second.path());
    apply(&mut follower, &log.records_after(0)).unwrap();
    follower.sync().unwrap();
    drop(follower);
    assert_eq!(stored_schema(second.path()), SCHEMA);
    let next = lead(second.path(), 2, &log, &clock);
    assert_eq!(rows(&next.handle), expected);
}

#[test]
fn a_database_with_a_newer_layout_than_the_log_does_not_follow() {
    let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
    let first = new_node_with_schema(None);
    let second = new_node_with_schema(Some(SCHEMA + 1));
    let log = RecordedLog::default();
    drop(lead(first.path(), 1, &log, &clock));
    let mut follower = follow(second.path());
    let result = apply(&mut follower, &log.records_after(0));
    assert!(
        matches!(result, Err(FollowError::NewerLayout)),
        "{result:?}"
    );
    assert_eq!(follower.place(), 0);
}

#[test]
fn a_database_with_the_layout_of_another_release_is_not_read_while_no_machine_leads() {
    let node = new_node_with_schema(None);
    let follower = follow(node.path());
    let now = Timestamp::from_secs(1_900_000_000);
    let error = engine::open_stale_view(follower.share(), (None, now), 0, Random::seeded(1)).err();
    assert!(
        matches!(error, Some(StoreError::OtherLayout { found: 12, .. })),
        "{error:?}"
    );
    assert!(!follower.is_shared());
}
