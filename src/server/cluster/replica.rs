//! Database of this machine that follows the log, up to the moment at which it can lead.

use std::fmt;
use std::sync::Arc;

use super::etcd::{Etcd, EtcdError};
use super::key_values::KeyValueStore;
use super::log::{ClusterLog, ClusterView};
use crate::store::{FollowError, FollowerStore, Store, StoreError};

/// Database that follows the log.
pub struct Replica<S = Etcd> {
    log: ClusterLog<S>,
    store: FollowerStore,
    /// True if the last record in the database is known to be that of the log.
    is_verified: bool,
}

/// Reason why a database cannot go on to follow the log.
#[derive(Debug)]
pub enum ReplicaError {
    /// A read failed. The next one may succeed.
    Etcd(EtcdError),
    /// The database needs records that the log no longer has: it must be replaced by a copy.
    Outdated,
    /// The database does not belong to the log, or cannot be written.
    Follow(FollowError),
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(error) => error.fmt(f),
            Self::Outdated => f.write_str("the log no longer has the records after the database"),
            Self::Follow(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplicaError {}

impl From<EtcdError> for ReplicaError {
    fn from(error: EtcdError) -> Self {
        Self::Etcd(error)
    }
}

impl From<StoreError> for ReplicaError {
    fn from(error: StoreError) -> Self {
        Self::Follow(FollowError::Store(error))
    }
}

/// Result of one read of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatchUp {
    /// True if there was no record after the database.
    pub is_empty: bool,
    /// True if the database contains all records that the read could show.
    pub is_end: bool,
}

impl<S: KeyValueStore> Replica<S> {
    /// Returns the database as a follower of the log.
    pub fn new(log: ClusterLog<S>, store: FollowerStore) -> Self {
        Self {
            log,
            store,
            is_verified: false,
        }
    }

    /// Number of the cluster that the database belongs to.
    pub fn cluster(&self) -> u64 {
        self.store.cluster()
    }

    /// Place of the last applied record.
    pub fn place(&self) -> u64 {
        self.store.place()
    }

    /// Place up to which the file is synced.
    pub fn synced_place(&self) -> u64 {
        self.store.synced_place()
    }

    /// Returns the database, for reads while it follows.
    pub(super) fn share_store(&self) -> Arc<Store> {
        self.store.share()
    }

    /// True if a reader has the database open. It cannot be closed then.
    pub(super) fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// True if the log no longer has the record after the last applied one.
    pub fn is_outdated(&self, view: &ClusterView) -> bool {
        self.store.place() < view.trimmed
    }

    /// Verifies, if that is not known yet, that the database and the log have the same history.
    /// `trimmed`: place up to which records were removed.
    ///
    /// # Errors
    /// See [`ReplicaError`].
    pub async fn verify_history(&mut self, trimmed: u64) -> Result<(), ReplicaError> {
        if self.is_verified {
            return Ok(());
        }
        let place = self.store.place();
        // Trimmed records are in the databases of several machines.
        if place > trimmed {
            let read = self.log.read(place, true).await?;
            let record = read.records.first().map(|record| &**record);
            if record.is_none() && self.log.view().await?.trimmed >= place {
                // It was trimmed in the meantime.
                return Ok(());
            }
            self.store
                .verify_last(record)
                .map_err(ReplicaError::Follow)?;
        }
        self.is_verified = true;
        Ok(())
    }

    /// Reads the next records of the log once, and applies them.
    ///
    /// # Errors
    /// See [`ReplicaError`].
    pub async fn catch_up(&mut self, is_linearizable: bool) -> Result<CatchUp, ReplicaError> {
        let next = self.store.place() + 1;
        let read = self.log.read(next, is_linearizable).await?;
        if read.is_trimmed {
            return Err(ReplicaError::Outdated);
        }
        match self
            .store
            .apply(read.records.iter().map(|record| &**record))
        {
            Ok(()) => Ok(CatchUp {
                is_empty: read.records.is_empty(),
                is_end: read.is_end,
            }),
            Err(FollowError::NewerLayout) => Err(ReplicaError::Outdated),
            Err(error) => Err(ReplicaError::Follow(error)),
        }
    }

    /// Syncs the file, if records were applied since the last sync.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.store.sync()
    }

    /// Prepares the database for its leader, once a linearizable read after the takeover found no
    /// further record. `former`: state of the cluster before the takeover.
    ///
    /// # Errors
    /// See [`ReplicaError`]. The database cannot lead if it lacks records that the former leader
    /// had appended and that are no longer in the log.
    pub async fn finish_takeover(&mut self, former: &ClusterView) -> Result<(), ReplicaError> {
        let trimmed = self.log.view().await?.trimmed;
        let last = former.lease.as_ref().map_or(0, |lease| lease.place);
        if self.store.place() < trimmed.max(last) {
            return Err(ReplicaError::Outdated);
        }
        Ok(self.store.sync()?)
    }
}
