//! The database file. redb and MessagePack are used only in this module; all other modules see
//! domain types.
//!
//! A ping appends two rows, one to the log and one for the body, and writes nothing else. Rows of
//! checks are a checkpoint: a start replays the entries of the log after it. Flips are a log of the
//! same kind. All writes go through a [`Batch`], all reads through a [`Snapshot`].

mod audit;
mod batch;
mod catch_panic;
mod check;
mod chunks;
mod damaged_range;
mod declared;
mod file_space;
mod flip;
mod follower;
mod inspection;
mod log;
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
mod store_log;
mod table_rows;
mod tables;
mod upgrade_copy;
mod user;
mod window;

use std::path::PathBuf;
use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableDatabase as _};

pub use batch::Batch;
pub(crate) use catch_panic::catch_panic;
pub use flip::FlipPruneResult;
pub use follower::{CLUSTER_FORMAT, FollowError, FollowerStore};
pub use inspection::{Inspection, InspectionReport, TableSize};
pub use log::{BackendLog, JOURNAL_NAME, MemoryLog, SharedLog, log_record_len};
use log::{LogPlaces, StoreLog};
pub(crate) use medium::NO_FOLLOW;
pub use medium::{FILE_NAME, Medium};
use medium::{FileId, OpenedDatabase};
pub use meta::MetaKey;
pub use migrations::SCHEMA;
pub use ping::{BodyPart, KeptPingCursor, KeptPruneResult, KeptPutResult, SweepResult};
pub use progress::ProgressReporter;
pub use restore::{DatabaseRestore, remove_leftovers};
use storage::Storage;

use crate::util::sync::Mutex;
pub use table_rows::TableRows;
pub use tables::table_names;

/// Error of opening, reading or writing the database.
#[derive(Debug)]
pub enum StoreError {
    /// Another process has the database open.
    InUse(PathBuf),
    /// A newer release wrote the database.
    TooNew {
        /// Schema version of the file.
        found: u64,
        /// Newest schema version that this release knows.
        known: u64,
    },
    /// The database has another layout, and must not be migrated.
    OtherLayout {
        /// Schema version of the file.
        found: u64,
        /// Schema version of this release.
        known: u64,
    },
    /// This release cannot read a row.
    InvalidRow {
        /// Table of the row.
        table: &'static str,
        /// Reason why the row cannot be read.
        reason: String,
    },
    /// A page cannot be read or is malformed.
    Damaged {
        /// The page and what is wrong with it.
        reason: String,
        /// True if redb panicked. The space of an unfinished write is then not freed until the
        /// file is reopened.
        panicked: bool,
    },
    /// The target of a restore already contains a database.
    Occupied(PathBuf),
    /// The file cannot be opened as a database.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Problem with the file, and a remedy.
        reason: String,
    },
    /// The database failed and is being reopened.
    Reopening,
    /// The data directory, or a file in it, cannot be created or used.
    Path(PathBuf, std::io::Error),
    /// The database library reported an error.
    Database(redb::Error),
}

impl StoreError {
    /// True if the file cannot be opened because its file system is read-only, as in a snapshot.
    pub fn is_read_only(&self) -> bool {
        use std::io::ErrorKind;
        matches!(self, Self::Path(_, error) if error.kind() == ErrorKind::ReadOnlyFilesystem)
    }

    /// True if a write failed because the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Database(redb::Error::Io(error)) if storage::is_full(error))
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InUse(path) => {
                let pid = medium::lock_holder_pid(path)
                    .map_or_else(String::new, |pid| format!(" (pid {pid})"));
                let shown = path.display();
                write!(
                    f,
                    "{shown} is in use by another overdue process{pid}: stop that one, or choose \
                     another directory with --data"
                )
            }
            Self::TooNew { found, known } => write!(
                f,
                "the database has schema version {found}, this release knows up to {known}: \
                 install the release that wrote it, or a newer one"
            ),
            Self::OtherLayout { found, known } => write!(
                f,
                "the database has schema version {found}, this release reads {known}"
            ),
            Self::InvalidRow { table, reason } => write!(
                f,
                "the table `{table}` holds a row that cannot be read: {reason}"
            ),
            Self::Damaged { reason, .. } => write!(f, "the database is damaged: {reason}"),
            Self::Occupied(path) => write!(
                f,
                "there is a database at {}: --force replaces it",
                path.display()
            ),
            Self::File { path, reason } => {
                write!(f, "{} cannot be opened: {reason}", path.display())
            }
            Self::Reopening => f.write_str("the database failed and is being reopened"),
            Self::Path(path, error) => f.write_str(&path_access::explain_path_error(path, error)),
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
    redb::SetDurabilityError,
    redb::CursorError
);

/// Open database.
pub struct Store {
    database: Database,
    storage: Storage,
    file: Option<FileId>,
    /// `None` if each commit syncs the file.
    log: Option<Arc<Mutex<StoreLog>>>,
    /// Places in the log, if it is that of a cluster.
    shared_places: Option<Arc<LogPlaces>>,
}

impl Store {
    /// Opens the database of the medium, or creates it. Migrates an older layout to that of this
    /// release and refuses a newer one.
    pub fn open(medium: &Medium) -> Result<Self, StoreError> {
        Self::open_with_progress(medium, &ProgressReporter::default())
    }

    /// Opens or creates the database like [`Self::open`] and reports progress. A file of an older
    /// layout is copied first: see [operations](crate::docs::operations).
    ///
    /// # Errors
    /// Returns an error if the database belongs to a cluster, whose other machines would miss
    /// changes.
    pub fn open_with_progress(
        medium: &Medium,
        progress: &ProgressReporter,
    ) -> Result<Self, StoreError> {
        let store = Self::open_unmigrated(medium, progress)?;
        if store.is_clustered()? {
            return Err(medium.explain_cluster());
        }
        store.migrate_from_copy(medium, progress)
    }

    /// Opens the database of a machine of a cluster, for its leader or to leave the cluster.
    pub fn open_of_cluster(
        medium: &Medium,
        progress: &ProgressReporter,
    ) -> Result<Self, StoreError> {
        Self::open_unmigrated(medium, progress)?.migrate_from_copy(medium, progress)
    }

    /// Migrates an older layout after the file was copied.
    fn migrate_from_copy(
        self,
        medium: &Medium,
        progress: &ProgressReporter,
    ) -> Result<Self, StoreError> {
        let mut store = self;
        if let Some(found) = catch_panic(|| migrations::outdated_schema(&store))
            .map_err(|error| medium.explain_error(error))?
        {
            drop(store);
            upgrade_copy::copy_before_upgrade(medium, found, progress);
            store = Self::open_unmigrated(medium, progress)?;
        }
        store.migrate(medium)
    }

    /// Opens the database of the medium, or creates an empty file, without migrating the layout.
    /// Replays a log that is ahead of it.
    fn open_unmigrated(medium: &Medium, progress: &ProgressReporter) -> Result<Self, StoreError> {
        let open = || -> Result<Self, StoreError> {
            let OpenedDatabase {
                database,
                storage,
                file,
            } = medium.open(progress)?;
            Ok(Self {
                database,
                storage,
                file,
                log: None,
                shared_places: None,
            })
        };
        let mut store = open()?;
        let mut replayed = catch_panic(|| store.replay_log(medium, usize::MAX));
        if replayed.as_ref().is_err_and(StoreError::is_full) {
            // The file has the space that the same transactions needed before.
            drop(store);
            store = open()?;
            replayed = catch_panic(|| store.replay_log(medium, 1));
        }
        if replayed.as_ref().is_err_and(StoreError::is_full) {
            return Err(medium.explain_full_disk());
        }
        replayed.map_err(|error| medium.explain_error(error))?;
        Ok(store)
    }

    /// Verifies that the database has the layout of this release.
    ///
    /// # Errors
    /// Returns an error if a release with another layout wrote it.
    pub fn require_current_layout(&self) -> Result<(), StoreError> {
        let found = meta::schema(self.batch()?.unrecorded())?;
        if found == SCHEMA {
            return Ok(());
        }
        Err(StoreError::OtherLayout {
            found,
            known: SCHEMA,
        })
    }

    /// Migrates an older layout to that of this release.
    fn migrate(self, medium: &Medium) -> Result<Self, StoreError> {
        catch_panic(|| migrations::migrate(&self)).map_err(|error| medium.explain_error(error))?;
        Ok(self)
    }

    /// Inspects every page of the file, then every row, without changing the layout. No other
    /// process may use the file meanwhile. Returns true if all pages are intact.
    pub fn inspect(
        medium: &Medium,
        progress: &ProgressReporter,
        inspection: &mut Inspection,
    ) -> Result<bool, StoreError> {
        let mut store = Self::open_unmigrated(medium, progress)?;
        let result = catch_panic(|| {
            let sound = store.database.check_integrity()?;
            let mut inspected = Ok(());
            store.snapshot()?.visit_table_rows(|rows| {
                inspected = inspection.inspect_rows(rows);
                inspected.is_ok()
            })?;
            inspected.map(|()| sound)
        });
        result.map_err(|error| medium.explain_error(error))
    }

    /// Rewrites the closed file in place before it is opened. False if some of it could not be
    /// read.
    pub fn rewrite(medium: &Medium, progress: &ProgressReporter) -> Result<bool, StoreError> {
        Ok(medium.rewrite(progress)?)
    }

    /// Makes an unreadable page fail only the operations that need it, from now on.
    pub fn tolerate_unreadable(&self) {
        self.storage.tolerate();
    }

    /// True if a write, a sync or a change of length has failed. redb then refuses all further
    /// operations.
    pub fn write_failed(&self) -> bool {
        self.storage.write_failed()
    }

    /// True if the database accepts no writes until it is reopened. redb then has no list of free
    /// pages: a commit failed because of an unreadable page.
    pub fn refuses_writes(&self) -> bool {
        let begun = catch_panic(|| {
            drop(self.database.begin_write()?);
            Ok(())
        });
        begun.is_err()
    }

    /// Lets the file grow without reserving disk space, until the database is reopened. This is for
    /// a full disk from which no dead data can be removed: the remaining space is then better used
    /// than reserved.
    pub fn grow_sparsely(&self) {
        self.storage.grow_sparsely();
    }

    /// Closes the database, which writes and syncs the file. Returns true if data that was written
    /// without an error may be lost, then or before. The file then has to be rewritten.
    ///
    /// # Errors
    /// Returns an error if the database library panicked.
    pub fn close(self) -> (bool, Result<(), StoreError>) {
        let storage = self.storage.clone();
        let closed = catch_panic(move || {
            drop(self);
            Ok(())
        });
        (storage.may_have_lost_writes(), closed)
    }

    /// Rereads the pages that could not be read. Returns true if one can be read now; the database
    /// should then be reopened.
    pub fn retry_unreadable(&self) -> bool {
        self.storage.retry_unreadable()
    }

    /// True if a page could not be read, and has not been read since.
    pub fn has_unreadable(&self) -> bool {
        self.storage.has_unreadable()
    }

    /// Returns an error text if the medium no longer contains the file that was opened.
    pub fn verify_file(&self, medium: &Medium) -> Result<(), String> {
        medium.verify_file(self.file, self.storage.expected_len())
    }

    /// Length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.storage.expected_len()
    }

    /// Returns a consistent view of the committed data. Snapshots should be short-lived: an old one
    /// keeps freed pages from being reused.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot {
            transaction: self.database.begin_read()?,
        })
    }

    /// Begins a write transaction. Its changes become visible to readers, and survive a crash, only
    /// once [`Batch::commit`] has returned.
    pub fn batch(&self) -> Result<Batch, StoreError> {
        Ok(Batch::new(
            self.database.begin_write()?,
            self.storage.clone(),
            self.log.clone(),
        ))
    }

    /// Begins a write transaction whose commit syncs the file. This is for many rows: a log would
    /// need a copy of them. In a cluster it is a batch like any other.
    pub fn synced_batch(&self) -> Result<Batch, StoreError> {
        let batch = self.batch()?;
        if !self.has_shared_log() {
            batch.skip_log();
        }
        Ok(batch)
    }

    /// Releases the space of freed pages. Returns true if the file became smaller.
    pub fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(self.database.compact()?)
    }
}

/// One read transaction.
pub struct Snapshot {
    transaction: ReadTransaction,
}

#[cfg(test)]
mod tests;
