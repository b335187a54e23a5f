//! Unreadable and corrupt pages, hanging disks and missing files. Each fault affects only the data
//! that it touches, and only while it lasts.

use std::ops::Range;

use bytes::Bytes;
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::ping::PingKind;
use overdue::domain::schedule::Schedule;
use overdue::domain::status::Status;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{Command, CommandOutcome, Unavailable};
use overdue::store::{FILE_NAME, Medium, Store, StoreError};
use overdue::util::clock::ManualClock;
use overdue::util::random::Random;

use crate::support::commands::{self, ping};
use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine::{TestEngine, open};
use crate::support::server::{START, TestServer};

const PAGE: usize = 4096;

/// Returns a large body that no other ping has. The cache of redb holds few of them.
fn body(number: usize) -> Bytes {
    format!("body {number:03} ").repeat(10_000).into()
}

/// Returns the pages that begin a leaf of a redb tree and match `is_match`. The first byte of a
/// leaf is 1; its third and fourth contain the number of rows.
fn leaf_pages(disk: &Disk, is_match: impl Fn(&[u8]) -> bool) -> Vec<Range<usize>> {
    let bytes = disk.bytes();
    let pages = bytes
        .chunks(PAGE)
        .enumerate()
        .filter(|(_, page)| page.len() == PAGE && page[0] == 1 && is_match(page));
    pages
        .map(|(number, _)| number * PAGE..(number + 1) * PAGE)
        .collect()
}

/// Returns the leaves that contain bodies with these numbers.
fn body_leaf_pages(disk: &Disk, numbers: Range<usize>) -> Vec<Range<usize>> {
    leaf_pages(disk, |page| {
        let at = page[..100].windows(5).position(|window| window == b"body ");
        at.is_some_and(|at| {
            std::str::from_utf8(&page[at + 5..at + 8])
                .is_ok_and(|text| text.parse().is_ok_and(|n| numbers.contains(&n)))
        })
    })
}

/// Returns the leaves of the ping log whose first arrival is in the range. The keys, 8 bytes each,
/// follow the end offsets of all values.
fn ping_leaf_pages(disk: &Disk, arrivals: Range<u64>) -> Vec<Range<usize>> {
    leaf_pages(disk, |page| {
        let rows = usize::from(u16::from_le_bytes([page[2], page[3]]));
        let key = page
            .get(4 + 4 * rows..12 + 4 * rows)
            .map(|key| u64::from_le_bytes(key.try_into().unwrap()));
        rows > 10
            && key.is_some_and(|key| arrivals.contains(&key))
            && page.windows(4).any(|window| window == b"test")
    })
}

/// Number of old pings of check 8.
const OLD: usize = 300;

/// Opens an engine that has just started, with more pings than the cache of redb holds.
fn filled_engine(disk: &Disk) -> (TestEngine, CheckId) {
    // These limits keep the sweep from running.
    let thresholds = HousekeepingLimits {
        slack_bytes: 1 << 30,
        ..HousekeepingLimits::default()
    };
    let mut engine = TestEngine::open(disk.medium(), thresholds);
    engine.create_project(10_000);
    let id = engine.create_check(7);
    engine.create_check(8);
    engine.batch((0..OLD).map(|_| ping(8, PingKind::Success, "")));
    for first in (1..=PINGS).step_by(50) {
        engine.batch((first..first + 50).map(|number| ping(7, PingKind::Success, body(number))));
    }
    stop(engine);
    (TestEngine::open(disk.medium(), thresholds), id)
}

fn stop(mut engine: TestEngine) {
    engine.handle.close();
    while engine.writer.step(false) == Ok(true) {}
}

/// Returns the numbers of the bodies that cannot be read.
fn unreadable_bodies(engine: &TestEngine, id: CheckId) -> Vec<usize> {
    let check = engine.read_check(id);
    (1..=PINGS)
        .filter(|n| {
            engine
                .handle
                .body(&check, *n as u64)
                .map(|found| found.map(Bytes::from))
                .ok()
                != Some(Some(body(*n)))
        })
        .collect()
}

/// More bodies than fit into the cache of redb: some must be read from the disk.
const DAMAGED_PAGES: Range<usize> = 50..250;
const PINGS: usize = 300;

#[test]
fn an_unreadable_page_affects_only_its_own_data_until_it_can_be_read() {
    let disk = Disk::default();
    let (mut engine, id) = filled_engine(&disk);
    disk.make_unreadable(body_leaf_pages(&disk, DAMAGED_PAGES));
    let before = disk.written_bytes();
    let first = unreadable_bodies(&engine, id);
    assert!(
        !first.is_empty() && first.iter().all(|n| DAMAGED_PAGES.contains(n)),
        "{first:?}"
    );
    let result = engine.handle.body(&engine.read_check(id), first[0] as u64);
    assert!(matches!(
        result,
        Err(StoreError::Damaged {
            panicked: false,
            ..
        })
    ));
    for _ in 0..20 {
        // Nothing else is affected: pings are accepted, other bodies are readable, and the file is
        // not rewritten.
        assert_eq!(
            engine.execute(ping(7, PingKind::Success, "more")),
            CommandOutcome::Pinged
        );
        engine.handle.observe_writer();
        engine.clock.advance_secs(1);
        assert!(engine.handle.is_writable());
    }
    let now = unreadable_bodies(&engine, id);
    assert!(
        !now.is_empty() && now.iter().all(|n| DAMAGED_PAGES.contains(n)),
        "{now:?}"
    );
    assert!(
        disk.written_bytes() - before < 2_000_000,
        "{} bytes were written",
        disk.written_bytes() - before
    );
    disk.make_unreadable(Vec::new());
    engine.handle.observe_writer();
    engine.clock.advance_secs(1);
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(unreadable_bodies(&engine, id), [0; 0]);
    assert_eq!(
        engine.execute(ping(7, PingKind::Success, "more")),
        CommandOutcome::Pinged
    );
    stop(engine);
    assert_eq!(
        unreadable_bodies(
            &TestEngine::open(disk.medium(), HousekeepingLimits::default()),
            id
        ),
        [0; 0]
    );
}

#[test]
fn the_sweep_skips_unreadable_rows() {
    let disk = Disk::default();
    let (engine, id) = filled_engine(&disk);
    stop(engine);
    let thresholds = HousekeepingLimits {
        slice_rows: 16,
        min_tail: 1,
        tail_per_check: 0,
        slack_entries: 2,
        ..HousekeepingLimits::default()
    };
    let mut engine = TestEngine::open(disk.medium(), thresholds);
    // The cache holds the newest bodies.
    unreadable_bodies(&engine, id);
    let damaged = ping_leaf_pages(&disk, 50..100);
    assert!(!damaged.is_empty());
    disk.make_unreadable(damaged);
    let project = ProjectId(1);
    engine.execute(Command::UpdateProject {
        project,
        name: None,
        check_limit: None,
        ping_log_limit: Some(2),
        allows_ping_settings: None,
    });
    for _ in 0..200 {
        assert_eq!(
            engine.execute(ping(7, PingKind::Success, "")),
            CommandOutcome::Pinged
        );
        engine.clock.advance_secs(11);
    }
    assert!(disk.failed_reads() > 0 && engine.handle.is_writable());
    assert_eq!(
        engine.handle.pings(&engine.read_check(id)).unwrap().len(),
        2
    );
    drop(engine);
    disk.make_unreadable(Vec::new());
    let database = redb::Builder::new()
        .create_with_backend(disk.database())
        .unwrap();
    let table = redb::ReadableDatabase::begin_read(&database)
        .unwrap()
        .open_table(redb::TableDefinition::<u64, &[u8]>::new("pings"));
    let remaining = redb::ReadableTableMetadata::len(&table.unwrap()).unwrap();
    assert!(
        remaining < 200,
        "{remaining} of 800 pings are still in the log"
    );
}

#[test]
fn a_recovery_rewrites_the_readable_rows() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium_without_log(), HousekeepingLimits::default());
    engine.create_project(10);
    engine.create_check(7);
    engine.execute(ping(7, PingKind::Success, "kept"));
    // A page that was never used is unreadable, too.
    let empty = disk
        .bytes()
        .chunks(PAGE)
        .rposition(|page| page.iter().all(|byte| *byte == 0))
        .unwrap()
        * PAGE;
    disk.make_unreadable(Vec::from([Range {
        start: empty,
        end: empty + PAGE,
    }]));
    disk.fail_after(DiskOperation::Sync, 0);
    assert_eq!(
        engine.batch([ping(7, PingKind::Success, "")]),
        [Err(Unavailable::StorageFailed)]
    );
    disk.heal();
    let before = disk.written_bytes();
    for _ in 0..2 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    assert_eq!(
        (
            engine.handle.is_writable(),
            disk.written_bytes() > before,
            disk.failed_reads() > 0
        ),
        (true, true, true)
    );
    assert_eq!(
        engine.execute(ping(7, PingKind::Success, "")),
        CommandOutcome::Pinged
    );
}

#[test]
fn a_corrupt_page_affects_only_its_own_data() {
    let disk = Disk::default();
    let (mut engine, id) = filled_engine(&disk);
    for page in body_leaf_pages(&disk, DAMAGED_PAGES) {
        disk.flip_bits(page.start..page.start + 64);
    }
    let damaged = unreadable_bodies(&engine, id);
    assert!(
        !damaged.is_empty() && damaged.iter().all(|n| DAMAGED_PAGES.contains(n)),
        "{damaged:?}"
    );
    let panicked = |n: &usize| {
        matches!(
            engine.handle.body(&engine.read_check(id), *n as u64),
            Err(StoreError::Damaged { panicked: true, .. })
        )
    };
    assert!(damaged.iter().any(panicked));
    assert_eq!(
        engine.execute(ping(7, PingKind::Success, "more")),
        CommandOutcome::Pinged
    );
    assert!(engine.handle.is_writable());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hanging_disk_is_reported_within_seconds_until_it_answers() {
    let disk = Disk::default();
    let server = TestServer::start_on(disk.medium(), |_| {}).await;
    let check = server
        .create_check(serde_json::json!({"name": "one"}))
        .await;
    let path = format!("/ping/{}", check["uuid"].as_str().unwrap());
    assert_eq!(server.get(&path).await.status, 200);
    let hanging = disk.hang_syncs();
    let waiting = async {
        let answer = server.get(&path).await;
        (
            answer.status,
            answer.header("retry-after").map(str::to_owned),
        )
    };
    let refused = async {
        assert_eq!(server.get("/healthz").await.status, 200);
        // Polls until the ping has reached the disk and the watchdog has run.
        loop {
            if server.get("/healthz").await.status == 503 {
                break server.get(&path).await.status;
            }
            server.clock.advance_secs(1);
        }
    };
    assert_eq!(
        tokio::join!(waiting, refused),
        ((503, Some("1".into())), 503)
    );
    drop(hanging);
    while server.get("/healthz").await.status != 200 {}
    assert_eq!(server.get(&path).await.status, 200);
    server.stop().await;
}

#[test]
fn a_clock_jump_during_a_step_is_not_reported_as_a_hanging_disk() {
    for hangs in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(2);
        let id = engine.create_check(7);
        let handle = engine.handle.clone();
        let clock = engine.clock.clone();
        let mut reply = handle.submit(ping(7, PingKind::Success, "")).unwrap();
        let hanging = disk.hang_syncs();
        let step = std::thread::spawn(move || {
            assert_eq!(engine.writer.step(false), Ok(true));
            engine
        });
        // Waits until the step in progress has an age.
        while handle.step_age().is_zero() {
            clock.advance_secs(1);
            std::thread::yield_now();
        }
        clock.advance_secs(3600);
        (0..2).for_each(|_| handle.observe_writer());
        assert!(handle.is_writable());
        let mut answer = None;
        while hangs && answer.is_none() {
            handle.observe_writer();
            assert!(!handle.is_writable());
            answer = reply.try_recv().ok();
        }
        drop(hanging);
        let engine = step.join().unwrap();
        handle.observe_writer();
        assert!(handle.is_writable());
        let answer = answer.unwrap_or_else(|| reply.try_recv().unwrap());
        assert_eq!(
            answer,
            if hangs {
                Err(Unavailable::StorageFailed)
            } else {
                Ok(Ok(CommandOutcome::Pinged))
            }
        );
        assert_eq!(engine.read_check(id).state.n_pings, 1);
    }
}

#[test]
fn pings_are_refused_if_the_file_is_missing_changed_or_truncated() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let file = data.join(FILE_NAME);
    let moved_file = data.join("aside");
    let mut engine = TestEngine::open(
        Medium::Directory(data.clone()),
        HousekeepingLimits::default(),
    );
    engine.create_project(10);
    engine.create_check(7);
    let ping_after_pause = |engine: &mut TestEngine| {
        engine.clock.advance_secs(1);
        engine.batch([ping(7, PingKind::Success, "")]).remove(0)
    };
    let mut accepted = 0;
    for is_replaced in [false, true] {
        std::fs::rename(&file, &moved_file).unwrap();
        if is_replaced {
            std::fs::copy(&moved_file, &file).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(
                ping_after_pause(&mut engine),
                Err(Unavailable::StorageFailed)
            );
            assert!(!engine.handle.is_writable());
        }
        // The restored file is the same file again.
        std::fs::rename(&moved_file, &file).unwrap();
        assert_eq!(
            ping_after_pause(&mut engine),
            Err(Unavailable::StorageFailed)
        );
        assert_eq!(
            ping_after_pause(&mut engine),
            Ok(Ok(CommandOutcome::Pinged))
        );
        accepted += 1;
    }
    let len = std::fs::metadata(&file).unwrap().len();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(len / 2)
        .unwrap();
    for _ in 0..3 {
        assert_eq!(
            ping_after_pause(&mut engine),
            Err(Unavailable::StorageFailed)
        );
        assert!(!engine.handle.is_writable());
    }
    let id = engine
        .handle
        .with_state(|state| state.checks().next().unwrap().id);
    assert_eq!(engine.read_check(id).state.n_pings, accepted);
}

#[test]
fn a_recovery_opens_only_the_same_database_with_all_acknowledged_data() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium_without_log(), HousekeepingLimits::default());
    engine.create_project(10);
    engine.create_check(7);
    engine.execute(ping(7, PingKind::Success, ""));
    let earlier = disk.bytes();
    engine.execute(ping(7, PingKind::Success, ""));
    let other = Disk::default();
    let clock = ManualClock::at(START);
    let random = Random::seeded(2);
    let (handle, writer) = open(other.medium_without_log(), &clock, |config| {
        config.random = random;
    })
    .unwrap();
    let mut second = TestEngine {
        handle,
        writer,
        clock,
    };
    second.create_project(10);
    second.create_check(7);
    (0..10).for_each(|_| drop(second.execute(ping(7, PingKind::Success, ""))));
    stop(second);
    let whole = disk.bytes();
    for (bytes, accepted) in [(earlier, false), (other.bytes(), false), (whole, true)] {
        disk.fail_after(DiskOperation::Sync, 0);
        let _ = engine.batch([ping(7, PingKind::Success, "")]);
        disk.heal();
        disk.replace_bytes(bytes);
        for _ in 0..4 {
            assert_eq!(engine.writer.step(false), Ok(true));
        }
        assert_eq!(engine.handle.is_writable(), accepted);
    }
}

/// Replaces a row. The version byte of every row is 1 or 2.
pub(crate) fn put_row(disk: &Disk, table: &str, key: u64, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    // Writes the batches in the journal to the database.
    drop(Store::open(&disk.medium()).unwrap());
    let database = redb::Builder::new()
        .create_with_backend(disk.database())
        .unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut rows = transaction
            .open_table(redb::TableDefinition::<u64, &[u8]>::new(table))
            .unwrap();
        let row = redb::ReadableTable::get(&rows, key)
            .unwrap()
            .expect("the row exists")
            .value()
            .to_vec();
        rows.insert(key, change(row).as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn unreadable_rows_are_quarantined_and_the_rest_works() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(10);
    let random = engine.handle.random().clone();
    engine.execute(commands::create_project(&random, "second", 10));
    let schedule = Schedule::parse("5 4 * * *").ok().map(std::sync::Arc::new);
    let id = match engine.execute(commands::create_check(
        ProjectId(1),
        7,
        CheckEdit {
            schedule,
            ..CheckEdit::default()
        },
    )) {
        CommandOutcome::CheckCreated(check) => check.id,
        outcome => panic!("{outcome:?}"),
    };
    let other = engine.create_check(8);
    (0..3).for_each(|_| drop(engine.execute(ping(7, PingKind::Success, "kept"))));
    // The process is killed: the newest pings are not yet in the rows of their checks.
    drop(engine);
    // A check of a release whose schedules lack this time, a project row of a newer release, and a
    // damaged log entry.
    put_row(&disk, "checks", id.0, |row| {
        let at = row
            .windows(9)
            .position(|window| window == b"5 4 * * *")
            .unwrap();
        [&row[..at], b"5 4 * * X", &row[at + 9..]].concat()
    });
    put_row(&disk, "projects", 2, |row| [&[99], &row[1..]].concat());
    put_row(&disk, "pings", 2, |_| vec![99]);
    for _ in 0..2 {
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        let check = engine.read_check(id);
        assert!(
            check
                .settings
                .desc
                .as_str()
                .starts_with("This check is paused: this release cannot read its schedule.")
        );
        assert_eq!(check.uuid, uuid::Uuid::from_u128(7));
        assert_eq!(
            engine.handle.with_state(|state| state.projects().count()),
            2
        );
        assert_eq!(
            engine
                .handle
                .body(&check, check.state.n_pings)
                .unwrap()
                .as_deref(),
            Some(&b"kept"[..])
        );
        // The check with the damaged schedule is paused and accepts pings; the other one works as
        // usual.
        assert_eq!(
            engine.execute(ping(7, PingKind::Success, "kept")),
            CommandOutcome::Pinged
        );
        assert_eq!(
            engine.execute(ping(8, PingKind::Success, "")),
            CommandOutcome::Pinged
        );
        assert_eq!(engine.read_check(id).state.status, Status::Paused);
        assert_eq!(engine.read_check(other).state.status, Status::Up);
    }
    // The quarantined rows are still in the file.
    let database = redb::Builder::new()
        .create_with_backend(disk.database())
        .unwrap();
    let quarantine = redb::ReadableDatabase::begin_read(&database)
        .unwrap()
        .open_table(redb::TableDefinition::<(&str, u64), &[u8]>::new("aside"));
    let quarantine = quarantine.unwrap();
    assert_eq!(redb::ReadableTableMetadata::len(&quarantine).unwrap(), 3);
    assert_eq!(
        quarantine
            .get(("pings", 2))
            .unwrap()
            .expect("the quarantined log entry")
            .value(),
        [99]
    );
}
