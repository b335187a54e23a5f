//! The database file: redb and MessagePack stop here, and the rest of the house sees domain types only.
//!
//! A ping costs two appended rows (log and body) and nothing else: check rows are a checkpoint, and what the log holds beyond it is
//! replayed at start. Flips are a log of the same kind. Everything is written inside a [`Batch`], read from a [`Snapshot`].

pub mod access;
mod check;
mod flip;
mod medium;
mod meta;
mod migrations;
mod ping;
mod project;
mod record;

use std::path::PathBuf;

use redb::{Database, ReadTransaction, ReadableDatabase as _, WriteTransaction};

pub use flip::PrunedFlips;
pub use medium::{FILE_NAME, Medium};
pub use meta::Mark;
pub use ping::{PingCursor, PrunedKept, Swept};

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
    /// It failed and is being reopened.
    Reopening,
    /// The data directory, or the file in it, cannot be made or used.
    Directory(PathBuf, std::io::Error),
    /// The database reported a failure.
    Database(redb::Error),
}

impl StoreError {
    /// Whether there was no space for what was to be written.
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, Self::Database(redb::Error::Io(error)) if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InUse(path) => {
                write!(f, "{} is in use by another overdue process: stop that one, or choose another directory with --data", path.display())
            }
            Self::TooNew { found, known } => write!(
                f,
                "the database has schema version {found}, this release knows up to {known}: install the release that wrote it, or a newer one"
            ),
            Self::Corrupt { table, reason } => write!(f, "the table `{table}` holds a row that cannot be read: {reason}"),
            Self::Reopening => f.write_str("the database failed and is being reopened"),
            Self::Directory(path, error) => f.write_str(&access::refusal(path, error)),
            Self::Database(error) => write!(f, "the database failed: {error}"),
        }
    }
}

impl std::error::Error for StoreError {}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                Self::Database(error.into())
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
}

impl Store {
    /// Opens what lies on the medium, or makes it; moves an older layout to that of this release, refuses a newer one.
    pub fn open(medium: &Medium) -> Result<Self, StoreError> {
        let store = Self { database: medium.open()? };
        migrations::migrate(&store)?;
        Ok(store)
    }

    /// Opens what has failed once more.
    pub fn reopen(medium: &Medium) -> Result<Self, StoreError> {
        medium.write_again().map_err(|error| StoreError::Database(redb::Error::Io(error)))?;
        Self::open(medium)
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
