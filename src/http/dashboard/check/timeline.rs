//! Timeline of a check: its statuses, its runs and the pings that did not come in a period, as
//! shapes of fixed size on an axis of time, which the page draws.

use std::collections::BTreeMap;

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};

use super::log_entries::{LogEntry, LoggedRun, run_entries};
use crate::domain::check::CheckSettings;
use crate::domain::explanation::short_reason;
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::ping::{Ping, PingKind};
use crate::domain::status::Status;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::domain::uptime::{StatusInterval, UptimePeriod, status_intervals};
use crate::http::dashboard::time_display::DisplayTime;

/// Width and height of the picture.
pub(crate) const SIZE: (i64, i64) = (720, 84);
/// Width below which marks are combined with their neighbours.
const MIN_WIDTH: i64 = 3;
/// Maximum position of the label of a tick, which needs space to its right.
const MAX_LABEL_X: i64 = SIZE.0 - 48;
/// Maximum number of rows of the table below the picture.
const MAX_ROWS: usize = 30;

/// Period that a timeline shows, up to the present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimelinePeriod {
    Day,
    Week,
    Month,
    /// Three calendar months, by day.
    Quarter,
}

impl TimelinePeriod {
    /// Every period, the shortest first.
    pub(crate) const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Quarter];

    /// Name in URLs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
        }
    }

    /// Words of the link.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Day => "Day",
            Self::Week => "Week",
            Self::Month => "Month",
            Self::Quarter => "3 months",
        }
    }

    /// Parses a name. An unknown one is the period that shows some tens of runs of the check.
    pub(crate) fn parse(name: &str, settings: &CheckSettings) -> Self {
        let known = Self::ALL.into_iter().find(|period| period.name() == name);
        known.unwrap_or_else(|| {
            let seconds = match &settings.schedule {
                None => settings.timeout.get(),
                Some(_) => {
                    let day = Timestamp::from_secs(0);
                    let next = settings.next_ping_after(day);
                    let after = next.and_then(|next| settings.next_ping_after(next));
                    after.zip(next).map_or(i64::MAX, |(after, next)| {
                        after.micros_since(next) / MICROS_PER_SEC
                    })
                }
            };
            match seconds {
                ..=7_200 => Self::Day,
                7_201..=43_200 => Self::Week,
                _ => Self::Month,
            }
        })
    }

    /// Number of days that it shows. `None`: whole months.
    fn days(self) -> Option<i64> {
        match self {
            Self::Day => Some(1),
            Self::Week => Some(7),
            Self::Month => Some(31),
            Self::Quarter => None,
        }
    }
}

/// The picture, and the same as text.
pub(crate) struct Timeline {
    /// Statuses, without space between them.
    pub(crate) statuses: Vec<TimelineMark>,
    /// Runs, pings and gaps.
    pub(crate) marks: Vec<TimelineMark>,
    pub(crate) ticks: Vec<AxisTick>,
    /// Uptime in the period.
    pub(crate) uptime: Option<String>,
    /// Changes of status in the period, newest first: time and words.
    pub(crate) rows: Vec<(DisplayTime, String)>,
    /// Time before which pings are no longer kept, if that is in the period.
    pub(crate) pings_from: Option<DisplayTime>,
}

/// Shape of the picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TimelineMark {
    /// Style: `up`, `down`, `late`, `off`, `running`, `missed`.
    pub(crate) style: &'static str,
    pub(crate) x: i64,
    pub(crate) width: i64,
    /// Times and meaning.
    pub(crate) title: String,
}

/// Line of the axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AxisTick {
    pub(crate) x: i64,
    /// Empty if there is no space for it.
    pub(crate) label: String,
}

/// Data of a check that its timeline shows.
pub(crate) struct TimelineSource<'a> {
    pub(crate) settings: &'a CheckSettings,
    pub(crate) status: Status,
    /// Start of the ongoing run.
    pub(crate) run: Option<Timestamp>,
    /// Pings, newest first.
    pub(crate) pings: &'a [Ping],
    /// True if older pings were logged but are not in `pings`.
    pub(crate) has_older_pings: bool,
    /// Flips, newest first.
    pub(crate) flips: &'a [Flip],
}

/// Linear scale of times.
#[derive(Clone, Copy)]
struct TimeScale {
    start: Timestamp,
    end: Timestamp,
}

impl TimeScale {
    /// Position of a time, within the picture.
    fn x(self, at: Timestamp) -> i64 {
        let length = i128::from(self.end.micros_since(self.start)).max(1);
        let passed = i128::from(at.micros_since(self.start));
        let x = passed * i128::from(SIZE.0) / length;
        i64::try_from(x).unwrap_or(SIZE.0).clamp(0, SIZE.0)
    }

    fn contains(self, at: Timestamp) -> bool {
        (self.start..=self.end).contains(&at)
    }
}

/// Timeline of a period that ends now. `None` for a period that the bar of days shows.
pub(crate) fn draw_timeline(
    source: &TimelineSource<'_>,
    period: TimelinePeriod,
    times: &TimeFormatter<'_>,
) -> Option<Timeline> {
    let now = times.now;
    let start = now.plus_secs(-86_400 * period.days()?);
    let scale = TimeScale { start, end: now };
    let intervals = status_intervals(source.flips, source.status, start, now);
    let oldest = source.pings.last().map(|ping| ping.at);
    Some(Timeline {
        statuses: intervals
            .iter()
            .map(|interval| status_mark(interval, scale, times))
            .collect(),
        marks: activity_marks(source, scale, times),
        ticks: axis_ticks(period, scale, times),
        uptime: UptimePeriod::new([start, now], &intervals).format_uptime(),
        rows: source
            .flips
            .iter()
            .filter(|flip| scale.contains(flip.at))
            .take(MAX_ROWS)
            .map(|flip| (DisplayTime::clock_time(flip.at, times), flip_text(flip)))
            .collect(),
        pings_from: oldest
            .filter(|oldest| source.has_older_pings && *oldest > start)
            .map(|oldest| DisplayTime::clock_time(oldest, times)),
    })
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::New => "New",
        Status::Up => "Up",
        Status::Down => "Down",
        Status::Paused => "Paused",
    }
}

fn flip_text(flip: &Flip) -> String {
    format!("{}: {}", status_word(flip.to), short_reason(flip.cause))
}

fn status_mark(
    interval: &StatusInterval,
    scale: TimeScale,
    times: &TimeFormatter<'_>,
) -> TimelineMark {
    let style = match interval.status {
        Status::Up => "up",
        Status::Down => "down",
        Status::New | Status::Paused => "off",
    };
    let x = scale.x(interval.from);
    let reason = interval
        .cause
        .filter(|_| interval.status == Status::Down)
        .map_or_else(String::new, |cause| format!(": {}", short_reason(cause)));
    TimelineMark {
        style,
        x,
        // A short downtime is visible.
        width: (scale.x(interval.until) - x).max(if style == "down" { MIN_WIDTH } else { 0 }),
        title: format!(
            "{} {} ({}){reason}",
            status_word(interval.status),
            times.span(interval.from, interval.until),
            format_duration(interval.until.micros_since(interval.from))
        ),
    }
}

/// Mark before it is combined with others at the same place.
struct Activity {
    from: Timestamp,
    until: Timestamp,
    style: &'static str,
    title: String,
}

/// Severity of a style. Of several marks at one place the most severe is drawn.
fn severity(style: &str) -> u8 {
    match style {
        "down" => 4,
        "missed" => 3,
        "late" => 2,
        "running" => 1,
        _ => 0,
    }
}

/// Marks of runs, pings and gaps. Those at one place are combined, so their number is limited by
/// the width of the picture.
fn activity_marks(
    source: &TimelineSource<'_>,
    scale: TimeScale,
    times: &TimeFormatter<'_>,
) -> Vec<TimelineMark> {
    let mut places = BTreeMap::<i64, (TimelineMark, usize)>::new();
    let entries = run_entries(source.pings);
    let activities = entries
        .iter()
        .filter_map(|entry| entry_activity(entry, source, scale, times))
        .chain(
            source
                .flips
                .iter()
                .filter_map(|flip| gap_activity(flip, times)),
        )
        .filter(|activity| scale.contains(activity.until));
    for activity in activities {
        let x = scale.x(activity.from);
        let mark = TimelineMark {
            style: activity.style,
            x,
            width: (scale.x(activity.until) - x).max(MIN_WIDTH),
            title: activity.title,
        };
        let place = x / MIN_WIDTH;
        match places.get_mut(&place) {
            None => {
                places.insert(place, (mark, 1));
            }
            Some((drawn, count)) => {
                *count += 1;
                let width = drawn.width.max(mark.width);
                if severity(mark.style) > severity(drawn.style) {
                    *drawn = mark;
                }
                drawn.width = width;
            }
        }
    }
    places
        .into_values()
        .map(|(mark, count)| match count {
            1 => mark,
            count => TimelineMark {
                title: format!(
                    "{}, and {} here",
                    mark.title,
                    format_count(count - 1, "more")
                ),
                ..mark
            },
        })
        .collect()
}

fn entry_activity(
    entry: &LogEntry<'_>,
    source: &TimelineSource<'_>,
    scale: TimeScale,
    times: &TimeFormatter<'_>,
) -> Option<Activity> {
    match entry {
        LogEntry::Flip(_) => None,
        LogEntry::Ping(ping, _) => {
            let style = ping_style(ping)?;
            let title = format!("{} {}", ping_words(ping), times.at_second(ping.at));
            Some(Activity {
                from: ping.at,
                until: ping.at,
                style,
                title,
            })
        }
        LogEntry::Run(run) => Some(run_activity(run, source, scale, times)),
    }
}

fn run_activity(
    run: &LoggedRun<'_>,
    source: &TimelineSource<'_>,
    scale: TimeScale,
    times: &TimeFormatter<'_>,
) -> Activity {
    let from = run.start.at;
    let grace = source.settings.grace.get() * MICROS_PER_SEC;
    let Some(end) = run.end else {
        let is_ongoing = source.run == Some(from);
        let (until, style, words) = match is_ongoing {
            true => (scale.end, "running", "running since"),
            false => (from, "late", "no end was reported of the run that began at"),
        };
        return Activity {
            from,
            until,
            style,
            title: format!("{words} {}", times.at_second(from)),
        };
    };
    let took = end.at.micros_since(from);
    let is_overrun = took > grace;
    let style = match ping_style(end) {
        Some("up") if is_overrun => "late",
        Some(style) => style,
        None => "off",
    };
    let overrun = if is_overrun {
        ", longer than the grace time"
    } else {
        ""
    };
    let title = format!(
        "{} after {}, {}{overrun}",
        ping_words(end),
        format_duration(took.max(0)),
        times.span(from, end.at)
    );
    Activity {
        from: from.max(scale.start),
        until: end.at,
        style,
        title,
    }
}

/// Style of a completion. `None` for pings that complete nothing.
fn ping_style(ping: &Ping) -> Option<&'static str> {
    match ping.kind {
        PingKind::Success => Some("up"),
        PingKind::Fail => Some("down"),
        PingKind::Start | PingKind::Log | PingKind::Ignored => None,
    }
}

fn ping_words(ping: &Ping) -> String {
    match (ping.kind, ping.exit_status) {
        (PingKind::Fail, Some(status)) => format!("exit status {status}"),
        (PingKind::Fail, None) => "failure".into(),
        _ => "success".into(),
    }
}

/// Time in which a ping was missing.
fn gap_activity(flip: &Flip, times: &TimeFormatter<'_>) -> Option<Activity> {
    let from = flip.awaited_since?;
    (flip.cause == FlipCause::MissedPing).then(|| Activity {
        from,
        until: flip.at,
        style: "missed",
        title: format!(
            "no ping: expected {}, down {}",
            times.at_phrase(from),
            times.at_phrase(flip.at)
        ),
    })
}

/// Lines of the axis: hours of a day, days of a week, Mondays of a month.
fn axis_ticks(
    period: TimelinePeriod,
    scale: TimeScale,
    times: &TimeFormatter<'_>,
) -> Vec<AxisTick> {
    let zone = times.zone.rules();
    let local = |at: Timestamp| {
        let at = jiff::Timestamp::from_microsecond(at.micros()).ok()?;
        Some(at.to_zoned(zone.clone()).date())
    };
    let Some((first, last)) = local(scale.start).zip(local(scale.end)) else {
        return Vec::new();
    };
    let days = first.series(1.day()).take_while(|day| *day <= last);
    let is_shown = |day: &Date| period != TimelinePeriod::Month || day.weekday() == Weekday::Monday;
    let hours = match period {
        TimelinePeriod::Day => &[0, 3, 6, 9, 12, 15, 18, 21][..],
        _ => &[0],
    };
    let ticks = days.filter(is_shown).flat_map(|day| {
        hours.iter().filter_map(move |hour| {
            let at = day.at(*hour, 0, 0, 0).to_zoned(zone.clone()).ok()?;
            let at = Timestamp::from_micros(at.timestamp().as_microsecond());
            let label = match period {
                TimelinePeriod::Day if *hour != 0 => format!("{hour:02}:00"),
                TimelinePeriod::Month => day.strftime("%-d %b").to_string(),
                _ => day.strftime("%a %-d").to_string(),
            };
            Some((at, label))
        })
    });
    ticks
        .filter(|(at, _)| scale.contains(*at))
        .map(|(at, label)| {
            let x = scale.x(at);
            AxisTick {
                x,
                label: if x > MAX_LABEL_X {
                    String::new()
                } else {
                    label
                },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
