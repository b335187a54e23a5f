//! Where the open database is, for all who read and write it; the writer takes it away to open it anew.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::store::{Store, StoreError};

/// How long readers wait while the database is opened anew: see [limits](crate::docs::limits).
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct StoreSlot {
    place: Mutex<Place>,
    filled: Condvar,
}

enum Place {
    Open(Arc<Store>),
    /// It comes back soon.
    Away,
    /// It failed, and nobody knows when it comes back.
    Failed,
}

impl StoreSlot {
    pub(super) fn new(store: Store) -> Self {
        Self { place: Mutex::new(Place::Open(Arc::new(store))), filled: Condvar::new() }
    }

    /// The open database. Waits a second for one that is being opened anew.
    pub(super) fn get(&self) -> Result<Arc<Store>, StoreError> {
        let away = |place: &mut Place| matches!(place, Place::Away);
        let place = self.filled.wait_timeout_while(self.locked(), PATIENCE, away).unwrap_or_else(PoisonError::into_inner).0;
        match &*place {
            Place::Open(store) => Ok(Arc::clone(store)),
            Place::Away | Place::Failed => Err(StoreError::Reopening),
        }
    }

    /// Takes the database for a short while, unless somebody is using it.
    pub(super) fn borrow(&self) -> Option<Store> {
        let mut place = self.locked();
        let Place::Open(store) = std::mem::replace(&mut *place, Place::Away) else {
            *place = Place::Failed;
            return None;
        };
        Arc::try_unwrap(store).map_err(|store| *place = Place::Open(store)).ok()
    }

    /// Takes a database that failed, for good.
    pub(super) fn take_failed(&self) -> Option<Arc<Store>> {
        let place = std::mem::replace(&mut *self.locked(), Place::Failed);
        match place {
            Place::Open(store) => Some(store),
            Place::Away | Place::Failed => None,
        }
    }

    /// Gives all who read and write a database again; `None`: it could not be opened.
    pub(super) fn put(&self, store: Option<Store>) {
        *self.locked() = store.map_or(Place::Failed, |store| Place::Open(Arc::new(store)));
        self.filled.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
