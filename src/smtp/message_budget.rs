//! Common memory budget of long messages, so that many at once do not use all memory.
//!
//! A message may request more of the budget while it holds a part of it. Two rules prevent
//! deadlocks: the message that would complete a circular wait does not wait, and slow messages lose
//! their bytes while others wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::dialogue::MAX_MESSAGE_BYTES;
use crate::util::byte_budget::{ByteBudget, BytePermit};

/// Maximum bytes of all messages that are being received or written, beyond the small part that
/// each session has without the budget.
pub(super) const MESSAGE_BUDGET_BYTES: usize = 3 * MAX_MESSAGE_BYTES;

/// Maximum time that a message waits for memory. Meanwhile other messages end, and slow ones lose
/// their bytes.
const BUDGET_TIMEOUT: Duration = Duration::from_secs(10);

/// Budget of message bytes. Cheap to clone.
#[derive(Clone)]
pub(super) struct MessageBudget {
    bytes: ByteBudget,
    /// Bytes held by messages that wait for more.
    bytes_of_waiters: Arc<AtomicUsize>,
    /// Signal that the budget is short.
    shortage: Arc<Notify>,
}

impl MessageBudget {
    /// Creates a budget of this number of bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: ByteBudget::new(bytes),
            bytes_of_waiters: Arc::default(),
            shortage: Arc::default(),
        }
    }

    /// Takes bytes for one message or less, which holds `held_bytes` already. If the budget is
    /// short, it reclaims bytes from slow messages and waits a little. It does not wait if waiting
    /// messages hold everything: then no bytes would be returned.
    pub(super) async fn acquire(&self, bytes: usize, held_bytes: usize) -> Option<BytePermit> {
        if let Some(permit) = self.bytes.try_acquire(bytes) {
            return Some(permit);
        }
        self.shortage.notify_waiters();
        let waiting = BudgetWaiter::begin(&self.bytes_of_waiters, held_bytes);
        if waiting.held_by_all >= self.bytes.total() {
            return None;
        }
        self.bytes.acquire(bytes, BUDGET_TIMEOUT).await
    }

    /// Waits until another message finds the budget short.
    pub(super) async fn wait_for_shortage(&self) {
        self.shortage.notified().await;
    }

    /// Returns the free bytes.
    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> usize {
        self.bytes.free_bytes()
    }
}

/// Registers a waiting message until this is dropped.
struct BudgetWaiter<'b> {
    bytes_of_waiters: &'b AtomicUsize,
    held: usize,
    /// Bytes held by all waiting messages.
    held_by_all: usize,
}

impl<'b> BudgetWaiter<'b> {
    fn begin(bytes_of_waiters: &'b AtomicUsize, held: usize) -> Self {
        Self {
            bytes_of_waiters,
            held,
            held_by_all: bytes_of_waiters.fetch_add(held, Ordering::Relaxed) + held,
        }
    }
}

impl Drop for BudgetWaiter<'_> {
    fn drop(&mut self) {
        self.bytes_of_waiters
            .fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_of_a_circular_wait_does_not_wait() {
        let budget = MessageBudget::new(10);
        let first = budget.acquire(6, 0).await.unwrap();
        let second = budget.acquire(4, 0).await.unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(1, 6).await.map(|taken| taken.bytes()) }
        });
        tokio::task::yield_now().await;
        // A message that holds nothing blocks no other.
        assert!(
            timeout(BUDGET_TIMEOUT / 2, budget.acquire(1, 0))
                .await
                .is_err()
        );
        assert!(
            timeout(Duration::ZERO, budget.acquire(1, 4))
                .await
                .unwrap()
                .is_none()
        );
        drop(second);
        assert_eq!((waiting.await.unwrap(), budget.free_bytes()), (Some(1), 4));
        drop(first);
        assert!(budget.acquire(10, 0).await.is_some());
    }
}
