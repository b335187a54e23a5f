//! The history of a check as its page shows it: a bar of days, and months in figures.

use crate::domain::uptime::{History, Span};
use crate::domain::words::{Times, duration};

/// Width of a day in the picture, with the space after it.
const STEP: usize = 8;
/// Height of the picture.
pub(super) const HEIGHT: i64 = 32;
/// Least height of a mark for a downtime.
const LEAST: i64 = 5;

/// The bar of days.
pub(super) struct Bar {
    pub(super) width: usize,
    pub(super) days: Vec<Day>,
}

/// A day in the bar.
pub(super) struct Day {
    pub(super) x: usize,
    /// Whether anything was expected of it.
    pub(super) is_known: bool,
    /// The height of the mark for its downtimes; 0: none.
    pub(super) down: i64,
    /// Where that begins.
    pub(super) top: i64,
    /// What is said of it.
    pub(super) words: String,
}

/// A month in figures.
pub(super) struct Month {
    pub(super) name: String,
    pub(super) up: String,
    pub(super) downtimes: String,
    pub(super) down: String,
}

/// The bar of the days of a history.
pub(super) fn bar(history: &History, times: &Times<'_>) -> Bar {
    let day = |(place, day): (usize, &Span)| {
        let share = if day.watched > 0 { (i128::from(day.down) * i128::from(HEIGHT) / i128::from(day.watched)) as i64 } else { 0 };
        let down = if day.down > 0 { share.max(LEAST) } else { 0 };
        Day { x: place * STEP, is_known: day.watched > 0, down, top: HEIGHT - down, words: said(day, times) }
    };
    Bar { width: history.days.len() * STEP, days: history.days.iter().enumerate().map(day).collect() }
}

/// The months of a history, newest first.
pub(super) fn months(history: &History, times: &Times<'_>) -> Vec<Month> {
    let month = |span: &Span| Month {
        name: times.month(span.start),
        up: span.up_in_words().unwrap_or_else(|| "–".into()),
        downtimes: span.downtimes.to_string(),
        down: if span.down > 0 { duration(span.down) } else { "–".into() },
    };
    history.months.iter().rev().map(month).collect()
}

/// All months in one figure.
pub(super) fn overall(history: &History) -> Option<String> {
    let sum = |of: fn(&Span) -> i64| history.months.iter().map(of).sum();
    let first = *history.months.first()?;
    Span { watched: sum(|month| month.watched), down: sum(|month| month.down), ..first }.up_in_words()
}

fn said(day: &Span, times: &Times<'_>) -> String {
    let date = times.date(day.start);
    match (day.up_in_words(), day.downtimes) {
        (None, _) => format!("{date}: nothing known"),
        (Some(up), 0) => format!("{date}: {up} up"),
        (Some(up), 1) => format!("{date}: downtime, {}, {up} up", duration(day.down)),
        (Some(up), more) => format!("{date}: {more} downtimes, {} in all, {up} up", duration(day.down)),
    }
}
