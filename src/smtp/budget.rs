//! The memory that long messages have in common, so that many at once do not take all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    total: usize,
    left: Arc<Semaphore>,
    /// Bytes that those have who wait for more.
    stuck: Arc<AtomicUsize>,
    /// Tells that there is too little left.
    pressed: Arc<Notify>,
}

/// Bytes taken from the budget. They are given back when this is dropped.
pub(super) struct TakenBytes(OwnedSemaphorePermit);

impl MessageBudget {
    /// A budget of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { total: bytes, left: Arc::new(Semaphore::new(bytes)), stuck: Arc::default(), pressed: Arc::default() }
    }

    /// Takes bytes, of one message or less, which `has` some already. If there are too few, it asks the slow for theirs and waits a
    /// little, unless all are with those who wait: then nobody would give any back.
    pub(super) async fn take(&self, bytes: usize, has: usize) -> Option<TakenBytes> {
        // The budget is 96 MiB.
        let bytes = bytes as u32;
        if let Ok(taken) = Arc::clone(&self.left).try_acquire_many_owned(bytes) {
            return Some(TakenBytes(taken));
        }
        self.pressed.notify_waiters();
        let waiting = Waiting::begin(&self.stuck, has);
        if waiting.all >= self.total {
            return None;
        }
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

/// Somebody waits until this is dropped.
struct Waiting<'b> {
    stuck: &'b AtomicUsize,
    has: usize,
    /// What all have who wait.
    all: usize,
}

impl<'b> Waiting<'b> {
    fn begin(stuck: &'b AtomicUsize, has: usize) -> Self {
        Self { stuck, has, all: stuck.fetch_add(has, Ordering::Relaxed) + has }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.stuck.fetch_sub(self.has, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn when_all_wait_for_each_other_the_last_does_not() {
        let budget = MessageBudget::new(10);
        let first = budget.take(6, 0).await.unwrap();
        let second = budget.take(4, 0).await.unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.take(1, 6).await.map(|taken| taken.count()) }
        });
        tokio::task::yield_now().await;
        // One that has nothing keeps nobody waiting.
        assert!(timeout(PATIENCE / 2, budget.take(1, 0)).await.is_err());
        assert!(timeout(Duration::ZERO, budget.take(1, 4)).await.unwrap().is_none());
        drop(second);
        assert_eq!((waiting.await.unwrap(), budget.left()), (Some(1), 4));
        drop(first);
        assert!(budget.take(10, 0).await.is_some());
    }
}
