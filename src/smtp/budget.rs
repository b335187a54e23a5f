//! The memory that long messages have in common, so that many at once do not take all of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::dialogue::MESSAGE_MAX;

/// Bytes of messages that may be coming in or waiting to be on disk at the same time, beyond a small share that each session has anyway.
pub(super) const MESSAGE_BUDGET: usize = 3 * MESSAGE_MAX;

/// How long a message waits for room. Meanwhile others may end, and slow ones lose theirs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that messages may take. Cheap to clone.
#[derive(Clone)]
pub(super) struct MessageBudget {
    left: Arc<Semaphore>,
    /// Tells that there is too little left.
    pressed: Arc<Notify>,
}

/// Bytes taken from the budget. They are given back when this is dropped.
pub(super) struct TakenBytes(OwnedSemaphorePermit);

impl MessageBudget {
    /// A budget of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes)), pressed: Arc::default() }
    }

    /// Takes bytes, of one message or less. If there are too few, it asks the slow for theirs and waits a little.
    pub(super) async fn take(&self, bytes: usize) -> Option<TakenBytes> {
        // The budget is 96 MiB.
        let bytes = bytes as u32;
        if let Ok(taken) = Arc::clone(&self.left).try_acquire_many_owned(bytes) {
            return Some(TakenBytes(taken));
        }
        self.pressed.notify_waiters();
        // The semaphore is never closed.
        timeout(PATIENCE, Arc::clone(&self.left).acquire_many_owned(bytes)).await.ok()?.ok().map(TakenBytes)
    }

    /// Waits until there is too little left for somebody.
    pub(super) async fn pressed(&self) {
        self.pressed.notified().await;
    }

    /// Bytes that are left.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left.available_permits()
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
