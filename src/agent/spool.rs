//! Spool: a directory of pings that wait to be sent. Each ping is a separate file, so several runs
//! may share the directory and none waits for another.
//!
//! A file is named after the time at which its job ended, so the order of names is the order of
//! sending. It contains the URL on a line and then the body, and appears only when it is complete.
//! Files may contain secrets: no other user can read them.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use uuid::Uuid;

use super::outgoing_ping::{OutgoingPing, PingUrl};
use crate::domain::timestamp::Timestamp;
use crate::store::path_access::{is_owned_by_process, open_own_directory};

/// Maximum number of waiting pings. Beyond it, the oldest are dropped.
const MAX_FILES: usize = 1_000;
/// Maximum bytes of all waiting pings. Beyond it, the oldest are dropped.
const MAX_SPOOL_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum bytes of one ping: more than a body that is sent.
const MAX_PING_BYTES: u64 = 11 * 1024 * 1024;
/// Age in seconds at which a partial file is removed.
const PARTIAL_MAX_AGE_SECS: i64 = 3_600;

const PING_EXTENSION: &str = "ping";
const PARTIAL_EXTENSION: &str = "part";

/// The spool directory.
#[derive(Clone)]
pub struct Spool(PathBuf);

/// Name of a waiting ping.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpooledPingName(String);

impl SpooledPingName {
    fn new(ended: Timestamp, unique: Uuid) -> Self {
        Self(format!("{:020}-{unique}", ended.micros().max(0)))
    }

    fn file_name(&self, kind: &str) -> String {
        format!("{}.{kind}", self.0)
    }

    /// Returns the time at which its job ended.
    pub(super) fn ended_at(&self) -> Timestamp {
        let micros = self
            .0
            .split('-')
            .next()
            .and_then(|micros| micros.parse().ok());
        Timestamp::from_micros(micros.unwrap_or_default())
    }
}

/// A spooled ping whose sender waits for its result.
pub(super) struct SpooledPing {
    pub(super) name: SpooledPingName,
    /// Its file, kept open to learn its status.
    file: File,
}

/// Status of a spooled ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpoolStatus {
    Waiting,
    /// It was removed: a run has sent it, or reported that the server refuses it.
    Sent,
    /// It was dropped to limit the spool. A run that had begun to send it may have succeeded.
    Dropped,
}

impl Spool {
    /// Creates a spool in a directory that need not exist yet.
    pub fn new(directory: &Path) -> Self {
        Self(directory.into())
    }

    /// Opens the directory. Refuses a directory in which other users could change the pings or the
    /// paths of files.
    fn open(&self) -> io::Result<SpoolDirectory> {
        open_own_directory(&self.0).map(SpoolDirectory)
    }

    /// Returns the path of the directory.
    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    /// Writes a ping. It is on disk when this returns; after an error nothing is left of it.
    pub(super) fn write(
        &self,
        ping: &OutgoingPing,
        ended: Timestamp,
        unique: Uuid,
    ) -> io::Result<SpooledPing> {
        self.write_and_sync(ping, ended, unique, File::sync_all)
    }

    fn write_and_sync(
        &self,
        ping: &OutgoingPing,
        ended: Timestamp,
        unique: Uuid,
        sync: impl Fn(&File) -> io::Result<()>,
    ) -> io::Result<SpooledPing> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        let directory = self.open()?;
        let name = SpooledPingName::new(ended, unique);
        let partial = name.file_name(PARTIAL_EXTENSION);
        let mut file =
            directory.open_own_file(&partial, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let content = [ping.url.as_bytes(), b"\n", &ping.body].concat();
        let written = file.write_all(&content).and_then(|()| file.sync_data());
        if let Err(error) =
            written.and_then(|()| directory.rename(&partial, &name.file_name(PING_EXTENSION)))
        {
            directory.remove(&partial);
            return Err(error);
        }
        if let Err(error) = sync(&directory.0) {
            // After an error the caller sends the ping at once, so the next run must not send it
            // again.
            directory.remove(&name.file_name(PING_EXTENSION));
            return Err(error);
        }
        // The ping is kept, even if the limits cannot be enforced now. The next ping tries again.
        let _ = directory.enforce_limits(&name, ended);
        Ok(SpooledPing { name, file })
    }

    /// Returns the waiting pings, the oldest first.
    pub(super) fn waiting_names(&self) -> io::Result<Vec<SpooledPingName>> {
        self.open()?.names(PING_EXTENSION)
    }

    /// Returns the status of a ping.
    pub(super) fn status_of(&self, ping: &SpooledPing) -> SpoolStatus {
        if self
            .open()
            .is_ok_and(|directory| directory.ping_length(&ping.name).is_some())
        {
            return SpoolStatus::Waiting;
        }
        let is_empty = ping.file.metadata().is_ok_and(|file| file.len() == 0);
        if is_empty {
            SpoolStatus::Dropped
        } else {
            SpoolStatus::Sent
        }
    }

    /// Returns the ping of this name; `None` if it is gone, or was not written by this program.
    pub(super) fn read(&self, name: &SpooledPingName) -> Option<OutgoingPing> {
        let mut bytes = Vec::new();
        let file = self
            .open()
            .ok()?
            .open_own_file(&name.file_name(PING_EXTENSION), OFlags::RDONLY)
            .ok()?;
        file.take(MAX_PING_BYTES).read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let body = bytes.split_off(end + 1);
        bytes.truncate(end);
        let url = String::from_utf8(bytes).ok()?;
        PingUrl::parse(&url).ok()?;
        Some(OutgoingPing::new(url, body))
    }

    /// Removes a ping that was sent or refused.
    pub(super) fn remove(&self, name: &SpooledPingName) {
        // If it stays, it is sent twice, which is better than never.
        if let Ok(directory) = self.open() {
            directory.remove(&name.file_name(PING_EXTENSION));
        }
    }

    /// Locks the spool for sending while the file lives; `None` if another run holds the lock.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = self
            .open()?
            .open_own_file("lock", OFlags::WRONLY | OFlags::CREATE)
            .map_err(|error| {
                let path = self.0.join("lock");
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The open directory. Its files are opened relative to it, so that no other directory can take its
/// place between two steps.
struct SpoolDirectory(File);

impl SpoolDirectory {
    /// Opens a file of this user. Refuses links and files of other users.
    fn open_own_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // Opening a pipe would block.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened =
            openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR).map_err(|error| match error {
                Errno::LOOP => io::Error::other("it is a link; remove it"),
                error => error.into(),
            })?;
        let file = File::from(opened);
        let metadata = file.metadata()?;
        match (metadata.is_file(), is_owned_by_process(&metadata)) {
            (true, true) => Ok(file),
            (true, false) => Err(io::Error::other(format!(
                "it belongs to user {}; remove it",
                metadata.uid()
            ))),
            (false, _) => Err(io::Error::other("it is not a file; remove it")),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    fn remove(&self, name: &str) {
        let _ = unlinkat(&self.0, name, AtFlags::empty());
    }

    /// Returns the bytes of a waiting ping; `None` if there is none of this name.
    fn ping_length(&self, name: &SpooledPingName) -> Option<u64> {
        let status = statat(
            &self.0,
            name.file_name(PING_EXTENSION),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .ok()?;
        u64::try_from(status.st_size).ok()
    }

    fn names(&self, kind: &str) -> io::Result<Vec<SpooledPingName>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry
                .file_name()
                .to_str()
                .ok()
                .and_then(|name| name.strip_suffix(kind)?.strip_suffix('.'));
            names.extend(name.map(|name| SpooledPingName(name.into())));
        }
        names.sort();
        Ok(names)
    }

    /// Drops the oldest pings beyond the limits, except `new`, and old partial files.
    fn enforce_limits(&self, new: &SpooledPingName, now: Timestamp) -> io::Result<()> {
        let length = |name: &SpooledPingName| self.ping_length(name).unwrap_or_default();
        let mut files = 1;
        let mut bytes = length(new);
        // If the clock was set back, the new ping has the oldest name.
        for name in self
            .names(PING_EXTENSION)?
            .iter()
            .rev()
            .filter(|name| *name != new)
        {
            files += 1;
            bytes += length(name);
            if files > MAX_FILES || bytes > MAX_SPOOL_BYTES {
                self.discard(name);
            }
        }
        for name in self.names(PARTIAL_EXTENSION)? {
            if name.ended_at().plus_secs(PARTIAL_MAX_AGE_SECS) < now {
                self.remove(&name.file_name(PARTIAL_EXTENSION));
            }
        }
        Ok(())
    }

    /// Empties a file and removes it. The waiting run has the file open, and detects by its
    /// length that the ping was dropped and not sent.
    fn discard(&self, name: &SpooledPingName) {
        let name = name.file_name(PING_EXTENSION);
        // Another run may have sent or dropped it in the meantime.
        let _ = self
            .open_own_file(&name, OFlags::WRONLY)
            .and_then(|file| file.set_len(0));
        self.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(url: &str, body: &[u8]) -> OutgoingPing {
        OutgoingPing::new(url.into(), body.into())
    }

    fn path(spool: &Spool, name: &SpooledPingName, kind: &str) -> PathBuf {
        spool.0.join(name.file_name(kind))
    }

    fn bodies(spool: &Spool) -> Vec<usize> {
        spool
            .waiting_names()
            .unwrap()
            .iter()
            .map(|name| spool.read(name).unwrap().body.len())
            .collect()
    }

    #[test]
    fn pings_are_read_whole_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("a/b"));
        for (secs, body) in [(9, &b"x"[..]), (10, b"\xff\n\n"), (2, b"")] {
            spool
                .write(
                    &report("http://a/ping/u/0?rid=1", body),
                    Timestamp::from_secs(secs),
                    Uuid::from_u128(secs.unsigned_abs().into()),
                )
                .unwrap();
        }
        let names = spool.waiting_names().unwrap();
        assert_eq!(
            names
                .iter()
                .map(|name| name.ended_at().secs())
                .collect::<Vec<_>>(),
            [2, 9, 10]
        );
        let last = spool.read(&names[2]).unwrap();
        assert_eq!(
            (last.url.as_str(), &last.body[..]),
            ("http://a/ping/u/0?rid=1", &b"\xff\n\n"[..])
        );
        let mode = |path: PathBuf| path.metadata().unwrap().mode() & 0o777;
        assert_eq!(
            (
                mode(spool.0.clone()),
                mode(path(&spool, &names[0], PING_EXTENSION))
            ),
            (0o700, 0o600)
        );
        spool.remove(&names[0]);
        assert!(spool.read(&names[0]).is_none() && spool.read(&names[1]).is_some());
    }

    #[test]
    fn the_oldest_pings_beyond_the_limits_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        let name = |number: usize| {
            SpooledPingName::new(
                Timestamp::from_secs(number as i64 * PARTIAL_MAX_AGE_SECS),
                Uuid::nil(),
            )
        };
        let put = |number: usize, length: usize| {
            spool.write(
                &report("http://a/u", &vec![b'x'; length]),
                name(number).ended_at(),
                Uuid::nil(),
            )
        };
        put(0, 0).unwrap();
        std::fs::write(path(&spool, &name(0), PARTIAL_EXTENSION), b"half").unwrap();
        for number in 1..MAX_FILES {
            std::fs::write(
                path(&spool, &name(number), PING_EXTENSION),
                format!("http://a/u\n{}", "x".repeat(number)),
            )
            .unwrap();
        }
        put(MAX_FILES, MAX_FILES).unwrap();
        // The oldest ping and the partial file are gone.
        assert_eq!(bodies(&spool), (1..=MAX_FILES).collect::<Vec<_>>());
        assert!(
            spool
                .open()
                .unwrap()
                .names(PARTIAL_EXTENSION)
                .unwrap()
                .is_empty()
        );
        for number in 1..6 {
            put(MAX_FILES + number, 10_000_000).unwrap();
        }
        assert_eq!(bodies(&spool), [10_000_000; 3]);
    }

    #[test]
    fn a_dropped_ping_differs_from_a_sent_one() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        let put = |secs: i64| {
            spool
                .write(
                    &report("http://a/u", &vec![b'x'; 10_000_000]),
                    Timestamp::from_secs(secs),
                    Uuid::nil(),
                )
                .unwrap()
        };
        let [first, second, third] = [1, 2, 3].map(put);
        spool.remove(&second.name);
        assert_eq!(
            [&first, &second, &third].map(|kept| spool.status_of(kept)),
            [
                SpoolStatus::Waiting,
                SpoolStatus::Sent,
                SpoolStatus::Waiting
            ]
        );
        put(4);
        // The clock was set back: by its name this one is the oldest.
        let newest = put(0);
        assert_eq!(
            [&first, &third, &newest].map(|kept| spool.status_of(kept)),
            [
                SpoolStatus::Dropped,
                SpoolStatus::Waiting,
                SpoolStatus::Waiting
            ]
        );
    }

    #[test]
    fn a_ping_that_cannot_be_stored_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        let unsynced = |_: &File| Err(io::Error::from(io::ErrorKind::InvalidInput));
        let refused = spool.write_and_sync(
            &report("http://a/u", b""),
            Timestamp::default(),
            Uuid::nil(),
            unsynced,
        );
        assert!(
            refused.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
                && spool.waiting_names().unwrap().is_empty()
        );
    }

    #[test]
    fn one_run_sends_at_a_time_and_a_shared_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        spool
            .write(
                &report("http://a/u", b""),
                Timestamp::default(),
                Uuid::nil(),
            )
            .unwrap();
        let lock = spool.try_lock().unwrap();
        assert!(lock.is_some() && spool.try_lock().unwrap().is_none());
        drop(lock);
        assert!(spool.try_lock().unwrap().is_some());
        // A file from another program is no ping.
        std::fs::write(
            path(&spool, &SpooledPingName("0".into()), PING_EXTENSION),
            b"file:///etc/passwd\n",
        )
        .unwrap();
        assert!(spool.read(&SpooledPingName("0".into())).is_none());
        std::fs::set_permissions(
            &spool.0,
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let refused = spool
            .write(
                &report("http://a/u", b""),
                Timestamp::default(),
                Uuid::max(),
            )
            .err()
            .unwrap();
        assert!(
            refused.to_string().contains("others can write"),
            "{refused}"
        );
    }

    #[test]
    fn links_and_files_of_other_users_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        let target = directory.path().join("target");
        std::fs::write(&target, "http://a/ping/u\nbody ann's").unwrap();
        let put = |spool: &Spool, number| {
            spool.write(
                &report("http://a/u", b""),
                Timestamp::from_secs(number),
                Uuid::nil(),
            )
        };
        put(&spool, 1).unwrap();
        let link = |name: &str| std::os::unix::fs::symlink(&target, spool.0.join(name)).unwrap();
        // An entry that is a link is neither sent nor emptied.
        link("0-a.ping");
        assert!(spool.read(&SpooledPingName("0-a".into())).is_none());
        spool
            .open()
            .unwrap()
            .discard(&SpooledPingName("0-a".into()));
        assert_eq!(
            (
                std::fs::read(&target).unwrap().len(),
                spool.0.join("0-a.ping").exists()
            ),
            (26, false)
        );
        // The lock is not created through a link.
        std::fs::remove_file(&target).unwrap();
        link("lock");
        let refused = spool.try_lock().unwrap_err().to_string();
        assert!(
            refused.ends_with("spool/lock: it is a link; remove it") && !target.exists(),
            "{refused}"
        );
        std::fs::remove_file(spool.0.join("lock")).unwrap();
        std::fs::create_dir(spool.0.join("lock")).unwrap();
        assert!(spool.try_lock().is_err());
        std::fs::remove_dir(spool.0.join("lock")).unwrap();
        // An open directory stays the same, even if its name is reused.
        let opened = spool.open().unwrap();
        let renamed = directory.path().join("renamed");
        std::fs::rename(&spool.0, &renamed).unwrap();
        std::fs::create_dir(&spool.0).unwrap();
        assert_eq!(
            (
                opened.names(PING_EXTENSION).unwrap().len(),
                spool.waiting_names().unwrap().len()
            ),
            (1, 0)
        );
        opened
            .open_own_file("x", OFlags::WRONLY | OFlags::CREATE)
            .unwrap();
        assert!(renamed.join("x").exists() && !spool.0.join("x").exists());
        std::fs::remove_dir(&spool.0).unwrap();
        std::fs::rename(&renamed, &spool.0).unwrap();
        // The directory itself must not be a link.
        std::os::unix::fs::symlink(&spool.0, directory.path().join("link")).unwrap();
        let linked_spool = Spool::new(&directory.path().join("link/"));
        let refused = put(&linked_spool, 2).err().unwrap();
        assert!(
            refused.to_string().contains("it is a link") && linked_spool.try_lock().is_err(),
            "{refused}"
        );
        // An entry of another user: only root can create it there.
        let entry = path(&spool, &spool.waiting_names().unwrap()[0], PING_EXTENSION);
        if std::os::unix::fs::chown(&entry, Some(65534), None).is_err() {
            eprintln!("skipped: only root can change owners");
            return;
        }
        assert!(spool.read(&spool.waiting_names().unwrap()[0]).is_none());
        std::os::unix::fs::chown(&spool.0, Some(65534), None).unwrap();
        let refused = put(&spool, 3).err().unwrap();
        assert!(
            refused.to_string().contains("belongs to user 65534") && spool.try_lock().is_err(),
            "{refused}"
        );
    }
}
