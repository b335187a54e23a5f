//! Wall-clock search for cron with the crate saffron. It never sees a user's text, only values that
//! our own grammar has parsed.
//!
//! saffron reads weekday digits, lists with `*`, and stepped and wrapped ranges differently from
//! cron(5). Some of them make it panic. It reads the following like cron(5), so only these are
//! passed: ascending lists, `*`, `L`, `LW`, `FRIL` and `FRI#2`.

use chrono::{DateTime, Datelike as _, NaiveTime, Utc};

use super::cron_field::{self, CronField, CronFieldValues};
use crate::domain::timezone::wall_time::WallTime;

const EVERY_WEEKDAY: u64 = 0x7f;

/// Wall-clock times that match an expression.
#[derive(Clone, Debug)]
pub(super) enum CronCalendar {
    /// Times that any of them matches.
    Either(Vec<saffron::Cron>),
    /// Times that both sides match. All have the same times of day, so the two sides agree on whole
    /// days or not at all.
    Both(Vec<saffron::Cron>, Vec<saffron::Cron>),
}

impl CronCalendar {
    /// Compiles the values of the five words. `both` is true if day of month and weekday must both
    /// match instead of either.
    pub(super) fn new(
        [minute, hour, day, month, mut weekday]: [CronFieldValues; 5],
        both: bool,
    ) -> Result<Self, saffron::parse::CronParseError> {
        // Both 0 and 7 are Sunday.
        weekday.values = (weekday.values | weekday.values >> 7) & EVERY_WEEKDAY;
        let times = format!(
            "{} {}",
            format_numbers(&cron_field::MINUTE, minute.values),
            format_numbers(&cron_field::HOUR, hour.values)
        );
        let months = format_numbers(&cron_field::MONTH, month.values);
        let days = || format_days(day).map(|day| format!("{times} {day} {months} *").parse());
        let weekdays = || {
            format_weekdays(weekday).map(|weekday| format!("{times} * {months} {weekday}").parse())
        };
        Ok(if !both {
            Self::Either(days().chain(weekdays()).collect::<Result<_, _>>()?)
        } else if weekday.values == EVERY_WEEKDAY {
            Self::Either(days().collect::<Result<_, _>>()?)
        } else if day.values == cron_field::DAY.all_values() {
            Self::Either(weekdays().collect::<Result<_, _>>()?)
        } else {
            Self::Both(
                days().collect::<Result<_, _>>()?,
                weekdays().collect::<Result<_, _>>()?,
            )
        })
    }

    /// First matching minute later than `after` and not beyond `last_year`.
    pub(super) fn next_after(&self, after: WallTime, last_year: i32) -> Option<WallTime> {
        let after = DateTime::from_timestamp(after.secs(), 0)?;
        let next = match self {
            Self::Either(crons) => earliest(crons, |cron| cron.next_after(after))?,
            Self::Both(days, weekdays) => {
                let mut day = earliest(days, |cron| cron.next_after(after))?;
                let mut weekday = earliest(weekdays, |cron| cron.next_after(after))?;
                while day != weekday {
                    if day.max(weekday).year() > last_year {
                        return None;
                    }
                    if day < weekday {
                        day = earliest(days, |cron| cron.next_from(midnight_of(weekday)))?;
                    } else {
                        weekday = earliest(weekdays, |cron| cron.next_from(midnight_of(day)))?;
                    }
                }
                day
            }
        };
        (next.year() <= last_year).then(|| WallTime::from_secs(next.timestamp()))
    }
}

fn earliest(
    crons: &[saffron::Cron],
    next: impl Fn(&saffron::Cron) -> Option<DateTime<Utc>>,
) -> Option<DateTime<Utc>> {
    crons.iter().filter_map(next).min()
}

fn midnight_of(on: DateTime<Utc>) -> DateTime<Utc> {
    on.date_naive().and_time(NaiveTime::MIN).and_utc()
}

/// Days of the month in saffron's syntax, which has no `L` or `LW` in a list.
fn format_days(day: CronFieldValues) -> impl Iterator<Item = String> {
    let plain = (day.values != 0).then(|| format_numbers(&cron_field::DAY, day.values));
    let last = day.last_day.then(|| "L".to_owned());
    plain
        .into_iter()
        .chain(last)
        .chain(day.last_workday.then(|| "LW".to_owned()))
}

/// Weekdays in saffron's syntax, by name, since it counts them from 1.
fn format_weekdays(weekday: CronFieldValues) -> impl Iterator<Item = String> {
    let plain =
        (weekday.values != 0).then(|| weekday_names(weekday.values).collect::<Vec<_>>().join(","));
    let last = weekday_names(weekday.last_of.into()).map(|name| format!("{name}L"));
    let nth = (1..)
        .zip(weekday.nth_of)
        .flat_map(|(week, of)| weekday_names(of.into()).map(move |name| format!("{name}#{week}")));
    plain.into_iter().chain(last).chain(nth)
}

/// Ascending list, or `*` for all values.
fn format_numbers(field: &CronField, values: u64) -> String {
    if values == field.all_values() {
        return "*".to_owned();
    }
    (0..64)
        .filter(|value| values >> value & 1 == 1)
        .map(|value: u32| value.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

/// Names of weekdays; Sunday is bit 0.
fn weekday_names(weekdays: u64) -> impl Iterator<Item = &'static str> {
    cron_field::WEEKDAYS
        .into_iter()
        .enumerate()
        .filter(move |(at, _)| weekdays >> at & 1 == 1)
        .map(|(_, name)| name)
}
