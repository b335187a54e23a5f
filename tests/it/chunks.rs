//! Long bodies are written, moved and removed in chunks. No commit is long, and no chunk is left
//! behind.

use bytes::Bytes;
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::ping::PingKind;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{Command, CommandOutcome, CommandReply, Unavailable};
use overdue::util::clock::ManualClock;
use redb::{ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::support::commands::{email_ping, ping};
use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine::{TestEngine, open};
use crate::support::seeded_rng::SeededRng;

/// Size of the largest mail.
const LARGE: usize = 33_000_000;

fn body(bytes: usize) -> Bytes {
    (0..bytes)
        .map(|at| (at % 251) as u8)
        .collect::<Vec<_>>()
        .into()
}

fn mail(checks: std::ops::RangeInclusive<u128>, body: &Bytes) -> Command {
    Command::Mail(
        checks
            .map(|uuid| email_ping(uuid, "", None, body.clone()))
            .collect(),
    )
}

fn engine(disk: &Disk, thresholds: HousekeepingLimits) -> TestEngine {
    let mut engine = TestEngine::open(disk.medium(), thresholds);
    engine.create_project(2);
    engine
}

fn step(engine: &mut TestEngine) {
    assert_eq!(engine.writer.step(false), Ok(true));
}

fn is_waiting(reply: &mut Receiver<CommandReply>) -> bool {
    reply.try_recv() == Err(TryRecvError::Empty)
}

/// Rows of the tables `pieces`, `uploads` and `unreferred` in the file of a stopped engine.
fn leftover_rows(disk: &Disk) -> [u64; 3] {
    let database = redb::Builder::new()
        .create_with_backend(disk.database())
        .unwrap();
    let transaction = database.begin_read().unwrap();
    let pieces = transaction
        .open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces"))
        .unwrap()
        .len()
        .unwrap();
    let uploads = transaction
        .open_table(TableDefinition::<u64, u64>::new("uploads"))
        .unwrap()
        .len()
        .unwrap();
    let unreferred = transaction
        .open_table(TableDefinition::<u64, ()>::new("unreferred"))
        .unwrap()
        .len()
        .unwrap();
    [pieces, uploads, unreferred]
}

#[test]
fn pings_are_answered_between_the_chunks_of_a_large_mail() {
    let disk = Disk::default();
    let mut engine = engine(&disk, HousekeepingLimits::default());
    let [_, large] = [7, 8].map(|uuid| engine.create_check(uuid));
    let mut sent = [(); 2].map(|()| engine.handle.submit(mail(8..=8, &body(LARGE))).unwrap());
    let mut longest = 0;
    for _ in 0..20 {
        let synced = disk.sync_count();
        let written = disk.written_bytes();
        let mut small = engine
            .handle
            .submit(ping(7, PingKind::Success, ""))
            .unwrap();
        step(&mut engine);
        assert_eq!(small.try_recv().unwrap(), Ok(Ok(CommandOutcome::Pinged)));
        // One commit; the file may need another sync to grow.
        assert!(disk.sync_count() - synced <= 2);
        longest = longest.max(disk.written_bytes() - written);
    }
    assert!(
        longest < 2_500_000,
        "{longest} bytes were written in a commit"
    );
    assert!(
        sent.iter_mut().all(is_waiting) && engine.read_check(large).state.n_pings == 0,
        "it is stored completely or not at all"
    );
    (0..50).for_each(|_| step(&mut engine));
    // They are in order.
    assert_eq!(
        sent[0].try_recv().unwrap(),
        Ok(Ok(CommandOutcome::Completed))
    );
    let whole = engine.handle.body(&engine.read_check(large), 1).unwrap();
    assert!(whole.is_some_and(|whole| whole == body(LARGE)));
}

#[test]
fn a_mail_to_many_checks_is_stored_once_until_its_last_ping_is_removed() {
    let disk = Disk::default();
    let mut engine = engine(&disk, HousekeepingLimits::default());
    let ids: Vec<CheckId> = (1..=20).map(|uuid| engine.create_check(uuid)).collect();
    let before = disk.written_bytes();
    let sent = body(5_000_000);
    engine.execute(mail(1..=20, &sent));
    let written = disk.written_bytes() - before;
    assert!(
        written < 8_000_000,
        "{written} bytes were written for a body of 5 MB"
    );
    let reads = |engine: &TestEngine, id: CheckId| {
        engine
            .handle
            .body(&engine.read_check(id), 1)
            .unwrap()
            .unwrap()
            == sent
    };
    assert!(ids.iter().all(|id| reads(&engine, *id)));
    for id in &ids[1..] {
        engine.execute(Command::DeleteCheck(*id));
    }
    engine.clock.advance_secs(3601);
    (0..100).for_each(|_| step(&mut engine));
    assert!(reads(&engine, ids[0]));
    // The newest ping stays in the log in any case.
    engine.create_check(7);
    engine.execute(ping(7, PingKind::Success, ""));
    engine.execute(Command::DeleteCheck(ids[0]));
    engine.clock.advance_secs(3601);
    let mut longest = 0;
    for _ in 0..100 {
        let removed = disk.written_bytes();
        step(&mut engine);
        longest = longest.max(disk.written_bytes() - removed);
    }
    assert!(
        longest < 1_000_000,
        "{longest} bytes were written in a commit that removes"
    );
    drop(engine);
    assert_eq!(leftover_rows(&disk), [0, 0, 0]);
}

#[test]
fn chunked_bodies_are_removed_with_their_pings_and_the_sweep_does_not_move_them() {
    let disk = Disk::default();
    let mut engine = engine(
        &disk,
        HousekeepingLimits {
            slice_rows: 10,
            min_tail: 1,
            tail_per_check: 0,
            slack_entries: 2,
            ..HousekeepingLimits::default()
        },
    );
    let id = engine.create_check(7);
    let before = disk.written_bytes();
    for n in 0..12_u8 {
        let mut sent = vec![n; 3_000_000];
        sent[17] = 1;
        engine.execute(Command::Mail(vec![email_ping(7, "", None, sent)]));
    }
    (0..100).for_each(|_| step(&mut engine));
    let written = disk.written_bytes() - before;
    assert!(
        written < 12 * 3_500_000,
        "{written} bytes were written for 36 MB of bodies"
    );
    let check = engine.read_check(id);
    assert!((11..=12).all(|n| engine.handle.body(&check, n).unwrap().unwrap()[16] == n as u8 - 1));
    assert!(
        disk.len() < 64_000_000,
        "{} bytes for 6 MB that are kept",
        disk.len()
    );
    engine.execute(Command::DeleteProject(ProjectId(1)));
    drop(engine);
    let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
    let (_, writer) = open(disk.medium(), &clock, |_| {}).unwrap();
    writer.run_all_housekeeping().unwrap();
    // The newest ping stays: see above.
    assert_eq!(leftover_rows(&disk), [3, 1, 0]);
}

#[test]
fn a_partial_write_leaves_nothing_behind() {
    let small = HousekeepingLimits {
        upload_threshold_bytes: 1000,
        chunk_bytes: 1000,
        ..HousekeepingLimits::default()
    };
    for operations in 0..60 {
        let disk = Disk::default();
        let mut engine = engine(&disk, small);
        let id = engine.create_check(7);
        disk.lose_power_after(operations);
        let mut reply = engine.handle.submit(mail(7..=7, &body(6000))).unwrap();
        (0..10).for_each(|_| step(&mut engine));
        let answer = reply.try_recv().unwrap();
        disk.power_off();
        drop(engine);
        disk.power_on(&SeededRng::seeded(operations.into()));
        let (handle, mut writer) = open(
            disk.medium(),
            &ManualClock::at(Timestamp::from_secs(1_800_000_000)),
            |_| {},
        )
        .unwrap();
        (0..20).for_each(|_| assert_eq!(writer.step(false), Ok(true)));
        let check = handle.with_state(|state| state.check(id).unwrap().clone());
        let found = handle.body(&check, 1).unwrap();
        assert!(
            found.as_ref().is_none_or(|found| *found == body(6000)),
            "half of it is there"
        );
        assert!(
            found.is_some() || answer == Err(Unavailable::StorageFailed),
            "acknowledged data is stored"
        );
        let pings = handle.pings(&check).unwrap().len();
        drop((handle, writer));
        assert_eq!(
            (pings, leftover_rows(&disk)),
            if found.is_some() {
                (1, [6, 1, 0])
            } else {
                (0, [0, 0, 0])
            },
            "after {operations}"
        );
    }
}

#[test]
fn a_write_that_fails_between_two_chunks_refuses_the_mail_and_removes_its_chunks() {
    let disk = Disk::default();
    let mut engine = engine(&disk, HousekeepingLimits::default());
    let id = engine.create_check(7);
    let mut reply = engine.handle.submit(mail(7..=7, &body(LARGE))).unwrap();
    (0..10).for_each(|_| step(&mut engine));
    disk.fail_after(DiskOperation::Write, 0);
    step(&mut engine);
    assert_eq!(reply.try_recv().unwrap(), Err(Unavailable::StorageFailed));
    disk.heal();
    (0..10).for_each(|_| step(&mut engine));
    assert!(engine.handle.is_writable());
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(engine.read_check(id).state.n_pings, 1);
    drop(engine);
    assert_eq!(leftover_rows(&disk), [0, 0, 0]);
}

#[test]
fn a_stop_finishes_a_write_in_progress() {
    let disk = Disk::default();
    let mut engine = engine(&disk, HousekeepingLimits::default());
    engine.create_check(7);
    let mut replies =
        [(); 2].map(|()| engine.handle.submit(mail(7..=7, &body(3_000_000))).unwrap());
    step(&mut engine);
    engine.handle.close();
    while engine.writer.step(false).unwrap() {}
    assert!(
        replies
            .iter_mut()
            .all(|reply| reply.try_recv().unwrap() == Ok(Ok(CommandOutcome::Completed)))
    );
}

#[test]
fn an_altered_chunked_body_is_reported_and_not_served() {
    let disk = Disk::default();
    let mut engine = engine(&disk, HousekeepingLimits::default());
    let id = engine.create_check(7);
    engine.execute(mail(7..=7, &body(3_000_000)));
    let alter = |engine: TestEngine, to: &[u8]| {
        drop(engine);
        let database = redb::Builder::new()
            .create_with_backend(disk.database())
            .unwrap();
        let transaction = database.begin_write().unwrap();
        transaction
            .open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces"))
            .unwrap()
            .insert((1, 1), to)
            .unwrap();
        transaction.commit().unwrap();
        drop(database);
        TestEngine::open(disk.medium(), HousekeepingLimits::default())
    };
    for altered in [vec![1; (1 << 20) - 1024], vec![], vec![1; 3_000_000]] {
        engine = alter(engine, &altered);
        let error = engine
            .handle
            .body(&engine.read_check(id), 1)
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("the body of ping 1 has been altered"),
            "{error}"
        );
    }
}

#[test]
fn a_row_that_could_not_be_read_holds_no_long_body_after_a_compaction() {
    let disk = Disk::default();
    let mut engine = engine(&disk, HousekeepingLimits::default());
    let ids = [7, 8].map(|uuid| engine.create_check(uuid));
    engine.execute(mail(7..=8, &body(3_000_000)));
    engine.execute(ping(7, PingKind::Success, ""));
    engine.handle.close();
    while engine.writer.step(false) == Ok(true) {}
    drop(engine);
    let database = redb::Builder::new()
        .create_with_backend(disk.database())
        .unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(TableDefinition::<u64, &[u8]>::new("pings"))
        .unwrap()
        .insert(1, &[99][..])
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let compact = || {
        let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
        let (_, writer) = open(disk.medium(), &clock, |_| {}).unwrap();
        writer.run_all_housekeeping().unwrap();
        leftover_rows(&disk)
    };
    // The other check still refers to it.
    assert_eq!(compact(), [3, 1, 0]);
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    assert!(
        engine
            .handle
            .body(&engine.read_check(ids[1]), 1)
            .unwrap()
            .is_some_and(|found| found == body(3_000_000))
    );
    ids.into_iter()
        .for_each(|id| drop(engine.execute(Command::DeleteCheck(id))));
    drop(engine);
    assert_eq!(compact(), [0, 0, 0]);
}

#[test]
fn unreadable_chunks_do_not_prevent_the_removal_of_others() {
    let disk = Disk::default();
    let mut engine = engine(&disk, HousekeepingLimits::default());
    let [deleted, left_alone] = [7, 8].map(|uuid| engine.create_check(uuid));
    for n in 1..=3_u8 {
        engine.execute(Command::Mail(vec![email_ping(
            7,
            "",
            None,
            vec![n; 30_000_000],
        )]));
    }
    engine.execute(ping(8, PingKind::Success, ""));
    // More data than the cache of redb holds must be read from the disk, and this page is part of
    // it.
    let bad = disk
        .bytes()
        .windows(4096)
        .position(|bytes| bytes == [2; 4096])
        .unwrap();
    engine = TestEngine::open(
        {
            drop(engine);
            disk.medium()
        },
        HousekeepingLimits::default(),
    );
    disk.make_unreadable(std::iter::once(bad..bad + 4096).collect());
    engine.execute(Command::DeleteCheck(deleted));
    engine.clock.advance_secs(3601);
    for _ in 0..200 {
        assert_eq!(
            engine.execute(ping(8, PingKind::Success, "")),
            CommandOutcome::Pinged
        );
        engine.clock.advance_secs(1);
    }
    assert!(disk.failed_reads() > 0 && engine.handle.is_writable());
    assert_eq!(engine.read_check(left_alone).state.n_pings, 201);
    drop(engine);
    disk.make_unreadable(Vec::new());
    // Removing the previous chunk requires its neighbour.
    let [_, uploads, unreferred] = leftover_rows(&disk);
    assert!(
        uploads == 0 && (1..=2).contains(&unreferred),
        "{uploads}, {unreferred}"
    );
}
