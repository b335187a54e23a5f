//! The database file: redb and MessagePack stop here, and the rest of the house sees domain types only.
//!
//! A ping costs two appended rows (log and body) and nothing else: check rows are a checkpoint, and what the log holds beyond it is
//! replayed at start. Flips are a log of the same kind. Everything is written inside a [`Batch`], read from a [`Snapshot`].

mod check;
mod flip;
mod meta;
mod owner;
mod ping;
mod record;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Builder, Database, ReadTransaction, ReadableDatabase as _, WriteTransaction};

pub use meta::Mark;
pub use ping::{PingCursor, PingLog, PrunedKept, Swept};

/// The name of the database file within the data directory.
pub const FILE_NAME: &str = "overdue.redb";

/// Bytes of pages that redb keeps in memory.
const CACHE_BYTES: usize = 16 << 20;

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
    /// The data directory cannot be made or used.
    Directory(PathBuf, std::io::Error),
    /// The database reported a failure.
    Database(redb::Error),
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
            Self::Directory(path, error) => write!(f, "cannot use the data directory {}: {error}", path.display()),
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
from_redb!(redb::StorageError, redb::TableError, redb::TransactionError, redb::CommitError, redb::DatabaseError, redb::CompactionError);

/// Opens a database on a medium that a test brings.
pub type OpenBackend = dyn Fn(&Builder) -> Result<Database, redb::DatabaseError> + Send + Sync;

/// What the database lies on.
#[derive(Clone)]
pub enum Medium {
    /// A file in this directory.
    Directory(PathBuf),
    /// Storage that a test brings: in memory, failing on demand, losing what was not synced.
    Backend(Arc<OpenBackend>),
}

impl Medium {
    /// Storage in memory that is gone when the database is closed.
    pub fn memory() -> Self {
        Self::Backend(Arc::new(|builder| builder.create_with_backend(redb::backends::InMemoryBackend::new())))
    }

    fn open(&self) -> Result<Database, StoreError> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        match self {
            Self::Backend(open) => Ok(open(&builder)?),
            Self::Directory(directory) => {
                let told = |error| StoreError::Directory(directory.clone(), error);
                make_private_directory(directory).map_err(told)?;
                let path = directory.join(FILE_NAME);
                if is_empty(&path) {
                    make_file(&builder, directory, &path).map_err(told)?;
                }
                let file = OpenOptions::new().read(true).write(true).open(&path).map_err(told)?;
                match builder.create_file(file) {
                    Err(redb::DatabaseError::DatabaseAlreadyOpen) => Err(StoreError::InUse(path)),
                    opened => Ok(opened?),
                }
            }
        }
    }

    /// Whether the medium takes a small durable write: asked before a failed database is dropped and reopened.
    pub fn probe(&self) -> std::io::Result<()> {
        let Self::Directory(directory) = self else { return Ok(()) };
        let path = directory.join("probe");
        // More than one block, so that a full disk says so.
        let written = File::create(&path).and_then(|mut file| file.write_all(&[0; 1 << 16]).and_then(|()| file.sync_all()));
        let removed = std::fs::remove_file(&path);
        written.and(removed)
    }
}

/// Makes a directory, and those above it, that only its owner can enter.
fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    if directory.is_dir() { Ok(()) } else { DirBuilder::new().recursive(true).mode(0o700).create(directory) }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |found| found.len() == 0)
}

/// Makes an empty database under another name first: half of one, which a power cut would leave, could never be opened again.
fn make_file(builder: &Builder, directory: &Path, path: &Path) -> std::io::Result<()> {
    let locked = File::open(directory)?;
    locked.lock()?;
    // Another process may have been quicker.
    if is_empty(path) {
        let new = path.with_extension("new");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        drop(builder.create_file(file).map_err(std::io::Error::other)?);
        std::fs::rename(&new, path)?;
        // The name must be as durable as what is going to be in the file.
        locked.sync_all()?;
    }
    Ok(())
}

/// An open database.
pub struct Store {
    database: Database,
}

impl Store {
    /// Opens what lies on the medium, or makes it; refuses a schema newer than this release.
    pub fn open(medium: &Medium) -> Result<Self, StoreError> {
        let store = Self { database: medium.open()? };
        let batch = store.batch()?;
        if meta::prepare(&batch.transaction)? {
            batch.commit()?;
        }
        Ok(store)
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
