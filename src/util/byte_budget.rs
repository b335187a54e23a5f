//! Limit of the memory that one kind of data of all clients occupies at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Budget of bytes. Clones share it.
#[derive(Clone)]
pub(crate) struct ByteBudget {
    total: usize,
    free: Arc<Semaphore>,
}

/// Bytes taken from a budget. They are returned when this is dropped.
pub(crate) struct BytePermit(OwnedSemaphorePermit);

impl ByteBudget {
    /// Creates a budget of at most 4 GiB.
    pub(crate) fn new(total: usize) -> Self {
        Self {
            total,
            free: Arc::new(Semaphore::new(total)),
        }
    }

    /// Takes bytes if they are free. More than the whole budget counts as the whole budget.
    pub(crate) fn try_acquire(&self, bytes: usize) -> Option<BytePermit> {
        let free = Arc::clone(&self.free);
        free.try_acquire_many_owned(self.permits(bytes))
            .ok()
            .map(BytePermit)
    }

    /// Like [`try_acquire`](Self::try_acquire), but waits in the order of the calls. Returns `None`
    /// if the bytes do not become free in time.
    pub(crate) async fn acquire(&self, bytes: usize, patience: Duration) -> Option<BytePermit> {
        let free = Arc::clone(&self.free);
        let permit = free.acquire_many_owned(self.permits(bytes));
        // The semaphore is never closed.
        timeout(patience, permit).await.ok()?.ok().map(BytePermit)
    }

    /// Number of bytes of the whole budget.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Number of free bytes.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.free.available_permits()
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.total)).unwrap_or(u32::MAX)
    }
}

impl BytePermit {
    /// Number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.num_permits()
    }

    /// Adds bytes of the same budget.
    pub(crate) fn merge(&mut self, more: Self) {
        self.0.merge(more.0);
    }

    /// Adds these bytes to the ones of the same budget that are held, if any.
    pub(crate) fn add_to(self, held: &mut Option<Self>) {
        match held {
            Some(held) => held.merge(self),
            None => *held = Some(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_are_waited_for_in_order_and_within_the_time() {
        let second = Duration::from_secs(1);
        let budget = ByteBudget::new(10);
        let held = budget.try_acquire(6).unwrap();
        assert!(budget.acquire(5, second).await.is_none());
        let long = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(1000, 2 * second).await }
        });
        tokio::task::yield_now().await;
        assert!(
            budget.acquire(4, second).await.is_none(),
            "the longer one is first"
        );
        drop(held);
        assert_eq!(long.await.unwrap().unwrap().bytes(), 10);
        assert_eq!(budget.free_bytes(), budget.total());
    }

    proptest! {
        #[test]
        fn no_more_bytes_are_in_use_than_the_budget_has(
            steps in vec((any::<bool>(), 0..8_usize, 0..50_usize), 1..100)
        ) {
            let budget = ByteBudget::new(100);
            let mut holders: [Option<BytePermit>; 8] = Default::default();
            let mut model = [0; 8];
            for (takes, holder, bytes) in steps {
                if takes {
                    let permit = budget.try_acquire(bytes);
                    let fits = model.iter().sum::<usize>() + bytes <= 100;
                    prop_assert_eq!(permit.is_some(), fits);
                    if let Some(permit) = permit {
                        permit.add_to(&mut holders[holder]);
                        model[holder] += bytes;
                    }
                } else {
                    holders[holder] = None;
                    model[holder] = 0;
                }
                for (held, bytes) in holders.iter().zip(model) {
                    prop_assert_eq!(held.as_ref().map_or(0, BytePermit::bytes), bytes);
                }
                prop_assert_eq!(budget.free_bytes(), 100 - model.iter().sum::<usize>());
            }
        }
    }
}
