//! Grammar of the words of a cron expression.

use super::super::tokens::parse_digits;

/// One of the five words: its name for people, its range of values, and names of values.
pub(super) struct CronField {
    name: &'static str,
    first: u8,
    last: u8,
    /// Names in the order of the values, from `first` on.
    names: &'static [&'static str],
    /// Allowed values, for people.
    values_help: &'static str,
}

pub(super) const MINUTE: CronField = CronField {
    name: "minute",
    first: 0,
    last: 59,
    names: &[],
    values_help: "0-59",
};
pub(super) const HOUR: CronField = CronField {
    name: "hour",
    first: 0,
    last: 23,
    names: &[],
    values_help: "0-23",
};
pub(super) const DAY: CronField = CronField {
    name: "day of month",
    first: 1,
    last: 31,
    names: &[],
    values_help: "1-31, L or LW",
};
pub(super) const MONTH: CronField = CronField {
    name: "month",
    first: 1,
    last: 12,
    names: &MONTHS,
    values_help: "1-12 or JAN-DEC",
};
pub(super) const WEEKDAY: CronField = CronField {
    name: "weekday",
    first: 0,
    last: 7,
    names: &WEEKDAYS,
    values_help: "0-7 or SUN-SAT",
};

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Values that a word chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CronFieldValues {
    /// Plain values, a bit each. A Sunday may be bit 0 or bit 7.
    pub(super) values: u64,
    /// `L` in the day of month: the last day.
    pub(super) last_day: bool,
    /// `LW` in the day of month: the last day from Monday to Friday.
    pub(super) last_workday: bool,
    /// Weekdays whose last occurrence in the month is meant (`5L`), a bit each.
    pub(super) last_of: u8,
    /// Weekdays whose first to fifth occurrence in the month is meant (`5#1` to `5#5`), a bit
    /// each.
    pub(super) nth_of: [u8; 5],
}

impl CronFieldValues {
    fn union(mut self, other: Self) -> Self {
        self.values |= other.values;
        self.last_day |= other.last_day;
        self.last_workday |= other.last_workday;
        self.last_of |= other.last_of;
        for (ours, theirs) in self.nth_of.iter_mut().zip(other.nth_of) {
            *ours |= theirs;
        }
        self
    }
}

impl CronField {
    /// Bits of all values.
    pub(super) fn all_values(&self) -> u64 {
        (2 << self.last) - (1 << self.first)
    }

    /// Parses a word in upper case; the first rule that applies decides.
    ///
    /// # Errors
    /// Says what is wrong with the word, for people.
    pub(super) fn parse(&self, word: &str) -> Result<CronFieldValues, String> {
        word.split(',')
            .try_fold(CronFieldValues::default(), |all, part| {
                Ok(all.union(self.parse_part(part)?))
            })
    }

    /// Parses one part of a list.
    fn parse_part(&self, part: &str) -> Result<CronFieldValues, String> {
        if self.name == WEEKDAY.name && part != "*" {
            if part.contains('L') {
                let day = part
                    .strip_suffix('L')
                    .and_then(parse_digits)
                    .filter(|day| *day <= 7);
                let day = day.ok_or_else(|| {
                    self.error(
                        part,
                        "write the last weekday of a month as a digit and an L, as in 5L",
                    )
                })?;
                return Ok(CronFieldValues {
                    last_of: 1 << (day % 7),
                    ..CronFieldValues::default()
                });
            }
            if let Some((day, week)) = part.split_once('#') {
                let mut nth_of = [0; 5];
                let week = parse_digits(week).and_then(|week| usize::from(week).checked_sub(1));
                let week = week
                    .and_then(|week| nth_of.get_mut(week))
                    .ok_or_else(|| self.error(part, "# is followed by 1-5, as in FRI#2"))?;
                *week = 1 << (self.parse_value(day)? % 7);
                return Ok(CronFieldValues {
                    nth_of,
                    ..CronFieldValues::default()
                });
            }
        }
        if let Some((left, step)) = part.split_once('/') {
            let step = parse_digits(step)
                .filter(|step| *step > 0)
                .ok_or_else(|| self.error(part, "a step must be at least 1"))?;
            return Ok(self.apply_step(step, self.parse_range(left)?));
        }
        self.parse_range(part)
    }

    /// Parses a value or range, which a step may follow.
    fn parse_range(&self, part: &str) -> Result<CronFieldValues, String> {
        let (first, last) = match part {
            "*" => (self.first, self.last),
            "L" if self.name == DAY.name => {
                return Ok(CronFieldValues {
                    last_day: true,
                    ..CronFieldValues::default()
                });
            }
            "LW" if self.name == DAY.name => {
                return Ok(CronFieldValues {
                    last_workday: true,
                    ..CronFieldValues::default()
                });
            }
            _ => match part.split_once('-') {
                Some((first, last)) => (self.parse_value(first)?, self.parse_value(last)?),
                None => self.parse_value(part).map(|value| (value, value))?,
            },
        };
        if first > last {
            return Err(self.error(part, "a range goes from low to high"));
        }
        Ok(CronFieldValues {
            values: (first..=last).fold(0, |bits, value| bits | 1 << value),
            ..CronFieldValues::default()
        })
    }

    /// Keeps every `step`-th of the chosen values. A single value means the range from it to the
    /// last value of the field.
    fn apply_step(&self, step: u16, chosen: CronFieldValues) -> CronFieldValues {
        if chosen.values == 0 {
            return chosen;
        }
        let first = chosen.values.trailing_zeros();
        let last = if chosen.values.is_power_of_two() {
            self.last.into()
        } else {
            chosen.values.ilog2()
        };
        // Only a range or `*` is possible here, so the values from first to last have no gaps.
        let stepped = (first..=last).step_by(step.into());
        CronFieldValues {
            values: stepped.fold(0, |bits, value| bits | 1 << value),
            ..CronFieldValues::default()
        }
    }

    fn parse_value(&self, text: &str) -> Result<u8, String> {
        let named = self
            .names
            .iter()
            .position(|name| *name == text)
            .and_then(|at| u8::try_from(at).ok())
            .map(|at| at + self.first);
        let numbered = || {
            parse_digits(text)
                .and_then(|value| u8::try_from(value).ok())
                .filter(|value| (self.first..=self.last).contains(value))
        };
        named
            .or_else(numbered)
            .ok_or_else(|| self.error(text, self.values_help))
    }

    /// Error in this word: the wrong part and the reason.
    pub(super) fn error(&self, part: &str, why: &str) -> String {
        format!("{} `{part}`: {why}", self.name)
    }
}
