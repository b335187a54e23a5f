//! Grammar of one OnCalendar expression.

use super::super::tokens::{parse_digits, split_words};
use super::{FIRST_YEAR, LAST_YEAR, OnCalendarLine};
use crate::domain::text::is_white_space;
use crate::domain::timezone::Timezone;

/// Numeric part of an expression with its minimum and maximum value.
struct OnCalendarField {
    name: &'static str,
    first: u16,
    last: u16,
}

const YEAR: OnCalendarField = OnCalendarField {
    name: "year",
    first: FIRST_YEAR.unsigned_abs(),
    last: LAST_YEAR.unsigned_abs(),
};
const MONTH: OnCalendarField = OnCalendarField {
    name: "month",
    first: 1,
    last: 12,
};
const DAY: OnCalendarField = OnCalendarField {
    name: "day of month",
    first: 1,
    last: 31,
};
const HOUR: OnCalendarField = OnCalendarField {
    name: "hour",
    first: 0,
    last: 23,
};
const MINUTE: OnCalendarField = OnCalendarField {
    name: "minute",
    first: 0,
    last: 59,
};
const SECOND: OnCalendarField = OnCalendarField {
    name: "second",
    first: 0,
    last: 59,
};

const WEEKDAYS: [&str; 7] = [
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
    "SUNDAY",
];

/// Highest single day counted from the end of a month: every month has it.
const MAX_DAY_FROM_END: u16 = 28;

/// Expansions of the words of systemd.time.
const SHORTHANDS: [(&str, &str); 9] = [
    ("minutely", "*:*"),
    ("hourly", "*:0"),
    ("daily", "0:0"),
    ("weekly", "Mon"),
    ("monthly", "*-1"),
    ("yearly", "1-1"),
    ("annually", "1-1"),
    ("quarterly", "1,4,7,10-1"),
    ("semiannually", "1,7-1"),
];

impl OnCalendarLine {
    /// Parses one expression.
    ///
    /// # Errors
    /// Says which part is wrong and why, for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_matches(is_white_space);
        let (text, zone) = split_zone(text);
        let lower = text.to_lowercase();
        let text = SHORTHANDS
            .iter()
            .find(|(word, _)| *word == lower)
            .map_or(text, |(_, meaning)| meaning);
        let mut words: Vec<&str> = split_words(text).collect();

        let mut line = Self {
            zone,
            weekdays: 0,
            years: [0; 4],
            months: 0,
            days: 0,
            days_from_end: 0,
            hours: 0,
            minutes: 0,
            seconds: 0,
        };
        if words.is_empty() {
            return Err("an empty line: give weekdays, a date or a time".to_owned());
        }
        line.parse_time(words.pop_if(|word| word.contains(':')).unwrap_or("0:0"))?;
        let is_date = |word: &mut &str| {
            word.contains(['-', '~']) && word.starts_with(|c: char| c.is_ascii_digit() || c == '*')
        };
        line.parse_date(words.pop_if(is_date).unwrap_or("*-*"))?;
        line.weekdays = words.pop().map_or(Ok(0x7f), parse_weekdays)?;
        line.weekdays = (0..7).fold(0, |weeks, week| weeks | line.weekdays << (7 * week));
        match words.pop() {
            Some(word) => Err(format!(
                "`{word}`: an expression is weekdays, a date, a time and a time zone, in this \
                 order, each as one word"
            )),
            None => Ok(line),
        }
    }

    fn parse_time(&mut self, word: &str) -> Result<(), String> {
        let (hour, rest) = word.split_once(':').unwrap_or((word, ""));
        let (minute, second) = rest.split_once(':').unwrap_or((rest, "0"));
        HOUR.parse(hour, false, |value| self.hours |= 1 << value)?;
        MINUTE.parse(minute, false, |value| self.minutes |= 1 << value)?;
        SECOND.parse(second, false, |value| self.seconds |= 1 << value)
    }

    fn parse_date(&mut self, word: &str) -> Result<(), String> {
        let (months, days, from_end) = match (word.split_once('~'), word.rsplit_once('-')) {
            (Some((months, days)), _) => (months, days, true),
            (None, Some((months, days))) => (months, days, false),
            (None, None) => (word, "", false),
        };
        let (year, month) = months.split_once('-').unwrap_or(("*", months));
        YEAR.parse(year, false, |value| {
            let since = usize::from(value - YEAR.first);
            if let Some(years) = self.years.get_mut(since / 64) {
                *years |= 1 << (since % 64);
            }
        })?;
        MONTH.parse(month, false, |value| self.months |= 1 << value)?;
        let set = if from_end {
            &mut self.days_from_end
        } else {
            &mut self.days
        };
        DAY.parse(days, from_end, |value| *set |= 1 << value)
    }
}

/// Splits a zone off the end. A tab alone does not introduce one. A word that is not a zone is part
/// of the expression.
fn split_zone(line: &str) -> (&str, Option<Timezone>) {
    let word = split_words(line).next_back().filter(|word| {
        line.contains(' ') && !word.starts_with(|c: char| c.is_ascii_digit() || c == '*')
    });
    let zone = word.and_then(Timezone::from_database);
    match word {
        Some(word) if zone.is_some() => (
            line.strip_suffix(word)
                .unwrap_or(line)
                .trim_end_matches(is_white_space),
            zone,
        ),
        _ => (line, None),
    }
}

/// Parses a list of weekdays and ranges of them; Monday is bit 0.
fn parse_weekdays(word: &str) -> Result<u64, String> {
    let wrong = |part: &str, why: &str| format!("weekday `{part}`: {why}");
    let weekday = |name: &str| {
        let upper = name.to_uppercase();
        let at = WEEKDAYS
            .iter()
            .position(|day| *day == upper || day.get(..3) == Some(&upper));
        at.ok_or_else(|| wrong(name, "Mon-Sun or Monday-Sunday"))
    };
    word.trim_end_matches(',')
        .split(',')
        .try_fold(0, |days, term| {
            let dots = term.replace('-', "..");
            let (first, last) = dots.split_once("..").unwrap_or((&dots, &dots));
            let first = weekday(first)?;
            let last = weekday(last)?;
            if first > last {
                return Err(wrong(
                    term,
                    "a range goes from low to high, and Monday is the lowest",
                ));
            }
            Ok((first..=last).fold(days, |days, day| days | 1 << day))
        })
}

impl OnCalendarField {
    /// Parses `*` alone, or a list of values, ranges and steps. Counted from the end, a step goes
    /// from the farthest value to the nearest.
    fn parse(&self, word: &str, from_end: bool, mut choose: impl FnMut(u16)) -> Result<(), String> {
        if word == "*" {
            (self.first..=self.last).for_each(choose);
            return Ok(());
        }
        for term in word.split(',') {
            let (range, step) = match term.split_once('/') {
                Some((range, step)) => {
                    let step = parse_digits(step).filter(|step| *step > 0);
                    (
                        range,
                        Some(step.ok_or_else(|| self.error(term, "a step must be at least 1"))?),
                    )
                }
                None => (term, None),
            };
            let (mut first, mut last) = match range.split_once("..") {
                Some((first, last)) => (self.parse_value(first)?, self.parse_value(last)?),
                None => self.parse_value(range).map(|value| (value, value))?,
            };
            if first > last {
                return Err(self.error(range, "a range goes from low to high"));
            }
            if from_end && first > MAX_DAY_FROM_END && !range.contains("..") {
                return Err(self.error(range, "counted from the end of the month, a day is 1-28"));
            }
            // A single value with a step means the range that begins with it.
            match (first == last && step.is_some(), from_end) {
                (true, true) => first = self.first,
                (true, false) => last = self.last,
                (false, _) => {}
            }
            let step = step.map_or(1, usize::from);
            if from_end {
                (first..=last).rev().step_by(step).for_each(&mut choose);
            } else {
                (first..=last).step_by(step).for_each(&mut choose);
            }
        }
        Ok(())
    }

    fn parse_value(&self, text: &str) -> Result<u16, String> {
        let value = parse_digits(text).map(|value| match value {
            0..=69 if self.first == YEAR.first => value + 2000,
            70..=99 if self.first == YEAR.first => value + 1900,
            _ => value,
        });
        let value = value.filter(|value| (self.first..=self.last).contains(value));
        value.ok_or_else(|| self.error(text, &format!("{}-{}, or * alone", self.first, self.last)))
    }

    fn error(&self, part: &str, why: &str) -> String {
        format!("{} `{part}`: {why}", self.name)
    }
}
