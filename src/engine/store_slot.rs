//! Where the open database is, for all who read and write it; the writer takes it away to open it anew.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::store::{Store, StoreError};

/// How long readers wait while the database is opened anew: see [limits](crate::docs::limits).
const REOPEN_PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct StoreSlot {
    state: Mutex<StoreSlotState>,
    returned: Condvar,
}

enum StoreSlotState {
    Open(Arc<Store>),
    /// It comes back soon.
    Reopening,
    /// It failed, and nobody knows when it comes back.
    Failed,
}

impl StoreSlot {
    pub(super) fn new(store: Store) -> Self {
        Self { state: Mutex::new(StoreSlotState::Open(Arc::new(store))), returned: Condvar::new() }
    }

    /// The open database. Waits a second for one that is being opened anew.
    pub(super) fn get(&self) -> Result<Arc<Store>, StoreError> {
        let away = |place: &mut StoreSlotState| matches!(place, StoreSlotState::Reopening);
        let place = self.returned.wait_timeout_while(self.lock_state(), REOPEN_PATIENCE, away).unwrap_or_else(PoisonError::into_inner).0;
        match &*place {
            StoreSlotState::Open(store) => Ok(Arc::clone(store)),
            StoreSlotState::Reopening | StoreSlotState::Failed => Err(StoreError::Reopening),
        }
    }

    /// Takes the database for a short while, unless somebody is using it.
    pub(super) fn try_take(&self) -> Option<Store> {
        let mut place = self.lock_state();
        let StoreSlotState::Open(store) = std::mem::replace(&mut *place, StoreSlotState::Reopening) else {
            *place = StoreSlotState::Failed;
            return None;
        };
        Arc::try_unwrap(store).map_err(|store| *place = StoreSlotState::Open(store)).ok()
    }

    /// Takes a database that failed, for good.
    pub(super) fn take_failed(&self) -> Option<Arc<Store>> {
        let place = std::mem::replace(&mut *self.lock_state(), StoreSlotState::Failed);
        match place {
            StoreSlotState::Open(store) => Some(store),
            StoreSlotState::Reopening | StoreSlotState::Failed => None,
        }
    }

    /// Gives all who read and write a database again; `None`: it could not be opened.
    pub(super) fn put(&self, store: Option<Store>) {
        *self.lock_state() = store.map_or(StoreSlotState::Failed, |store| StoreSlotState::Open(Arc::new(store)));
        self.returned.notify_all();
    }

    fn lock_state(&self) -> MutexGuard<'_, StoreSlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
