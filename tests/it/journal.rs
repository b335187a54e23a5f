//! The journal beside the database file: after a kill, a stop, and when one of the files changes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command as Program;
use std::sync::Arc;

use overdue::backup;
use overdue::domain::ping::PingKind;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::CommandOutcome;
use overdue::engine::{Handle, Writer, WriterExit};
use overdue::store::{FILE_NAME, JOURNAL_NAME, Medium, StoreError};
use overdue::util::clock::ManualClock;
use overdue::util::random::Random;

use crate::support::commands::ping;
use crate::support::engine::{TestEngine, log_lines_with, open};

struct Site {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    /// Seed of its random numbers.
    seed: u64,
}

impl Site {
    fn new() -> Self {
        Self::with_seed(1)
    }

    fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            directory: tempfile::tempdir().unwrap(),
            clock: ManualClock::at(Timestamp::from_secs(1_800_000_000)),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn try_open(&self) -> Result<(Handle, Writer), StoreError> {
        open(
            Medium::Directory(self.directory.path().into()),
            &self.clock,
            |config| config.random = Random::seeded(self.seed),
        )
    }

    fn start(&self) -> TestEngine {
        let (handle, writer) = self.try_open().unwrap();
        TestEngine {
            handle,
            writer,
            clock: Arc::clone(&self.clock),
        }
    }

    /// Starts an engine with a check that has received some pings.
    fn start_with_pings(&self, pings: usize) -> TestEngine {
        let mut engine = self.start();
        engine.create_project(100);
        engine.create_check(7);
        send(&mut engine, pings);
        engine
    }

    /// Copies the files, as they are while the engine runs, to another directory.
    fn copy(&self, names: &[&str]) -> Self {
        let copy = Self::new();
        for name in names {
            fs::copy(self.path(name), copy.path(name)).unwrap();
        }
        copy
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn send(engine: &mut TestEngine, pings: usize) {
    for _ in 0..pings {
        assert_eq!(
            engine.execute(ping(7, PingKind::Success, "")),
            CommandOutcome::Pinged
        );
    }
}

fn ping_count(engine: &TestEngine) -> u64 {
    engine
        .handle
        .with_state(|state| state.checks().next().map_or(0, |check| check.state.n_pings))
}

fn stop(engine: TestEngine) {
    engine.handle.close();
    assert_eq!(engine.writer.run(), WriterExit::Closed);
}

/// Error of a start that must fail.
fn start_error(site: &Site) -> String {
    match site.try_open() {
        Err(error) => error.to_string(),
        Ok(_) => panic!("the files are accepted"),
    }
}

#[test]
fn a_kill_leaves_both_files_and_a_stop_leaves_the_database_alone() {
    let site = Site::new();
    let mut engine = site.start_with_pings(30);
    let killed = site.copy(&[FILE_NAME, JOURNAL_NAME]);
    let without_journal = site.copy(&[FILE_NAME]);
    assert_eq!(ping_count(&killed.start()), 30);
    assert_eq!(
        ping_count(&without_journal.start()),
        0,
        "the database is synced later"
    );
    send(&mut engine, 1);
    stop(engine);
    assert_eq!(site.names(), [FILE_NAME]);
    assert_eq!(ping_count(&site.copy(&[FILE_NAME]).start()), 31);
}

#[test]
fn the_database_is_synced_after_minutes_and_when_the_journal_is_full() {
    let site = Site::new();
    let mut engine = site.start_with_pings(5);
    site.clock.advance_secs(301);
    (0..2).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
    assert_eq!(ping_count(&site.copy(&[FILE_NAME]).start()), 5);
    for _ in 0..100 {
        let body = vec![b'x'; 100_000];
        engine.execute(ping(7, PingKind::Success, body));
    }
    let synced = ping_count(&site.copy(&[FILE_NAME]).start());
    assert!((50..105).contains(&synced), "{synced}");
    assert_eq!(
        ping_count(&site.copy(&[FILE_NAME, JOURNAL_NAME]).start()),
        105
    );
}

#[test]
fn a_journal_that_is_removed_or_replaced_is_created_again_and_nothing_is_lost() {
    let site = Site::new();
    let mut engine = site.start_with_pings(5);
    for change in [
        |path: &Path| fs::remove_file(path).unwrap(),
        |path: &Path| {
            fs::write(path.with_extension("other"), "another file").unwrap();
            fs::rename(path.with_extension("other"), path).unwrap();
        },
    ] {
        change(&site.path(JOURNAL_NAME));
        let before = ping_count(&engine);
        site.clock.advance_secs(1);
        let lines = log_lines_with("journal", || {
            assert_eq!(engine.writer.step(false), Ok(true));
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        send(&mut engine, 3);
        let killed = site.copy(&[FILE_NAME, JOURNAL_NAME]);
        assert_eq!(ping_count(&killed.start()), before + 3);
    }
}

#[test]
fn a_journal_that_does_not_fit_the_database_is_refused_with_a_remedy() {
    let site = Site::new();
    let mut engine = site.start_with_pings(3);
    let early = site.copy(&[FILE_NAME]);
    site.clock.advance_secs(301);
    (0..2).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
    send(&mut engine, 3);
    let killed = site.copy(&[FILE_NAME, JOURNAL_NAME]);
    let refused = |database: &Site, reason: &str| {
        let mixed = database.copy(&[FILE_NAME]);
        fs::copy(killed.path(JOURNAL_NAME), mixed.path(JOURNAL_NAME)).unwrap();
        let error = start_error(&mixed);
        let path = mixed.path(JOURNAL_NAME);
        assert!(
            error.starts_with(&format!("{} cannot be opened: ", path.display()))
                && error.contains(reason)
                && error.ends_with("or move the journal away to start without it"),
            "{error}"
        );
        fs::remove_file(path).unwrap();
        ping_count(&mixed.start())
    };
    // An older copy of the same database, and another database.
    assert_eq!(refused(&early, "does not follow record"), 0);
    let other = Site::with_seed(2);
    stop(other.start_with_pings(2));
    assert_eq!(refused(&other, "it was written for another one"), 2);
}

#[test]
fn a_damaged_journal_is_refused_with_a_remedy() {
    let site = Site::new();
    let _engine = site.start_with_pings(20);
    let damage = |change: &dyn Fn(&mut Vec<u8>)| {
        let killed = site.copy(&[FILE_NAME, JOURNAL_NAME]);
        let mut bytes = fs::read(killed.path(JOURNAL_NAME)).unwrap();
        change(&mut bytes);
        fs::write(killed.path(JOURNAL_NAME), bytes).unwrap();
        start_error(&killed)
    };
    for error in [
        damage(&|bytes| bytes[4 * 4096 + 60] ^= 1),
        damage(&|bytes| bytes.truncate(bytes.len() / 2)),
        damage(&|bytes| bytes[3] ^= 1),
        damage(&|bytes| bytes.clear()),
    ] {
        assert!(
            error.contains("cannot be opened: it is damaged: ")
                && error.ends_with(
                    "restore a backup, or move the journal away to start without the pings and \
                     changes in it"
                ),
            "{error}"
        );
    }
}

#[test]
fn a_read_only_copy_of_a_killed_server_contains_the_journal() {
    let site = Site::new();
    let _engine = site.start_with_pings(9);
    let killed = site.copy(&[FILE_NAME, JOURNAL_NAME]);
    let before = fs::read(killed.path(JOURNAL_NAME)).unwrap();
    let medium = Medium::read_only(killed.directory.path()).unwrap();
    let (handle, _writer) = open(medium, &site.clock, |config| config.uses_log = false).unwrap();
    let pings = handle.with_state(|state| state.checks().next().unwrap().state.n_pings);
    assert_eq!(pings, 9);
    assert_eq!(fs::read(killed.path(JOURNAL_NAME)).unwrap(), before);
    for (emptied, finding) in [
        (vec![0; before.len()], "it is damaged: its header is empty"),
        (Vec::new(), "it is damaged: its header is empty"),
        (
            before[..before.len() / 2].to_vec(),
            "it is damaged: it was truncated from",
        ),
    ] {
        fs::write(killed.path(JOURNAL_NAME), emptied).unwrap();
        let error = Medium::read_only(killed.directory.path())
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().contains(finding), "{error}");
    }
}

#[test]
fn a_command_without_a_server_takes_over_the_journal_of_a_killed_server() {
    let site = Site::new();
    let _engine = site.start_with_pings(9);
    let killed = site.copy(&[FILE_NAME, JOURNAL_NAME]);
    let medium = Medium::Directory(killed.directory.path().into());
    let opened = open(medium, &site.clock, |config| config.uses_log = false).unwrap();
    assert_eq!(killed.names(), [FILE_NAME]);
    drop(opened);
    assert_eq!(ping_count(&killed.copy(&[FILE_NAME]).start()), 9);
}

/// Restores a backup in the directory of a killed server, and is killed before the journal is
/// removed.
fn restore_until_kill(site: &Site, backup: &[u8]) {
    let journal = fs::read(site.path(JOURNAL_NAME)).unwrap();
    let random = Random::seeded(5);
    backup::restore(site.directory.path(), true, backup, &random).unwrap();
    assert_eq!(site.names(), [FILE_NAME]);
    fs::write(site.path(JOURNAL_NAME), journal).unwrap();
}

#[test]
fn a_restore_that_is_killed_before_it_removes_the_journal_is_complete() {
    let site = Site::new();
    let mut engine = site.start_with_pings(3);
    let mut backup = Vec::new();
    backup::write_backup(&engine.handle, &mut backup).unwrap();
    send(&mut engine, 6);
    let killed = || site.copy(&[FILE_NAME, JOURNAL_NAME]);
    // A server, a command without one, and a read-only file system.
    let restored = killed();
    restore_until_kill(&restored, &backup);
    let mut started = restored.start();
    assert_eq!(ping_count(&started), 3);
    send(&mut started, 2);
    let again = restored.copy(&[FILE_NAME, JOURNAL_NAME]);
    assert_eq!(ping_count(&again.start()), 5, "it has a journal of its own");

    let restored = killed();
    restore_until_kill(&restored, &backup);
    let medium = Medium::Directory(restored.directory.path().into());
    drop(open(medium, &site.clock, |config| config.uses_log = false).unwrap());
    assert_eq!(restored.names(), [FILE_NAME]);

    let restored = killed();
    restore_until_kill(&restored, &backup);
    let medium = Medium::read_only(restored.directory.path()).unwrap();
    let (handle, _writer) = open(medium, &site.clock, |config| config.uses_log = false).unwrap();
    let pings = handle.with_state(|state| state.checks().next().unwrap().state.n_pings);
    assert_eq!(pings, 3);

    // The journal of a third database is still refused.
    let other = Site::with_seed(2);
    let _other_engine = other.start_with_pings(2);
    let restored = killed();
    restore_until_kill(&restored, &backup);
    fs::copy(other.path(JOURNAL_NAME), restored.path(JOURNAL_NAME)).unwrap();
    let error = start_error(&restored);
    assert!(error.contains("it was written for another one"), "{error}");
}

#[test]
fn a_journal_that_is_not_a_file_is_refused_with_a_remedy() {
    let site = Site::new();
    let _engine = site.start_with_pings(4);
    let link: fn(&Path) = |path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(path.with_extension("moved"), path).unwrap();
    };
    let dangling_link: fn(&Path) = |path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(path.with_extension("unmounted"), path).unwrap();
    };
    let directory: fn(&Path) = |path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        fs::create_dir(path).unwrap();
    };
    let pipe: fn(&Path) = |path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        let made = Program::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    for (replace, reason) in [
        (
            link,
            "it is a link: replace it by the file that it leads to",
        ),
        (
            dangling_link,
            "it is a link: replace it by the file that it leads to",
        ),
        (directory, "it is a directory: move it away"),
        (pipe, "it is neither a file nor a directory: move it away"),
    ] {
        let killed = site.copy(&[FILE_NAME, JOURNAL_NAME]);
        let path = killed.path(JOURNAL_NAME);
        replace(&path);
        let expected = format!("{} cannot be opened: {reason}", path.display());
        assert_eq!(start_error(&killed), expected);
        let read_only = Medium::read_only(killed.directory.path()).map(drop);
        assert_eq!(read_only.unwrap_err().to_string(), expected);
        // Nothing was changed.
        if path.is_dir() {
            fs::remove_dir(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        fs::rename(path.with_extension("moved"), &path).unwrap();
        assert_eq!(ping_count(&killed.start()), 4);
    }
}

#[test]
fn a_journal_that_is_replaced_by_a_link_or_directory_loses_nothing() {
    let link: fn(&Path) = |path| symlink("/dev/null", path).unwrap();
    let directory: fn(&Path) = |path| fs::create_dir(path).unwrap();
    for (replace, is_created) in [(link, true), (directory, false)] {
        let site = Site::new();
        let mut engine = site.start_with_pings(5);
        let path = site.path(JOURNAL_NAME);
        fs::remove_file(&path).unwrap();
        replace(&path);
        site.clock.advance_secs(1);
        assert_eq!(engine.writer.step(false), Ok(true));
        send(&mut engine, 3);
        assert_eq!(path.is_file() && !path.is_symlink(), is_created);
        let killed = if is_created {
            site.copy(&[FILE_NAME, JOURNAL_NAME])
        } else {
            // Each batch is synced.
            site.copy(&[FILE_NAME])
        };
        assert_eq!(ping_count(&killed.start()), 8);
    }
}

#[test]
fn a_restore_over_a_directory_with_the_name_of_the_journal_changes_nothing() {
    let site = Site::new();
    let engine = site.start_with_pings(2);
    let mut backup = Vec::new();
    backup::write_backup(&engine.handle, &mut backup).unwrap();
    stop(engine);
    fs::create_dir(site.path(JOURNAL_NAME)).unwrap();
    let restored = backup::restore(site.directory.path(), true, &*backup, &Random::seeded(5));
    let error = restored.unwrap_err().to_string();
    assert!(
        error.ends_with("it is a directory: move it away"),
        "{error}"
    );
    fs::remove_dir(site.path(JOURNAL_NAME)).unwrap();
    assert_eq!(site.names(), [FILE_NAME]);
    assert_eq!(ping_count(&site.start()), 2);
}
