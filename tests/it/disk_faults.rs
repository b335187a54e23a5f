//! Disks that fail or are full: callers get errors, acknowledged data survives, and the engine
//! recovers with its disk.

use std::io;
use std::path::Path;
use std::process::Command as Program;

use bytes::Bytes;
use overdue::domain::ids::CheckId;
use overdue::domain::ping::PingKind;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{Command, CommandOutcome, Unavailable};
use overdue::store::{FILE_NAME, Medium};
use overdue::util::clock::ManualClock;

use crate::support::commands::ping;
use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine::{TestEngine, create_check_command, log_lines_with, open};
use crate::support::seeded_rng::SeededRng;

const KEPT: u32 = 1000;

/// An engine with a check whose UUID is 7 and that has `pings` pings.
fn engine_with_pings(medium: Medium, pings: u64) -> (TestEngine, CheckId) {
    let mut engine = TestEngine::open(medium, HousekeepingLimits::default());
    engine.create_project(KEPT);
    let id = engine.create_check(7);
    (0..pings).for_each(|_| drop(engine.execute(ping(7, PingKind::Success, body(1)))));
    (engine, id)
}

fn body(kib: usize) -> Bytes {
    vec![b'x'; kib << 10].into()
}

/// Returns the ping count of the check in memory, and that in its log if the log is readable.
fn counts(engine: &TestEngine, id: CheckId) -> (u64, Option<usize>) {
    let check = engine.read_check(id);
    (
        check.state.n_pings,
        engine.handle.pings(&check).ok().map(|pings| pings.len()),
    )
}

/// Runs steps until the engine can write again.
fn recover(engine: &mut TestEngine) {
    for _ in 0..2 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    assert!(engine.handle.is_writable());
    assert!(engine.writer.covers_all_deadlines());
}

#[test]
fn any_failing_operation_gives_an_error_and_changes_all_or_nothing() {
    for operation in DiskOperation::ALL {
        for after in 0.. {
            let disk = Disk::default();
            drop(engine_with_pings(disk.medium(), 20));
            let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
            let id = engine
                .handle
                .with_state(|state| state.checks().next().unwrap().id);
            disk.fail_after(operation, after);
            let batch = [
                ping(7, PingKind::Fail, body(8)),
                create_check_command(9),
                ping(9, PingKind::Start, body(200)),
            ];
            let read = counts(&engine, id);
            let answers = engine.batch(batch);
            let rejected = answers
                .iter()
                .filter(|answer| matches!(answer, Err(Unavailable::StorageFailed)))
                .count();
            if rejected == 0 {
                // The batch and the reads before it need fewer operations than `after`.
                assert!(
                    answers.iter().all(|answer| matches!(answer, Ok(Ok(_))))
                        && read == (20, Some(20))
                );
                let is_always_used =
                    matches!(operation, DiskOperation::Write | DiskOperation::Sync);
                assert!(after > 0 || !is_always_used, "{operation:?} was never used");
                break;
            }
            assert_eq!(rejected, answers.len());
            assert!(!engine.handle.is_writable());
            // Memory is never ahead of the file. The file either has the expected pings or is
            // unreadable.
            let (in_memory, logged) = counts(&engine, id);
            assert!(
                in_memory == 20 && logged.is_none_or(|logged| logged == 20),
                "{operation:?} {after}: {in_memory} {logged:?}"
            );
            assert!(
                engine
                    .handle
                    .with_state(|state| state.check_by_uuid(uuid::Uuid::from_u128(9)).is_none())
            );
            assert_eq!(
                engine.batch([ping(7, PingKind::Success, "")]),
                [Err(Unavailable::StorageFailed)]
            );
            disk.heal();
            recover(&mut engine);
            // Either the whole batch is stored or none of it.
            let whole = engine
                .handle
                .with_state(|state| state.check_by_uuid(uuid::Uuid::from_u128(9)).is_some());
            assert_eq!(
                counts(&engine, id),
                if whole {
                    (21, Some(21))
                } else {
                    (20, Some(20))
                },
                "{operation:?} {after}"
            );
            assert_eq!(
                engine.execute(ping(7, PingKind::Success, "")),
                CommandOutcome::Pinged
            );
        }
    }
}

#[test]
fn a_database_that_can_no_longer_be_read_is_reopened() {
    let disk = Disk::default();
    let (mut engine, id) = engine_with_pings(disk.medium(), 0);
    // More bodies than the cache holds.
    engine.batch((0..300).map(|_| ping(7, PingKind::Success, body(90))));
    let first_wrong_body = |engine: &TestEngine| {
        (1..=300).find(|n| {
            let found = engine.handle.body(&engine.read_check(id), *n);
            !matches!(found, Ok(Some(found)) if found == body(90))
        })
    };
    assert_eq!(first_wrong_body(&engine), None);
    disk.fail_after(DiskOperation::Read, 0);
    assert!(first_wrong_body(&engine).is_some());
    disk.heal();
    // The watchdog notices that without a ping.
    engine.handle.observe_writer();
    recover(&mut engine);
    assert_eq!(
        (counts(&engine, id), first_wrong_body(&engine)),
        ((300, Some(300)), None)
    );
}

#[test]
fn an_old_unreadable_row_blocks_no_pings() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(2);
    let id = engine.create_check(7);
    (0..50).for_each(|_| drop(engine.execute(ping(7, PingKind::Success, ""))));
    engine.handle.close();
    while engine.writer.step(false) == Ok(true) {}
    drop(engine);
    let database = redb::Builder::new()
        .create_with_backend(disk.database())
        .unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(redb::TableDefinition::<u64, &[u8]>::new("pings"))
        .unwrap()
        .insert(5, &[99][..])
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    // The sweep reaches the row at once.
    let mut engine = TestEngine::open(
        disk.medium(),
        HousekeepingLimits {
            slice_rows: 10,
            min_tail: 1,
            tail_per_check: 0,
            slack_entries: 2,
            ..HousekeepingLimits::default()
        },
    );
    (0..50).for_each(|_| {
        assert_eq!(
            engine.execute(ping(7, PingKind::Success, "")),
            CommandOutcome::Pinged
        );
    });
    assert_eq!(counts(&engine, id), (100, Some(2)));
}

#[test]
fn a_full_disk_refuses_pings_until_there_is_space() {
    let disk = Disk::default();
    let (mut engine, id) = engine_with_pings(disk.medium(), 5);
    disk.set_capacity(Some(disk.len() + 100_000));
    let acknowledged = fill(&mut engine);
    let (in_memory, logged) = counts(&engine, id);
    assert_eq!(
        (in_memory, logged),
        (5 + acknowledged, Some(5 + acknowledged as usize))
    );
    disk.set_capacity(None);
    recover(&mut engine);
    assert!(counts(&engine, id).0 >= 5 + acknowledged);
    assert_eq!(
        engine.execute(ping(7, PingKind::Success, body(90))),
        CommandOutcome::Pinged
    );
}

/// Sends pings with large bodies until one is refused. Returns the number of acknowledged pings.
fn fill(engine: &mut TestEngine) -> u64 {
    (0..10_000)
        .find(|_| {
            engine.batch([ping(7, PingKind::Success, body(90))])
                == [Err(Unavailable::StorageFailed)]
        })
        .expect("the disk fills up")
}

#[test]
fn a_start_that_could_not_sync_is_made_good_by_the_next_one_before_a_power_cut() {
    let mut failed_starts = 0;
    for after in 0..8 {
        for seed in 0..6 {
            let disk = Disk::default();
            let (engine, id) = engine_with_pings(disk.medium(), 20);
            // A killed server, whose journal is ahead of its database.
            drop(engine);
            let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
            disk.fail_after(DiskOperation::Sync, after);
            failed_starts += u32::from(open(disk.medium(), &clock, |_| {}).is_err());
            disk.heal();
            let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
            engine.execute(ping(7, PingKind::Success, body(8)));
            disk.power_off();
            drop(engine);
            disk.power_on(&SeededRng::seeded(seed));
            let engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
            assert_eq!(counts(&engine, id), (21, Some(21)), "{after} {seed}");
        }
    }
    assert!(failed_starts > 6);
}

#[test]
fn a_stop_whose_last_batch_fails_loses_nothing() {
    let mut failed_stops = 0;
    for operation in [DiskOperation::Write, DiskOperation::Sync] {
        for after in 0..30 {
            let disk = Disk::default();
            let (engine, id) = engine_with_pings(disk.medium(), 20);
            // A killed server. The last batch of the next one records the time since then, and
            // moves the checkpoint forward.
            drop(engine);
            let clock = ManualClock::at(Timestamp::from_secs(1_800_003_600));
            let (handle, mut writer) = open(disk.medium(), &clock, |config| {
                config.housekeeping = HousekeepingLimits {
                    min_tail: 1,
                    tail_per_check: 0,
                    ..HousekeepingLimits::default()
                };
            })
            .unwrap();
            handle.close();
            disk.fail_after(operation, after);
            for step in 0.. {
                assert!(step < 1000, "{operation:?} {after}");
                if !writer.step(false).unwrap() {
                    break;
                }
            }
            failed_stops += u32::from(!handle.is_writable());
            disk.heal();
            drop((handle, writer));
            let engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
            assert_eq!(counts(&engine, id), (20, Some(20)), "{operation:?} {after}");
        }
    }
    assert!(failed_stops > 0);
}

#[test]
fn pages_that_could_not_be_read_are_written_by_the_next_start_that_can() {
    let mut failed_starts = 0;
    for seed in 0..6 {
        let disk = Disk::default();
        let (mut engine, id) = engine_with_pings(disk.medium(), 20);
        engine.execute(ping(7, PingKind::Success, body(8)));
        drop(engine);
        let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
        // A sync fails, and the file cannot be read while it is written again.
        disk.fail_after(DiskOperation::Sync, 1);
        assert!(open(disk.medium(), &clock, |_| {}).is_err(), "{seed}");
        disk.heal();
        let len = usize::try_from(disk.len()).unwrap();
        disk.make_unreadable(std::iter::once(0..len).collect());
        failed_starts += u32::from(open(disk.medium(), &clock, |_| {}).is_err());
        disk.make_unreadable(Vec::new());
        let engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        disk.power_off();
        drop(engine);
        disk.power_on(&SeededRng::seeded(seed));
        let engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        assert_eq!(counts(&engine, id), (21, Some(21)), "{seed}");
    }
    assert_eq!(failed_starts, 6);
}

#[test]
fn a_database_with_a_mark_of_lost_writes_is_rewritten_once() {
    let directory = tempfile::tempdir().unwrap();
    let medium = || Medium::Directory(directory.path().into());
    let (engine, id) = engine_with_pings(medium(), 3);
    drop(engine);
    let mark = directory.path().join("overdue.rewrite");
    std::fs::write(&mark, "").unwrap();
    for expected in [1, 0] {
        let lines = log_lines_with("could not be synced before this start", || {
            let engine = TestEngine::open(medium(), HousekeepingLimits::default());
            assert_eq!(counts(&engine, id), (3, Some(3)));
        });
        assert_eq!((lines.len(), mark.exists()), (expected, false));
    }
}

/// A small file system, which is unmounted when this is dropped.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    fn mount(size: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let arguments = ["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"];
        let output = Program::new("mount")
            .args(arguments)
            .arg(directory.path())
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(Self(directory))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Program::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_full_file_system_refuses_pings_until_there_is_space() -> io::Result<()> {
    let file_system = match SmallFileSystem::mount("16m") {
        Ok(file_system) => file_system,
        Err(reason) => {
            eprintln!(
                "skipped: a file system that can be filled needs the right to mount one: {reason}"
            );
            return Ok(());
        }
    };
    let filler = file_system.path().join("filler");
    std::fs::write(&filler, vec![1; 4 << 20])?;
    let data = file_system.path().join("data");
    let medium = || Medium::Directory(data.clone());
    let (mut engine, id) = engine_with_pings(medium(), 5);
    let mut acknowledged = fill(&mut engine);
    // The disk had no space for doubling the file, and the file no unused pages. The rest of the
    // disk fills up now.
    recover(&mut engine);
    acknowledged += fill(&mut engine);
    println!(
        "{acknowledged} pings of 90 KiB until {} was full",
        data.join(FILE_NAME).display()
    );
    // Pings are still rejected. In the meantime acknowledged data is readable and nothing is
    // written.
    let rejected = |engine: &mut TestEngine| {
        assert_eq!(
            engine.batch([ping(7, PingKind::Success, body(90))]),
            [Err(Unavailable::StorageFailed)]
        );
    };
    rejected(&mut engine);
    let (in_memory, logged) = counts(&engine, id);
    // A ping that was rejected at its last step may be stored.
    assert!(
        in_memory >= 5 + acknowledged && logged == Some(in_memory as usize),
        "{in_memory} {logged:?} {acknowledged}"
    );
    for _ in 0..3 {
        rejected(&mut engine);
        assert_eq!(counts(&engine, id), (in_memory, logged));
    }
    // A restart changes nothing.
    drop(engine);
    let mut engine = TestEngine::open(medium(), HousekeepingLimits::default());
    assert!(counts(&engine, id).0 >= 5 + acknowledged);
    fill(&mut engine);
    std::fs::remove_file(&filler)?;
    recover(&mut engine);
    let recovered = counts(&engine, id).0;
    assert!(recovered >= 5 + acknowledged);
    // The first ping may find too little space for doubling the file.
    let accepted = (0..3).any(|_| {
        let answer = engine.batch([ping(7, PingKind::Success, body(90))]);
        recover(&mut engine);
        answer == [Ok(Ok(CommandOutcome::Pinged))]
    });
    assert!(accepted);
    assert_eq!(
        engine.execute(Command::PauseCheck(id, None)),
        CommandOutcome::Check(Box::new(engine.read_check(id)))
    );
    drop(engine);
    let engine = TestEngine::open(medium(), HousekeepingLimits::default());
    assert_eq!(
        counts(&engine, id),
        (recovered + 1, Some(recovered as usize + 1))
    );
    let newest = engine
        .handle
        .body(&engine.read_check(id), recovered + 1)
        .unwrap();
    assert_eq!(newest.map(Bytes::from), Some(body(90)));
    Ok(())
}

#[test]
fn a_full_file_system_recovers_by_itself_if_there_is_dead_data() {
    let file_system = match SmallFileSystem::mount("18m") {
        Ok(file_system) => file_system,
        Err(reason) => {
            eprintln!(
                "skipped: a file system that can be filled needs the right to mount one: {reason}"
            );
            return;
        }
    };
    let mut engine = TestEngine::open(
        Medium::Directory(file_system.path().join("data")),
        HousekeepingLimits::default(),
    );
    engine.create_project(2);
    let id = engine.create_check(7);
    let accepted = (0..400)
        .filter(|_| {
            engine
                .batch([ping(7, PingKind::Success, body(90))])
                .remove(0)
                .is_ok()
        })
        .count();
    assert!(
        (300..400).contains(&accepted),
        "{accepted} of 400 pings accepted"
    );
    assert_eq!(
        engine.handle.pings(&engine.read_check(id)).unwrap().len(),
        2
    );
    // Space that could not be allocated in full is released.
    let rest = std::fs::write(file_system.path().join("rest"), [1; 100_000]);
    assert!(rest.is_ok(), "{rest:?}");
}
