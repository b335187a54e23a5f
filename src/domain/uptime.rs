//! How a check has fared by day and by month, counted from its flips, for a clock in any zone.

use jiff::civil;

use super::flip::Flip;
use super::moment::Moment;
use super::status::Status;
use super::timezone::Timezone;
use super::timezone::wall::Wall;

/// Flips that a history is made of: see [limits](crate::docs::limits).
pub const MOST_FLIPS: usize = 5000;

/// Months that a history goes back beside that of now, as flips are kept.
const MONTHS_BACK: u32 = 2;

/// A day or a month of the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When it begins.
    pub start: Moment,
    /// When it ends; for the span of now that is now.
    pub end: Moment,
    /// Microseconds in which the check was up or down. While it is new or paused nothing is expected of it, so nothing is known.
    pub watched: i64,
    /// Microseconds of these in which it was down.
    pub down: i64,
    /// Downtimes that touch it.
    pub downtimes: usize,
}

/// The months and days of a history, oldest first, as far back as flips are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Each day.
    pub days: Vec<Span>,
    /// Each month.
    pub months: Vec<Span>,
    /// What lies before this moment is not counted, since too many flips are younger.
    pub cut: Option<Moment>,
}

impl Span {
    /// The part of the time in which it was watched that it was not down, in thousandths cut off towards 0, so that only what was never
    /// down has 1,000. `None`: it was not watched.
    pub fn up_permille(&self) -> Option<i64> {
        let up = i128::from(self.watched - self.down) * 1000;
        up.checked_div(i128::from(self.watched)).and_then(|permille| i64::try_from(permille).ok())
    }

    /// The same in words: `99.1 %`.
    pub fn up_in_words(&self) -> Option<String> {
        self.up_permille().map(|permille| match permille {
            1000 => "100 %".into(),
            permille => format!("{}.{} %", permille / 10, permille % 10),
        })
    }

    fn new([start, end]: [Moment; 2], stays: &[Stay]) -> Self {
        let mut span = Self { start, end, watched: 0, down: 0, downtimes: 0 };
        let first = stays.partition_point(|stay| stay.until <= start);
        for stay in stays.iter().skip(first).take_while(|stay| stay.from < end) {
            let time = stay.until.min(end).micros_since(stay.from.max(start));
            match stay.status {
                Status::Up => span.watched += time,
                Status::Down => {
                    span.watched += time;
                    span.down += time;
                    span.downtimes += 1;
                }
                Status::New | Status::Paused => {}
            }
        }
        span
    }
}

/// A time in which the status stayed the same.
struct Stay {
    from: Moment,
    until: Moment,
    status: Status,
}

/// The history of a check since the first of the month before last, as a clock in `zone` counts days. `flips` are all since then or the
/// newest [`MOST_FLIPS`], in the order in which they were logged, newest first. `status` is the stored one of `now`.
pub fn history(flips: &[Flip], status: Status, now: Moment, zone: &Timezone) -> History {
    let (days, months) = bounds(now, zone).unwrap_or_default();
    let Some(start) = months.first().copied() else { return History { days: Vec::new(), months: Vec::new(), cut: None } };
    let stays = stays(flips, status, start, now);
    let cut = (flips.len() >= MOST_FLIPS).then(|| stays.first().map_or(now, |stay| stay.from)).filter(|cut| *cut > start);
    let spans = |starts: &[Moment]| {
        let ends = starts.iter().skip(1).copied().chain([now]);
        starts.iter().zip(ends).map(|(start, end)| Span::new([*start, end], &stays)).collect()
    };
    History { days: spans(&days), months: spans(&months), cut }
}

/// The stays between flips from `start` to `now`, oldest first.
fn stays(flips: &[Flip], status: Status, start: Moment, now: Moment) -> Vec<Stay> {
    let (mut status, mut until) = (status, now);
    let mut stays = Vec::with_capacity(flips.len() + 1);
    for flip in flips {
        // Times go back where the clock was set: what was logged later counts.
        let from = flip.at.min(until).max(start);
        stays.push(Stay { from, until, status });
        (status, until) = (flip.from, from);
    }
    if flips.len() < MOST_FLIPS {
        // No flip since the start is missing, so this is what it had been.
        stays.push(Stay { from: start, until, status });
    }
    stays.retain(|stay| stay.from < stay.until);
    stays.reverse();
    stays
}

/// When the days and the months began that lie between the first of the month before last and `now`.
fn bounds(now: Moment, zone: &Timezone) -> Option<(Vec<Moment>, Vec<Moment>)> {
    let today = zone.wall(now)?.civil()?.date();
    let mut months = vec![today.first_of_month()];
    for _ in 0..MONTHS_BACK {
        let month = months.last()?.yesterday().ok()?.first_of_month();
        months.push(month);
    }
    let start = |date: civil::Date| zone.start_of_day(Wall::from_civil(date.at(0, 0, 0, 0))?);
    let days = months.last()?.series(jiff::Span::new().days(1)).take_while(|date| *date <= today);
    // A day that clocks were put forward over as a whole begins with the next one; one may not have begun by the second midnight of today.
    let ascending = |starts: Vec<Moment>| {
        let mut starts: Vec<_> = starts.into_iter().filter(|start| *start <= now).collect();
        starts.dedup();
        starts
    };
    let months = months.iter().rev().map(|month| start(*month)).collect::<Option<Vec<_>>>()?;
    Some((ascending(days.map(start).collect::<Option<Vec<_>>>()?), ascending(months)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::flip::Cause;
    use crate::domain::moment::MICROS;
    use proptest::prelude::*;

    fn moment(text: &str) -> Moment {
        Moment::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    fn flip(at: Moment, from: Status, to: Status) -> Flip {
        Flip { at, from, to, cause: Cause::Unknown, awaited: None }
    }

    const HOUR: i64 = 3600 * MICROS;

    #[test]
    fn days_are_those_of_the_zone() {
        // In Riga the clocks went back on 25 October 2026, so that day had 25 hours.
        let riga = Timezone::parse("Europe/Riga").unwrap();
        let now = moment("2026-11-20T10:00:00Z");
        let flips = [
            flip(moment("2026-10-25T22:30:00Z"), Status::Down, Status::Up),
            flip(moment("2026-10-25T21:30:00Z"), Status::Up, Status::Down),
            flip(moment("2026-10-10T21:00:00Z"), Status::New, Status::Up),
        ];
        let history = history(&flips, Status::Up, now, &riga);
        assert_eq!(history.cut, None);
        assert_eq!(history.days.len(), 30 + 31 + 20);
        assert_eq!(history.days[0].start, moment("2026-08-31T21:00:00Z"));
        assert_eq!(history.days.last().unwrap().end, now);
        let day = |date: &str| *history.days.iter().find(|day| day.start == moment(date)).unwrap();
        let long = day("2026-10-24T21:00:00Z");
        assert_eq!((long.watched, long.down, long.downtimes), (25 * HOUR, HOUR / 2, 1));
        let next = day("2026-10-25T22:00:00Z");
        assert_eq!((next.watched, next.down, next.downtimes), (24 * HOUR, HOUR / 2, 1));
        let unknown = day("2026-10-09T21:00:00Z");
        assert_eq!((unknown.watched, unknown.up_in_words()), (0, None));
        let months: Vec<_> = history.months.iter().map(|month| (month.downtimes, month.down, month.up_in_words())).collect();
        assert_eq!(months, [(0, 0, None), (1, HOUR, Some("99.8 %".into())), (0, 0, Some("100 %".into()))]);
    }

    #[test]
    fn only_what_was_never_down_was_up_all_the_time() {
        for (watched, down, words) in [
            (HOUR, 0, Some("100 %")),
            (HOUR, 1, Some("99.9 %")),
            (HOUR, HOUR, Some("0.0 %")),
            (HOUR, HOUR - 1, Some("0.0 %")),
            (2 * HOUR, HOUR, Some("50.0 %")),
            (0, 0, None),
        ] {
            let span = Span { start: Moment::default(), end: Moment::default(), watched, down, downtimes: 0 };
            assert_eq!(span.up_in_words().as_deref(), words, "{down} of {watched}");
        }
    }

    #[test]
    fn without_a_flip_the_status_has_been_the_same() {
        let now = moment("2026-11-20T10:00:00Z");
        for (status, watched, down) in [(Status::Up, true, false), (Status::Down, true, true), (Status::New, false, false)] {
            let history = history(&[], status, now, &Timezone::utc());
            let all = history.months.iter().map(|month| month.end.micros_since(month.start)).sum::<i64>();
            let sum = |of: fn(&Span) -> i64| history.months.iter().map(of).sum::<i64>();
            assert_eq!(sum(|month| month.watched), if watched { all } else { 0 });
            assert_eq!(sum(|month| month.down), if down { all } else { 0 });
        }
    }

    #[test]
    fn what_lies_before_too_many_flips_is_not_counted() {
        let now = moment("2026-11-20T10:00:00Z");
        let turns = [(Status::Up, Status::Down), (Status::Down, Status::Up)];
        let flips: Vec<_> = (1..)
            .zip(turns.iter().cycle())
            .map(|(minute, (from, to))| flip(now.plus_secs(-60 * minute), *from, *to))
            .take(MOST_FLIPS)
            .collect();
        let history = history(&flips, Status::Down, now, &Timezone::utc());
        assert_eq!(history.cut, Some(now.plus_secs(-60 * 5000)));
        assert_eq!(history.months.iter().map(|month| month.watched).sum::<i64>(), 5000 * 60 * MICROS);
        assert_eq!(history.months.iter().map(|month| month.down).sum::<i64>(), 2500 * 60 * MICROS);
    }

    proptest! {
        /// What a look at each minute counts, whatever the clock did.
        #[test]
        fn counts_agree_with_a_look_at_each_quarter_of_an_hour(
            zone in prop::sample::select(vec!["UTC", "Europe/Riga", "America/Havana", "Africa/Cairo", "America/Asuncion", "Asia/Beirut",
                "Australia/Lord_Howe", "Atlantic/Azores", "Pacific/Apia", "America/St_Johns", "Asia/Gaza"]),
            now in 1_300_000_000_i64 / 900..1_900_000_000 / 900,
            times in prop::collection::vec((0_i64..12_000, 0_usize..4), 0..12),
        ) {
            let zone = Timezone::parse(zone).unwrap();
            let now = Moment::from_secs(now * 900);
            let all = [Status::New, Status::Up, Status::Down, Status::Paused];
            // Newest first; times may go back.
            let mut flips: Vec<Flip> = Vec::new();
            for (back, status) in times {
                let to = flips.last().map_or(Status::Up, |newer| newer.from);
                flips.push(flip(now.plus_secs(-900 * back), all[status], to));
            }
            let history = history(&flips, Status::Up, now, &zone);
            prop_assert_eq!(history.days[0].start, history.months[0].start);
            for spans in [&history.days, &history.months] {
                prop_assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].start < pair[0].end));
                prop_assert_eq!(spans.last().unwrap().end, now);
            }
            // The status at a moment: that of the newest flip that is not younger, times that went back counted from what was logged later.
            let status_at = |at: Moment| {
                let (mut status, mut until) = (Status::Up, now);
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
                for span in spans {
                    let (mut watched, mut down) = (0, 0);
                    let mut at = span.start;
                    while at < span.end {
                        match status_at(at) {
                            Status::Up => watched += 900 * MICROS,
                            Status::Down => { watched += 900 * MICROS; down += 900 * MICROS; }
                            _ => {}
                        }
                        at = at.plus_secs(900);
                    }
                    prop_assert_eq!((span.watched, span.down), (watched, down), "{:?}", span);
                }
            }
        }
    }
}
