//! Uptime history on the page of a check: a bar of days, and a table of months.

use super::timeline::AxisTick;
use crate::domain::formatting::{TimeFormatter, format_duration};
use crate::domain::uptime::{UptimeHistory, UptimePeriod};

/// Width of a day in the picture, including the space after it.
const DAY_WIDTH: usize = 8;
/// Height of the picture.
pub(super) const HEIGHT: i64 = 32;
/// Minimum height of the mark of a downtime.
const MIN_MARK_HEIGHT: i64 = 5;

pub(super) struct UptimeBar {
    pub(super) width: usize,
    /// First days of months.
    pub(super) months: Vec<AxisTick>,
    pub(super) days: Vec<UptimeDay>,
}

pub(super) struct UptimeDay {
    pub(super) x: usize,
    /// True if the check was monitored on that day.
    pub(super) is_known: bool,
    /// Height of the mark for its downtimes; 0: no mark.
    pub(super) down: i64,
    /// Upper edge of that mark.
    pub(super) top: i64,
    /// Description of the day.
    pub(super) words: String,
}

/// Figures of a month.
pub(super) struct UptimeMonth {
    pub(super) name: String,
    pub(super) up: String,
    pub(super) downtimes: String,
    pub(super) down: String,
}

/// Bar of the days of a history.
pub(super) fn uptime_bar(history: &UptimeHistory, times: &TimeFormatter<'_>) -> UptimeBar {
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
pub(super) fn monthly_uptime(
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
pub(super) fn overall_uptime(history: &UptimeHistory) -> Option<String> {
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
