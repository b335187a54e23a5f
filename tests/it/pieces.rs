//! Long bodies are written, carried and removed in pieces, so that no commit is long and nothing of them is left behind.

use bytes::Bytes;
use overdue::clock::ManualClock;
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::moment::Moment;
use overdue::domain::ping::Kind;
use overdue::engine::Thresholds;
use overdue::engine::command::{Answer, Command, Outcome, Unavailable};
use redb::{ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::support::build::{email, ping};
use crate::support::dice::Dice;
use crate::support::disk::{Disk, Operation};
use crate::support::engine::{Engine, open};

/// The largest mail.
const LARGE: usize = 33_000_000;

fn body(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at % 251) as u8).collect::<Vec<_>>().into()
}

fn mail(checks: std::ops::RangeInclusive<u128>, body: &Bytes) -> Command {
    Command::Mail(checks.map(|uuid| email(uuid, "", None, body.clone())).collect())
}

fn engine(disk: &Disk, thresholds: Thresholds) -> Engine {
    let mut engine = Engine::open(disk.medium(), thresholds);
    engine.project(2);
    engine
}

fn step(engine: &mut Engine) {
    assert_eq!(engine.writer.step(false), Ok(true));
}

fn is_waiting(reply: &mut Receiver<Answer>) -> bool {
    reply.try_recv() == Err(TryRecvError::Empty)
}

/// Rows of the tables `pieces`, `uploads` and `unreferred`, in the file of an engine that has stopped.
fn left(disk: &Disk) -> [u64; 3] {
    let database = redb::Builder::new().create_with_backend(disk.clone()).unwrap();
    let transaction = database.begin_read().unwrap();
    let pieces = transaction.open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces")).unwrap().len().unwrap();
    let uploads = transaction.open_table(TableDefinition::<u64, u64>::new("uploads")).unwrap().len().unwrap();
    let unreferred = transaction.open_table(TableDefinition::<u64, ()>::new("unreferred")).unwrap().len().unwrap();
    [pieces, uploads, unreferred]
}

#[test]
fn pings_are_answered_between_the_pieces_of_a_large_mail() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds::default());
    let [_, large] = [7, 8].map(|uuid| engine.check(uuid));
    let mut sent = [(); 2].map(|()| engine.handle.submit(mail(8..=8, &body(LARGE))).unwrap());
    let mut most = 0;
    for _ in 0..20 {
        let (synced, written) = (disk.synced(), disk.written());
        let mut small = engine.handle.submit(ping(7, Kind::Success, "")).unwrap();
        step(&mut engine);
        assert_eq!(small.try_recv().unwrap(), Ok(Ok(Outcome::Pinged)));
        // One commit; another sync when the file grows.
        assert!(disk.synced() - synced <= 2);
        most = most.max(disk.written() - written);
    }
    assert!(most < 2_500_000, "{most} bytes were written in a commit");
    assert!(sent.iter_mut().all(is_waiting) && engine.seen(large).state.n_pings == 0, "it is there whole or not at all");
    (0..50).for_each(|_| step(&mut engine));
    // They come in order.
    assert_eq!(sent[0].try_recv().unwrap(), Ok(Ok(Outcome::Done)));
    let whole = engine.handle.body(&engine.seen(large), 1).unwrap();
    assert!(whole.is_some_and(|whole| whole == body(LARGE)));
}

#[test]
fn a_mail_to_many_checks_is_stored_once_and_stays_until_the_last_of_its_pings_is_gone() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds::default());
    let ids: Vec<CheckId> = (1..=20).map(|uuid| engine.check(uuid)).collect();
    let before = disk.written();
    let sent = body(5_000_000);
    engine.done(mail(1..=20, &sent));
    let written = disk.written() - before;
    assert!(written < 8_000_000, "{written} bytes were written for a body of 5 MB");
    let reads = |engine: &Engine, id: CheckId| engine.handle.body(&engine.seen(id), 1).unwrap().unwrap() == sent;
    assert!(ids.iter().all(|id| reads(&engine, *id)));
    for id in &ids[1..] {
        engine.done(Command::DeleteCheck(*id));
    }
    engine.clock.advance_secs(3601);
    (0..100).for_each(|_| step(&mut engine));
    assert!(reads(&engine, ids[0]));
    // The newest ping of all stays in the log, whatever it is.
    engine.check(7);
    engine.done(ping(7, Kind::Success, ""));
    engine.done(Command::DeleteCheck(ids[0]));
    engine.clock.advance_secs(3601);
    let mut most = 0;
    for _ in 0..100 {
        let removed = disk.written();
        step(&mut engine);
        most = most.max(disk.written() - removed);
    }
    assert!(most < 1_000_000, "{most} bytes were written in a commit that removes");
    drop(engine);
    assert_eq!(left(&disk), [0, 0, 0]);
}

#[test]
fn bodies_in_pieces_go_with_their_pings_and_the_sweep_does_not_move_them() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds { slice: 10, least_tail: 1, tail_per_check: 0, slack: 2, ..Thresholds::default() });
    let id = engine.check(7);
    let before = disk.written();
    for n in 0..12_u8 {
        let mut sent = vec![n; 3_000_000];
        sent[17] = 1;
        engine.done(Command::Mail(vec![email(7, "", None, sent)]));
    }
    (0..100).for_each(|_| step(&mut engine));
    let written = disk.written() - before;
    assert!(written < 12 * 3_500_000, "{written} bytes were written for 36 MB of bodies");
    let check = engine.seen(id);
    assert!((11..=12).all(|n| engine.handle.body(&check, n).unwrap().unwrap()[16] == n as u8 - 1));
    assert!(disk.len() < 64_000_000, "{} bytes for 6 MB that are kept", disk.len());
    engine.done(Command::DeleteProject(ProjectId(1)));
    drop(engine);
    let clock = ManualClock::at(Moment::from_secs(1_900_000_000));
    let (_, writer) = open(disk.medium(), &clock, |_| {}).unwrap();
    writer.tidy().unwrap();
    // One ping stays: see above.
    assert_eq!(left(&disk), [3, 1, 0]);
}

#[test]
fn what_was_half_written_leaves_nothing_behind() {
    let small = Thresholds { large: 1000, piece: 1000, ..Thresholds::default() };
    for operations in 0..60 {
        let disk = Disk::default();
        let mut engine = engine(&disk, small);
        let id = engine.check(7);
        disk.lose_power(operations);
        let mut reply = engine.handle.submit(mail(7..=7, &body(6000))).unwrap();
        (0..10).for_each(|_| step(&mut engine));
        let answer = reply.try_recv().unwrap();
        disk.power_off();
        drop(engine);
        disk.power_on(&Dice::seeded(operations.into()));
        let (handle, mut writer) = open(disk.medium(), &ManualClock::at(Moment::from_secs(1_800_000_000)), |_| {}).unwrap();
        (0..20).for_each(|_| assert_eq!(writer.step(false), Ok(true)));
        let check = handle.with_state(|state| state.check(id).unwrap().clone());
        let found = handle.body(&check, 1).unwrap();
        assert!(found.as_ref().is_none_or(|found| *found == body(6000)), "half of it is there");
        assert!(found.is_some() || answer == Err(Unavailable::Storage), "what was answered is there");
        let pings = handle.pings(&check).unwrap().len();
        drop((handle, writer));
        assert_eq!((pings, left(&disk)), if found.is_some() { (1, [6, 1, 0]) } else { (0, [0, 0, 0]) }, "after {operations}");
    }
}

#[test]
fn a_write_that_fails_between_two_pieces_refuses_the_mail_and_removes_what_was_written() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds::default());
    let id = engine.check(7);
    let mut reply = engine.handle.submit(mail(7..=7, &body(LARGE))).unwrap();
    (0..10).for_each(|_| step(&mut engine));
    disk.fail(Operation::Write, 0);
    step(&mut engine);
    assert_eq!(reply.try_recv().unwrap(), Err(Unavailable::Storage));
    disk.heal();
    (0..10).for_each(|_| step(&mut engine));
    assert!(engine.handle.is_writable());
    engine.done(ping(7, Kind::Success, ""));
    assert_eq!(engine.seen(id).state.n_pings, 1);
    drop(engine);
    assert_eq!(left(&disk), [0, 0, 0]);
}

#[test]
fn a_stop_finishes_what_was_begun() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds::default());
    engine.check(7);
    let mut replies = [(); 2].map(|()| engine.handle.submit(mail(7..=7, &body(3_000_000))).unwrap());
    step(&mut engine);
    engine.handle.close();
    while engine.writer.step(false).unwrap() {}
    assert!(replies.iter_mut().all(|reply| reply.try_recv().unwrap() == Ok(Ok(Outcome::Done))));
}

#[test]
fn a_body_of_pieces_that_was_altered_is_told_not_served() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds::default());
    let id = engine.check(7);
    engine.done(mail(7..=7, &body(3_000_000)));
    let alter = |engine: Engine, to: &[u8]| {
        drop(engine);
        let database = redb::Builder::new().create_with_backend(disk.clone()).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces")).unwrap().insert((1, 1), to).unwrap();
        transaction.commit().unwrap();
        drop(database);
        Engine::open(disk.medium(), Thresholds::default())
    };
    for altered in [vec![1; (1 << 20) - 1024], vec![], vec![1; 3_000_000]] {
        engine = alter(engine, &altered);
        let error = engine.handle.body(&engine.seen(id), 1).unwrap_err().to_string();
        assert!(error.ends_with("the body of ping 1 has been altered"), "{error}");
    }
}

#[test]
fn a_row_that_could_not_be_read_holds_no_long_body_after_a_compaction() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds::default());
    let ids = [7, 8].map(|uuid| engine.check(uuid));
    engine.done(mail(7..=8, &body(3_000_000)));
    engine.done(ping(7, Kind::Success, ""));
    engine.handle.close();
    while engine.writer.step(false) == Ok(true) {}
    drop(engine);
    let database = redb::Builder::new().create_with_backend(disk.clone()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, &[u8]>::new("pings")).unwrap().insert(1, &[99][..]).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let compact = || {
        let clock = ManualClock::at(Moment::from_secs(1_900_000_000));
        let (_, writer) = open(disk.medium(), &clock, |_| {}).unwrap();
        writer.tidy().unwrap();
        left(&disk)
    };
    // The other check has it still.
    assert_eq!(compact(), [3, 1, 0]);
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    assert!(engine.handle.body(&engine.seen(ids[1]), 1).unwrap().is_some_and(|found| found == body(3_000_000)));
    ids.into_iter().for_each(|id| drop(engine.done(Command::DeleteCheck(id))));
    drop(engine);
    assert_eq!(compact(), [0, 0, 0]);
}

#[test]
fn pieces_that_cannot_be_read_keep_no_others_from_going() {
    let disk = Disk::default();
    let mut engine = engine(&disk, Thresholds::default());
    let [deleted, left_alone] = [7, 8].map(|uuid| engine.check(uuid));
    for n in 1..=3_u8 {
        engine.done(Command::Mail(vec![email(7, "", None, vec![n; 30_000_000])]));
    }
    engine.done(ping(8, Kind::Success, ""));
    // More than redb's cache holds is to be read from the disk, of which this is one page.
    let bad = disk.bytes().windows(4096).position(|bytes| bytes == [2; 4096]).unwrap();
    engine = Engine::open(
        {
            drop(engine);
            disk.medium()
        },
        Thresholds::default(),
    );
    disk.spoil(std::iter::once(bad..bad + 4096).collect());
    engine.done(Command::DeleteCheck(deleted));
    engine.clock.advance_secs(3601);
    for _ in 0..200 {
        assert_eq!(engine.done(ping(8, Kind::Success, "")), Outcome::Pinged);
        engine.clock.advance_secs(1);
    }
    assert!(disk.failed_reads() > 0 && engine.handle.is_writable());
    assert_eq!(engine.seen(left_alone).state.n_pings, 201);
    drop(engine);
    disk.spoil(Vec::new());
    // To remove the one before, its neighbour is needed.
    let [_, uploads, unreferred] = left(&disk);
    assert!(uploads == 0 && (1..=2).contains(&unreferred), "{uploads}, {unreferred}");
}
