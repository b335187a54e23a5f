//! Backups: each contains a consistent state of the server and can be restored. A newer release
//! keeps a copy of the old file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use overdue::backup::{self, BackupError};
use overdue::domain::ids::ProjectId;
use overdue::domain::ping::PingKind;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::{Handle, HousekeepingLimits};
use overdue::store::{FILE_NAME, JOURNAL_NAME, Medium, StoreError};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;

use crate::layouts::{LAYOUTS, LayoutServer, fill, get, request_paths};
use crate::support::commands;
use crate::support::engine::{TestEngine, open};
use crate::support::server::START;

fn take_backup(handle: &Handle) -> Vec<u8> {
    let mut bytes = Vec::new();
    backup::write_backup(handle, &mut bytes).unwrap();
    bytes
}

/// Restores a backup into the directory. A process that another test starts has a copy of each open
/// file until it executes its program, and so keeps the lock of a directory that was closed
/// meanwhile: the lock is tried for ten seconds.
fn restore(directory: &Path, backup: &[u8]) -> Result<(), BackupError> {
    let clock = Clock::System;
    let begun = clock.uptime();
    loop {
        let backup = std::io::Cursor::new(backup.to_vec());
        let result = backup::restore(directory, false, backup, &Random::seeded(7)).map(drop);
        let is_locked = matches!(result, Err(BackupError::Store(StoreError::InUse(_))));
        if !is_locked || clock.uptime() - begun > Duration::from_secs(10) {
            return result;
        }
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_answers_every_get_equally() {
    let source_directory = tempfile::tempdir().unwrap();
    let target_directory = tempfile::tempdir().unwrap();
    let site = LayoutServer::open(source_directory.path(), START).await;
    let (main, other, uuids) = fill(&site).await;
    let bytes = take_backup(&site.handle);
    restore(target_directory.path(), &bytes).unwrap();
    let restored = LayoutServer::open(target_directory.path(), site.handle.now()).await;
    let requests = request_paths(&site, &main, &other, &uuids).await;
    assert!(requests.len() > 500);
    for (key, path) in &requests {
        assert_eq!(
            get(&restored, key, path).await,
            get(&site, key, path).await,
            "{path}"
        );
    }
    let of = |site: &LayoutServer| {
        (
            site.handle.with_state(|state| state.instance_id),
            site.handle.badge_secret().map(|secret| secret.0),
        )
    };
    assert_ne!(
        of(&restored).0,
        of(&site).0,
        "two databases from the same state are distinguished"
    );
    assert_eq!(of(&restored).1, of(&site).1);
    let mut file = std::fs::read_dir(target_directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect::<Vec<_>>();
    file.sort();
    assert_eq!(file, [JOURNAL_NAME, FILE_NAME]);
    assert_eq!(
        std::fs::metadata(target_directory.path().join(FILE_NAME))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let (_, findings) = backup::inspect(&*bytes).unwrap();
    assert_eq!(
        (
            findings.problem_count,
            findings.quarantined_rows,
            findings.problems.len()
        ),
        (0, 0, 0),
        "{findings:?}"
    );
    assert!(
        findings.intact_bodies > 10 && findings.tables["pings"].rows > 10,
        "{findings:?}"
    );
}

/// A client sends pings to three checks in turns while rows are swept and backups are taken. Each
/// backup contains the first pings up to some number.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_contains_a_consistent_state() {
    const CHECKS: usize = 3;
    const BACKUPS: usize = 5;
    const LIMIT: u64 = 20;
    let thresholds = HousekeepingLimits {
        slice_rows: 8,
        min_tail: 40,
        tail_per_check: 0,
        slack_entries: 8,
        ..HousekeepingLimits::default()
    };
    let mut engine = TestEngine::open(Medium::memory(), thresholds);
    engine.create_project(LIMIT as u32);
    for uuid in 0..CHECKS {
        engine.create_check(uuid as u128);
    }
    let TestEngine {
        handle,
        writer,
        clock,
    } = engine;
    let running = std::thread::spawn(|| writer.run());
    let [sent, answered, made] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let sender = tokio::spawn({
        let handle = handle.clone();
        let clock = Arc::clone(&clock);
        let sent = Arc::clone(&sent);
        let answered = Arc::clone(&answered);
        let made = Arc::clone(&made);
        async move {
            for number in 0..1_000_000_usize {
                if number > 1000 && made.load(Ordering::SeqCst) == BACKUPS {
                    return;
                }
                sent.store(number + 1, Ordering::SeqCst);
                clock.advance_secs(1);
                handle
                    .call(commands::ping(
                        (number % CHECKS) as u128,
                        PingKind::Success,
                        number.to_string(),
                    ))
                    .await
                    .unwrap()
                    .unwrap();
                answered.store(number + 1, Ordering::SeqCst);
            }
        }
    });
    for _ in 0..BACKUPS {
        let least = answered.load(Ordering::SeqCst);
        let source = handle.clone();
        let bytes = tokio::task::spawn_blocking(move || take_backup(&source))
            .await
            .unwrap();
        let sent_count = sent.load(Ordering::SeqCst);
        let directory = tempfile::tempdir().unwrap();
        restore(directory.path(), &bytes).unwrap();
        let (restored, _writer) = open(
            Medium::Directory(directory.path().into()),
            &clock,
            |config| config.housekeeping = thresholds,
        )
        .unwrap();
        let checks: Vec<_> =
            restored.with_state(|state| state.checks_of(ProjectId(1)).cloned().collect());
        let total: u64 = checks.iter().map(|check| check.state.n_pings).sum();
        assert!(
            (least..=sent_count).contains(&(total as usize)),
            "{total} of {least} to {sent_count}"
        );
        for (place, check) in checks.iter().enumerate() {
            let n = check.state.n_pings;
            assert_eq!(n as usize, (total as usize + CHECKS - 1 - place) / CHECKS);
            let pings = restored.pings(check).unwrap();
            assert_eq!(pings.len() as u64, n.min(LIMIT));
            for ping in pings {
                let number = (ping.n as usize - 1) * CHECKS + place;
                assert_eq!(
                    restored.body(check, ping.n).unwrap().unwrap(),
                    number.to_string().as_bytes()
                );
            }
        }
        let (_, findings) = backup::inspect(&*bytes).unwrap();
        assert_eq!(findings.problem_count, 0, "{findings:?}");
        made.fetch_add(1, Ordering::SeqCst);
    }
    sender.await.unwrap();
    handle.close();
    running.join().unwrap();
}

#[test]
fn a_damaged_backup_or_a_database_in_use_changes_nothing() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(5);
    let bytes = take_backup(&engine.handle);
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("new");
    for len in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        assert!(
            matches!(restore(&data, &bytes[..len]), Err(BackupError::Damaged(_))),
            "{len}"
        );
        assert!(
            std::fs::read_dir(&data).map_or(true, |mut files| files.next().is_none()),
            "{len}"
        );
    }
    restore(&data, &bytes).unwrap();
    let restored = std::fs::read(data.join(FILE_NAME)).unwrap();
    assert!(matches!(
        restore(&data, &bytes),
        Err(BackupError::Store(StoreError::Occupied(_)))
    ));
    let forced = |bytes: &[u8]| {
        backup::restore(
            &data,
            true,
            std::io::Cursor::new(bytes.to_vec()),
            &Random::seeded(8),
        )
        .map(drop)
    };
    assert!(forced(&bytes[..bytes.len() - 1]).is_err());
    assert_eq!(std::fs::read(data.join(FILE_NAME)).unwrap(), restored);
    {
        let (_handle, _writer) =
            open(Medium::Directory(data.clone()), &engine.clock, |_| {}).unwrap();
        assert!(matches!(
            forced(&bytes),
            Err(BackupError::Store(StoreError::InUse(_)))
        ));
    }
    forced(&bytes).unwrap();
    // A file that is no database is replaced too.
    std::fs::write(data.join(FILE_NAME), b"no database").unwrap();
    forced(&bytes).unwrap();
    let (handle, _writer) = open(Medium::Directory(data), &engine.clock, |_| {}).unwrap();
    assert_eq!(handle.with_state(|state| state.projects().count()), 1);
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Waits in real time until the condition is true.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        #[allow(clippy::disallowed_methods, reason = "another thread does it")]
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

#[test]
fn an_upgrade_leaves_a_copy_of_the_file_and_no_more_than_one() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
    let open_file =
        |path: &Path| drop(open(Medium::Directory(path.into()), &clock, |_| {}).unwrap());
    for layout in ["1", "2", "11"] {
        // The journal of the database that is replaced.
        let _ = std::fs::remove_file(directory.path().join(JOURNAL_NAME));
        std::fs::copy(
            Path::new(LAYOUTS).join(layout).join(FILE_NAME),
            directory.path().join(FILE_NAME),
        )
        .unwrap();
        open_file(directory.path());
        let copy = format!("{FILE_NAME}.schema-{layout}");
        assert_eq!(
            names(directory.path()),
            [JOURNAL_NAME.to_owned(), FILE_NAME.to_owned(), copy.clone()]
        );
        let mode = std::fs::metadata(directory.path().join(&copy))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        // The copy has the layout that its name gives: opening it creates another copy.
        let old = tempfile::tempdir().unwrap();
        std::fs::copy(directory.path().join(&copy), old.path().join(FILE_NAME)).unwrap();
        open_file(old.path());
        assert_eq!(
            names(old.path()),
            [JOURNAL_NAME.to_owned(), FILE_NAME.to_owned(), copy.clone()]
        );
        // The next start has nothing to do.
        std::fs::remove_file(directory.path().join(copy)).unwrap();
        open_file(directory.path());
        assert_eq!(names(directory.path()), [JOURNAL_NAME, FILE_NAME]);
        std::fs::write(
            directory.path().join(format!("{FILE_NAME}.schema-0")),
            b"older",
        )
        .unwrap();
    }
}

#[test]
fn an_upgrade_without_space_for_a_copy_continues() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
    std::fs::copy(
        Path::new(LAYOUTS).join("1").join(FILE_NAME),
        directory.path().join(FILE_NAME),
    )
    .unwrap();
    // A directory that cannot be replaced is in its place.
    let blocked = directory
        .path()
        .join(format!("{FILE_NAME}.schema-1.partial"));
    std::fs::create_dir(&blocked).unwrap();
    let (handle, _writer) =
        open(Medium::Directory(directory.path().into()), &clock, |_| {}).unwrap();
    assert!(handle.with_state(|state| state.checks().count()) > 5);
}

#[test]
fn a_start_removes_the_leftovers_of_a_killed_restore() {
    let directory = tempfile::tempdir().unwrap();
    let leftover = directory.path().join("restoring");
    std::fs::create_dir(&leftover).unwrap();
    std::fs::write(leftover.join(FILE_NAME), "a copy, with its secrets").unwrap();
    let engine = TestEngine::open(
        Medium::Directory(directory.path().into()),
        HousekeepingLimits::default(),
    );
    assert!(!leftover.exists());
    drop(engine);
}
