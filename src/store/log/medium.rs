//! Place of the log: a journal in the data directory, or a log that a test provides.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::FileBackend;
use rustix::fs::OFlags;

use super::journal::JOURNAL_BYTES;
use super::{ChangeLog, Journal, LogError, MemoryLog, OpenedJournal};
use crate::store::file_space::FileSpace;
use crate::store::medium::{FileId, create_file};
use crate::store::{Medium, NO_FOLLOW, StoreError};

/// Name of a journal that is being created.
const NEW_JOURNAL_NAME: &str = "overdue.journal.new";

/// Name of the journal within the data directory.
pub const JOURNAL_NAME: &str = "overdue.journal";

/// File of a log. Another one, or a shorter one, does not contain its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) struct LogFile {
    id: FileId,
    len: u64,
}

/// Log of storage that a test provides.
#[derive(Clone)]
pub enum BackendLog {
    /// No log: each commit syncs the database.
    None,
    /// Journal in storage of its own.
    Journal {
        /// Storage of the journal.
        storage: Arc<dyn StorageBackend>,
        /// Size of a new journal in bytes.
        len: u64,
    },
    /// Log in memory.
    Memory(MemoryLog),
}

impl Medium {
    /// True if there can be a log.
    pub(in crate::store) fn has_log(&self) -> bool {
        !matches!(
            self,
            Self::Backend {
                log: BackendLog::None,
                ..
            }
        )
    }

    /// Opens the log next to the database; `None` if there is none.
    pub(in crate::store) fn open_log(&self) -> Result<Option<Box<dyn ChangeLog>>, StoreError> {
        let opened = match self {
            Self::Directory(directory) => open_journal_file(&directory.join(JOURNAL_NAME)),
            Self::Backend { log, .. } => open_backend_log(log),
        };
        opened.map_err(|error| self.explain_log_error(error))
    }

    /// Creates an empty log for the database with this number, in place of the existing one.
    pub(in crate::store) fn create_log(
        &self,
        database: u64,
    ) -> io::Result<Option<Box<dyn ChangeLog>>> {
        Ok(match self {
            Self::Directory(directory) => Some(Box::new(create_journal_file(directory, database)?)),
            Self::Backend { log, .. } => match log {
                BackendLog::None => None,
                BackendLog::Journal { storage, len } => {
                    let storage = Arc::clone(storage);
                    Some(Box::new(Journal::create(storage, database, *len)?))
                }
                BackendLog::Memory(log) => {
                    log.create(database);
                    Some(Box::new(log.clone()))
                }
            },
        })
    }

    /// Removes the log, because the database contains all of it.
    pub(in crate::store) fn remove_log(&self) -> io::Result<()> {
        match self {
            Self::Directory(directory) => remove_journal_file(directory),
            Self::Backend { log, .. } => match log {
                BackendLog::None => Ok(()),
                BackendLog::Journal { storage, .. } => Journal::erase(&**storage),
                BackendLog::Memory(log) => {
                    log.create(0);
                    Ok(())
                }
            },
        }
    }

    /// File that has the name of the journal; `None` if there is none, or if the log is not a file.
    ///
    /// # Errors
    /// Returns an error if it is unknown if there is one.
    pub(in crate::store) fn log_file(&self) -> io::Result<Option<LogFile>> {
        let Self::Directory(directory) = self else {
            return Ok(None);
        };
        match fs::symlink_metadata(directory.join(JOURNAL_NAME)) {
            Ok(metadata) => Ok(Some(LogFile {
                id: FileId::from_metadata(&metadata),
                len: metadata.len(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Error for a journal whose rows do not fit on the disk.
    pub(in crate::store) fn explain_full_disk(&self) -> StoreError {
        StoreError::File {
            path: self.log_path(),
            reason:
                "the disk is full: free some space, so that the pings and changes in it can be \
                     written to the database"
                    .into(),
        }
    }

    fn log_path(&self) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.join(JOURNAL_NAME),
            Self::Backend { .. } => PathBuf::from(JOURNAL_NAME),
        }
    }

    /// Explains an error of the log, with a remedy.
    pub(in crate::store) fn explain_log_error(&self, error: LogError) -> StoreError {
        explain_log_error(self.log_path(), error)
    }
}

/// Explains an error of the log with this path, with a remedy.
fn explain_log_error(path: PathBuf, error: LogError) -> StoreError {
    let reason = match error {
        LogError::Io(error) => return StoreError::Path(path, error),
        LogError::NotAFile(reason) => reason.into(),
        LogError::TooNew => "a newer release wrote it: install that release, or a newer one; once \
             stopped, that release leaves no journal"
            .into(),
        LogError::Damaged(finding) => format!(
            "it is damaged: {finding}; restore a backup, or move the journal away to start \
             without the pings and changes in it"
        ),
        LogError::Foreign(finding) => format!(
            "it does not belong to the database next to it: {finding}; put back the database that \
             was there, or move the journal away to start without it"
        ),
    };
    StoreError::File { path, reason }
}

fn open_backend_log(log: &BackendLog) -> Result<Option<Box<dyn ChangeLog>>, LogError> {
    Ok(match log {
        BackendLog::None => None,
        BackendLog::Journal { storage, .. } => open_journal(Arc::clone(storage))?,
        BackendLog::Memory(log) if log.database() == 0 => None,
        BackendLog::Memory(log) => Some(Box::new(log.clone())),
    })
}

fn open_journal(storage: Arc<dyn StorageBackend>) -> Result<Option<Box<dyn ChangeLog>>, LogError> {
    Ok(match Journal::open(storage)? {
        OpenedJournal::Journal(journal) => Some(Box::new(journal)),
        OpenedJournal::Missing => None,
    })
}

fn open_journal_file(path: &Path) -> Result<Option<Box<dyn ChangeLog>>, LogError> {
    let Some(file) = open_regular_file(path, true)? else {
        return Ok(None);
    };
    let storage = FileBackend::new(file).map_err(io::Error::other)?;
    Ok(Some(open_named_journal(Arc::new(storage))?))
}

/// Opens the file with the name of a journal; `None` if nothing has this name. A link is not
/// followed: the journal is created and removed together with the database, in one directory.
fn open_regular_file(path: &Path, is_writable: bool) -> Result<Option<File>, LogError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    expect_file(found.file_type())?;
    // Opening a pipe that has replaced it would block.
    let file = OpenOptions::new()
        .read(true)
        .write(is_writable)
        .custom_flags(NO_FOLLOW | OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    expect_file(file.metadata()?.file_type())?;
    Ok(Some(file))
}

fn expect_file(found: FileType) -> Result<(), LogError> {
    Err(LogError::NotAFile(if found.is_file() {
        return Ok(());
    } else if found.is_symlink() {
        "it is a link: replace it by the file that it leads to"
    } else if found.is_dir() {
        "it is a directory: move it away"
    } else {
        "it is neither a file nor a directory: move it away"
    }))
}

/// Number of the database that the journal with this path was written for. 0 if there is no
/// journal, or if its header cannot be read.
///
/// # Errors
/// Returns an error if the path leads to a directory, which cannot be removed like a file.
pub(in crate::store) fn journal_number(path: &Path) -> Result<u64, StoreError> {
    match open_journal_file(path) {
        Err(error @ LogError::NotAFile(_)) if path.is_dir() && !path.is_symlink() => {
            Err(explain_log_error(path.into(), error))
        }
        opened => Ok(opened.ok().flatten().map_or(0, |log| log.database())),
    }
}

/// Opens the journal in a file that has its name, and so is complete.
fn open_named_journal(storage: Arc<dyn StorageBackend>) -> Result<Box<dyn ChangeLog>, LogError> {
    open_journal(storage)?.ok_or_else(|| LogError::Damaged("its header is empty".into()))
}

/// Returns the log in the journal with this path. `read`: returns storage that does not change the
/// file.
///
/// # Errors
/// Returns an error if the path does not lead to a journal.
pub(in crate::store) fn read_only_log(
    path: &Path,
    read: impl FnOnce(File) -> io::Result<Arc<dyn StorageBackend>>,
) -> Result<BackendLog, StoreError> {
    let open = || -> Result<BackendLog, LogError> {
        let Some(file) = open_regular_file(path, false)? else {
            return Ok(BackendLog::None);
        };
        let storage = read(file)?;
        open_named_journal(Arc::clone(&storage))?;
        let len = storage.len()?;
        Ok(BackendLog::Journal { storage, len })
    };
    open().map_err(|error| explain_log_error(path.into(), error))
}

/// Creates the journal under a temporary name first. A power cut could leave half a journal, which
/// would look damaged.
fn create_journal_file(directory: &Path, database: u64) -> io::Result<Journal> {
    let path = directory.join(JOURNAL_NAME);
    let new = directory.join(NEW_JOURNAL_NAME);
    let created = create_file(&new).and_then(|file| {
        let space = FileSpace::new(file.try_clone()?)?;
        let storage = FileBackend::new(file).map_err(io::Error::other)?;
        let journal = Journal::create(Arc::new(storage), database, JOURNAL_BYTES)?;
        space.verify_written(0..JOURNAL_BYTES)?;
        fs::rename(&new, &path)?;
        // The name must be as durable as the contents of the file.
        File::open(directory)?.sync_all()?;
        Ok(journal)
    });
    if created.is_err() {
        // The rest of it would only take space.
        let _ = fs::remove_file(&new);
    }
    created
}

/// Removes the journal of a directory, if there is one.
pub(in crate::store) fn remove_journal_file(directory: &Path) -> io::Result<()> {
    // Left by a kill while it was being created.
    let _ = fs::remove_file(directory.join(NEW_JOURNAL_NAME));
    match fs::remove_file(directory.join(JOURNAL_NAME)) {
        Ok(()) => File::open(directory)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
