//! Log of batches. A batch is durable once its record is in the log. The database file is synced
//! later, and a log that is ahead of the file is replayed when the file is opened.
//!
//! A record contains the rows that a batch changes, not its commands: a replay depends neither on
//! the release, nor on its flags, nor on rules of time zones.

mod changes;
mod journal;
mod medium;
mod memory;
mod record;
mod shared;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use changes::{RowChange, RowChanges};
pub(super) use journal::{Journal, OpenedJournal};
pub(super) use medium::LogFile;
pub use medium::{BackendLog, JOURNAL_NAME};
pub(super) use medium::{journal_number, read_only_log, remove_journal_file};
pub use memory::MemoryLog;
pub use record::declared_len as log_record_len;
pub(super) use record::{LogMark, LogRecord, decode as decode_record};
pub(super) use shared::LeaderLog;
pub use shared::SharedLog;

/// Error of reading a log.
#[derive(Debug)]
pub(super) enum LogError {
    /// Records that were durable cannot be read. Contains what was found and where.
    Damaged(String),
    /// The log does not continue the database. Contains the difference.
    Foreign(String),
    /// The path of the log leads to something else than a file. Contains what it is, and a remedy.
    NotAFile(&'static str),
    /// A newer release wrote the log.
    TooNew,
    /// The system refused an operation.
    Io(io::Error),
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Sequence of records. Each is durable before the next one is appended.
pub(super) trait ChangeLog: Send {
    /// Number of the database that the log belongs to.
    fn database(&self) -> u64;

    /// Returns the records after a mark, in order.
    ///
    /// # Errors
    /// Returns an error if a record is missing or damaged. A record at the end whose append did not
    /// complete is left out: its batch was not acknowledged.
    fn records_after(&self, mark: LogMark) -> Result<Vec<LogRecord>, LogError>;

    /// True if a record with this number of bytes fits. If not, the database must be synced and the
    /// log released.
    fn has_room_for(&self, bytes: usize) -> bool;

    /// Appends a record after the one with the mark `previous`, and returns its mark. The record is
    /// durable when this function returns.
    fn append(&mut self, previous: LogMark, changes: &[u8]) -> io::Result<LogMark>;

    /// Removes the record that was appended last, because its batch failed.
    fn withdraw(&mut self) -> io::Result<()>;

    /// Releases the space of all records, because the database contains them durably.
    fn release(&mut self);
}

/// Places in the log of a cluster. The log itself is locked during an append, which may wait for
/// etcd, so tasks that etcd depends on must not wait for its lock.
#[derive(Debug, Default)]
pub(super) struct LogPlaces {
    /// Place of the last record.
    pub(super) last: AtomicU64,
    /// Place of the last record that the synced file contains.
    pub(super) synced: AtomicU64,
}

/// Log of an open database, and its relation to the file.
pub(super) struct StoreLog {
    /// Number of the database.
    database: u64,
    /// `None` if it could not be created.
    log: Option<Box<dyn ChangeLog>>,
    /// File of the log, if it is one.
    file: Option<LogFile>,
    /// Mark of the last record, or of the last sync.
    mark: LogMark,
    /// Mark of a record whose batch is not visible yet.
    appended: Option<LogMark>,
    /// Places that are read without the lock of this log.
    places: Arc<LogPlaces>,
    /// True if records were appended since the last sync of the file.
    is_ahead: bool,
    /// True if an operation of the log failed. The database must then be reopened.
    has_failed: bool,
    /// True if the file is synced for each batch for now.
    is_paused: bool,
    /// True if it is the log of a cluster. Each change must then be in the log.
    is_shared: bool,
}

impl StoreLog {
    /// Returns the state before a log is used. `mark`: the mark in the synced database.
    pub(super) fn new(database: u64, mark: LogMark) -> Self {
        Self {
            database,
            log: None,
            file: None,
            mark,
            appended: None,
            places: Arc::new(LogPlaces {
                last: AtomicU64::new(mark.place),
                synced: AtomicU64::new(mark.place),
            }),
            is_ahead: false,
            has_failed: false,
            is_paused: false,
            is_shared: false,
        }
    }

    /// Returns the state of a database that leads a cluster. `mark`: the mark of the last record,
    /// whose rows the file contains.
    pub(super) fn leading(log: LeaderLog, mark: LogMark) -> Self {
        let database = log.database();
        Self {
            is_shared: true,
            log: Some(Box::new(log)),
            ..Self::new(database, mark)
        }
    }

    /// True if it is the log of a cluster.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the mark for the file that is about to be synced. It is one place ahead of the last
    /// record: no record that was withdrawn, or whose append failed, can follow it. In a cluster
    /// no record is withdrawn.
    pub(super) fn mark_of_sync(&self) -> LogMark {
        if self.is_shared {
            self.mark
        } else {
            self.mark.without_record(self.database)
        }
    }

    /// Places that are read without the lock of this log.
    pub(super) fn places(&self) -> Arc<LogPlaces> {
        Arc::clone(&self.places)
    }

    /// Mark of the appended record whose batch is about to become visible.
    pub(super) fn appended_mark(&self) -> Option<LogMark> {
        self.appended
    }

    /// Number of the database.
    pub(super) fn database(&self) -> u64 {
        self.database
    }

    /// True if there is a log.
    pub(super) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// True if the file is synced for each batch for now.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// File of the log, if it is one.
    pub(super) fn file(&self) -> Option<LogFile> {
        self.file
    }

    /// Syncs the file for each batch from now on, or uses the log again.
    pub(super) fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Uses another log from now on; with `None`, the file is synced for each batch. The synced
    /// database must contain all records.
    pub(super) fn replace(&mut self, log: Option<Box<dyn ChangeLog>>, file: Option<LogFile>) {
        debug_assert!(!self.is_ahead, "records would be lost");
        (self.log, self.file) = (log, file);
        if let Some(log) = &mut self.log {
            log.release();
        }
    }

    /// True if the log contains records that the synced file does not contain.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// True if an operation of the log failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Appends the changes of a batch durably. [`Self::confirm`] or [`Self::withdraw`] follows.
    /// Returns false, and appends nothing, if the file must be synced instead.
    pub(super) fn append(&mut self, changes: &[u8]) -> io::Result<bool> {
        // A panic can have prevented it.
        self.withdraw();
        let is_usable = !self.has_failed && !self.is_paused;
        let usable = self.log.as_mut().filter(|_| is_usable);
        let Some(log) = usable.filter(|log| log.has_room_for(changes.len())) else {
            return if self.is_shared {
                Err(io::Error::other("the log of the cluster has failed"))
            } else {
                Ok(false)
            };
        };
        match log.append(self.mark, changes) {
            Ok(mark) => self.appended = Some(mark),
            Err(error) => {
                self.has_failed = true;
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Keeps the appended record, since its batch is visible.
    pub(super) fn confirm(&mut self) {
        if let Some(mark) = self.appended.take() {
            self.mark = mark;
            self.places.last.store(mark.place, Ordering::Relaxed);
            self.is_ahead = true;
        }
    }

    /// Removes the appended record, whose batch failed. If that fails, the batch may be there after
    /// the database was reopened, as after a failed sync.
    pub(super) fn withdraw(&mut self) {
        if self.appended.take().is_some()
            && let Some(log) = &mut self.log
        {
            self.has_failed |= log.withdraw().is_err();
        }
    }

    /// Releases the records after the file was synced with this mark.
    pub(super) fn record_synced(&mut self, mark: LogMark) {
        self.mark = mark;
        self.places.last.store(mark.place, Ordering::Relaxed);
        self.places.synced.store(mark.place, Ordering::Relaxed);
        self.appended = None;
        if let Some(log) = &mut self.log {
            log.release();
        }
        self.is_ahead = false;
    }
}
