//! Backups: each is a state that the server was in, and a database again elsewhere; a newer release
//! leaves a copy of what it found.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use overdue::backup::{self, BackupError, BackupSchedule, BackupScheduler};
use overdue::clock::ManualClock;
use overdue::domain::ids::ProjectId;
use overdue::domain::ping::PingKind;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::{Handle, HousekeepingLimits};
use overdue::random::Random;
use overdue::store::{FILE_NAME, Medium, StoreError};

use crate::layouts::{LAYOUTS, LayoutServer, fill, get, request_paths};
use crate::support::commands;
use crate::support::engine::{TestEngine, open};
use crate::support::server::START;

fn take_backup(handle: &Handle) -> Vec<u8> {
    let mut bytes = Vec::new();
    backup::write_backup(handle, &mut bytes).unwrap();
    bytes
}

fn restore(directory: &Path, backup: &[u8]) -> Result<(), BackupError> {
    backup::restore(
        directory,
        false,
        std::io::Cursor::new(backup.to_vec()),
        &Random::seeded(7),
    )
    .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_elsewhere_answers_every_get_equally() {
    let here = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir().unwrap();
    let site = LayoutServer::open(here.path(), START).await;
    let (main, other, uuids) = fill(&site).await;
    let bytes = take_backup(&site.handle);
    restore(there.path(), &bytes).unwrap();
    let restored = LayoutServer::open(there.path(), site.handle.now()).await;
    let asked = request_paths(&site, &main, &other, &uuids).await;
    assert!(asked.len() > 500);
    for (key, path) in &asked {
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
        "two that go on from the same state are told apart"
    );
    assert_eq!(of(&restored).1, of(&site).1);
    let mut file = std::fs::read_dir(there.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect::<Vec<_>>();
    file.sort();
    assert_eq!(file, [FILE_NAME]);
    assert_eq!(
        std::fs::metadata(there.path().join(FILE_NAME))
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

/// One sends a ping after the other, to three checks in turns, while rows are swept and backups are
/// taken: each has the first so many pings.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_a_state_that_the_server_was_in() {
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
        let most = sent.load(Ordering::SeqCst);
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
            (least..=most).contains(&(total as usize)),
            "{total} of {least} to {most}"
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
fn what_is_damaged_or_in_use_leaves_everything_as_it_was() {
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
    // What no database can be opened from is replaced, too.
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

/// Waits until something holds, in real time.
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
    // A server that was killed left this one.
    std::fs::write(
        path.join(format!(
            "overdue-{instance}-20200101T000000Z.backup.zst.partial"
        )),
        b"x",
    )
    .unwrap();
    let own = |names: Vec<String>| {
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
    wait_until("two are kept", || own(names(&path)).len() == 2);
    assert_eq!(
        own(names(&path)),
        ["20270117T080000Z", "20270118T080000Z"]
            .map(|time| format!("overdue-{instance}-{time}.backup.zst"))
    );
    assert!(
        foreign.iter().all(|name| path.join(name).exists()),
        "only its own files are removed"
    );
    let (about, findings) =
        backup::inspect(backup::open_backup(&path.join(&own(names(&path))[1])).unwrap()).unwrap();
    assert_eq!(
        (about.begun.as_str(), findings.problem_count),
        ("2027-01-18T08:00:00+00:00", 0)
    );
    // Where none can be made, the next attempt is made after ten minutes.
    std::fs::rename(&path, directory.path().join("away")).unwrap();
    engine.clock.advance_secs(86_400);
    engine.clock.advance_secs(60);
    std::fs::create_dir(&path).unwrap();
    engine.clock.advance_secs(600);
    wait_until("it is tried again", || {
        newest().is_some_and(|at| at > begun.plus_secs(4 * 86_400))
    });
    drop(keeper);
    // The next start goes on from the files.
    let made = newest();
    engine.handle.metrics().enable_backups(None);
    let _keeper = BackupScheduler::start(engine.handle.clone(), intervals).unwrap();
    assert_eq!(newest(), made);
}

#[test]
fn an_upgrade_leaves_a_copy_of_the_file_and_no_more_than_one() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
    let open_file =
        |path: &Path| drop(open(Medium::Directory(path.into()), &clock, |_| {}).unwrap());
    for layout in ["1", "2", "11"] {
        std::fs::copy(
            Path::new(LAYOUTS).join(layout).join(FILE_NAME),
            directory.path().join(FILE_NAME),
        )
        .unwrap();
        open_file(directory.path());
        let copy = format!("{FILE_NAME}.schema-{layout}");
        assert_eq!(
            names(directory.path()),
            [FILE_NAME.to_owned(), copy.clone()]
        );
        let mode = std::fs::metadata(directory.path().join(&copy))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        // The copy is of the layout that it says: whoever opens it makes one anew.
        let old = tempfile::tempdir().unwrap();
        std::fs::copy(directory.path().join(&copy), old.path().join(FILE_NAME)).unwrap();
        open_file(old.path());
        assert_eq!(names(old.path()), [FILE_NAME.to_owned(), copy.clone()]);
        // The next start finds nothing to do.
        std::fs::remove_file(directory.path().join(copy)).unwrap();
        open_file(directory.path());
        assert_eq!(names(directory.path()), [FILE_NAME]);
        std::fs::write(
            directory.path().join(format!("{FILE_NAME}.schema-0")),
            b"older",
        )
        .unwrap();
    }
}

#[test]
fn an_upgrade_without_room_for_a_copy_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_secs(1_900_000_000));
    std::fs::copy(
        Path::new(LAYOUTS).join("1").join(FILE_NAME),
        directory.path().join(FILE_NAME),
    )
    .unwrap();
    // Something that cannot be replaced stands in its place.
    let blocked = directory
        .path()
        .join(format!("{FILE_NAME}.schema-1.partial"));
    std::fs::create_dir(&blocked).unwrap();
    let (handle, _writer) =
        open(Medium::Directory(directory.path().into()), &clock, |_| {}).unwrap();
    assert!(handle.with_state(|state| state.checks().count()) > 5);
}

#[test]
fn a_start_removes_what_a_restore_that_was_killed_has_left() {
    let directory = tempfile::tempdir().unwrap();
    let left = directory.path().join("restoring");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join(FILE_NAME), "a copy, with its secrets").unwrap();
    let engine = TestEngine::open(
        Medium::Directory(directory.path().into()),
        HousekeepingLimits::default(),
    );
    assert!(!left.exists());
    drop(engine);
}
