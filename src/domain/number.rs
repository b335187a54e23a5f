//! Numbers in the settings of a check. `parse` of each type rejects numbers out of its range: see
//! [limits](crate::docs::limits).

use super::check_edit::field_value::{
    CheckFieldType, CheckFieldValue, EditValue, InvalidValue, ValueProblem,
};

/// Number of failures in a row before channels are notified: 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailureThreshold(u8);

impl FailureThreshold {
    /// Threshold that notifies at the first failure.
    pub const ONE: Self = Self(1);

    /// Rejects numbers outside 1 to 100.
    pub fn parse(number: u64) -> Result<Self, &'static str> {
        match u8::try_from(number) {
            Ok(number @ 1..=100) => Ok(Self(number)),
            _ => Err("give a number of failures from 1 to 100"),
        }
    }

    /// Number of failures.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// Whole seconds between 60 and 31,536,000 (365 days), for a period or a grace time: see
/// [limits](crate::docs::limits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seconds(u32);

/// Reason for which a number of seconds was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecondsError {
    /// The number is below 60.
    TooSmall,
    /// The number is above 31,536,000.
    TooLarge,
}

impl Seconds {
    /// Minimum.
    pub const MIN: i64 = 60;
    /// Maximum: 365 days.
    pub const MAX: i64 = 31_536_000;
    /// One day: the default period of a check.
    pub const DAY: Self = Self(86_400);
    /// One hour: the default grace time of a check.
    pub const HOUR: Self = Self(3_600);

    /// Rejects numbers outside 60 to 31,536,000.
    pub fn parse(number: i64) -> Result<Self, SecondsError> {
        match number {
            ..Self::MIN => Err(SecondsError::TooSmall),
            number if number > Self::MAX => Err(SecondsError::TooLarge),
            // In range, so it fits.
            _ => Ok(Self(number as u32)),
        }
    }

    /// Returns the nearest number in range.
    pub fn clamped(number: i64) -> Self {
        Self(number.clamp(Self::MIN, Self::MAX) as u32)
    }

    /// Number of seconds.
    pub const fn get(self) -> i64 {
        self.0 as i64
    }
}

impl EditValue for Seconds {
    const FORM: CheckFieldType = CheckFieldType::Duration {
        min: Self::MIN,
        max: Self::MAX,
    };

    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        let CheckFieldValue::Number(number) = value else {
            return Err(Self::FORM.unexpected());
        };
        Self::parse(*number).map_err(|error| {
            let problem = match error {
                SecondsError::TooSmall => ValueProblem::TooSmall,
                SecondsError::TooLarge => ValueProblem::TooLarge,
            };
            let [min, max] = [Self::MIN, Self::MAX];
            let explanation = format!("give a whole number of seconds from {min} to {max}");
            InvalidValue::new(problem, explanation)
        })
    }

    fn value(&self) -> CheckFieldValue<'_> {
        CheckFieldValue::Number(self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_bounds() {
        for (number, parsed) in [
            (59, Err(SecondsError::TooSmall)),
            (i64::MIN, Err(SecondsError::TooSmall)),
            (60, Ok(60)),
            (31_536_000, Ok(31_536_000)),
            (31_536_001, Err(SecondsError::TooLarge)),
            (i64::MAX, Err(SecondsError::TooLarge)),
        ] {
            assert_eq!(Seconds::parse(number).map(Seconds::get), parsed, "{number}");
        }
    }
}
