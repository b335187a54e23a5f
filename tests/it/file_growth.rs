//! The size of the file: it grows with the stored data, not with the received data.

use overdue::domain::ids::{CheckId, FlipNumber, ProjectId};
use overdue::domain::ping::PingKind;
use overdue::domain::project::{KeyLabel, KeySecret, PingKey};
use overdue::domain::text::Slug;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{
    CheckCreation, CheckUuids, Command, CommandError, CommandOutcome, NewKey, PingRequest,
    PingTarget, Unavailable,
};
use overdue::engine::{self, EngineConfig, HousekeepingLimits};
use overdue::store::{FILE_NAME, Medium, MetaKey, Store};
use uuid::Uuid;

use crate::support::commands::{email_ping, ping};
use crate::support::disk::Disk;
use crate::support::engine::TestEngine;

const HOUR: i64 = 3600;

fn body(bytes: usize) -> Vec<u8> {
    vec![b'x'; bytes]
}

/// Runs the writer until nothing is due.
fn idle(engine: &mut TestEngine) {
    (0..200).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
}

/// Entries in the ping log and kept pings, in the file of a stopped engine.
fn entries(medium: &Medium) -> (u64, u64) {
    let store = Store::open(medium).unwrap();
    let snapshot = store.snapshot().unwrap();
    (snapshot.log_len().unwrap(), snapshot.kept_len().unwrap())
}

#[test]
fn large_bodies_take_a_few_times_the_space_of_the_kept_ones() {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = TestEngine::open(
        Medium::Directory(directory.path().into()),
        HousekeepingLimits::default(),
    );
    engine.create_project(100);
    let id = engine.create_check(7);
    let size = || {
        std::fs::metadata(directory.path().join(FILE_NAME))
            .unwrap()
            .len()
    };
    let mut most = 0;
    for _ in 0..300 {
        engine.batch((0..10).map(|_| ping(7, PingKind::Success, body(100_000))));
        most = most.max(size());
    }
    assert!(most <= 180_000_000, "{most} bytes for 10 MB that are kept");
    assert_eq!(
        engine.handle.pings(&engine.read_check(id)).unwrap().len(),
        100
    );
    assert_eq!(
        engine
            .handle
            .body(&engine.read_check(id), 2901)
            .unwrap()
            .unwrap()
            .len(),
        100_000
    );
}

#[test]
fn an_idle_file_is_compacted_within_an_hour_and_then_left_alone() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(3);
    let ids: Vec<CheckId> = (7..10).map(|uuid| engine.create_check(uuid)).collect();
    for uuid in 7..10 {
        (0..20).for_each(|_| drop(engine.execute(ping(uuid, PingKind::Success, body(100)))));
    }
    idle(&mut engine);
    engine.execute(Command::DeleteCheck(ids[0]));
    // Deadlines of a day do not matter here.
    engine.clock.advance_secs(HOUR + 1);
    idle(&mut engine);
    let synced = disk.sync_count();
    engine.clock.advance_secs(HOUR + 1);
    idle(&mut engine);
    assert_eq!(
        disk.sync_count(),
        synced + 1,
        "an hour without dead data writes only the time of the last pings"
    );
    let remaining = engine
        .handle
        .pings(&engine.read_check(ids[2]))
        .unwrap()
        .len();
    drop(engine);
    assert_eq!((remaining, entries(&disk.medium())), (3, (1, 5)));
    // The pings of the last check go too, except the newest of all, from which a start takes the
    // time.
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.clock.advance_secs(2 * HOUR);
    engine.execute(Command::DeleteCheck(ids[1]));
    engine.execute(Command::DeleteCheck(ids[2]));
    engine.clock.advance_secs(HOUR + 1);
    idle(&mut engine);
    drop(engine);
    assert_eq!(entries(&disk.medium()), (1, 0));
}

#[test]
fn a_compacted_file_has_no_dead_data() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(3);
    let id = engine.create_check(7);
    engine.create_check(8);
    (0..50).for_each(|_| drop(engine.execute(ping(7, PingKind::Success, body(1000)))));
    (0..5).for_each(|_| drop(engine.execute(ping(8, PingKind::Success, ""))));
    engine.execute(Command::DeleteCheck(id));
    drop(engine);
    let (_, writer) = engine::open(EngineConfig::new(disk.medium(), 0)).unwrap();
    writer.run_all_housekeeping().unwrap();
    let (log, kept) = entries(&disk.medium());
    assert_eq!(log + kept, 3);
    // A deleted project counts as dead space, like a check.
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.execute(Command::DeleteProject(ProjectId(1)));
    engine.writer.run_all_housekeeping().unwrap();
    assert_eq!(
        (
            entries(&disk.medium()),
            Store::open(&disk.medium())
                .unwrap()
                .snapshot()
                .unwrap()
                .checks()
                .unwrap()
                .count()
        ),
        ((1, 0), 0)
    );
}

#[test]
fn a_full_disk_recovers_by_itself_if_there_is_dead_data() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(2);
    let id = engine.create_check(7);
    (0..5).for_each(|_| drop(engine.execute(ping(7, PingKind::Success, body(90_000)))));
    disk.set_capacity(Some(disk.len() + 4_000_000));
    let mut refused = 0;
    for _ in 0..400 {
        match engine
            .batch([ping(7, PingKind::Success, body(90_000))])
            .remove(0)
        {
            Ok(answer) => assert_eq!(answer, Ok(CommandOutcome::Pinged)),
            Err(unavailable) => {
                assert_eq!(unavailable, Unavailable::StorageFailed);
                refused += 1;
            }
        }
    }
    // Each time the file is full, the ping that finds it so is refused, and at most one more during
    // the recovery.
    assert!(
        (1..100).contains(&refused),
        "{refused} of 400 pings refused"
    );
    assert!(engine.handle.is_writable() || engine.writer.step(false) == Ok(true));
    assert_eq!(
        engine.handle.pings(&engine.read_check(id)).unwrap().len(),
        2
    );
}

#[test]
fn flips_of_three_months_are_kept_and_older_ones_removed_in_any_order() {
    const DAY: i64 = 24 * HOUR;
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(3);
    let ids = [7, 8].map(|uuid| engine.create_check(uuid));
    let [id, deleted] = ids;
    let flap = |engine: &mut TestEngine, uuid: u128, times: u32| {
        for _ in 0..times {
            engine.batch([PingKind::Fail, PingKind::Success].map(|kind| ping(uuid, kind, "")));
        }
    };
    flap(&mut engine, 7, 1000);
    flap(&mut engine, 8, 10);
    // A row with a time in the future, left by a clock that was ahead, precedes all others.
    drop(engine);
    let store = Store::open(&disk.medium()).unwrap();
    let batch = store.batch().unwrap();
    let mut ahead = store
        .snapshot()
        .unwrap()
        .flips_after(FlipNumber(0))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    ahead.1.flip.at = ahead.1.flip.at.plus_secs(1000 * DAY);
    batch.append_flips(&[ahead]).unwrap();
    batch
        .set_meta_value(MetaKey::FlipsOutOfOrder, ahead.0.0)
        .unwrap();
    batch.commit().unwrap();
    drop(store);

    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.clock.advance_secs(35 * DAY);
    flap(&mut engine, 7, 1000);
    let count = |engine: &TestEngine, from: Timestamp| {
        engine
            .handle
            .flips(&engine.read_check(id), from)
            .unwrap()
            .len()
    };
    let middle = engine.handle.now();
    // The second part began with a check that had gone down by its deadline. The row with the time
    // in the future is later than all.
    assert_eq!(
        (count(&engine, Timestamp::default()), count(&engine, middle)),
        (4000, 2000)
    );
    engine.execute(Command::DeleteCheck(deleted));
    engine.clock.advance_secs(HOUR + 1);
    idle(&mut engine);
    assert_eq!(count(&engine, Timestamp::default()), 4000);
    engine.clock.advance_secs(62 * DAY);
    idle(&mut engine);
    // One more: the missed deadline since then.
    assert_eq!(count(&engine, Timestamp::default()), 2000);
    drop(engine);
    let store = Store::open(&disk.medium()).unwrap();
    let remaining: Vec<_> = store
        .snapshot()
        .unwrap()
        .flips_after(FlipNumber(0))
        .unwrap()
        .map(|row| row.unwrap().1)
        .collect();
    assert!(
        remaining.iter().all(|logged| logged.check == id),
        "flips of a deleted check are left"
    );
    assert_eq!(remaining.len(), 2001);
}

#[test]
fn pings_create_at_most_ten_thousand_checks_in_a_project_without_a_limit() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(3);
    let key = PingKey::parse("aZ09-_aZ09-_aZ09-_aZ09").unwrap();
    let ping_key = NewKey {
        project: ProjectId(1),
        secret: KeySecret::Ping(key.clone()),
        label: KeyLabel::default(),
        hint: "".into(),
    };
    engine.execute(Command::CreateKey(Box::new(ping_key)));
    let create = |number: u128| {
        let names = CheckUuids {
            uuid: Uuid::from_u128(number),
            badge: Uuid::from_u128(number),
        };
        let slug = Slug::parse(&format!("s{number}")).unwrap();
        match ping(0, PingKind::Success, "") {
            Command::Ping(request) => {
                let target = PingTarget::Slug {
                    key: key.clone(),
                    slug,
                    create: Some(CheckCreation {
                        uuids: names,
                        edit: None,
                    }),
                };
                Command::Ping(Box::new(PingRequest { target, ..*request }))
            }
            other => other,
        }
    };
    let set = |limit| Command::UpdateProject {
        project: ProjectId(1),
        name: None,
        check_limit: Some(limit),
        ping_log_limit: None,
        allows_ping_settings: None,
    };
    engine.create_check(1 << 100);
    for numbers in [1..6000, 6000..10_000] {
        let answers = engine.batch(numbers.map(create));
        assert!(
            answers
                .iter()
                .all(|answer| *answer == Ok(Ok(CommandOutcome::PingedNewCheck)))
        );
    }
    let full = vec![Ok(Err(CommandError::NotFound)); 2];
    assert_eq!(engine.batch([create(10_001), create(10_002)]), full);
    // The API still enforces the limit that replaces this one.
    engine.create_check(1 << 101);
    engine.execute(set(Some(6000)));
    assert_eq!(
        engine.execute(create(10_003)),
        CommandOutcome::PingedNewCheck
    );
    engine.execute(set(Some(5000)));
    assert_eq!(engine.batch([create(10_004), create(10_005)]), full);
}

#[test]
fn a_large_body_is_read_only_on_request() {
    const LARGE: usize = 20 << 20;
    let disk = Disk::default();
    let often = HousekeepingLimits {
        slice_rows: 50,
        min_tail: 10,
        tail_per_check: 0,
        slack_entries: 20,
        ..HousekeepingLimits::default()
    };
    let mut engine = TestEngine::open(disk.medium(), often);
    engine.create_project(30);
    let id = engine.create_check(7);
    engine.create_check(8);
    engine.execute(Command::Mail(vec![email_ping(8, "", None, body(LARGE))]));
    let before = disk.read_bytes();
    // They are logged, swept, kept and pruned beside the large body, which does not fit into the
    // cache of redb.
    (0..400).for_each(|_| drop(engine.execute(ping(7, PingKind::Success, ""))));
    idle(&mut engine);
    let read = disk.read_bytes() - before;
    assert!(
        read < 5 * LARGE as u64,
        "{read} bytes were read for 400 pings"
    );
    assert_eq!(
        engine.handle.pings(&engine.read_check(id)).unwrap().len(),
        30
    );
    let large = engine.handle.with_state(|state| {
        state
            .check_by_uuid(uuid::Uuid::from_u128(8))
            .unwrap()
            .clone()
    });
    assert_eq!(engine.handle.body(&large, 1).unwrap().unwrap().len(), LARGE);
}

#[test]
fn a_large_body_is_not_rewritten_with_later_rows() {
    // With its overhead it takes a page of 8 MiB.
    const LARGE: usize = 7 << 20;
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(30);
    let small = engine.create_check(7);
    let large = engine.create_check(8);
    let before = disk.written_bytes();
    let mail = || Command::Mail(vec![email_ping(8, "", None, body(LARGE))]);
    let few = || ping(7, PingKind::Success, body(3));
    for batch in [
        vec![few()],
        vec![mail()],
        vec![few(), mail(), few()],
        vec![few(), few()],
    ] {
        assert!(
            engine
                .batch(batch)
                .iter()
                .all(|answer| matches!(answer, Ok(Ok(_))))
        );
    }
    // redb writes a page twice if it is longer than half of its cache.
    let written = disk.written_bytes() - before;
    assert!(
        written < (35 << 20),
        "{written} bytes were written for two bodies"
    );
    for n in 1..=2 {
        assert_eq!(
            engine
                .handle
                .body(&engine.read_check(large), n)
                .unwrap()
                .unwrap()
                .len(),
            LARGE
        );
    }
    assert!((1..=5).all(|n| {
        engine
            .handle
            .body(&engine.read_check(small), n)
            .unwrap()
            .unwrap()
            == body(3)
    }));
}
