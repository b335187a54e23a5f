//! Slot for the open database, shared by readers and the writer. The writer takes the database out
//! to reopen it.

use std::sync::Arc;
use std::time::Duration;

use crate::store::{Store, StoreError};
use crate::util::sync::{Condvar, Mutex, MutexGuard, ignore_poison, lock};

/// Maximum time for which readers wait while the database is reopened: see
/// [limits](crate::docs::limits).
const MAX_REOPEN_WAIT: Duration = Duration::from_secs(1);

pub(super) struct StoreSlot {
    state: Mutex<StoreSlotState>,
    returned: Condvar,
}

enum StoreSlotState {
    Open(Arc<Store>),
    /// The database will be back soon.
    Reopening,
    /// The database has failed, for an unknown time.
    Failed,
}

impl StoreSlot {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self {
            state: Mutex::new(StoreSlotState::Open(store)),
            returned: Condvar::new(),
        }
    }

    /// Returns the open database. Waits up to a second while it is being reopened.
    pub(super) fn get(&self) -> Result<Arc<Store>, StoreError> {
        let is_reopening = |state: &mut StoreSlotState| matches!(state, StoreSlotState::Reopening);
        let state = ignore_poison(self.returned.wait_timeout_while(
            self.lock_state(),
            MAX_REOPEN_WAIT,
            is_reopening,
        ))
        .0;
        match &*state {
            StoreSlotState::Open(store) => Ok(Arc::clone(store)),
            StoreSlotState::Reopening | StoreSlotState::Failed => Err(StoreError::Reopening),
        }
    }

    /// Takes the database out for a short time, unless it is in use.
    pub(super) fn try_take(&self) -> Option<Store> {
        let mut state = self.lock_state();
        let StoreSlotState::Open(store) = std::mem::replace(&mut *state, StoreSlotState::Reopening)
        else {
            *state = StoreSlotState::Failed;
            return None;
        };
        Arc::try_unwrap(store)
            .map_err(|store| *state = StoreSlotState::Open(store))
            .ok()
    }

    /// Takes out a database that has failed.
    pub(super) fn take_failed(&self) -> Option<Arc<Store>> {
        let state = std::mem::replace(&mut *self.lock_state(), StoreSlotState::Failed);
        match state {
            StoreSlotState::Open(store) => Some(store),
            StoreSlotState::Reopening | StoreSlotState::Failed => None,
        }
    }

    /// Puts a database back. `None` if it could not be opened.
    pub(super) fn put(&self, store: Option<Store>) {
        *self.lock_state() = store.map_or(StoreSlotState::Failed, |store| {
            StoreSlotState::Open(Arc::new(store))
        });
        self.returned.notify_all();
    }

    fn lock_state(&self) -> MutexGuard<'_, StoreSlotState> {
        lock(&self.state)
    }
}
