//! Random numbers of a test, all derived from one seed.

use overdue::util::random::Random;

#[derive(Clone)]
pub(crate) struct SeededRng(Random);

impl SeededRng {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Random::seeded(seed))
    }

    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        u64::from_le_bytes(self.0.bytes()) % bound
    }

    /// True in `percent` of cases.
    pub(crate) fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Returns the value in `percent` of cases.
    pub(crate) fn optional<T>(&self, percent: u64, value: impl FnOnce(&Self) -> T) -> Option<T> {
        self.chance(percent).then(|| value(self))
    }

    /// Source of UUIDs and secrets for created objects.
    pub(crate) fn random(&self) -> &Random {
        &self.0
    }
}
