//! The database file: redb and MessagePack stop here, and the rest of the house sees domain types only.
//!
//! A ping costs two appended rows (log and body) and nothing else: check rows are a checkpoint, and what the log holds beyond it is
//! replayed at start. Flips are a log of the same kind. Everything is written inside a [`Batch`], read from a [`Snapshot`].

mod catch_panic;
mod check;
mod chunks;
mod damaged_range;
mod declared;
mod flip;
mod inspection;
mod medium;
mod meta;
mod migrations;
mod outbox;
mod overlay;
pub mod owner;
pub mod path_access;
mod ping;
mod progress;
mod project;
mod quarantine;
mod record;
mod restore;
mod storage;
mod table_rows;
mod tables;
mod upgrade_copy;
mod user;
mod window;

use std::path::PathBuf;

use redb::{Database, ReadTransaction, ReadableDatabase as _, WriteTransaction};

pub(crate) use catch_panic::catch_panic;
pub use flip::FlipPruneResult;
pub use inspection::{Inspection, InspectionReport, TableSize};
pub(crate) use medium::NO_FOLLOW;
pub use medium::{FILE_NAME, Medium};
use medium::{FileId, OpenedDatabase};
pub use meta::MetaKey;
pub use migrations::SCHEMA;
pub use ping::{BodyPart, KeptPingCursor, KeptPruneResult, KeptPutResult, SweepResult};
pub use progress::ProgressReporter;
pub use restore::{DatabaseRestore, remove_leftovers};
use storage::Storage;
pub use table_rows::TableRows;
pub use tables::table_names;

/// Why the database cannot be opened, read or written.
#[derive(Debug)]
pub enum StoreError {
    /// Another process has it open.
    InUse(PathBuf),
    /// It was written by a newer release.
    TooNew {
        /// Its schema version.
        found: u64,
        /// The newest that this release knows.
        known: u64,
    },
    /// A row that this release cannot read.
    Corrupt {
        /// The table it lies in.
        table: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A page that cannot be read, or that makes no sense.
    Damaged {
        /// Which, and what is wrong with it.
        reason: String,
        /// The library panicked: what it was writing takes space until the file is opened anew.
        panicked: bool,
    },
    /// There is one already in the place of that which is to be restored.
    Occupied(PathBuf),
    /// The file cannot be opened as a database.
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// It failed and is being reopened.
    Reopening,
    /// The data directory, or the file in it, cannot be made or used.
    Directory(PathBuf, std::io::Error),
    /// The database reported a failure.
    Database(redb::Error),
}

impl StoreError {
    /// True if the file cannot be opened because its file system is read-only, as a snapshot is.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Directory(_, error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Whether there was no space for what was to be written.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Database(redb::Error::Io(error)) if storage::is_full(error))
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InUse(path) => {
                let pid = medium::holder(path).map_or_else(String::new, |pid| format!(" (pid {pid})"));
                let shown = path.display();
                write!(f, "{shown} is in use by another overdue process{pid}: stop that one, or choose another directory with --data")
            }
            Self::TooNew { found, known } => write!(
                f,
                "the database has schema version {found}, this release knows up to {known}: install the release that wrote it, or a newer one"
            ),
            Self::Corrupt { table, reason } => write!(f, "the table `{table}` holds a row that cannot be read: {reason}"),
            Self::Damaged { reason, .. } => write!(f, "the database is damaged: {reason}"),
            Self::Occupied(path) => write!(f, "there is a database at {}: --force replaces it", path.display()),
            Self::File { path, reason } => write!(f, "{} cannot be opened: {reason}", path.display()),
            Self::Reopening => f.write_str("the database failed and is being reopened"),
            Self::Directory(path, error) => f.write_str(&path_access::explain_path_error(path, error)),
            Self::Database(error) => write!(f, "the database failed: {error}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self::Database(redb::Error::Io(error))
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                match error.into() {
                    redb::Error::Corrupted(reason) => Self::Damaged { reason, panicked: false },
                    error => Self::Database(error),
                }
            }
        }
    )*};
}
from_redb!(
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::DatabaseError,
    redb::CompactionError,
    redb::CursorError
);

/// An open database.
pub struct Store {
    database: Database,
    storage: Storage,
    file: Option<FileId>,
}

impl Store {
    /// Opens what lies on the medium, or makes it; moves an older layout to that of this release, refuses a newer one.
    pub fn open(medium: &Medium) -> Result<Self, StoreError> {
        Self::open_with_progress(medium, &ProgressReporter::default())
    }

    /// The same, and tells how far it is. A file of an older layout is copied first: see [operations](crate::docs::operations).
    pub fn open_with_progress(medium: &Medium, progress: &ProgressReporter) -> Result<Self, StoreError> {
        let mut store = Self::open_unmigrated(medium, progress)?;
        if let Some(found) = catch_panic(|| migrations::outdated_schema(&store)).map_err(|error| medium.explain_error(error))? {
            drop(store);
            upgrade_copy::copy_before_upgrade(medium, found, progress);
            store = Self::open_unmigrated(medium, progress)?;
        }
        store.migrate(medium)
    }

    /// Opens what lies on the medium, or makes an empty file, and leaves the layout as it is.
    fn open_unmigrated(medium: &Medium, progress: &ProgressReporter) -> Result<Self, StoreError> {
        let OpenedDatabase { database, storage, file } = medium.open(progress)?;
        Ok(Self { database, storage, file })
    }

    /// Moves an older layout to that of this release.
    fn migrate(self, medium: &Medium) -> Result<Self, StoreError> {
        catch_panic(|| migrations::migrate(&self)).map_err(|error| medium.explain_error(error))?;
        Ok(self)
    }

    /// Looks at every page of the file, which nobody else may use meanwhile, without a change of its layout; then at every row. Whether all
    /// pages made sense.
    pub fn inspect(medium: &Medium, progress: &ProgressReporter, inspection: &mut Inspection) -> Result<bool, StoreError> {
        let mut store = Self::open_unmigrated(medium, progress)?;
        let looked = catch_panic(|| {
            let sound = store.database.check_integrity()?;
            let mut looked = Ok(());
            store.snapshot()?.for_each_rows(|rows| {
                looked = inspection.inspect_rows(rows);
                looked.is_ok()
            })?;
            looked.map(|()| sound)
        });
        looked.map_err(|error| medium.explain_error(error))
    }

    /// Writes the closed file again before it is opened.
    pub fn rewrite(medium: &Medium, progress: &ProgressReporter) -> Result<(), StoreError> {
        Ok(medium.rewrite(progress)?)
    }

    /// From now on a page that cannot be read costs only what needs it.
    pub fn tolerate_unreadable(&self) {
        self.storage.tolerate();
    }

    /// Whether a write, a sync or a change of length has failed: the database refuses everything from then on.
    pub fn write_failed(&self) -> bool {
        self.storage.write_failed()
    }

    /// Lets the file grow although the disk has not all the space by which redb grows it, until it is opened again. For a disk on which
    /// nothing dead can be removed: the little that is left is better used than kept.
    pub fn grow_sparsely(&self) {
        self.storage.grow_sparsely();
    }

    /// Whether what was written without an error may be lost: the file has to be written again.
    pub fn may_have_lost_writes(&self) -> bool {
        self.storage.may_have_lost_writes()
    }

    /// Reads a page again that could not be read; `true` when it can be now, and the database should be opened anew.
    pub fn retry_unreadable(&self) -> bool {
        self.storage.retry_unreadable()
    }

    /// Whether the medium still holds what was opened; else what is wrong, in words.
    pub fn check_file(&self, medium: &Medium) -> Result<(), String> {
        medium.check_file(self.file, self.storage.expected_len())
    }

    /// The length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.storage.expected_len()
    }

    /// A consistent view of what has been committed. Short-lived: an old one keeps freed pages from being used again.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot { transaction: self.database.begin_read()? })
    }

    /// Begins to write; nothing is there for others, or after a crash, before [`Batch::commit`] has returned.
    pub fn batch(&self) -> Result<Batch, StoreError> {
        Ok(Batch { transaction: self.database.begin_write()? })
    }

    /// Gives back the space of freed pages; `true` if the file became smaller.
    pub fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(self.database.compact()?)
    }
}

/// One write transaction. Dropped without a commit it leaves nothing behind.
pub struct Batch {
    transaction: WriteTransaction,
}

impl Batch {
    /// Makes all that was written durable: when this returns it is on disk.
    pub fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit()?)
    }
}

/// One read transaction.
pub struct Snapshot {
    transaction: ReadTransaction,
}

#[cfg(test)]
mod tests;
