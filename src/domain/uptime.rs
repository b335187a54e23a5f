//! Uptime of a check by day and by month, computed from its flips, for a clock in any zone.

use jiff::civil;

use super::flip::{Flip, FlipCause};
use super::status::Status;
use super::timestamp::Timestamp;
use super::timezone::Timezone;
use super::timezone::wall_time::WallTime;

/// Maximum number of flips for a history: see [limits](crate::docs::limits).
pub const MAX_FLIPS: usize = 5000;

/// Number of months in a history besides the current one; flips are kept as long.
const MONTHS_BACK: u32 = 2;

/// Day or month of the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UptimePeriod {
    /// Start of the period.
    pub start: Timestamp,
    /// End of the period; for the current one, the present time.
    pub end: Timestamp,
    /// Microseconds in which the check was up or down. While a check is new or paused no ping is
    /// expected, so nothing is known.
    pub monitored: i64,
    /// Microseconds of these in which it was down.
    pub down: i64,
    /// Number of downtimes that overlap the period.
    pub downtimes: usize,
}

/// Months and days of a history, oldest first, as far back as flips are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UptimeHistory {
    /// All days.
    pub days: Vec<UptimePeriod>,
    /// All months.
    pub months: Vec<UptimePeriod>,
    /// Time before which nothing is counted, since there are too many newer flips.
    pub incomplete_before: Option<Timestamp>,
}

impl UptimePeriod {
    /// Uptime as a share of the monitored time, in thousandths, rounded down so that only a period
    /// without downtime has 1,000. `None` if the check was not monitored.
    pub fn uptime_permille(&self) -> Option<i64> {
        let up = i128::from(self.monitored - self.down) * 1000;
        up.checked_div(i128::from(self.monitored))
            .and_then(|permille| i64::try_from(permille).ok())
    }

    /// Uptime in words: `99.1 %`.
    pub fn format_uptime(&self) -> Option<String> {
        self.uptime_permille().map(|permille| match permille {
            1000 => "100 %".into(),
            permille => format!("{}.{} %", permille / 10, permille % 10),
        })
    }

    /// Computes a period from the intervals in it.
    pub fn new([start, end]: [Timestamp; 2], intervals: &[StatusInterval]) -> Self {
        let mut period = Self {
            start,
            end,
            monitored: 0,
            down: 0,
            downtimes: 0,
        };
        let first = intervals.partition_point(|interval| interval.until <= start);
        for interval in intervals
            .iter()
            .skip(first)
            .take_while(|interval| interval.from < end)
        {
            let time = interval
                .until
                .min(end)
                .micros_since(interval.from.max(start));
            match interval.status {
                Status::Up => period.monitored += time,
                Status::Down => {
                    period.monitored += time;
                    period.down += time;
                    period.downtimes += 1;
                }
                Status::New | Status::Paused => {}
            }
        }
        period
    }
}

/// Period in which the status stayed the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusInterval {
    /// Start of the period.
    pub from: Timestamp,
    /// End of the period.
    pub until: Timestamp,
    /// Status in it.
    pub status: Status,
    /// Cause of the flip at its start. `None` if there was none.
    pub cause: Option<FlipCause>,
}

/// Computes the history of a check since the first of the month before last, by days of a clock in
/// `zone`. `flips` are all since then or the newest [`MAX_FLIPS`], in the order in which they were
/// logged, newest first. `status` is the stored one at `now`.
pub fn uptime_history(
    flips: &[Flip],
    status: Status,
    now: Timestamp,
    zone: &Timezone,
) -> UptimeHistory {
    let (days, months) = period_starts(now, zone).unwrap_or_default();
    let Some(start) = months.first().copied() else {
        return UptimeHistory {
            days: Vec::new(),
            months: Vec::new(),
            incomplete_before: None,
        };
    };
    let intervals = status_intervals(flips, status, start, now);
    let incomplete_before = (flips.len() >= MAX_FLIPS)
        .then(|| intervals.first().map_or(now, |interval| interval.from))
        .filter(|incomplete_before| *incomplete_before > start);
    let periods = |starts: &[Timestamp]| {
        let ends = starts.iter().skip(1).copied().chain([now]);
        starts
            .iter()
            .zip(ends)
            .map(|(start, end)| UptimePeriod::new([*start, end], &intervals))
            .collect()
    };
    UptimeHistory {
        days: periods(&days),
        months: periods(&months),
        incomplete_before,
    }
}

/// Intervals between flips from `start` to `now`, oldest first. For the arguments see
/// [`uptime_history`].
pub fn status_intervals(
    flips: &[Flip],
    status: Status,
    start: Timestamp,
    now: Timestamp,
) -> Vec<StatusInterval> {
    let mut status = status;
    let mut until = now;
    let mut intervals = Vec::with_capacity(flips.len() + 1);
    for flip in flips {
        // Times decrease where the clock was set back: the flip that was logged later counts.
        let from = flip.at.min(until).max(start);
        intervals.push(StatusInterval {
            from,
            until,
            status,
            cause: Some(flip.cause).filter(|_| flip.at >= start),
        });
        (status, until) = (flip.from, from);
    }
    if flips.len() < MAX_FLIPS {
        // No flip since the start is missing, so the check had this status.
        intervals.push(StatusInterval {
            from: start,
            until,
            status,
            cause: None,
        });
    }
    intervals.retain(|interval| interval.from < interval.until);
    intervals.reverse();
    intervals
}

/// Starts of the days and months between the first of the month before last and `now`.
fn period_starts(now: Timestamp, zone: &Timezone) -> Option<(Vec<Timestamp>, Vec<Timestamp>)> {
    let today = zone.wall_time_at(now)?.to_civil()?.date();
    let mut months = vec![today.first_of_month()];
    for _ in 0..MONTHS_BACK {
        let month = months.last()?.yesterday().ok()?.first_of_month();
        months.push(month);
    }
    let start = |date: civil::Date| zone.start_of_day(WallTime::from_civil(date.at(0, 0, 0, 0))?);
    let days = months
        .last()?
        .series(jiff::Span::new().days(1))
        .take_while(|date| *date <= today);
    // A day that the clocks skip completely begins with the next one. Today may not have begun by
    // its second midnight.
    let ascending = |starts: Vec<Timestamp>| {
        let mut starts: Vec<_> = starts.into_iter().filter(|start| *start <= now).collect();
        starts.dedup();
        starts
    };
    let months = months
        .iter()
        .rev()
        .map(|month| start(*month))
        .collect::<Option<Vec<_>>>()?;
    Some((
        ascending(days.map(start).collect::<Option<Vec<_>>>()?),
        ascending(months),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::flip::FlipCause;
    use crate::domain::timestamp::MICROS_PER_SEC;
    use proptest::prelude::*;

    fn moment(text: &str) -> Timestamp {
        Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    fn flip(at: Timestamp, from: Status, to: Status) -> Flip {
        Flip {
            at,
            from,
            to,
            cause: FlipCause::Unknown,
            awaited_since: None,
        }
    }

    const HOUR: i64 = 3600 * MICROS_PER_SEC;

    #[test]
    fn days_follow_the_time_zone() {
        // In Riga the clocks went back on 25 October 2026, so that day had 25 hours.
        let riga = Timezone::parse("Europe/Riga").unwrap();
        let now = moment("2026-11-20T10:00:00Z");
        let flips = [
            flip(moment("2026-10-25T22:30:00Z"), Status::Down, Status::Up),
            flip(moment("2026-10-25T21:30:00Z"), Status::Up, Status::Down),
            flip(moment("2026-10-10T21:00:00Z"), Status::New, Status::Up),
        ];
        let history = uptime_history(&flips, Status::Up, now, &riga);
        assert_eq!(history.incomplete_before, None);
        assert_eq!(history.days.len(), 30 + 31 + 20);
        assert_eq!(history.days[0].start, moment("2026-08-31T21:00:00Z"));
        assert_eq!(history.days.last().unwrap().end, now);
        let day = |date: &str| {
            *history
                .days
                .iter()
                .find(|day| day.start == moment(date))
                .unwrap()
        };
        let long = day("2026-10-24T21:00:00Z");
        assert_eq!(
            (long.monitored, long.down, long.downtimes),
            (25 * HOUR, HOUR / 2, 1)
        );
        let next = day("2026-10-25T22:00:00Z");
        assert_eq!(
            (next.monitored, next.down, next.downtimes),
            (24 * HOUR, HOUR / 2, 1)
        );
        let unknown = day("2026-10-09T21:00:00Z");
        assert_eq!((unknown.monitored, unknown.format_uptime()), (0, None));
        let months: Vec<_> = history
            .months
            .iter()
            .map(|month| (month.downtimes, month.down, month.format_uptime()))
            .collect();
        assert_eq!(
            months,
            [
                (0, 0, None),
                (1, HOUR, Some("99.8 %".into())),
                (0, 0, Some("100 %".into()))
            ]
        );
    }

    #[test]
    fn only_periods_without_downtime_have_full_uptime() {
        for (watched, down, words) in [
            (HOUR, 0, Some("100 %")),
            (HOUR, 1, Some("99.9 %")),
            (HOUR, HOUR, Some("0.0 %")),
            (HOUR, HOUR - 1, Some("0.0 %")),
            (2 * HOUR, HOUR, Some("50.0 %")),
            (0, 0, None),
        ] {
            let period = UptimePeriod {
                start: Timestamp::default(),
                end: Timestamp::default(),
                monitored: watched,
                down,
                downtimes: 0,
            };
            assert_eq!(
                period.format_uptime().as_deref(),
                words,
                "{down} of {watched}"
            );
        }
    }

    #[test]
    fn a_downtime_counts_in_each_period_that_it_overlaps() {
        let at = Timestamp::from_secs;
        let intervals = [
            (0, 100, Status::Up),
            (100, 200, Status::Down),
            (200, 300, Status::Up),
        ]
        .map(|(from, until, status)| StatusInterval {
            from: at(from),
            until: at(until),
            status,
            cause: None,
        });
        for (start, end, downtimes) in [
            (0, 100, 0),
            (0, 101, 1),
            (150, 160, 1),
            (199, 300, 1),
            (200, 300, 0),
        ] {
            let period = UptimePeriod::new([at(start), at(end)], &intervals);
            assert_eq!(period.downtimes, downtimes, "{start} {end}");
        }
    }

    #[test]
    fn an_interval_has_the_cause_of_the_flip_at_its_start() {
        let start = moment("2026-11-20T10:00:00Z");
        for (secs, cause) in [
            (-1, None),
            (0, Some(FlipCause::Unknown)),
            (1, Some(FlipCause::Unknown)),
        ] {
            let flips = [flip(start.plus_secs(secs), Status::Up, Status::Down)];
            let intervals = status_intervals(&flips, Status::Down, start, start.plus_secs(60));
            assert_eq!(intervals.last().unwrap().cause, cause, "{secs}");
        }
    }

    #[test]
    fn without_a_flip_the_status_has_been_the_same() {
        let now = moment("2026-11-20T10:00:00Z");
        for (status, watched, down) in [
            (Status::Up, true, false),
            (Status::Down, true, true),
            (Status::New, false, false),
        ] {
            let history = uptime_history(&[], status, now, &Timezone::utc());
            let all = history
                .months
                .iter()
                .map(|month| month.end.micros_since(month.start))
                .sum::<i64>();
            let sum = |of: fn(&UptimePeriod) -> i64| history.months.iter().map(of).sum::<i64>();
            assert_eq!(sum(|month| month.monitored), if watched { all } else { 0 });
            assert_eq!(sum(|month| month.down), if down { all } else { 0 });
        }
    }

    #[test]
    fn times_before_the_examined_flips_are_not_counted() {
        let now = moment("2026-11-20T10:00:00Z");
        let turns = [(Status::Up, Status::Down), (Status::Down, Status::Up)];
        let flips: Vec<_> = (1..)
            .zip(turns.iter().cycle())
            .map(|(minute, (from, to))| flip(now.plus_secs(-60 * minute), *from, *to))
            .take(MAX_FLIPS)
            .collect();
        let history = uptime_history(&flips, Status::Down, now, &Timezone::utc());
        assert_eq!(history.incomplete_before, Some(now.plus_secs(-60 * 5000)));
        assert_eq!(
            history
                .months
                .iter()
                .map(|month| month.monitored)
                .sum::<i64>(),
            5000 * 60 * MICROS_PER_SEC
        );
        assert_eq!(
            history.months.iter().map(|month| month.down).sum::<i64>(),
            2500 * 60 * MICROS_PER_SEC
        );
    }

    proptest! {
        /// Compares with samples, for any change of the clock.
        #[test]
        fn uptime_agrees_with_samples_every_quarter_of_an_hour(
            zone in prop::sample::select(vec![
                "UTC",
                "Europe/Riga",
                "America/Havana",
                "Africa/Cairo",
                "America/Asuncion",
                "Asia/Beirut",
                "Australia/Lord_Howe",
                "Atlantic/Azores",
                "Pacific/Apia",
                "America/St_Johns",
                "Asia/Gaza",
            ]),
            now in 1_300_000_000_i64 / 900..1_900_000_000 / 900,
            times in prop::collection::vec((0_i64..12_000, 0_usize..4), 0..12),
        ) {
            let zone = Timezone::parse(zone).unwrap();
            let now = Timestamp::from_secs(now * 900);
            let all = [Status::New, Status::Up, Status::Down, Status::Paused];
            // Newest first; times may decrease.
            let mut flips: Vec<Flip> = Vec::new();
            for (back, status) in times {
                let to = flips.last().map_or(Status::Up, |newer| newer.from);
                flips.push(flip(now.plus_secs(-900 * back), all[status], to));
            }
            let history = uptime_history(&flips, Status::Up, now, &zone);
            prop_assert_eq!(history.days[0].start, history.months[0].start);
            for spans in [&history.days, &history.months] {
                prop_assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
                prop_assert!(spans.windows(2).all(|pair| pair[0].start < pair[0].end));
                prop_assert_eq!(spans.last().unwrap().end, now);
            }
            // Status at a time: that of the newest flip that is not later. Where times decrease,
            // flips logged later take precedence.
            let status_at = |at: Timestamp| {
                let mut status = Status::Up;
                let mut until = now;
                for flip in &flips {
                    until = until.min(flip.at);
                    if at >= until {
                        return status;
                    }
                    status = flip.from;
                }
                status
            };
            for spans in [&history.days, &history.months] {
                for period in spans {
                    let mut watched = 0;
                    let mut down = 0;
                    let mut at = period.start;
                    while at < period.end {
                        match status_at(at) {
                            Status::Up => watched += 900 * MICROS_PER_SEC,
                            Status::Down => {
                                watched += 900 * MICROS_PER_SEC;
                                down += 900 * MICROS_PER_SEC;
                            }
                            _ => {}
                        }
                        at = at.plus_secs(900);
                    }
                    prop_assert_eq!(
                        (period.monitored, period.down),
                        (watched, down),
                        "{:?}",
                        period
                    );
                }
            }
        }
    }
}
