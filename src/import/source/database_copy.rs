//! Copies of a SQLite file that a server may have open and write to.
//!
//! A lock keeps the server from writing. A change that waits for the lock also blocks all readers
//! until they give up after some seconds. So the file is first copied without a lock, and the copy
//! is valid if nothing was written meanwhile. Only a file that is written to repeatedly is locked,
//! for a short time.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::create_owner_only;
use crate::util::clock::Clock;

/// Maximum number of copies of a database that is written to meanwhile.
const MAX_COPIES: usize = 20;
/// Number of copies in a cycle. The last one is made under a lock. The ones before give the server
/// time, and bring the file into memory.
const COPIES_PER_LOCK: usize = 4;
/// Maximum time for holding the lock. By default, programs wait for five seconds.
const MAX_LOCK_TIME: Duration = Duration::from_secs(2);
/// Number of bytes that are copied between two checks of the time.
const CHUNK_BYTES: u64 = 4 << 20;
/// Offset of the file change counter (section 1.3.7 of the format).
const CHANGE_COUNTER_OFFSET: u64 = 24;

/// Copies a database with its sidecar files: the write-ahead log, or the journal for rolling back a
/// change.
///
/// # Errors
/// Returns an error if a file cannot be read or written, or if there was a change during each copy.
pub(super) fn copy_database(from: &Path, to: &Path) -> Result<(), String> {
    for attempt in 0..MAX_COPIES {
        let began = Clock::System.uptime();
        if copy_once(from, to, is_locked_attempt(attempt), &mut || {
            Clock::System.uptime().saturating_sub(began)
        })? {
            return Ok(());
        }
    }
    Err(
        "it changed while it was being copied: stop the old server, or copy the file with sqlite3 \
         FILE '.backup COPY'"
            .into(),
    )
}

fn is_locked_attempt(attempt: usize) -> bool {
    attempt % COPIES_PER_LOCK == COPIES_PER_LOCK - 1
}

/// Copies a database once. Returns `false` if it was written to meanwhile, or if the copy took too
/// long for the lock. `elapsed` returns the time since the copy began and is called after each
/// part.
fn copy_once(
    from: &Path,
    to: &Path,
    takes_lock: bool,
    elapsed: &mut dyn FnMut() -> Duration,
) -> Result<bool, String> {
    let lock = if takes_lock { lock(from) } else { None };
    let locked_at = elapsed();
    // Under the lock, a change that has begun is not in the file yet. Its journal is not needed.
    let suffixes = if lock.is_some() {
        &[""][..]
    } else {
        &["", "-wal", "-journal"]
    };
    let read_error = |error: io::Error| format!("cannot read {}: {error}", from.display());
    let database = File::open(from).map_err(read_error)?;
    let before = DatabaseFingerprint::read(&database, from, suffixes);
    for suffix in suffixes {
        let from = sidecar_path(from, suffix);
        let to = sidecar_path(to, suffix);
        let _ = fs::remove_file(&to);
        let other;
        let mut file = &database;
        if !suffix.is_empty() {
            other = match File::open(&from) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(read_error)?,
            };
            file = &other;
        }
        let copy_error = |error| {
            format!(
                "cannot copy {} to {}: {error}",
                from.display(),
                to.display()
            )
        };
        let mut copy = create_owner_only(&to).map_err(copy_error)?;
        loop {
            let copied =
                io::copy(&mut (&mut file).take(CHUNK_BYTES), &mut copy).map_err(copy_error)?;
            let lock_time = elapsed().saturating_sub(locked_at);
            if lock.is_some() && lock_time > MAX_LOCK_TIME {
                return Ok(false);
            }
            if copied == 0 {
                break;
            }
        }
        copy.flush().map_err(copy_error)?;
    }
    // Closing any descriptor of this file in this process releases the lock, so this comes before.
    let is_same = DatabaseFingerprint::read(&database, from, suffixes) == before;
    drop(database);
    Ok(is_same)
}

/// Properties of a database that each change modifies.
#[derive(PartialEq, Eq)]
struct DatabaseFingerprint {
    /// Change counter in the header.
    change_counter: Option<[u8; 4]>,
    /// Size and modification time of each copied file.
    files: Vec<Option<(u64, Option<SystemTime>)>>,
}

impl DatabaseFingerprint {
    fn read(database: &File, path: &Path, ends: &[&str]) -> Self {
        let mut changes = [0; 4];
        let changes = database
            .read_exact_at(&mut changes, CHANGE_COUNTER_OFFSET)
            .ok()
            .map(|()| changes);
        let file = |end: &&str| {
            fs::metadata(sidecar_path(path, end))
                .ok()
                .map(|file| (file.len(), file.modified().ok()))
        };
        Self {
            change_counter: changes,
            files: ends.iter().map(file).collect(),
        }
    }
}

fn sidecar_path(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    PathBuf::from(path)
}

#[cfg(feature = "sqlite")]
fn lock(path: &Path) -> Option<crate::import::sqlite::ReadLock> {
    crate::import::sqlite::ReadLock::acquire(path)
}

#[cfg(not(feature = "sqlite"))]
fn lock(_: &Path) -> Option<()> {
    None
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A server with a database of several chunks that does not wait for locks.
    fn server(path: &Path) -> Connection {
        let server = Connection::open(path).unwrap();
        server.busy_timeout(Duration::ZERO).unwrap();
        server
            .execute_batch(
                "CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(10000000))",
            )
            .unwrap();
        server
    }

    fn write(server: &Connection) -> bool {
        server
            .execute_batch("UPDATE filler SET rowid = rowid + 1")
            .is_ok()
    }

    #[test]
    fn a_server_writes_while_its_file_is_copied_without_a_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hc");
        let to = directory.path().join("copy");
        let server = server(&path);
        let locked: Vec<_> = (0..MAX_COPIES)
            .filter(|attempt| is_locked_attempt(*attempt))
            .collect();
        assert_eq!((locked.first(), locked.len()), (Some(&3), 5));
        let mut writes = Vec::new();
        let is_good = copy_once(&path, &to, false, &mut || {
            writes.push(write(&server));
            Duration::from_secs(60)
        });
        assert!(
            writes.len() > 3 && writes.iter().all(|written| *written),
            "{writes:?}"
        );
        assert_eq!(is_good, Ok(false), "it was written to meanwhile");
        assert_eq!(
            copy_once(&path, &to, false, &mut || Duration::from_secs(60)),
            Ok(true),
            "it takes as long as it takes"
        );
    }

    #[test]
    fn the_lock_is_held_until_the_copy_ends_and_for_a_limited_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hc");
        let to = directory.path().join("copy");
        let server = server(&path);
        // The lock is visible to other processes, too.
        let inode = format!(
            ":{} ",
            std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap())
        );
        let is_locked =
            || fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.contains(&inode));
        let mut writes = Vec::new();
        let is_good = copy_once(&path, &to, true, &mut || {
            writes.push(write(&server));
            assert!(is_locked() || !cfg!(target_os = "linux"));
            Duration::from_secs(1)
        });
        assert!(
            writes.len() > 3 && writes.iter().all(|written| !written),
            "{writes:?}"
        );
        assert_eq!(is_good, Ok(true));
        assert!(write(&server));
        let mut asked = 0;
        let mut time = Duration::ZERO;
        let is_good = copy_once(&path, &to, true, &mut || {
            asked += 1;
            time += MAX_LOCK_TIME / 2 + Duration::from_millis(1);
            time
        });
        assert_eq!((is_good, asked), (Ok(false), 3), "it stops within the file");
        assert!(write(&server) && !is_locked(), "and lets the lock go");
    }
}
