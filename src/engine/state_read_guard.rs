//! Guard against nested reads of the published state by one thread.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
use crate::util::sync::thread_local;

#[cfg(debug_assertions)]
thread_local! {
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as reading the published state, until it is dropped. Has no effect in
/// release builds.
pub(super) struct StateReadGuard;

impl StateReadGuard {
    /// Begins a read.
    ///
    /// # Panics
    /// In debug builds, if this thread already reads.
    pub(super) fn begin() -> Self {
        #[cfg(debug_assertions)]
        assert!(
            !IS_READING.with(|is_reading| is_reading.replace(true)),
            "this thread reads the published state already: see Handle::with_state"
        );
        Self
    }
}

impl Drop for StateReadGuard {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        IS_READING.with(|is_reading| is_reading.set(false));
    }
}
