//! Backups that the server makes by itself, one after each interval, of which it keeps the newest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
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

/// When the newest backup was begun.
#[derive(Clone, Debug, Default)]
pub struct Newest(Arc<AtomicI64>);

impl Newest {
    /// `None`: there is none.
    pub fn get(&self) -> Option<Moment> {
        Some(self.0.load(Ordering::Relaxed)).filter(|micros| *micros > 0).map(Moment::from_micros)
    }

    fn set(&self, at: Moment) {
        self.0.store(at.micros(), Ordering::Relaxed);
    }
}

/// The thread that makes them. It ends soon after this is dropped.
pub struct Keeper {
    _wake: Sender<()>,
}

impl Keeper {
    /// Starts it; `newest` is told of every backup.
    ///
    /// # Errors
    /// When the system gives no thread. A directory that is not there is told with every attempt: it may be mounted later.
    pub fn start(handle: Handle, intervals: Intervals, newest: Newest) -> io::Result<Self> {
        let made = Files::of(&handle, &intervals.directory);
        if let Some(at) = made.ok().and_then(|made| made.newest(handle.now())) {
            newest.set(at);
            handle.metrics().backed_up(at);
        }
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
                let due = newest.get().filter(|at| !at.is_ahead_of(now)).map_or(now, |at| at.plus_micros(micros(intervals.every)));
                let wait = due.max(not_before).micros_since(now);
                if wait > 0 {
                    match woken.recv_timeout(LOOK.min(Duration::from_micros(wait.unsigned_abs()))) {
                        Err(RecvTimeoutError::Disconnected) => return,
                        Ok(()) | Err(RecvTimeoutError::Timeout) => continue,
                    }
                }
                match make(&handle, &intervals, now) {
                    Ok(()) => {
                        newest.set(now);
                        handle.metrics().backed_up(now);
                    }
                    Err(error) => {
                        not_before = now.plus_micros(micros(RETRY.min(intervals.every)));
                        tracing::error!("NO BACKUP could be made in {}: {error}", intervals.directory.display());
                    }
                }
            }
        })?;
        Ok(Self { _wake: wake })
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
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
        let instance = u32::from_be_bytes(handle.state().instance.unwrap_or_default());
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
