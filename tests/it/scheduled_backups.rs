//! Backups that the server makes on its own: their schedule, encryption, copies and command.

use std::time::Duration;

use overdue::backup::{
    self, BackupHook, BackupKeys, BackupSchedule, BackupScheduler, BucketConfig,
};
use overdue::engine::HousekeepingLimits;
use overdue::outbound::OutboundConfig;
use overdue::store::Medium;

use crate::backup::{names, wait_until};
use crate::support::engine::TestEngine;

#[test]
fn a_server_makes_backups_at_intervals_and_keeps_the_newest() {
    let engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backups");
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
        recipients: Vec::new(),
        bucket: None,
        hook: None,
    };
    let keeper = BackupScheduler::start(
        engine.handle.clone(),
        intervals.clone(),
        OutboundConfig::default(),
    )
    .unwrap();
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
    let (about, findings) = backup::inspect(
        backup::open_backup(
            &path.join(&own_backups(names(&path))[1]),
            &Default::default(),
        )
        .unwrap(),
    )
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
    let _keeper =
        BackupScheduler::start(engine.handle.clone(), intervals, OutboundConfig::default())
            .unwrap();
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
        recipients: Vec::new(),
        bucket: None,
        hook: Some(BackupHook {
            command: format!(
                "echo \"$BACKUP_FILE\" >> '{}'; test -e '{}'",
                runs.display(),
                works.display()
            ),
            launcher: env!("CARGO_BIN_EXE_overdue").into(),
        }),
    };
    let _keeper =
        BackupScheduler::start(engine.handle.clone(), schedule, OutboundConfig::default()).unwrap();
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
fn encrypted_backups_are_verified_listed_and_opened_by_the_key_only() {
    const KEY: &str =
        "AGE-SECRET-KEY-1J7T9VQGHJKY87PH4NZ7W8C467J80GZUVCTFX9VSV32ERQQ0HJMASJZ4T2K\n";
    const RECIPIENT: &str = "age1wnn6mmm229hzp3dqff93jqksu4tg6n3muwwuuykmg93t5yktj55q6ugygz";
    let engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let schedule = BackupSchedule {
        directory: path.clone(),
        interval: Duration::from_secs(86_400),
        keep_newest: 2,
        recipients: vec![RECIPIENT.parse().unwrap()],
        bucket: None,
        hook: None,
    };
    let keeper =
        BackupScheduler::start(engine.handle.clone(), schedule, OutboundConfig::default()).unwrap();
    let status = || engine.handle.metrics().backup_status().unwrap();
    for day in 1..4 {
        wait_until("one a day", || {
            status().newest == Some(engine.handle.now()) && status().running.is_none()
        });
        let files = keeper.control().files(&engine.handle).unwrap();
        assert_eq!(files.len(), day.min(2), "{files:?}");
        assert!(files[0].name.ends_with(".backup.zst.age"), "{files:?}");
        engine.clock.advance_secs(86_400);
    }
    let file = path.join(&keeper.control().files(&engine.handle).unwrap()[0].name);
    assert!(
        std::fs::read(&file)
            .unwrap()
            .starts_with(b"age-encryption.org/v1\n")
    );
    let keys = BackupKeys::read(KEY.as_bytes()).unwrap();
    let (_, findings) = backup::inspect(backup::open_backup(&file, &keys).unwrap()).unwrap();
    assert_eq!(findings.problem_count, 0);
    let refused = backup::open_backup(&file, &BackupKeys::default())
        .err()
        .unwrap();
    assert!(refused.to_string().contains("--key-file"), "{refused}");
}

#[test]
fn a_backup_that_no_bucket_takes_is_copied_again_and_its_command_waits() {
    let engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backups");
    let ran = directory.path().join("ran");
    std::fs::create_dir(&path).unwrap();
    // Nothing listens on the port of a listener that is gone.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let schedule = BackupSchedule {
        directory: path.clone(),
        interval: Duration::from_secs(86_400),
        keep_newest: 2,
        recipients: Vec::new(),
        bucket: Some(BucketConfig {
            bucket: "backups".into(),
            directory: "overdue".into(),
            endpoint: Some(format!("http://127.0.0.1:{port}").into()),
            region: "eu-central-1".into(),
            access_key_id: "AKIA".into(),
            secret_access_key: "s3cret".into(),
            keep_newest: None,
        }),
        hook: Some(BackupHook {
            command: format!("touch '{}'", ran.display()),
            launcher: env!("CARGO_BIN_EXE_overdue").into(),
        }),
    };
    let keeper =
        BackupScheduler::start(engine.handle.clone(), schedule, OutboundConfig::default()).unwrap();
    let status = || engine.handle.metrics().backup_status().unwrap();
    let failed_at = || status().failing.map(|(since, _)| since);
    let failed = || status().running.is_none() && failed_at().is_some();
    wait_until("it fails", failed);
    let (_, reason) = status().failing.unwrap();
    assert!(
        reason.starts_with("copying it to s3://backups/overdue failed: "),
        "{reason}"
    );
    assert!(!reason.contains("s3cret"), "{reason}");
    engine.clock.advance_secs(600);
    wait_until("it is tried again", || {
        status().running.is_none() && failed_at() == Some(engine.handle.now())
    });
    assert_eq!(keeper.control().files(&engine.handle).unwrap().len(), 1);
    assert!(!ran.exists(), "the command follows the copy");
}
