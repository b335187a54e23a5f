//! The grammar of one of the five words of a cron expression.

use super::super::words::number;

/// One of the five words: its name for a person, its values, and the names some values have.
pub(super) struct Field {
    name: &'static str,
    first: u8,
    last: u8,
    /// In the order of the values, from `first` on.
    names: &'static [&'static str],
    /// What a value can be, for a person.
    values: &'static str,
}

pub(super) const MINUTE: Field = Field { name: "minute", first: 0, last: 59, names: &[], values: "0-59" };
pub(super) const HOUR: Field = Field { name: "hour", first: 0, last: 23, names: &[], values: "0-23" };
pub(super) const DAY: Field = Field { name: "day of month", first: 1, last: 31, names: &[], values: "1-31, L or LW" };
pub(super) const MONTH: Field = Field { name: "month", first: 1, last: 12, names: &MONTHS, values: "1-12 or JAN-DEC" };
pub(super) const WEEKDAY: Field = Field { name: "weekday", first: 0, last: 7, names: &WEEKDAYS, values: "0-7 or SUN-SAT" };

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// What a word chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Chosen {
    /// Plain values, a bit each. A Sunday may be bit 0 or bit 7.
    pub(super) values: u64,
    /// `L` in the day of month: the last day.
    pub(super) last_day: bool,
    /// `LW` in the day of month: the last day from Monday to Friday.
    pub(super) last_workday: bool,
    /// Weekdays of which the last in the month is meant (`5L`), a bit each.
    pub(super) last_of: u8,
    /// Weekdays of which the first to fifth in the month is meant (`5#1` to `5#5`), a bit each.
    pub(super) nth_of: [u8; 5],
}

impl Chosen {
    fn merge(mut self, other: Self) -> Self {
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

impl Field {
    /// The bits of all values.
    pub(super) fn all(&self) -> u64 {
        (2 << self.last) - (1 << self.first)
    }

    /// Reads a word in upper case; the first rule that applies decides.
    ///
    /// # Errors
    /// What is wrong with the word, for a person.
    pub(super) fn parse(&self, word: &str) -> Result<Chosen, String> {
        word.split(',').try_fold(Chosen::default(), |all, part| Ok(all.merge(self.part(part)?)))
    }

    /// Reads one part of a list.
    fn part(&self, part: &str) -> Result<Chosen, String> {
        if self.name == WEEKDAY.name && part != "*" {
            if part.contains('L') {
                let day = part.strip_suffix('L').and_then(number).filter(|day| *day <= 7);
                let day = day.ok_or_else(|| self.wrong(part, "the last weekday of a month is a digit and an L, as in 5L"))?;
                return Ok(Chosen { last_of: 1 << (day % 7), ..Chosen::default() });
            }
            if let Some((day, week)) = part.split_once('#') {
                let mut nth_of = [0; 5];
                let week = number(week).and_then(|week| usize::from(week).checked_sub(1));
                let week = week.and_then(|week| nth_of.get_mut(week)).ok_or_else(|| self.wrong(part, "after # comes 1-5, as in FRI#2"))?;
                *week = 1 << (self.value(day)? % 7);
                return Ok(Chosen { nth_of, ..Chosen::default() });
            }
        }
        if let Some((left, step)) = part.split_once('/') {
            let step = number(step).filter(|step| *step > 0).ok_or_else(|| self.wrong(part, "a step is a number from 1 on"))?;
            return Ok(self.every(step, self.plain(left)?));
        }
        self.plain(part)
    }

    /// Reads what a step can follow.
    fn plain(&self, part: &str) -> Result<Chosen, String> {
        let (first, last) = match part {
            "*" => (self.first, self.last),
            "L" if self.name == DAY.name => return Ok(Chosen { last_day: true, ..Chosen::default() }),
            "LW" if self.name == DAY.name => return Ok(Chosen { last_workday: true, ..Chosen::default() }),
            _ => match part.split_once('-') {
                Some((first, last)) => (self.value(first)?, self.value(last)?),
                None => self.value(part).map(|value| (value, value))?,
            },
        };
        if first > last {
            return Err(self.wrong(part, "a range goes from low to high"));
        }
        Ok(Chosen { values: (first..=last).fold(0, |bits, value| bits | 1 << value), ..Chosen::default() })
    }

    /// Every so many of the chosen values; a single one stands for itself and all up to the last of the field.
    fn every(&self, step: u16, chosen: Chosen) -> Chosen {
        if chosen.values == 0 {
            return chosen;
        }
        let first = chosen.values.trailing_zeros();
        let last = if chosen.values.is_power_of_two() { self.last.into() } else { chosen.values.ilog2() };
        // Only a range or `*` comes here, so there are no holes between first and last.
        let stepped = (first..=last).step_by(step.into());
        Chosen { values: stepped.fold(0, |bits, value| bits | 1 << value), ..Chosen::default() }
    }

    fn value(&self, text: &str) -> Result<u8, String> {
        let named = self.names.iter().position(|name| *name == text).and_then(|at| u8::try_from(at).ok()).map(|at| at + self.first);
        let numbered = || number(text).and_then(|value| u8::try_from(value).ok()).filter(|value| (self.first..=self.last).contains(value));
        named.or_else(numbered).ok_or_else(|| self.wrong(text, self.values))
    }

    /// An error in this word: the part at fault and why.
    pub(super) fn wrong(&self, part: &str, why: &str) -> String {
        format!("{} `{part}`: {why}", self.name)
    }
}
