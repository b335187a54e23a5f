//! Backups: each contains a consistent state of the server and can be restored. A newer release
//! keeps a copy of the old file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use overdue::backup::{self, BackupError, BackupHook, BackupSchedule, BackupScheduler};
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

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Waits in real time until the condition is true.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
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
fn a_server_makes_backups_at_intervals_and_keeps_the_newest() {
    let engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("backups");
    std::fs::create_dir(&path).unwrap();
    let instance = engine.handle.with_state(|state| {
        state
            .instance_id
            .unwrap()
            .map(|byte| format!("{byte:02x}"))
            .concat()
    });
    let foreign = [
        "notes.txt".to_owned(),
        "overdue-00000000-20200101T000000Z.backup.zst".into(),
        format!("overdue-{instance}-x.backup.zst"),
    ];
    for name in &foreign {
        std::fs::write(path.join(name), b"x").unwrap();
    }
    // A killed server left this file.
    std::fs::write(
        path.join(format!(
            "overdue-{instance}-20200101T000000Z.backup.zst.partial"
        )),
        b"x",
    )
    .unwrap();
    let own_backups = |names: Vec<String>| {
        names
            .into_iter()
            .filter(|name| !foreign.contains(name))
            .collect::<Vec<_>>()
    };
    let newest = || {
        engine
            .handle
            .metrics()
            .backup_status()
            .and_then(|status| status.newest)
    };
    let intervals = BackupSchedule {
        directory: path.clone(),
        interval: Duration::from_secs(86_400),
        keep_newest: 2,
        hook: None,
    };
    let keeper = BackupScheduler::start(engine.handle.clone(), intervals.clone()).unwrap();
    let begun = engine.handle.now();
    wait_until("the first is made at once", || newest() == Some(begun));
    for day in 1..4 {
        engine.clock.advance_secs(86_400);
        wait_until("one a day", || {
            newest() == Some(begun.plus_secs(day * 86_400))
        });
    }
    wait_until("two are kept", || own_backups(names(&path)).len() == 2);
    assert_eq!(
        own_backups(names(&path)),
        ["20270117T080000Z", "20270118T080000Z"]
            .map(|time| format!("overdue-{instance}-{time}.backup.zst"))
    );
    assert!(
        foreign.iter().all(|name| path.join(name).exists()),
        "only its own files are removed"
    );
    let (about, findings) =
        backup::inspect(backup::open_backup(&path.join(&own_backups(names(&path))[1])).unwrap())
            .unwrap();
    assert_eq!(
        (about.begun.as_str(), findings.problem_count),
        ("2027-01-18T08:00:00+00:00", 0)
    );
    // After a failure, the next attempt follows ten minutes later.
    std::fs::rename(&path, directory.path().join("away")).unwrap();
    engine.clock.advance_secs(86_400);
    engine.clock.advance_secs(60);
    std::fs::create_dir(&path).unwrap();
    engine.clock.advance_secs(600);
    wait_until("it is tried again", || {
        newest().is_some_and(|at| at > begun.plus_secs(4 * 86_400))
    });
    // A user requests one, which does not wait for its time.
    engine.clock.advance_secs(3_600);
    let control = keeper.control();
    control.request_backup();
    wait_until("it is made at once", || {
        newest() == Some(engine.handle.now())
    });
    let status = engine.handle.metrics().backup_status().unwrap();
    assert_eq!((status.running, status.failing), (None, None));
    let files = control.files(&engine.handle).unwrap();
    assert_eq!(files.len(), 2);
    assert_eq!(Some(files[0].at), newest());
    assert!(
        files[0].at > files[1].at && files[0].bytes > 100,
        "{files:?}"
    );
    wait_until("the next one follows a day later", || {
        let status = engine.handle.metrics().backup_status().unwrap();
        status.next == newest().map(|newest| newest.plus_secs(86_400))
    });
    drop((keeper, control));
    // The next start continues from the existing files.
    let newest_backup = newest();
    engine.handle.metrics().enable_backups(None);
    let _keeper = BackupScheduler::start(engine.handle.clone(), intervals).unwrap();
    assert_eq!(newest(), newest_backup);
}

#[test]
fn a_command_that_fails_is_run_again_for_the_same_backup() {
    let engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backups");
    let runs = directory.path().join("runs");
    let works = directory.path().join("works");
    std::fs::create_dir(&path).unwrap();
    let schedule = BackupSchedule {
        directory: path.clone(),
        interval: Duration::from_secs(86_400),
        keep_newest: 2,
        hook: Some(BackupHook {
            command: format!(
                "echo \"$BACKUP_FILE\" >> '{}'; test -e '{}'",
                runs.display(),
                works.display()
            ),
            launcher: env!("CARGO_BIN_EXE_overdue").into(),
        }),
    };
    let _keeper = BackupScheduler::start(engine.handle.clone(), schedule).unwrap();
    let run_files = || -> Vec<String> {
        let text = std::fs::read_to_string(&runs).unwrap_or_default();
        text.lines().map(String::from).collect()
    };
    let status = || engine.handle.metrics().backup_status().unwrap();
    wait_until("it fails", || status().failing.is_some());
    let reason = status().failing.unwrap().1;
    assert_eq!(reason, "--backup-command failed: it exited with status 1");
    // Twice more within the hour, for the same file. No backup is made meanwhile.
    for count in 2..4 {
        engine.clock.advance_secs(600);
        wait_until("it runs again", || run_files().len() == count);
        wait_until("it has failed", || status().running.is_none());
    }
    assert_eq!(names(&path).len(), 1);
    assert!(run_files().windows(2).all(|pair| pair[0] == pair[1]));
    std::fs::write(&works, "").unwrap();
    engine.clock.advance_secs(600);
    wait_until("it succeeds", || status().failing.is_none());
    assert_eq!((names(&path).len(), run_files().len()), (1, 4));
    // It is not run again until the next backup.
    engine.clock.advance_secs(86_400 - 1_800);
    wait_until("it runs for the next backup", || run_files().len() == 5);
    assert_ne!(run_files()[4], run_files()[3]);
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
