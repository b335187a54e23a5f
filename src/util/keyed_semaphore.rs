//! Limit of the permits in use at the same time, for each key and in total, so that one key (a
//! client, a project, a host) leaves permits to the others.

use std::hash::Hash;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::sweep_map::SweepMap;
use super::sync::{Mutex, lock};

/// Permits, limited for each key, and in total if [`with_total`](Self::with_total) says so.
pub(crate) struct KeyedSemaphore<K> {
    max_per_key: usize,
    max_total: usize,
    total: Arc<Semaphore>,
    by_key: Mutex<SweepMap<K, Arc<Semaphore>>>,
}

/// Permits of one key, until this is dropped.
pub(crate) struct KeyedPermit {
    of_key: Option<OwnedSemaphorePermit>,
    of_total: Option<OwnedSemaphorePermit>,
}

impl KeyedPermit {
    /// Number of permits.
    pub(crate) fn count(&self) -> usize {
        let permits = self.of_key.as_ref();
        permits.map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Adds permits of the same key.
    pub(crate) fn merge(&mut self, more: Self) {
        let pairs = [
            (&mut self.of_key, more.of_key),
            (&mut self.of_total, more.of_total),
        ];
        for (held, more) in pairs {
            match (held.as_mut(), more) {
                (Some(held), Some(more)) => held.merge(more),
                (None, more) => *held = more,
                (Some(_), None) => {}
            }
        }
    }
}

/// Limit that refuses a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReachedLimit {
    /// All permits of the key are in use.
    Key,
    /// All permits are in use.
    Total,
}

impl<K: Eq + Hash> KeyedSemaphore<K> {
    /// Limit of the permits of each key. More than a semaphore can have count as no limit.
    pub(crate) fn per_key(max_per_key: usize) -> Self {
        Self {
            max_per_key: max_per_key.min(Semaphore::MAX_PERMITS),
            max_total: Semaphore::MAX_PERMITS,
            total: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            by_key: Mutex::new(SweepMap::new()),
        }
    }

    /// Limits the permits of all keys together, too.
    pub(crate) fn with_total(self, max_total: usize) -> Self {
        Self {
            max_total,
            total: Arc::new(Semaphore::new(max_total)),
            ..self
        }
    }

    /// Waits for a permit. Calls for the same key are served in their order.
    pub(crate) async fn acquire(&self, key: K) -> KeyedPermit {
        self.acquire_many(key, 1).await
    }

    /// Waits for a number of permits. More than a key may have count as all permits of the key.
    ///
    /// A call that waits for a busy key holds no permit that other keys could use.
    pub(crate) async fn acquire_many(&self, key: K, permits: usize) -> KeyedPermit {
        let permits = self.limit_permits(permits);
        let of_key = self.semaphore(key).acquire_many_owned(permits).await;
        let of_total = Arc::clone(&self.total).acquire_many_owned(permits).await;
        // The semaphores are never closed.
        KeyedPermit {
            of_key: of_key.ok(),
            of_total: of_total.ok(),
        }
    }

    /// Takes a permit if one is free.
    pub(crate) fn try_acquire(&self, key: K) -> Result<KeyedPermit, ReachedLimit> {
        self.try_acquire_many(key, 1)
    }

    /// Takes a number of permits if they are free. More than a key may have count as all permits of
    /// the key.
    pub(crate) fn try_acquire_many(
        &self,
        key: K,
        permits: usize,
    ) -> Result<KeyedPermit, ReachedLimit> {
        let permits = self.limit_permits(permits);
        let of_key = self.semaphore(key).try_acquire_many_owned(permits);
        let of_key = of_key.map_err(|_| ReachedLimit::Key)?;
        let of_total = Arc::clone(&self.total).try_acquire_many_owned(permits);
        let of_total = of_total.map_err(|_| ReachedLimit::Total)?;
        Ok(KeyedPermit {
            of_key: Some(of_key),
            of_total: Some(of_total),
        })
    }

    /// Number of permits that a call for this number takes.
    pub(crate) fn limit_permits(&self, permits: usize) -> u32 {
        u32::try_from(permits.min(self.max_per_key)).unwrap_or(u32::MAX)
    }

    /// Number of permits in use.
    pub(crate) fn in_use(&self) -> usize {
        self.max_total - self.total.available_permits()
    }

    fn semaphore(&self, key: K) -> Arc<Semaphore> {
        // A permit, and a call that waits for one, hold the semaphore too.
        let used = |semaphore: &Arc<Semaphore>| Arc::strong_count(semaphore) > 1;
        let new = || Arc::new(Semaphore::new(self.max_per_key));
        Arc::clone(lock(&self.by_key).get_or_insert(key, used, new))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_for_its_key_holds_nothing_of_the_total() {
        let limit = KeyedSemaphore::per_key(3).with_total(5);
        let held = limit.acquire_many("a", 1000).await;
        let mut waiting = std::pin::pin!(limit.acquire("a"));
        assert!(timeout(SOON, waiting.as_mut()).await.is_err());
        let others = [limit.acquire("b").await, limit.acquire("c").await];
        assert_eq!(limit.in_use(), 5);
        assert!(timeout(SOON, limit.acquire("d")).await.is_err());
        drop(held);
        waiting.await;
        drop(others);
        assert_eq!(limit.in_use(), 0);
    }

    #[test]
    fn a_limit_may_have_any_size() {
        let limit = KeyedSemaphore::per_key(usize::MAX);
        let held: Vec<_> = (0..10).map(|_| limit.try_acquire("a")).collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(limit.in_use(), 10);
    }

    proptest! {
        #[test]
        fn permits_are_refused_at_the_limits_only(
            steps in vec((0..4_usize, any::<bool>()), 1..200)
        ) {
            let limit = KeyedSemaphore::per_key(3).with_total(7);
            let mut held: [Vec<KeyedPermit>; 4] = Default::default();
            for (key, takes) in steps {
                if takes {
                    let total = held.iter().map(Vec::len).sum::<usize>();
                    let expected = match held[key].len() {
                        3 => Some(ReachedLimit::Key),
                        _ if total == 7 => Some(ReachedLimit::Total),
                        _ => None,
                    };
                    let permit = limit.try_acquire(key);
                    prop_assert_eq!(permit.as_ref().err().copied(), expected);
                    held[key].extend(permit);
                } else {
                    held[key].pop();
                }
                prop_assert_eq!(limit.in_use(), held.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
}

#[cfg(all(test, shuttle))]
mod interleavings {
    use shuttle::future::block_on;

    use super::*;
    use crate::util::interleavings::check;
    use crate::util::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use crate::util::sync::thread;

    const PER_KEY: usize = 2;
    const TOTAL: usize = 3;

    #[test]
    fn limits_are_kept_and_all_permits_come_back_while_unused_keys_are_dropped() {
        check(|| {
            let limit = Arc::new(KeyedSemaphore::per_key(PER_KEY).with_total(TOTAL));
            // The next keys drop the entries that are not in use.
            for key in 100..611 {
                drop(limit.try_acquire(key));
            }
            let counts = Arc::new([(); 3].map(|()| AtomicUsize::new(0)));
            let users = [(0, 2), (0, 1), (1, 1), (1, 2)].map(|(key, permits)| {
                let limit = Arc::clone(&limit);
                let counts = Arc::clone(&counts);
                thread::spawn(move || {
                    let permit = if permits == 1 {
                        limit.try_acquire(key).ok()
                    } else {
                        Some(block_on(limit.acquire_many(key, permits)))
                    };
                    if permit.is_some() {
                        assert!(counts[key].fetch_add(permits, Relaxed) + permits <= PER_KEY);
                        assert!(counts[2].fetch_add(permits, Relaxed) + permits <= TOTAL);
                        counts[2].fetch_sub(permits, Relaxed);
                        counts[key].fetch_sub(permits, Relaxed);
                    }
                })
            });
            for user in users {
                user.join().unwrap();
            }
            assert_eq!(limit.in_use(), 0);
            assert!([0, 1].iter().all(|key| {
                let semaphore = limit.semaphore(*key);
                semaphore.available_permits() == PER_KEY
            }));
        });
    }
}
