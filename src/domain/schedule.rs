//! Schedules: an expression of one of two kinds, and the times that it names.
//!
//! The two kinds are modules below this one. They use `tokens` and no other part of this module.
//! For the grammar and the rules for changes of the clocks see
//! [schedules](crate::docs::protocol#schedules).

mod cron;
mod description;
mod oncalendar;
mod tokens;

use std::fmt;
use std::sync::Arc;

use cron::Cron;
use oncalendar::OnCalendar;
use tokens::split_words;

use super::check_edit::field_value::{
    CheckFieldType, CheckFieldValue, EditValue, InvalidValue, TextRules, ValueProblem,
};
use super::text::is_white_space;
use super::timestamp::Timestamp;
use super::timezone::Timezone;

/// Maximum length of an expression, in Unicode code points: see [limits](crate::docs::limits).
const MAX_CHARS: usize = 100;

/// Time after which an expression must name a time: 2000-01-01T00:00:00Z, whatever the zone of the
/// check.
const VALID_AFTER: Timestamp = Timestamp::from_secs(946_684_800);

/// Kind of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleKind {
    /// One line of exactly five words, as in cron(5).
    Cron,
    /// Any other text, as in systemd.time(7), one expression a line.
    OnCalendar,
}

/// Reason for which a text is not a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScheduleError {
    /// The text has more than 100 Unicode code points.
    TooLong,
    /// The text is not an expression of either kind, or it names no time after the year 1999.
    Invalid {
        /// Wrong part of the text and valid alternatives, for people.
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

/// Compiled cron or OnCalendar expression. Equal if the texts are equal.
#[derive(Clone, Debug)]
pub struct Schedule {
    text: String,
    rule: ScheduleRule,
}

#[derive(Clone, Debug)]
enum ScheduleRule {
    Cron(Cron),
    OnCalendar(OnCalendar),
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Schedule {}

impl EditValue for Arc<Schedule> {
    const FORM: CheckFieldType = CheckFieldType::Text(TextRules::ANY);

    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        let schedule = Schedule::parse(Self::text_of(value)?).map_err(|error| {
            let problem = match error {
                ScheduleError::TooLong => ValueProblem::TooLong,
                ScheduleError::Invalid { .. } => ValueProblem::Schedule,
            };
            InvalidValue::new(problem, error.to_string())
        });
        schedule.map(Self::new)
    }

    fn value(&self) -> CheckFieldValue<'_> {
        self.text().into()
    }
}

impl Schedule {
    /// Parses an expression. A single line of five words is cron; any other text is OnCalendar.
    ///
    /// # Errors
    /// If the text is too long, is not an expression of its kind, or names no time after
    /// 2000-01-01T00:00:00Z.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        if text.chars().count() > MAX_CHARS {
            return Err(ScheduleError::TooLong);
        }
        let rule = ScheduleRule::parse(text.trim_matches(is_white_space))
            .map_err(|reason| ScheduleError::Invalid { reason })?;
        let schedule = Self {
            text: text.to_owned(),
            rule,
        };
        match schedule.next_after(VALID_AFTER, &Timezone::utc()) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::Invalid {
                reason: "no year after 1999 has such a date".to_owned(),
            }),
        }
    }

    /// Text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Describes the schedule in words, such as `every day at 03:30` or `Monday to Friday at
    /// 09:00`. An uncommon expression is quoted.
    pub fn describe(&self) -> String {
        description::describe(&self.text)
    }

    /// True if the expression itself names a zone, so that not only the zone of the check counts.
    pub fn has_own_zone(&self) -> bool {
        matches!(&self.rule, ScheduleRule::OnCalendar(lines) if lines.has_own_zone())
    }

    /// Kind of the expression.
    pub const fn kind(&self) -> ScheduleKind {
        match self.rule {
            ScheduleRule::Cron(_) => ScheduleKind::Cron,
            ScheduleRule::OnCalendar(_) => ScheduleKind::OnCalendar,
        }
    }

    /// First time of [`Schedule::occurrences`]: strictly later than `after`, on a whole second.
    /// `None` if the schedule has ended.
    pub fn next_after(&self, after: Timestamp, zone: &Timezone) -> Option<Timestamp> {
        match &self.rule {
            ScheduleRule::Cron(cron) => cron.next_after(after, zone),
            ScheduleRule::OnCalendar(lines) => lines.occurrences(after, zone).next(),
        }
    }

    /// Times later than `after`, for a clock in `zone`.
    ///
    /// OnCalendar lines in different zones are ordered by the wall time in `zone`. In the hour that
    /// clocks repeat, the times may therefore decrease.
    pub fn occurrences<'a>(
        &'a self,
        after: Timestamp,
        zone: &'a Timezone,
    ) -> impl Iterator<Item = Timestamp> + use<'a> {
        match &self.rule {
            ScheduleRule::Cron(cron) => ScheduleOccurrences::Cron {
                cron,
                last: after,
                zone,
            },
            ScheduleRule::OnCalendar(lines) => {
                ScheduleOccurrences::OnCalendar(lines.occurrences(after, zone))
            }
        }
    }
}

enum ScheduleOccurrences<'a> {
    /// The next time depends only on the last one.
    Cron {
        cron: &'a Cron,
        last: Timestamp,
        zone: &'a Timezone,
    },
    OnCalendar(oncalendar::OnCalendarOccurrences<'a>),
}

impl Iterator for ScheduleOccurrences<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        match self {
            Self::Cron { cron, last, zone } => {
                cron.next_after(*last, zone).inspect(|next| *last = *next)
            }
            Self::OnCalendar(series) => series.next(),
        }
    }
}

impl ScheduleRule {
    /// Parses a text without blanks at its ends.
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = split_words(text).collect();
        match fields.as_slice() {
            &[minute, hour, day, month, weekday] if !text.contains('\n') => {
                Cron::parse([minute, hour, day, month, weekday]).map(Self::Cron)
            }
            fields => {
                OnCalendar::parse(text)
                    .map(Self::OnCalendar)
                    .map_err(|reason| match *fields {
                        [_, minute, hour, day, month, weekday]
                            if Cron::parse([minute, hour, day, month, weekday]).is_ok() =>
                        {
                            "six fields: overdue accepts five; remove the seconds".to_owned()
                        }
                        [word] if word.starts_with('@') => format!(
                            "`{word}`: use an OnCalendar word, such as daily, or five cron fields"
                        ),
                        _ if fields.len() > 1
                            && !text.contains([':', '\n'])
                            && fields.iter().any(|field| is_cron_field(field)) =>
                        {
                            format!(
                                "{} fields: cron has five, namely minute, hour, day of month, \
                                 month and weekday",
                                fields.len()
                            )
                        }
                        _ => reason,
                    })
            }
        }
    }
}

/// True if a field is valid in cron but not in OnCalendar: `*`, a step of it, or a number.
fn is_cron_field(field: &str) -> bool {
    let of_all = field
        .strip_prefix('*')
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    of_all || field.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
