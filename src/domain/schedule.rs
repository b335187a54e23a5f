//! When a job is expected to run: one expression, of one of two kinds, and the moments it names.
//!
//! The two kinds are modules below this one. They use `words` and nothing else of this module. The grammar and the rules for changes of
//! the clocks: see [schedules](crate::docs::protocol#schedules).

mod cron;
mod in_words;
mod oncalendar;
mod words;

use std::fmt;

use cron::Cron;
use oncalendar::OnCalendar;
use words::words;

use super::moment::Moment;
use super::text::is_blank;
use super::timezone::Timezone;

/// Longest expression, in Unicode code points: see [limits](crate::docs::limits).
const MAX_CHARS: usize = 100;

/// An expression must name a moment after 2000-01-01T00:00:00Z, whatever the zone of the check.
const VALID_AFTER: Moment = Moment::from_secs(946_684_800);

/// What an expression is read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One line of exactly five words, as in cron(5).
    Cron,
    /// Everything else, as in systemd.time(7), one expression a line.
    OnCalendar,
}

/// Why a text is no schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScheduleError {
    /// More than 100 Unicode code points.
    TooLong,
    /// Neither kind of expression can be read from it, or it names no moment after the year 1999.
    Invalid {
        /// The part that is wrong and what could stand there, for a person.
        reason: String,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {MAX_CHARS} characters"),
            Self::Invalid { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// A cron or OnCalendar expression, compiled. Equal when the texts are.
#[derive(Clone, Debug)]
pub struct Schedule {
    text: String,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Cron),
    OnCalendar(OnCalendar),
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Schedule {}

impl Schedule {
    /// Reads an expression: a single line of five words is cron and nothing else, any other text is OnCalendar.
    ///
    /// # Errors
    /// When the text is too long, is no expression of its kind, or names no moment after 2000-01-01T00:00:00Z.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        if text.chars().count() > MAX_CHARS {
            return Err(ScheduleError::TooLong);
        }
        let rule = Rule::parse(text.trim_matches(is_blank)).map_err(|reason| ScheduleError::Invalid { reason })?;
        let schedule = Self { text: text.to_owned(), rule };
        match schedule.next_after(VALID_AFTER, &Timezone::utc()) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::Invalid { reason: "no year after 1999 has such a date".to_owned() }),
        }
    }

    /// The text exactly as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it means, such as `every day at 03:30` or `Monday to Friday at 09:00`; what has no common shape is quoted.
    pub fn in_words(&self) -> String {
        in_words::in_words(&self.text)
    }

    /// Whether it names a zone itself, so that not only that of the check counts.
    pub fn names_zone(&self) -> bool {
        matches!(&self.rule, Rule::OnCalendar(lines) if lines.names_zone())
    }

    /// What the text was read as.
    pub const fn kind(&self) -> Kind {
        match self.rule {
            Rule::Cron(_) => Kind::Cron,
            Rule::OnCalendar(_) => Kind::OnCalendar,
        }
    }

    /// The first moment of [`Schedule::series`]: strictly later than `after`, on a whole second, `None` when the schedule has ended.
    pub fn next_after(&self, after: Moment, zone: &Timezone) -> Option<Moment> {
        match &self.rule {
            Rule::Cron(cron) => cron.next_after(after, zone),
            Rule::OnCalendar(lines) => lines.series(after, zone).next(),
        }
    }

    /// The moments that follow `after`, for a clock in `zone`.
    ///
    /// Lines of OnCalendar in different zones are ordered by what the clock in `zone` shows. In the hour that clocks repeat, their moments
    /// may therefore go back.
    pub fn series<'a>(&'a self, after: Moment, zone: &'a Timezone) -> impl Iterator<Item = Moment> + use<'a> {
        match &self.rule {
            Rule::Cron(cron) => Series::Cron { cron, last: after, zone },
            Rule::OnCalendar(lines) => Series::OnCalendar(lines.series(after, zone)),
        }
    }
}

enum Series<'a> {
    /// The next moment depends on the last one alone.
    Cron {
        cron: &'a Cron,
        last: Moment,
        zone: &'a Timezone,
    },
    OnCalendar(oncalendar::Series<'a>),
}

impl Iterator for Series<'_> {
    type Item = Moment;

    fn next(&mut self) -> Option<Moment> {
        match self {
            Self::Cron { cron, last, zone } => cron.next_after(*last, zone).inspect(|next| *last = *next),
            Self::OnCalendar(series) => series.next(),
        }
    }
}

impl Rule {
    /// Reads a text without blanks at its ends.
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = words(text).collect();
        match fields.as_slice() {
            &[minute, hour, day, month, weekday] if !text.contains('\n') => {
                Cron::parse([minute, hour, day, month, weekday]).map(Self::Cron)
            }
            fields => OnCalendar::parse(text).map(Self::OnCalendar).map_err(|reason| match *fields {
                [_, minute, hour, day, month, weekday] if Cron::parse([minute, hour, day, month, weekday]).is_ok() => {
                    "six fields: overdue takes five; drop the seconds".to_owned()
                }
                [word] if word.starts_with('@') => format!("`{word}`: write a word of OnCalendar, such as daily, or five fields of cron"),
                _ if fields.len() > 1 && !text.contains([':', '\n']) && fields.iter().any(|field| is_of_cron(field)) => {
                    format!("{} fields: cron takes five, namely minute, hour, day of month, month and weekday", fields.len())
                }
                _ => reason,
            }),
        }
    }
}

/// Whether a field is one that cron has and OnCalendar has not: `*`, a step of it, or a number.
fn is_of_cron(field: &str) -> bool {
    let of_all = field.strip_prefix('*').is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    of_all || field.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
