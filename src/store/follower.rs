//! Database of a machine that follows the log of a cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::log::{LeaderLog, LogMark, RowChanges, SharedLog, StoreLog, decode_record};
use super::{Medium, MetaKey, ProgressReporter, Store, StoreError, meta, migrations};
use crate::util::sync::Mutex;

/// Version of the format of records and of the keys of a cluster.
pub const CLUSTER_FORMAT: u64 = 1;

/// Reason why a database cannot follow the log.
#[derive(Debug)]
pub enum FollowError {
    /// The log and the database have different histories. Contains the difference.
    OtherHistory(String),
    /// A newer release has migrated the database, but no record of the log has its layout.
    NewerLayout,
    /// The database cannot be written.
    Store(StoreError),
}

impl std::fmt::Display for FollowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OtherHistory(difference) => write!(
                f,
                "the database of this machine does not belong to the log of the cluster: \
                 {difference}; move the data directory away, and this machine gets a copy from the \
                 leader"
            ),
            Self::NewerLayout => f.write_str(
                "a newer release has migrated the database of this machine, but the leader has an \
                 older one",
            ),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FollowError {}

impl From<StoreError> for FollowError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Database that follows the log of a cluster.
pub struct FollowerStore {
    store: Arc<Store>,
    cluster: u64,
    mark: LogMark,
    /// Epoch of the last applied record.
    epoch: u64,
    synced_place: u64,
}

impl FollowerStore {
    /// Opens the database of a machine, without changing its layout.
    ///
    /// # Errors
    /// Returns an error if the database cannot be opened, or does not belong to a cluster.
    pub fn open(medium: &Medium, progress: &ProgressReporter) -> Result<Self, StoreError> {
        let store = Store::open_unmigrated(medium, progress)?;
        let batch = store.batch()?;
        let transaction = batch.unrecorded();
        let cluster = meta::meta_value(transaction, MetaKey::LogDatabase)?;
        let mark = meta::log_mark(transaction)?;
        if meta::meta_value(transaction, MetaKey::IsClustered)? == 0 {
            return Err(medium.explain_missing_cluster());
        }
        drop(batch);
        Ok(Self {
            store: Arc::new(store),
            cluster,
            mark,
            epoch: 0,
            synced_place: mark.place,
        })
    }

    /// Number of the cluster.
    pub fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Place of the last applied record.
    pub fn place(&self) -> u64 {
        self.mark.place
    }

    /// Place up to which the file is synced.
    pub fn synced_place(&self) -> u64 {
        self.synced_place
    }

    /// Returns the database, for reads by another part of this process.
    pub fn share(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// True if another part of this process has the database open, too. It cannot be closed then.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.store) > 1
    }

    /// Verifies that an encoded record of the log is the last applied one.
    ///
    /// # Errors
    /// Returns an error if it is another one: the log and the database have different histories.
    pub fn verify_last(&self, record: Option<&[u8]>) -> Result<(), FollowError> {
        let found = record.and_then(|bytes| decode_record(self.cluster, bytes));
        match found {
            Some(found) if found.mark == self.mark => Ok(()),
            Some(_) => Err(FollowError::OtherHistory(format!(
                "record {} of the log is not the one in the database",
                self.mark.place
            ))),
            None => Err(FollowError::OtherHistory(format!(
                "the log has no record {}, which the database contains",
                self.mark.place
            ))),
        }
    }

    /// Applies encoded records, which follow the last applied one, in one transaction that is not
    /// synced.
    ///
    /// # Errors
    /// Returns an error if a record does not follow the one before it, if a newer release wrote it,
    /// or if the database cannot be written. Nothing is applied then.
    pub fn apply<'r>(
        &mut self,
        records: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), FollowError> {
        let mut mark = self.mark;
        let mut epoch = self.epoch;
        let mut batch = None;
        for bytes in records {
            let place = mark.place.wrapping_add(1);
            let record = decode_record(self.cluster, bytes).filter(|record| {
                record.previous == mark && record.mark.place == place && record.epoch >= epoch
            });
            let Some(record) = record else {
                return Err(FollowError::OtherHistory(format!(
                    "record {place} of the log does not follow record {} of the database",
                    mark.place
                )));
            };
            if record.epoch > epoch
                && let Some(schema) = changed_schema(&record.changes)
            {
                // The leader of the epoch has migrated its database before.
                commit_with_mark(batch.take(), mark)?;
                (self.mark, self.epoch) = (mark, epoch);
                if meta::schema(self.store.batch()?.unrecorded())? > schema {
                    return Err(FollowError::NewerLayout);
                }
                migrations::migrate_to(&self.store, schema)?;
            }
            let batch = match &mut batch {
                Some(batch) => batch,
                none => none.insert(self.store.batch()?),
            };
            batch.apply_changes(&record.changes)?;
            (mark, epoch) = (record.mark, record.epoch);
        }
        commit_with_mark(batch, mark)?;
        (self.mark, self.epoch) = (mark, epoch);
        Ok(())
    }

    /// Syncs the file, if records were applied since the last sync.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        if self.synced_place != self.mark.place {
            self.store.batch()?.commit_synced()?;
            self.synced_place = self.mark.place;
        }
        Ok(())
    }
}

/// Commits a batch with the mark of its last record, without a sync.
fn commit_with_mark(batch: Option<super::Batch>, mark: LogMark) -> Result<(), StoreError> {
    let Some(batch) = batch else {
        return Ok(());
    };
    meta::set_log_mark(batch.unrecorded(), mark)?;
    batch.commit_unsynced()
}

/// Returns the version of the layout that changes of a record state.
fn changed_schema(changes: &[u8]) -> Option<u64> {
    let runs = RowChanges::decode(changes)?;
    runs.iter().find_map(|(_, rows)| meta::changed_schema(rows))
}

impl Store {
    /// Makes the database the first one of a cluster with this number. Its log begins after it.
    pub fn create_cluster(medium: &Medium, cluster: u64) -> Result<(), StoreError> {
        let store = Self::open(medium)?;
        store.end_log(medium)?;
        let batch = store.batch()?;
        batch.set_meta_value(MetaKey::LogDatabase, cluster)?;
        batch.set_meta_value(MetaKey::LogPlace, 0)?;
        batch.set_meta_value(MetaKey::LogChain, 0)?;
        batch.set_meta_value(MetaKey::IsClustered, 1)?;
        batch.commit_synced()
    }

    /// True if the database belongs to a cluster.
    pub fn is_clustered(&self) -> Result<bool, StoreError> {
        let batch = self.batch()?;
        Ok(meta::meta_value(batch.unrecorded(), MetaKey::IsClustered)? != 0)
    }

    /// Takes the database out of its cluster, before it is changed alone.
    pub(crate) fn leave_cluster(&self) -> Result<(), StoreError> {
        let batch = self.batch()?;
        batch.set_meta_value(MetaKey::IsClustered, 0)?;
        batch.set_meta_value(MetaKey::LogDatabase, 0)?;
        batch.commit_synced()
    }

    /// Makes further commits durable by the log of the cluster, as the leader of this epoch. The
    /// database must contain all records. Appends the first record of the epoch.
    pub fn begin_shared_log(
        &mut self,
        epoch: u64,
        shared: Box<dyn SharedLog>,
    ) -> Result<(), StoreError> {
        let batch = self.batch()?;
        let cluster = meta::meta_value(batch.unrecorded(), MetaKey::LogDatabase)?;
        let mark = meta::log_mark(batch.unrecorded())?;
        drop(batch);
        let log = StoreLog::leading(LeaderLog::new(cluster, epoch, shared), mark);
        self.shared_places = Some(log.places());
        self.log = Some(Arc::new(Mutex::new(log)));
        let batch = self.batch()?;
        batch.record_schema(migrations::SCHEMA)?;
        batch.commit()
    }

    /// True if the log is that of a cluster.
    pub fn has_shared_log(&self) -> bool {
        self.shared_places.is_some()
    }

    /// Places of the last record of the log of the cluster, and of the last one that the synced
    /// file contains. Never waits for an append.
    pub fn log_places(&self) -> (u64, u64) {
        self.shared_places.as_ref().map_or((0, 0), |places| {
            (
                places.last.load(Ordering::Relaxed),
                places.synced.load(Ordering::Relaxed),
            )
        })
    }
}
