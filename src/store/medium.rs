//! Medium of the database: a data directory, or storage that a test provides.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Builder, Database, StorageBackend};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::file_space::FileSpace;
use super::log::{BackendLog, MemoryLog};
use super::storage::Storage;
use super::{ProgressReporter, StoreError, catch_panic};

/// Name of the database file within the data directory.
pub const FILE_NAME: &str = "overdue.redb";

/// Name of the file that marks lost writes: see [`LostWritesMark`].
const LOST_WRITES_NAME: &str = "overdue.rewrite";

/// Size of redb's page cache in bytes.
const CACHE_BYTES: usize = 16 << 20;

/// Number of bytes that are rewritten at a time.
const REWRITE_BYTES: usize = 8 << 20;

/// Number of bytes that are rewritten at a time where some of them cannot be read.
const PAGE_BYTES: usize = 4096;

/// Open flag that makes opening a symbolic link fail.
pub(crate) const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// Advice for a file that cannot be used.
const RESTORE_HINT: &str = "restore it from a backup, or move it away to start with a new one";

/// Database with its storage.
pub(super) struct OpenedDatabase {
    pub(super) database: Database,
    pub(super) storage: Storage,
    /// Identity of the file; `None` for storage of a test.
    pub(super) file: Option<FileId>,
}

/// Identity of a file. It distinguishes the file from another one that has its name later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Mark that writes of the database may not reach the disk, because a sync failed. The system still
/// returns them to each process that reads the file, until the next power cut. So the mark is not
/// synced: it lasts as long as they do.
#[derive(Clone, Debug)]
pub(super) enum LostWritesMark {
    /// File with this path.
    File(PathBuf),
    /// Flag in memory.
    Memory(Arc<AtomicBool>),
}

impl LostWritesMark {
    /// Sets the mark.
    pub(super) fn set(&self) {
        match self {
            Self::File(path) => {
                if let Err(error) = create_file(path) {
                    tracing::error!("{} cannot be created: {error}", path.display());
                }
            }
            Self::Memory(is_set) => is_set.store(true, Ordering::Relaxed),
        }
    }

    fn is_set(&self) -> bool {
        match self {
            Self::File(path) => fs::symlink_metadata(path).is_ok(),
            Self::Memory(is_set) => is_set.load(Ordering::Relaxed),
        }
    }

    fn clear(&self) -> io::Result<()> {
        match self {
            Self::File(path) => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            Self::Memory(is_set) => {
                is_set.store(false, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

/// Medium of the database.
#[derive(Clone)]
pub enum Medium {
    /// A file in this directory.
    Directory(PathBuf),
    /// Storage that a test provides: in memory, failing on demand, or losing unsynced writes.
    Backend {
        /// Storage of the database.
        database: Arc<dyn StorageBackend>,
        /// Log of the database.
        log: BackendLog,
        /// True if writes may be lost, because a sync failed.
        has_lost_writes: Arc<AtomicBool>,
    },
}

impl Medium {
    /// Returns storage in memory.
    pub fn memory() -> Self {
        Self::Backend {
            database: Arc::new(InMemoryBackend::new()),
            log: BackendLog::Memory(MemoryLog::default()),
            has_lost_writes: Arc::default(),
        }
    }

    fn lost_writes_mark(&self) -> LostWritesMark {
        match self {
            Self::Directory(directory) => LostWritesMark::File(directory.join(LOST_WRITES_NAME)),
            Self::Backend {
                has_lost_writes, ..
            } => LostWritesMark::Memory(Arc::clone(has_lost_writes)),
        }
    }

    /// Rewrites the database if a process could not sync it and ended before it had rewritten it.
    fn rewrite_if_marked(&self, progress: &ProgressReporter) -> Result<(), StoreError> {
        if !self.lost_writes_mark().is_set() {
            return Ok(());
        }
        tracing::warn!(
            "the database could not be synced before this start: it is written again, because a \
             power cut could damage it otherwise"
        );
        // Pages that cannot be read now are written at the next start.
        let Err(error) = self.rewrite(progress) else {
            return Ok(());
        };
        let path = self.database_path();
        match error.kind() {
            // The database was moved away, so its writes are of no interest here.
            io::ErrorKind::NotFound => Ok(()),
            io::ErrorKind::WouldBlock => Err(StoreError::InUse(path)),
            _ => Err(StoreError::Path(path, error)),
        }
    }

    /// Opens the database, or creates it. A new one is created only if the path does not exist at
    /// all.
    pub(super) fn open(&self, progress: &ProgressReporter) -> Result<OpenedDatabase, StoreError> {
        self.rewrite_if_marked(progress)?;
        let mark = self.lost_writes_mark();
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let (storage, file) = match self {
            Self::Backend { database, .. } => (
                Storage::new(Arc::clone(database), None, mark, progress),
                None,
            ),
            Self::Directory(directory) => {
                let path = directory.join(FILE_NAME);
                let path_error = |error| StoreError::Path(path.clone(), error);
                create_private_directory(directory)
                    .map_err(|error| StoreError::Path(directory.clone(), error))?;
                if is_missing(&path) {
                    create_database_file(&builder, directory, &path).map_err(path_error)?;
                }
                let (file, id) = open_existing_database_file(&path)?;
                let file_clone = file.try_clone().map_err(path_error)?;
                let file =
                    FileBackend::new(file).map_err(|error| self.explain_error(error.into()))?;
                // A failed sync is reported once.
                let space = FileSpace::new(file_clone)
                    .inspect_err(|_| mark.set())
                    .map_err(path_error)?;
                (
                    Storage::new(Arc::new(file), Some(space), mark, progress),
                    Some(id),
                )
            }
        };
        let storage = storage.map_err(|error| self.explain_error(error.into()))?;
        let database = catch_panic(|| Ok(builder.create_with_backend(storage.clone())?))
            .map_err(|error| self.explain_error(error))?;
        Ok(OpenedDatabase {
            database,
            storage,
            file,
        })
    }

    /// Adds the path of the file to errors that need it.
    pub fn explain_error(&self, error: StoreError) -> StoreError {
        let Self::Directory(directory) = self else {
            return error;
        };
        let path = directory.join(FILE_NAME);
        match error {
            StoreError::Database(redb::Error::DatabaseAlreadyOpen) => StoreError::InUse(path),
            StoreError::Database(redb::Error::Io(error))
                if error.kind() == io::ErrorKind::InvalidData =>
            {
                StoreError::File {
                    path,
                    reason: format!(
                        "it is not an overdue database, or its beginning is damaged; \
                        {RESTORE_HINT}"
                    ),
                }
            }
            StoreError::Database(error) => StoreError::File {
                path,
                reason: format!("{error}; if the disk is sound, {RESTORE_HINT}"),
            },
            StoreError::Damaged { reason, .. } => StoreError::File {
                path,
                reason: format!("it is damaged: {reason}; {RESTORE_HINT}"),
            },
            StoreError::InvalidRow { table, reason } => StoreError::File {
                path,
                reason: format!(
                    "its table `{table}` holds a row that cannot be read: {reason}; {RESTORE_HINT}"
                ),
            },
            other => other,
        }
    }

    /// Returns an error text if the path no longer leads to the opened file with its full length.
    pub(super) fn verify_file(&self, opened: Option<FileId>, len: u64) -> Result<(), String> {
        let (Self::Directory(directory), Some(opened)) = (self, opened) else {
            return Ok(());
        };
        let path = directory.join(FILE_NAME);
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("{} no longer exists", path.display()))
            }
            // This error says nothing about the file itself.
            Err(_) => Ok(()),
            Ok(metadata) if FileId::from_metadata(&metadata) != opened => Err(format!(
                "{} is not the file that was opened",
                path.display()
            )),
            Ok(metadata) if metadata.len() < len => Err(format!(
                "{} was truncated from {len} to {} bytes",
                path.display(),
                metadata.len()
            )),
            Ok(_) => Ok(()),
        }
    }

    /// Tests that the medium accepts a small durable write. Called before a failed database is
    /// dropped and reopened.
    pub fn probe(&self) -> io::Result<()> {
        let Self::Directory(directory) = self else {
            return Ok(());
        };
        let path = directory.join("probe");
        // More than one block, so that a full disk causes an error.
        let written = create_file(&path)
            .and_then(|mut file| file.write_all(&[0; 1 << 16]).and_then(|()| file.sync_all()));
        let removed = std::fs::remove_file(&path);
        written.and(removed)
    }

    /// Rewrites the whole closed file in place and syncs it. False if some of it could not be read:
    /// it must be rewritten again, since it may be readable then.
    ///
    /// After a failed `fsync` the kernel marks dirty pages as clean although they never reached the
    /// disk (Linux does so on most file systems). They can still be read, but no later `fsync`
    /// writes them. A power cut then loses them, and with them everything that was committed on top
    /// of them.
    pub(super) fn rewrite(&self, progress: &ProgressReporter) -> io::Result<bool> {
        let is_complete = match self {
            Self::Backend { database, .. } => rewrite_storage(&**database, None, progress),
            Self::Directory(directory) => {
                let file = open_database_file(&directory.join(FILE_NAME))?;
                // No other process may open the file meanwhile.
                file.try_lock()?;
                let space = FileSpace::new(file.try_clone()?)?;
                let storage = FileBackend::new(file).map_err(io::Error::other)?;
                rewrite_storage(&storage, Some(&space), progress)
            }
        }?;
        if is_complete {
            self.lost_writes_mark().clear()?;
        }
        Ok(is_complete)
    }
}

/// Rewrites storage in place. Unreadable pages are left as they are; false if there are any.
fn rewrite_storage(
    storage: &dyn StorageBackend,
    space: Option<&FileSpace>,
    progress: &ProgressReporter,
) -> io::Result<bool> {
    let write = |offset: u64, bytes: &[u8]| {
        // Parts that were never written still take no space.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let write = || storage.write(offset, bytes);
        match space {
            Some(space) => {
                let range = offset..offset + bytes.len() as u64;
                space.write_cached(range, write, || storage.sync_data())
            }
            None => write(),
        }
    };
    let len = storage.len()?;
    let mut is_complete = true;
    let mut chunk = vec![0; REWRITE_BYTES];
    for offset in (0..len).step_by(REWRITE_BYTES) {
        progress.report("rewriting the database", offset, len);
        chunk.resize(
            REWRITE_BYTES.min(usize::try_from(len - offset).unwrap_or(REWRITE_BYTES)),
            0,
        );
        if storage.read(offset, &mut chunk).is_ok() {
            write(offset, &chunk)?;
            continue;
        }
        let mut unreadable = 0;
        for (page_offset, page) in (offset..)
            .step_by(PAGE_BYTES)
            .zip(chunk.chunks_mut(PAGE_BYTES))
        {
            match storage.read(page_offset, page) {
                Ok(()) => write(page_offset, page)?,
                Err(_) => unreadable += page.len(),
            }
        }
        is_complete &= unreadable == 0;
        tracing::error!(
            "{unreadable} bytes after byte {offset} of the database cannot be read, and are left \
             as they are"
        );
    }
    storage.sync_data()?;
    Ok(is_complete)
}

/// Opens an existing file. An empty file is an error and does not become a new database: it may
/// have been truncated, or its file system may not be mounted.
fn open_existing_database_file(path: &Path) -> Result<(File, FileId), StoreError> {
    let file_error = |reason: String| StoreError::File {
        path: path.into(),
        reason,
    };
    let opened = open_database_file(path).and_then(|file| Ok((file.metadata()?, file)));
    match opened {
        Ok((metadata, _)) if metadata.len() == 0 => {
            Err(file_error(format!("it is empty; {RESTORE_HINT}")))
        }
        Ok((metadata, file)) => Ok((file, FileId::from_metadata(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Err(file_error(
            "it is a directory; move it away, or choose another directory with --data".into(),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(file_error(
            "it is a link to a file that does not exist; mount its target, or correct the link"
                .into(),
        )),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Err(file_error(
            "it is a link, and links are followed only for the owner of their directory: run this \
            as that user"
                .into(),
        )),
        Err(error) => Err(StoreError::Path(path.into(), error)),
    }
}

/// Opens the database file. A link to it is followed only for the owner of its directory. Other
/// users may not know where it leads.
pub(super) fn open_database_file(path: &Path) -> io::Result<File> {
    let owner = path
        .parent()
        .and_then(|directory| fs::metadata(directory).ok())
        .map(|directory| directory.uid());
    let is_owner = owner == Some(geteuid().as_raw());
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(if is_owner { 0 } else { NO_FOLLOW })
        .open(path)
}

/// Creates a file that only its owner can read. An old file of this name is removed, not
/// overwritten.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(NO_FOLLOW)
        .open(path)
}

/// Creates a directory and its missing parents, accessible to their owner only.
pub(super) fn create_private_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parents = parents_of_missing(directory);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    // The names of the new directories must be as durable as their contents.
    parents
        .iter()
        .try_for_each(|parent| match File::open(parent) {
            Ok(parent) => parent.sync_all(),
            // A directory can be writable without being readable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(error),
        })
}

/// Returns the directories that get a new entry when this directory and its parents are created,
/// the lowest first.
fn parents_of_missing(directory: &Path) -> Vec<PathBuf> {
    let missing = directory
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.is_dir());
    let parent = |missing: &Path| match missing.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    missing.map(parent).collect()
}

/// Returns the process that has locked a file, if the kernel lists it. A process of another
/// container has no number here.
pub(super) fn lock_holder_pid(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let major = rustix::fs::major(file.dev());
    let minor = rustix::fs::minor(file.dev());
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    // `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let of_line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, locked, ..] = words.as_slice() else {
            return None;
        };
        pid.parse().ok().filter(|pid| *locked == place && *pid > 0)
    };
    locks.lines().find_map(of_line)
}

impl Medium {
    fn database_path(&self) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.join(FILE_NAME),
            Self::Backend { .. } => PathBuf::from(FILE_NAME),
        }
    }

    /// Error for a database of a cluster that would be changed alone.
    pub(crate) fn explain_cluster(&self) -> StoreError {
        StoreError::File {
            path: self.database_path(),
            reason: "it belongs to a cluster: start the server with --cluster, or take the \
                     database out of the cluster with `overdue cluster leave`"
                .into(),
        }
    }

    /// Error for a database that does not belong to a cluster.
    pub(super) fn explain_missing_cluster(&self) -> StoreError {
        StoreError::File {
            path: self.database_path(),
            reason:
                "it does not belong to a cluster: make it the first database of a new one with \
                     `overdue cluster init`, or move it away, and this machine gets a copy from \
                     the leader"
                    .into(),
        }
    }
}

/// True if nothing has this name, not even a link.
fn is_missing(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Creates an empty database under a temporary name first. A power cut could leave half a database,
/// which could never be opened.
fn create_database_file(builder: &Builder, directory: &Path, path: &Path) -> io::Result<()> {
    let locked = File::open(directory)?;
    locked.lock()?;
    // Another process may have created it first.
    if is_missing(path) {
        let new = path.with_extension("new");
        let file = create_file(&new)?;
        drop(builder.create_file(file).map_err(io::Error::other)?);
        std::fs::rename(&new, path)?;
        // The name must be as durable as the contents of the file.
        locked.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_written_through_an_existing_link() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let target = elsewhere.path().join("target");
        for name in ["overdue.new", "probe"] {
            fs::write(&target, b"somebody's").unwrap();
            std::os::unix::fs::symlink(&target, directory.path().join(name)).unwrap();
            let medium = Medium::Directory(directory.path().into());
            medium.probe().unwrap();
            drop(medium.open(&ProgressReporter::default()).unwrap());
            assert_eq!(fs::read(&target).unwrap(), b"somebody's", "{name}");
        }
        let created = fs::symlink_metadata(directory.path().join(FILE_NAME)).unwrap();
        assert_eq!((created.is_file(), created.mode() & 0o777), (true, 0o600));
    }

    #[test]
    fn every_directory_that_gets_an_entry_is_made_durable() {
        let directory = tempfile::tempdir().unwrap();
        let parent = directory.path();
        let created = directory.path().join("a/b");
        assert_eq!(
            parents_of_missing(&created),
            [parent.join("a"), parent.into()]
        );
        create_private_directory(&created).unwrap();
        assert!(created.is_dir() && parents_of_missing(&created).is_empty());
        assert_eq!(
            parents_of_missing(Path::new("not-there")),
            [PathBuf::from(".")]
        );
    }
}
