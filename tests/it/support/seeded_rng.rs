//! Dice: whatever a test leaves to chance follows from one seed.

use overdue::random::Random;

#[derive(Clone)]
pub(crate) struct SeededRng(Random);

impl SeededRng {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Random::seeded(seed))
    }

    /// A number below `bound`; the dice know no zero bound.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        u64::from_le_bytes(self.0.bytes()) % bound
    }

    /// Yes in so many cases of a hundred.
    pub(crate) fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// The value in so many cases of a hundred.
    pub(crate) fn optional<T>(&self, percent: u64, value: impl FnOnce(&Self) -> T) -> Option<T> {
        self.chance(percent).then(|| value(self))
    }

    /// The source of names for what is created.
    pub(crate) fn random(&self) -> &Random {
        &self.0
    }
}
