//! Backups that the server makes by itself, one after each interval, of which it keeps the newest.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::{BackupError, BackupFile, give_way, write};
use crate::domain::moment::Moment;
use crate::engine::{Beside, Handle, Pace};

/// How the time of a backup stands in its name, in UTC: names sort as they were made.
const TIME: &str = "%Y%m%dT%H%M%SZ";
/// What follows the time.
const SUFFIX: &str = ".backup.zst";
/// When the next attempt is made after one that failed, if the interval is not shorter.
const RETRY: Duration = Duration::from_secs(600);
/// How long the clock is not looked at. It may be set.
const LOOK: Duration = Duration::from_secs(60);

/// Where backups are made, how often, and how many are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intervals {
    /// The directory, which has to be there.
    pub directory: PathBuf,
    /// The time from one to the next.
    pub every: Duration,
    /// The newest that are kept; at least one.
    pub keep: usize,
}

/// The thread that makes them. It ends soon after this is dropped.
pub struct Keeper {
    _wake: Sender<()>,
}

impl Keeper {
    /// Starts it. The metrics have what comes of it.
    ///
    /// # Errors
    /// When the system gives no thread. A directory that is not there is told with every attempt: it may be mounted later.
    pub fn start(handle: Handle, intervals: Intervals) -> io::Result<Self> {
        let made = Files::of(&handle, &intervals.directory);
        let mut newest = made.ok().and_then(|made| made.newest(handle.now()));
        handle.metrics().makes_backups(newest);
        let (wake, woken) = mpsc::channel();
        let moved = wake.clone();
        handle.clock().on_move(move || {
            // Nobody waits any more once the server has stopped.
            let _ = moved.send(());
        });
        std::thread::Builder::new().name("backups".into()).spawn(move || {
            give_way();
            let mut not_before = Moment::default();
            loop {
                let now = handle.now();
                let due = newest.filter(|at| !at.is_ahead_of(now)).map_or(now, |at| at.plus_micros(micros(intervals.every)));
                let wait = due.max(not_before).micros_since(now);
                if wait > 0 {
                    match woken.recv_timeout(LOOK.min(Duration::from_micros(wait.unsigned_abs()))) {
                        Err(RecvTimeoutError::Disconnected) => return,
                        Ok(()) | Err(RecvTimeoutError::Timeout) => continue,
                    }
                }
                match attempt(|| make(&handle, &intervals, now)) {
                    Ok(()) => {
                        newest = Some(now);
                        handle.metrics().backed_up(now);
                    }
                    Err(error) => {
                        not_before = now.plus_micros(micros(RETRY.min(intervals.every)));
                        let reason = reason(&error);
                        tracing::error!("NO BACKUP could be made in {}: {reason}", intervals.directory.display());
                        handle.metrics().backup_failed(now, reason);
                    }
                }
            }
        })?;
        Ok(Self { _wake: wake })
    }
}

/// Makes a backup. A panic ends this attempt alone: the next one is made in its time.
fn attempt(make: impl FnOnce() -> Result<(), BackupError>) -> Result<(), BackupError> {
    // What the panic leaves is a partial file, which the next attempt removes.
    catch_unwind(AssertUnwindSafe(make)).unwrap_or(Err(BackupError::Panicked))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Why no backup was made, and what to do where that is known.
fn reason(error: &BackupError) -> String {
    match error {
        BackupError::Io(io) if io.kind() == io::ErrorKind::ReadOnlyFilesystem => format!(
            "{error}; a service of systemd writes only where its unit permits it: name the directory in ReadWritePaths= (systemctl edit overdue)"
        ),
        _ => error.to_string(),
    }
}

/// Makes one and removes those that are too many.
fn make(handle: &Handle, intervals: &Intervals, now: Moment) -> Result<(), BackupError> {
    let files = Files::of(handle, &intervals.directory)?;
    for partial in &files.partial {
        // Of a server that was killed. This one makes one after the other.
        fs::remove_file(partial)?;
    }
    let path = intervals.directory.join(format!("{}{}{SUFFIX}", files.prefix, written(now)));
    let mut file = BackupFile::create(&path)?;
    write(handle, &mut file)?;
    let (bytes, rows) = file.keep(&mut Pace::new(Beside::Server(handle)))?;
    tracing::info!("a backup of {rows} rows is in {}: {bytes} bytes", path.display());
    for (_, old) in Files::of(handle, &intervals.directory)?.oldest_first(now).iter().rev().skip(intervals.keep) {
        fs::remove_file(old)?;
    }
    Ok(())
}

/// The files of this database in a directory; those of others are left alone.
struct Files {
    prefix: String,
    made: Vec<(Moment, PathBuf)>,
    partial: Vec<PathBuf>,
}

impl Files {
    fn of(handle: &Handle, directory: &Path) -> io::Result<Self> {
        // It is drawn when a database is opened for the first time, and by a restore.
        let instance = u32::from_be_bytes(handle.with_state(|state| state.instance.unwrap_or_default()));
        let mut files = Self { prefix: format!("overdue-{instance:08x}-"), made: Vec::new(), partial: Vec::new() };
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(rest) = name.strip_prefix(&files.prefix) else { continue };
            let whole = rest.strip_suffix(".partial");
            match whole.unwrap_or(rest).strip_suffix(SUFFIX).and_then(read) {
                Some(_) if whole.is_some() => files.partial.push(path),
                Some(at) => files.made.push((at, path)),
                None => {}
            }
        }
        Ok(files)
    }

    /// The oldest first; those that a clock made that stood ahead count as older than all others.
    fn oldest_first(mut self, now: Moment) -> Vec<(Moment, PathBuf)> {
        self.made.sort_by_key(|(at, _)| (!at.is_ahead_of(now), *at));
        self.made
    }

    fn newest(self, now: Moment) -> Option<Moment> {
        self.oldest_first(now).pop().map(|(at, _)| at).filter(|at| !at.is_ahead_of(now))
    }
}

fn written(at: Moment) -> String {
    // A clock can show what no date is.
    Timestamp::from_second(at.secs()).unwrap_or_default().strftime(TIME).to_string()
}

fn read(text: &str) -> Option<Moment> {
    let time = DateTime::strptime(TIME, text).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Moment::from_secs(time.timestamp().as_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_file_system_is_explained() {
        assert!(reason(&io::Error::from(io::ErrorKind::ReadOnlyFilesystem).into()).contains("ReadWritePaths="));
        assert!(!reason(&io::Error::from(io::ErrorKind::StorageFull).into()).contains("ReadWritePaths="));
    }

    #[test]
    fn a_panic_fails_one_attempt_and_ends_no_thread() {
        let failed = attempt(|| panic!("on purpose"));
        assert!(matches!(failed, Err(BackupError::Panicked)), "{failed:?}");
        assert!(attempt(|| Ok(())).is_ok());
    }

    #[test]
    fn times_in_names_are_read_as_they_were_written() {
        for secs in [0, 1_800_000_000, 1_799_999_999] {
            assert_eq!(read(&written(Moment::from_secs(secs))), Some(Moment::from_secs(secs)));
        }
        assert_eq!(written(Moment::from_secs(1_800_000_000)), "20270115T080000Z");
        for text in ["", "20270115", "20270115T080000", "20271315T080000Z", "20270115T080000Zx"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
