//! A directory of pings that wait to be sent. Each is a file of its own, so several runs may share it and none waits for another.
//!
//! A file is named after the moment at which its job ended, so that names are in the order in which to send. It holds the URL on a line and
//! then the body, and it is there whole or not at all. Files may hold secrets: nobody else can read them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use uuid::Uuid;

use super::report::{PingUrl, Report};
use crate::domain::moment::Moment;
use crate::store::NO_FOLLOW;
use crate::store::access::{expect_own_directory, is_own};

/// Pings that wait. When there are more, the oldest are dropped.
const MOST_FILES: usize = 1_000;
/// Bytes of all that wait. When there are more, the oldest are dropped.
const MOST_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of one: more than a body that is sent.
const MOST_OF_ONE: u64 = 11 * 1024 * 1024;
/// What a file that was not written whole is left for, in seconds.
const UNFINISHED_SECS: i64 = 3_600;

/// Has opening a pipe not wait for its other end.
const NO_WAIT: i32 = OFlags::NONBLOCK.bits().cast_signed();

const WAITS: &str = "ping";
const UNFINISHED: &str = "part";

/// The directory.
#[derive(Clone)]
pub struct Spool(PathBuf);

/// The name of a ping that waits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(String);

impl Name {
    fn new(ended: Moment, unique: Uuid) -> Self {
        Self(format!("{:020}-{unique}", ended.micros().max(0)))
    }

    /// When its job ended.
    pub(super) fn ended(&self) -> Moment {
        let micros = self.0.split('-').next().and_then(|micros| micros.parse().ok());
        Moment::from_micros(micros.unwrap_or_default())
    }
}

/// A ping that was written down, for whoever waits until it is sent.
pub(super) struct Kept {
    pub(super) name: Name,
    /// Its file, open for as long as somebody wants to know its fate.
    file: File,
}

/// What has become of a ping that was written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Waits,
    /// It was removed: a run has sent it, or told that nobody takes it.
    Sent,
    /// There was no room for it. A run that had begun to send it may have gone on.
    Dropped,
}

impl Spool {
    /// A directory that may not be there yet.
    pub fn new(directory: &Path) -> Self {
        Self(directory.into())
    }

    /// Where it is.
    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    fn path(&self, name: &Name, kind: &str) -> PathBuf {
        self.0.join(format!("{}.{kind}", name.0))
    }

    /// Writes a ping down. It is on disk when this returns; after an error nothing is left of it.
    pub(super) fn put(&self, report: &Report, ended: Moment, unique: Uuid) -> io::Result<Kept> {
        self.put_and_sync(report, ended, unique, |directory| File::open(directory)?.sync_all())
    }

    fn put_and_sync(&self, report: &Report, ended: Moment, unique: Uuid, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<Kept> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        expect_own_directory(&self.0)?;
        let name = Name::new(ended, unique);
        let unfinished = self.path(&name, UNFINISHED);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(NO_FOLLOW).open(&unfinished)?;
        let written = [report.url.as_bytes(), b"\n", &report.body].concat();
        let written = file.write_all(&written).and_then(|()| file.sync_data());
        if let Err(error) = written.and_then(|()| std::fs::rename(&unfinished, self.path(&name, WAITS))) {
            let _ = std::fs::remove_file(&unfinished);
            return Err(error);
        }
        if let Err(error) = sync(&self.0) {
            // Whoever is told of the error sends the ping at once: the next run is not to send it again.
            self.remove(&name);
            return Err(error);
        }
        // The ping is kept, whether or not there is room for it now. The next one tries again.
        let _ = self.make_room(&name, ended);
        Ok(Kept { name, file })
    }

    /// Drops what is too much besides the newcomer, and what was never written whole.
    fn make_room(&self, newcomer: &Name, now: Moment) -> io::Result<()> {
        let length = |name: &Name| self.path(name, WAITS).symlink_metadata().map_or(0, |file| file.len());
        let (mut files, mut bytes) = (1, length(newcomer));
        // Set back, the clock makes the newcomer the oldest by its name.
        for name in self.names(WAITS)?.iter().rev().filter(|name| *name != newcomer) {
            files += 1;
            bytes += length(name);
            if files > MOST_FILES || bytes > MOST_BYTES {
                self.drop_unsent(name);
            }
        }
        for name in self.names(UNFINISHED)? {
            if name.ended().plus_secs(UNFINISHED_SECS) < now {
                let _ = std::fs::remove_file(self.path(&name, UNFINISHED));
            }
        }
        Ok(())
    }

    /// Empties a file and removes it. That it is empty is how the run that waits for it knows it from one that was sent.
    fn drop_unsent(&self, name: &Name) {
        let path = self.path(name, WAITS);
        // Another run may have sent it or dropped it, so that it is gone.
        let _ = open_own(OpenOptions::new().write(true), &path).and_then(|file| file.set_len(0));
        let _ = std::fs::remove_file(path);
    }

    /// What waits, the oldest first.
    pub(super) fn waiting(&self) -> io::Result<Vec<Name>> {
        self.names(WAITS)
    }

    fn names(&self, kind: &str) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            names.extend(name.strip_suffix(kind).and_then(|name| name.strip_suffix('.')).map(|name| Name(name.into())));
        }
        names.sort();
        Ok(names)
    }

    /// What has become of a ping.
    pub(super) fn fate(&self, kept: &Kept) -> Fate {
        if self.path(&kept.name, WAITS).symlink_metadata().is_ok() {
            return Fate::Waits;
        }
        let is_empty = kept.file.metadata().is_ok_and(|file| file.len() == 0);
        if is_empty { Fate::Dropped } else { Fate::Sent }
    }

    /// The ping of this name; `None` for one that is gone, or that nobody here has written.
    pub(super) fn read(&self, name: &Name) -> Option<Report> {
        let mut bytes = Vec::new();
        open_own(OpenOptions::new().read(true), &self.path(name, WAITS)).ok()?.take(MOST_OF_ONE).read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let body = bytes.split_off(end + 1);
        bytes.truncate(end);
        let url = String::from_utf8(bytes).ok()?;
        PingUrl::parse(&url).ok()?;
        Some(Report::new(url, body))
    }

    /// Removes a ping that was sent, or that nobody takes.
    pub(super) fn remove(&self, name: &Name) {
        // If it stays, it is sent twice, which is better than never.
        let _ = std::fs::remove_file(self.path(name, WAITS));
    }

    /// The right to send what waits, as long as the file lives; `None` if another run has it.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        expect_own_directory(&self.0)?;
        let file = open_own(OpenOptions::new().write(true).create(true).truncate(false).mode(0o600), &self.0.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Opens a file of this user in the directory: no link, and nothing that somebody else has laid there.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // A pipe would hold up whoever opens it.
    let file = options.custom_flags(NO_FOLLOW | NO_WAIT).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && is_own(&found) { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn report(url: &str, body: &[u8]) -> Report {
        Report::new(url.into(), body.into())
    }

    fn bodies(spool: &Spool) -> Vec<usize> {
        spool.waiting().unwrap().iter().map(|name| spool.read(name).unwrap().body.len()).collect()
    }

    #[test]
    fn pings_come_back_whole_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("a/b"));
        for (secs, body) in [(9, &b"x"[..]), (10, b"\xff\n\n"), (2, b"")] {
            spool
                .put(&report("http://a/ping/u/0?rid=1", body), Moment::from_secs(secs), Uuid::from_u128(secs.unsigned_abs().into()))
                .unwrap();
        }
        let names = spool.waiting().unwrap();
        assert_eq!(names.iter().map(|name| name.ended().secs()).collect::<Vec<_>>(), [2, 9, 10]);
        let last = spool.read(&names[2]).unwrap();
        assert_eq!((last.url.as_str(), &last.body[..]), ("http://a/ping/u/0?rid=1", &b"\xff\n\n"[..]));
        let mode = |path: PathBuf| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(spool.0.clone()), mode(spool.path(&names[0], WAITS))), (0o700, 0o600));
        spool.remove(&names[0]);
        assert!(spool.read(&names[0]).is_none() && spool.read(&names[1]).is_some());
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        let name = |number: usize| Name::new(Moment::from_secs(number as i64 * UNFINISHED_SECS), Uuid::nil());
        let put = |number: usize, length: usize| spool.put(&report("http://a/u", &vec![b'x'; length]), name(number).ended(), Uuid::nil());
        put(0, 0).unwrap();
        std::fs::write(spool.path(&name(0), UNFINISHED), b"half").unwrap();
        for number in 1..MOST_FILES {
            std::fs::write(spool.path(&name(number), WAITS), format!("http://a/u\n{}", "x".repeat(number))).unwrap();
        }
        put(MOST_FILES, MOST_FILES).unwrap();
        // The oldest is gone, and so is what was not written whole.
        assert_eq!(bodies(&spool), (1..=MOST_FILES).collect::<Vec<_>>());
        assert!(spool.names(UNFINISHED).unwrap().is_empty());
        for number in 1..6 {
            put(MOST_FILES + number, 10_000_000).unwrap();
        }
        assert_eq!(bodies(&spool), [10_000_000; 3]);
    }

    #[test]
    fn a_ping_that_was_dropped_is_known_from_one_that_was_sent() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        let put = |secs: i64| spool.put(&report("http://a/u", &vec![b'x'; 10_000_000]), Moment::from_secs(secs), Uuid::nil()).unwrap();
        let [first, second, third] = [1, 2, 3].map(put);
        spool.remove(&second.name);
        assert_eq!([&first, &second, &third].map(|kept| spool.fate(kept)), [Fate::Waits, Fate::Sent, Fate::Waits]);
        put(4);
        // The clock was set back: by its name this one is the oldest.
        let newest = put(0);
        assert_eq!([&first, &third, &newest].map(|kept| spool.fate(kept)), [Fate::Dropped, Fate::Waits, Fate::Waits]);
    }

    #[test]
    fn what_could_not_be_kept_leaves_nothing_to_be_sent() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        let unsynced = |_: &Path| Err(io::Error::from(io::ErrorKind::InvalidInput));
        let refused = spool.put_and_sync(&report("http://a/u", b""), Moment::default(), Uuid::nil(), unsynced);
        assert!(refused.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) && spool.waiting().unwrap().is_empty());
    }

    #[test]
    fn one_run_sends_at_a_time_and_others_may_not_write() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::new(&directory.path().join("spool"));
        spool.put(&report("http://a/u", b""), Moment::default(), Uuid::nil()).unwrap();
        let held = spool.lock().unwrap();
        assert!(held.is_some() && spool.lock().unwrap().is_none());
        drop(held);
        assert!(spool.lock().unwrap().is_some());
        // What nobody here has written is no ping.
        std::fs::write(spool.path(&Name("0".into()), WAITS), b"file:///etc/passwd\n").unwrap();
        assert!(spool.read(&Name("0".into())).is_none());
        std::fs::set_permissions(&spool.0, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let refused = spool.put(&report("http://a/u", b""), Moment::default(), Uuid::max()).err().unwrap();
        assert!(refused.to_string().contains("others can write"), "{refused}");
    }

    #[test]
    fn links_and_what_others_have_laid_there_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let (spool, victim) = (Spool::new(&directory.path().join("spool")), directory.path().join("victim"));
        std::fs::write(&victim, "http://a/ping/u\nsomebody's").unwrap();
        let put = |spool: &Spool, number| spool.put(&report("http://a/u", b""), Moment::from_secs(number), Uuid::nil());
        put(&spool, 1).unwrap();
        let link = |name: &str| std::os::unix::fs::symlink(&victim, spool.0.join(name)).unwrap();
        // An entry that is a link is neither sent nor emptied.
        link("0-a.ping");
        assert!(spool.read(&Name("0-a".into())).is_none());
        spool.drop_unsent(&Name("0-a".into()));
        assert_eq!((std::fs::read(&victim).unwrap().len(), spool.0.join("0-a.ping").exists()), (26, false));
        // Nor is a lock made where a link leads.
        std::fs::remove_file(&victim).unwrap();
        link("lock");
        assert!(spool.lock().is_err() && !victim.exists());
        std::fs::remove_file(spool.0.join("lock")).unwrap();
        // The directory itself is no link.
        std::os::unix::fs::symlink(&spool.0, directory.path().join("link")).unwrap();
        let through = Spool::new(&directory.path().join("link/"));
        let refused = put(&through, 2).err().unwrap();
        assert!(refused.to_string().contains("it is a link") && through.lock().is_err(), "{refused}");
        // What belongs to somebody else: only root can lay it there.
        let entry = spool.path(&spool.waiting().unwrap()[0], WAITS);
        if std::os::unix::fs::chown(&entry, Some(65534), None).is_err() {
            eprintln!("skipped: this takes root");
            return;
        }
        assert!(spool.read(&spool.waiting().unwrap()[0]).is_none());
        std::os::unix::fs::chown(&spool.0, Some(65534), None).unwrap();
        let refused = put(&spool, 3).err().unwrap();
        assert!(refused.to_string().contains("belongs to user 65534") && spool.lock().is_err(), "{refused}");
    }
}
