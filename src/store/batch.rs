//! Write transactions. A batch collects the rows that it changes for the log.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{Bound, Deref, RangeInclusive};
use std::sync::Arc;

use redb::{
    AccessGuard, CursorMut, Durability, Key, Table, TableDefinition, TableHandle as _, Value,
    WriteTransaction,
};

use super::log::{RowChange, RowChanges, StoreLog};
use super::storage::Storage;
use super::{StoreError, meta};
use crate::util::sync::{Mutex, lock};

/// One write transaction. Dropping it without a commit discards its changes.
pub struct Batch {
    transaction: WriteTransaction,
    storage: Storage,
    /// `None` if each commit syncs the file.
    log: Option<Arc<Mutex<StoreLog>>>,
    changes: RefCell<RowChanges>,
    /// True if there may be changes that are not recorded.
    is_unrecorded: Cell<bool>,
}

impl Batch {
    pub(super) fn new(
        transaction: WriteTransaction,
        storage: Storage,
        log: Option<Arc<Mutex<StoreLog>>>,
    ) -> Self {
        Self {
            transaction,
            storage,
            log,
            changes: RefCell::default(),
            is_unrecorded: Cell::new(false),
        }
    }

    /// Opens a table for reading and writing.
    pub(super) fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<BatchTable<'_, K, V>, StoreError> {
        Ok(BatchTable {
            table: self.transaction.open_table(definition)?,
            recorder: Recorder {
                definition,
                changes: self
                    .log
                    .as_ref()
                    .filter(|_| !self.is_unrecorded.get())
                    .map(|_| &self.changes),
            },
        })
    }

    /// Transaction for changes that are not recorded for the log. The commit of the batch then
    /// syncs the file.
    pub(super) fn unrecorded(&self) -> &WriteTransaction {
        self.skip_log();
        &self.transaction
    }

    /// Lets the commit sync the file. Tables that are opened from now on record no changes for the
    /// log.
    pub(super) fn skip_log(&self) {
        self.is_unrecorded.set(true);
    }

    /// Commits all changes durably: they are in the log, or in the synced file, when this function
    /// returns.
    pub fn commit(mut self) -> Result<(), StoreError> {
        let Some(log) = self.log.clone() else {
            return Ok(self.transaction.commit()?);
        };
        let mut log = lock(&log);
        let changes = self.changes.take();
        if log.is_shared() && self.is_unrecorded.get() {
            debug_assert!(false, "other machines would miss changes");
            return Err(io::Error::other("a change was not recorded for the cluster").into());
        }
        // Without a reservation, only a sync shows if the disk has space for the rows.
        let needs_sync = self.is_unrecorded.get() || self.storage.grows_sparsely();
        if needs_sync && !log.is_shared() || !log.append(changes.as_bytes())? {
            return commit_and_sync(self.transaction, &mut log);
        }
        if log.is_shared()
            && let Some(mark) = log.appended_mark()
        {
            // A copy of the database shows which records it contains.
            meta::set_log_mark(&self.transaction, mark)?;
        }
        self.transaction.set_durability(Durability::None)?;
        let committed = self.transaction.commit();
        if committed.is_ok() {
            log.confirm();
        } else {
            log.withdraw();
        }
        Ok(committed?)
    }

    /// Commits all changes and syncs the file, which then contains all earlier batches, too.
    pub(super) fn commit_synced(self) -> Result<(), StoreError> {
        match &self.log {
            Some(log) => commit_and_sync(self.transaction, &mut lock(log)),
            None => Ok(self.transaction.commit()?),
        }
    }

    /// Commits all changes without making them durable.
    pub(super) fn commit_unsynced(mut self) -> Result<(), StoreError> {
        self.transaction.set_durability(Durability::None)?;
        Ok(self.transaction.commit()?)
    }
}

/// Commits and syncs the file, which then contains all records of the log.
fn commit_and_sync(transaction: WriteTransaction, log: &mut StoreLog) -> Result<(), StoreError> {
    let mark = log.mark_of_sync();
    meta::set_log_mark(&transaction, mark)?;
    transaction.commit()?;
    log.record_synced(mark);
    Ok(())
}

/// Collects the changes of a table.
struct Recorder<'b, K: Key + 'static, V: Value + 'static> {
    definition: TableDefinition<'static, K, V>,
    changes: Option<&'b RefCell<RowChanges>>,
}

impl<K: Key + 'static, V: Value + 'static> Recorder<'_, K, V> {
    fn record_put(&self, key: &K::SelfType<'_>, value: &V::SelfType<'_>) {
        self.record(
            RowChange::Put,
            K::as_bytes(key).as_ref(),
            V::as_bytes(value).as_ref(),
        );
    }

    fn record(&self, change: RowChange, key: &[u8], value: &[u8]) {
        if let Some(changes) = self.changes {
            let table = self.definition.name();
            changes.borrow_mut().add(change, table, key, value);
        }
    }
}

/// Open table of a batch. Reads like a [`Table`].
pub(super) struct BatchTable<'b, K: Key + 'static, V: Value + 'static> {
    table: Table<'b, K, V>,
    recorder: Recorder<'b, K, V>,
}

impl<'b, K: Key + 'static, V: Value + 'static> BatchTable<'b, K, V> {
    /// Inserts a row, and returns the value that it replaces.
    pub(super) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<Option<AccessGuard<'_, V>>, StoreError> {
        self.recorder.record_put(key.borrow(), value.borrow());
        Ok(self.table.insert(key, value)?)
    }

    /// Removes a row and returns its value.
    pub(super) fn remove<'k>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
    ) -> Result<Option<AccessGuard<'_, V>>, StoreError> {
        let bytes = K::as_bytes(key.borrow());
        self.recorder.record(RowChange::Remove, bytes.as_ref(), &[]);
        drop(bytes);
        Ok(self.table.remove(key)?)
    }

    /// Removes all rows of a range.
    pub(super) fn remove_range<'k>(
        &mut self,
        range: RangeInclusive<K::SelfType<'k>>,
    ) -> Result<(), StoreError> {
        self.recorder.record(
            RowChange::RemoveRange,
            K::as_bytes(range.start()).as_ref(),
            K::as_bytes(range.end()).as_ref(),
        );
        Ok(self.table.retain_in(range, |_, _| false)?)
    }

    /// Removes the rows of a range for which `is_kept` is false.
    pub(super) fn retain_in<'k>(
        &mut self,
        range: RangeInclusive<K::SelfType<'k>>,
        mut is_kept: impl FnMut(K::SelfType<'_>, V::SelfType<'_>) -> bool,
    ) -> Result<(), StoreError> {
        let recorder = &self.recorder;
        let mut removed = Vec::new();
        self.table.retain_in(range, |key, value| {
            let bytes = K::as_bytes(&key).as_ref().to_vec();
            let kept = is_kept(key, value);
            if !kept {
                removed.push(bytes);
            }
            kept
        })?;
        removed
            .iter()
            .for_each(|key| recorder.record(RowChange::Remove, key, &[]));
        Ok(())
    }

    /// Returns a cursor after the last row. It inserts a run of increasing keys many times faster
    /// than single insertions.
    pub(super) fn cursor_at_end(&mut self) -> Result<EndCursor<'_, 'b, K, V>, StoreError> {
        Ok(EndCursor {
            cursor: self
                .table
                .upper_bound_mut(Bound::<K::SelfType<'_>>::Unbounded)?,
            recorder: &self.recorder,
        })
    }
}

impl<'b, K: Key + 'static, V: Value + 'static> Deref for BatchTable<'b, K, V> {
    type Target = Table<'b, K, V>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

/// Cursor after the last row of a table.
pub(super) struct EndCursor<'c, 'b, K: Key + 'static, V: Value + 'static> {
    cursor: CursorMut<'c, K, V>,
    recorder: &'c Recorder<'b, K, V>,
}

impl<K: Key + 'static, V: Value + 'static> EndCursor<'_, '_, K, V> {
    /// Appends a row. Its key must be greater than all others.
    pub(super) fn append<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<(), StoreError> {
        self.recorder.record_put(key.borrow(), value.borrow());
        Ok(self.cursor.insert_before(key, value)?)
    }

    /// Returns the value of the last row.
    pub(super) fn last_value(&mut self) -> Result<Option<AccessGuard<'_, V>>, StoreError> {
        Ok(self.cursor.peek_prev()?.map(|(_, value)| value))
    }

    /// Writes the appended rows.
    pub(super) fn close(self) -> Result<(), StoreError> {
        Ok(self.cursor.close()?)
    }
}
