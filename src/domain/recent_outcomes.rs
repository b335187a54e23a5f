//! Outcomes of the last runs of a check, stored in one number so that a list of checks can show
//! them without reading a log.

/// Outcome of an expected run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunOutcome {
    /// A success ping came.
    Success,
    /// A fail ping came.
    Fail,
    /// A deadline passed.
    Missed,
}

/// Last 32 outcomes of a check. A new check has fewer, as has one after an upgrade from release
/// 0.1, which stored none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecentOutcomes(u64);

/// Bits of an outcome: 1 success, 2 fail, 3 missed, 0 none.
const BITS_PER_OUTCOME: u32 = 2;

impl RecentOutcomes {
    /// Maximum number of outcomes.
    pub const CAPACITY: u32 = u64::BITS / BITS_PER_OUTCOME;

    /// Restores outcomes from [`Self::bits`].
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Encodes all outcomes in one number, the newest in its lowest two bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Adds the newest outcome and drops the oldest.
    pub fn push(&mut self, outcome: RunOutcome) {
        let bits = match outcome {
            RunOutcome::Success => 1,
            RunOutcome::Fail => 2,
            RunOutcome::Missed => 3,
        };
        self.0 = self.0 << BITS_PER_OUTCOME | bits;
    }

    /// Outcomes, newest first.
    pub fn newest_first(self) -> impl Iterator<Item = RunOutcome> {
        (0..Self::CAPACITY).map_while(move |place| {
            match self.0 >> (place * BITS_PER_OUTCOME) & 0b11 {
                1 => Some(RunOutcome::Success),
                2 => Some(RunOutcome::Fail),
                3 => Some(RunOutcome::Missed),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_32_are_kept() {
        let all: Vec<_> = [
            RunOutcome::Success,
            RunOutcome::Fail,
            RunOutcome::Missed,
            RunOutcome::Missed,
        ]
        .into_iter()
        .cycle()
        .take(50)
        .collect();
        let mut outcomes = RecentOutcomes::default();
        for (count, outcome) in all.iter().enumerate() {
            let kept: Vec<_> = all[..count].iter().rev().take(32).copied().collect();
            assert_eq!(
                RecentOutcomes::from_bits(outcomes.bits())
                    .newest_first()
                    .collect::<Vec<_>>(),
                kept
            );
            outcomes.push(*outcome);
        }
    }
}
