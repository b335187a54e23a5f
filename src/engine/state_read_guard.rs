//! A guard against reading the published state twice at a time by one thread.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as one that reads the published state, until it is dropped. It does nothing in release builds.
pub(super) struct StateReadGuard;

impl StateReadGuard {
    /// # Panics
    /// In debug builds, when this thread is reading already.
    pub(super) fn begin() -> Self {
        #[cfg(debug_assertions)]
        assert!(!IS_READING.replace(true), "this thread reads the published state already: see Handle::with_state");
        Self
    }
}

impl Drop for StateReadGuard {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        IS_READING.set(false);
    }
}
