//! Locks that outlive a panic, and whose order is checked.
//!
//! In a debug build, [`tracing_mutex`] records the order in which threads lock, and panics if two
//! locks are ever taken in both orders, or one twice by the same thread: that may deadlock, even if
//! it does not in this run. In a release build these are the locks of the standard library.
//!
//! No thread panics in the middle of a change to shared data, so the data behind a poisoned lock is
//! valid.
//!
//! `.ci/interleavings` builds with `--cfg shuttle`. The locks, atomics, channels, threads and
//! thread-local values then come from [shuttle](https://docs.rs/shuttle), which chooses the thread
//! that continues at each of their operations. They work only in the tests that it runs, in modules
//! with the name `interleavings`.

use std::sync::{LockResult, PoisonError};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, mpsc},
    thread, thread_local,
};
#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{atomic, mpsc},
    thread, thread_local,
};
#[cfg(not(shuttle))]
pub(crate) use tracing_mutex::stdsync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// Locks a mutex.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

/// Locks for reading.
pub(crate) fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    ignore_poison(lock.read())
}

/// Locks for writing.
pub(crate) fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    ignore_poison(lock.write())
}

/// Returns the guard or value of any lock, poisoned or not.
pub(crate) fn ignore_poison<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

// Release builds check nothing.
#[cfg(all(test, debug_assertions, not(shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn two_orders_of_locks_are_noticed() {
        let first = Mutex::new(1);
        let second = RwLock::new(2);
        {
            let _first = lock(&first);
            let _second = read(&second);
        }
        let other_order = AssertUnwindSafe(|| {
            let _second = write(&second);
            let _first = lock(&first);
        });
        assert!(catch_unwind(other_order).is_err());
    }

    #[test]
    fn a_second_lock_of_one_thread_is_noticed() {
        let state = RwLock::new(1);
        let twice = AssertUnwindSafe(|| {
            let _one = read(&state);
            let _other = read(&state);
        });
        assert!(catch_unwind(twice).is_err());
    }
}
