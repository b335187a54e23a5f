//! The memory that long messages have in common, so that many at once do not take all of it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::dialogue::MESSAGE_MAX;

/// Bytes of messages that may be coming in or waiting to be logged at the same time, beyond a small share that each session has anyway.
pub(super) const MESSAGE_BUDGET: usize = 4 * MESSAGE_MAX;

/// Bytes that messages may take. Cheap to clone.
#[derive(Clone)]
pub(super) struct MessageBudget(Arc<Semaphore>);

/// Bytes taken from the budget. They are given back when this is dropped.
pub(super) struct TakenBytes(OwnedSemaphorePermit);

impl MessageBudget {
    /// A budget of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Takes bytes, of one message or less, and waits until there are as many.
    pub(super) async fn take(&self, bytes: usize) -> Option<TakenBytes> {
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_many_owned(permits(bytes)).await.ok().map(TakenBytes)
    }

    /// Takes bytes, of one message or less, if there are as many.
    pub(super) fn try_take(&self, bytes: usize) -> Option<TakenBytes> {
        Arc::clone(&self.0).try_acquire_many_owned(permits(bytes)).ok().map(TakenBytes)
    }

    /// Bytes that are left.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.0.available_permits()
    }
}

impl TakenBytes {
    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.0.num_permits()
    }

    /// Adds others, taken from the same budget.
    pub(super) fn merge(&mut self, more: Self) {
        self.0.merge(more.0);
    }
}

/// Bytes as the semaphore counts them.
fn permits(bytes: usize) -> u32 {
    // The budget is 128 MiB.
    bytes as u32
}
