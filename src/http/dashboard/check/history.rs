//! Uptime history on the page of a check: a bar of days, and a table of months.

use super::timeline::AxisTick;
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::formatting::{TimeFormatter, format_duration};
use crate::domain::timestamp::Timestamp;
use crate::domain::uptime::{MAX_FLIPS, UptimeHistory, UptimePeriod};
use crate::engine::Handle;
use crate::store::StoreError;

/// Width of a day in the picture, including the space after it.
pub(crate) const DAY_WIDTH: usize = 8;
/// Height of the picture.
pub(crate) const HEIGHT: i64 = 32;
/// Number of months before the current one whose flips are shown.
const FLIP_MONTHS: i64 = 2;
/// Minimum height of the mark of a downtime.
const MIN_MARK_HEIGHT: i64 = 5;

pub(crate) struct UptimeBar {
    pub(crate) width: usize,
    /// First days of months.
    pub(crate) months: Vec<AxisTick>,
    pub(crate) days: Vec<UptimeDay>,
}

pub(crate) struct UptimeDay {
    pub(crate) x: usize,
    /// True if the check was monitored on that day.
    pub(crate) is_known: bool,
    /// Height of the mark for its downtimes; 0: no mark.
    pub(crate) down: i64,
    /// Upper edge of that mark.
    pub(crate) top: i64,
    /// Description of the day.
    pub(crate) words: String,
}

/// Figures of a month.
pub(crate) struct UptimeMonth {
    pub(crate) name: String,
    pub(crate) up: String,
    pub(crate) downtimes: String,
    pub(crate) down: String,
}

/// Flips of a check that a history needs, newest first.
pub(crate) fn recent_flips(
    handle: &Handle,
    check: &Check,
    now: Timestamp,
) -> Result<Vec<Flip>, StoreError> {
    // In some zones a month begins up to half a day earlier.
    let from = now.start_of_month(FLIP_MONTHS).plus_secs(-86_400);
    handle.newest_flips(check, from, MAX_FLIPS)
}

/// Bar of the days of a history.
pub(crate) fn uptime_bar(history: &UptimeHistory, times: &TimeFormatter<'_>) -> UptimeBar {
    let day = |(place, day): (usize, &UptimePeriod)| {
        let share = if day.monitored > 0 {
            (i128::from(day.down) * i128::from(HEIGHT) / i128::from(day.monitored)) as i64
        } else {
            0
        };
        let down = if day.down > 0 {
            share.max(MIN_MARK_HEIGHT)
        } else {
            0
        };
        UptimeDay {
            x: place * DAY_WIDTH,
            is_known: day.monitored > 0,
            down,
            top: HEIGHT - down,
            words: day_text(day, times),
        }
    };
    UptimeBar {
        width: history.days.len() * DAY_WIDTH,
        months: history
            .months
            .iter()
            .filter_map(|month| {
                let place = history
                    .days
                    .iter()
                    .position(|day| day.start == month.start)?;
                Some(AxisTick {
                    x: i64::try_from(place * DAY_WIDTH).ok()?,
                    label: times.month(month.start),
                })
            })
            .collect(),
        days: history.days.iter().enumerate().map(day).collect(),
    }
}

/// Months of a history, newest first.
pub(crate) fn monthly_uptime(
    history: &UptimeHistory,
    times: &TimeFormatter<'_>,
) -> Vec<UptimeMonth> {
    let month = |span: &UptimePeriod| UptimeMonth {
        name: times.month(span.start),
        up: span.format_uptime().unwrap_or_else(|| "–".into()),
        downtimes: span.downtimes.to_string(),
        down: if span.down > 0 {
            format_duration(span.down)
        } else {
            "–".into()
        },
    };
    history.months.iter().rev().map(month).collect()
}

/// Uptime over all months.
pub(crate) fn overall_uptime(history: &UptimeHistory) -> Option<String> {
    let sum = |of: fn(&UptimePeriod) -> i64| history.months.iter().map(of).sum();
    let first = *history.months.first()?;
    UptimePeriod {
        monitored: sum(|month| month.monitored),
        down: sum(|month| month.down),
        ..first
    }
    .format_uptime()
}

fn day_text(day: &UptimePeriod, times: &TimeFormatter<'_>) -> String {
    let date = times.date(day.start);
    match (day.format_uptime(), day.downtimes) {
        (None, _) => format!("{date}: no data"),
        (Some(up), 0) => format!("{date}: {up} up"),
        (Some(up), 1) => format!("{date}: downtime, {}, {up} up", format_duration(day.down)),
        (Some(up), more) => format!(
            "{date}: {more} downtimes, {} in total, {up} up",
            format_duration(day.down)
        ),
    }
}
