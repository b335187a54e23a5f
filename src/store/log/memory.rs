//! Log in memory, for databases in memory.

use std::io;
use std::sync::Arc;

use super::record::SINGLE_EPOCH;
use super::{ChangeLog, LogError, LogMark, LogRecord};
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Maximum number of bytes of all records. It is small, so that databases in memory are synced as
/// often as files.
const MAX_BYTES: usize = 64 << 10;

/// Log in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog(Arc<Mutex<MemoryLogState>>);

#[derive(Debug, Default)]
struct MemoryLogState {
    /// 0 before the log is used.
    database: u64,
    records: Vec<LogRecord>,
}

impl MemoryLog {
    /// Makes this the empty log of a database.
    pub(in crate::store) fn create(&self, database: u64) {
        *self.lock_state() = MemoryLogState {
            database,
            records: Vec::new(),
        };
    }

    fn lock_state(&self) -> MutexGuard<'_, MemoryLogState> {
        lock(&self.0)
    }
}

impl ChangeLog for MemoryLog {
    fn database(&self) -> u64 {
        self.lock_state().database
    }

    fn records_after(&self, mark: LogMark) -> Result<Vec<LogRecord>, LogError> {
        let state = self.lock_state();
        let records = state.records.iter();
        Ok(records
            .filter(|record| record.mark.place > mark.place)
            .cloned()
            .collect())
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        let state = self.lock_state();
        let used: usize = state
            .records
            .iter()
            .map(|record| record.changes.len())
            .sum();
        used + bytes <= MAX_BYTES
    }

    fn append(&mut self, previous: LogMark, changes: &[u8]) -> io::Result<LogMark> {
        let mut state = self.lock_state();
        let mark = previous.next((state.database, SINGLE_EPOCH), changes);
        state.records.push(LogRecord {
            epoch: SINGLE_EPOCH,
            previous,
            mark,
            changes: changes.to_vec(),
        });
        Ok(mark)
    }

    fn withdraw(&mut self) -> io::Result<()> {
        self.lock_state().records.pop();
        Ok(())
    }

    fn release(&mut self) {
        self.lock_state().records.clear();
    }
}
