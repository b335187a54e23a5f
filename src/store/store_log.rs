//! Use of the log by the open database: replay at the start, its beginning and its end.

use std::sync::Arc;

use super::log::{LogError, StoreLog};
use super::{Medium, MetaKey, Store, StoreError, meta, migrations};
use crate::util::random::Random;
use crate::util::sync::{Mutex, lock};

impl Store {
    /// Applies the records of the log that the file lacks, and syncs the file.
    /// `per_transaction`: maximum number of records in one transaction.
    pub(super) fn replay_log(
        &self,
        medium: &Medium,
        per_transaction: usize,
    ) -> Result<(), StoreError> {
        let Some(log) = medium.open_log()? else {
            return Ok(());
        };
        let (schema, database, replaced, mark) = {
            let batch = self.batch()?;
            let transaction = batch.unrecorded();
            (
                meta::schema(transaction)?,
                meta::meta_value(transaction, MetaKey::LogDatabase)?,
                meta::meta_value(transaction, MetaKey::ReplacedLog)?,
                meta::log_mark(transaction)?,
            )
        };
        if schema > migrations::SCHEMA {
            // The migration refuses it.
            return Ok(());
        }
        if database != log.database() && replaced == log.database() {
            drop(log);
            medium.remove_log()?;
            tracing::info!(
                "removed the journal of the database that an interrupted restore has replaced"
            );
            return Ok(());
        }
        if database != log.database() {
            return Err(medium
                .explain_log_error(LogError::Foreign("it was written for another one".into())));
        }
        let records = log
            .records_after(mark)
            .map_err(|error| medium.explain_log_error(error))?;
        let Some(last) = records.last() else {
            return Ok(());
        };
        for records in records.chunks(per_transaction.max(1)) {
            let batch = self.batch()?;
            for record in records {
                batch.apply_changes(&record.changes)?;
            }
            batch.commit_unsynced()?;
        }
        let batch = self.batch()?;
        meta::set_log_mark(batch.unrecorded(), last.mark.without_record(database))?;
        batch.commit_synced()?;
        tracing::info!(
            "{} batches were written from the journal to the database",
            records.len()
        );
        Ok(())
    }

    /// Makes further commits durable by the log. `is_paused`: see [`Self::set_log_paused`].
    ///
    /// # Errors
    /// Returns an error if the database cannot be written. If the log cannot be created, this is
    /// logged, and each commit syncs the file.
    pub fn begin_log(
        &mut self,
        medium: &Medium,
        random: &Random,
        is_paused: bool,
    ) -> Result<(), StoreError> {
        let batch = self.batch()?;
        let mut database = meta::meta_value(batch.unrecorded(), MetaKey::LogDatabase)?;
        let mark = meta::log_mark(batch.unrecorded())?;
        if database == 0 {
            // 0 stands for a database without a log.
            database = u64::from_le_bytes(random.bytes()).max(1);
            batch.set_meta_value(MetaKey::LogDatabase, database)?;
            batch.commit_synced()?;
        } else {
            drop(batch);
        }
        let mut log = StoreLog::new(database, mark);
        log.set_paused(is_paused);
        // Opening the database has replayed an existing log.
        if let Some(existing) = medium.open_log()? {
            log.replace(Some(existing), medium.log_file().ok().flatten());
        } else if !is_paused {
            create_log(&mut log, medium);
        }
        self.log = medium.has_log().then(|| Arc::new(Mutex::new(log)));
        Ok(())
    }

    /// Writes everything to the file and removes the log. Further commits sync the file.
    pub fn end_log(&self, medium: &Medium) -> Result<(), StoreError> {
        if let Some(log) = &self.log {
            // Advances the mark: a record whose append failed is then one of the past.
            self.batch()?.commit_synced()?;
            lock(log).replace(None, None);
        }
        Ok(medium.remove_log()?)
    }

    /// Syncs the file if the log is ahead of it.
    pub fn sync(&self) -> Result<(), StoreError> {
        if self.is_log_ahead() {
            self.batch()?.commit_synced()?;
        }
        Ok(())
    }

    /// True if the log contains records that the synced file does not contain.
    pub fn is_log_ahead(&self) -> bool {
        self.log.as_ref().is_some_and(|log| lock(log).is_ahead())
    }

    /// Syncs the file for each batch from now on, or uses the log again.
    pub fn set_log_paused(&self, is_paused: bool) {
        if let Some(log) = &self.log {
            lock(log).set_paused(is_paused);
        }
    }

    /// True if an operation of the log failed. The database must then be reopened.
    pub fn has_log_failed(&self) -> bool {
        self.log.as_ref().is_some_and(|log| lock(log).has_failed())
    }

    /// Creates the log if there is none, or again if its file was removed, replaced or truncated,
    /// after the database was synced. Returns false if there is no log that can be used.
    ///
    /// # Errors
    /// Returns an error if the database cannot be synced. If the log cannot be created, this is
    /// logged, and each further commit syncs the database.
    pub fn create_missing_log(&self, medium: &Medium) -> Result<bool, StoreError> {
        let Some(log) = &self.log else {
            return Ok(true);
        };
        if lock(log).is_shared() {
            return Ok(true);
        }
        let (had_log, is_missing) = {
            let log = lock(log);
            let has_changed = medium.log_file().is_ok_and(|file| file != log.file());
            let is_missing = !log.is_paused() && (!log.has_log() || has_changed);
            (log.has_log(), is_missing)
        };
        if !is_missing {
            return Ok(true);
        }
        self.sync()?;
        let is_created = create_log(&mut lock(log), medium);
        if had_log && is_created {
            tracing::error!(
                "the journal was removed or changed while the server was running; a new one was \
                 created, and nothing was lost"
            );
        }
        Ok(is_created)
    }
}

/// Creates the log of an open database, whose synced file contains all records. Returns true if
/// that was possible.
fn create_log(log: &mut StoreLog, medium: &Medium) -> bool {
    match medium.create_log(log.database()) {
        Ok(created) => {
            log.replace(created, medium.log_file().ok().flatten());
            true
        }
        Err(error) => {
            tracing::warn!(
                "the journal cannot be created, so each batch is written to the database at once, \
                 which takes longer: {error}"
            );
            log.replace(None, None);
            false
        }
    }
}
