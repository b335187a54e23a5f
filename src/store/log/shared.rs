//! Log of a cluster, which another service keeps. The leader appends to it; the database of each
//! machine follows it.

use std::io;

use super::record;
use super::{ChangeLog, LogError, LogMark, LogRecord};

/// Log that the machines of a cluster share. Its records are never removed by the database: the
/// cluster trims them.
pub trait SharedLog: Send {
    /// Appends a record at a place. It is durable when this function returns.
    ///
    /// # Errors
    /// Returns an error if it is not certain that the record is in the log. The server must then
    /// stop: another machine may lead.
    fn append(&mut self, place: u64, record: &[u8]) -> io::Result<()>;
}

/// Log of a cluster for the database of its leader.
pub(in crate::store) struct LeaderLog {
    database: u64,
    epoch: u64,
    shared: Box<dyn SharedLog>,
    /// Encoded record.
    buffer: Vec<u8>,
}

impl LeaderLog {
    /// Returns the log for the leader of this epoch.
    pub(in crate::store) fn new(database: u64, epoch: u64, shared: Box<dyn SharedLog>) -> Self {
        Self {
            database,
            epoch,
            shared,
            buffer: Vec::new(),
        }
    }
}

impl ChangeLog for LeaderLog {
    fn database(&self) -> u64 {
        self.database
    }

    fn records_after(&self, _: LogMark) -> Result<Vec<LogRecord>, LogError> {
        // The database of a leader contains all records before it leads.
        Ok(Vec::new())
    }

    fn has_room_for(&self, _: usize) -> bool {
        true
    }

    fn append(&mut self, previous: LogMark, changes: &[u8]) -> io::Result<LogMark> {
        let epoch = (self.database, self.epoch);
        let mark = previous.next(epoch, changes);
        self.buffer.clear();
        self.buffer.shrink_to(1 << 20);
        record::encode(epoch, previous, mark, changes, &mut self.buffer);
        self.shared.append(mark.place, &self.buffer)?;
        Ok(mark)
    }

    fn withdraw(&mut self) -> io::Result<()> {
        Err(io::Error::other(
            "a record of a cluster cannot be withdrawn",
        ))
    }

    fn release(&mut self) {}
}
