//! Map whose unused entries are dropped from time to time, so that it has at most about twice as
//! many as are in use.

use std::collections::HashMap;
use std::hash::Hash;

/// Number of entries up to which unused ones stay.
const MIN_SWEEP: usize = 512;

pub(super) struct SweepMap<K, V> {
    entries: HashMap<K, V>,
    /// Number of entries at which unused ones are dropped.
    sweep_at: usize,
}

impl<K: Eq + Hash, V> SweepMap<K, V> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            sweep_at: MIN_SWEEP,
        }
    }

    /// Returns the value of a key, which is `new()` at first. The value of an entry that is not
    /// `used` must be equivalent to `new()`.
    pub(super) fn get_or_insert(
        &mut self,
        key: K,
        used: impl Fn(&V) -> bool,
        new: impl FnOnce() -> V,
    ) -> &mut V {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, value| used(value));
            self.sweep_at = MIN_SWEEP.max(2 * self.entries.len());
            self.entries.shrink_to(self.sweep_at);
        }
        self.entries.entry(key).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_entries_are_dropped_and_used_ones_stay() {
        let mut map = SweepMap::new();
        let used = |last: &u32, now: u32| *last + 1000 > now;
        for now in 0..100_000 {
            // The first key is always in use.
            for key in [0, now] {
                *map.get_or_insert(key, |last| used(last, now), || now) = now;
            }
            assert!(map.entries.contains_key(&0) && map.entries.len() <= 2 * 1001);
        }
        assert!(map.entries.capacity() <= 8192, "{}", map.entries.capacity());
    }
}
