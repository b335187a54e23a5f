//! OnCalendar expressions as in systemd.time(7): one a line; the earliest time of all lines counts.

mod parse;

use jiff::civil::{Date, DateTime, Time};

use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall_time::{WallTime, WallTimeResolution};

/// First and last year that an expression can name (systemd.time).
const FIRST_YEAR: i16 = 1970;
const LAST_YEAR: i16 = 2199;

/// One or more compiled expressions.
#[derive(Clone, Debug)]
pub(super) struct OnCalendar {
    lines: Vec<OnCalendarLine>,
}

/// One expression: sets of values, a bit each.
#[derive(Clone, Debug)]
struct OnCalendarLine {
    /// Zone that the line itself names; otherwise the zone of the check counts.
    zone: Option<Timezone>,
    /// Monday is bit 0. The week is repeated for longer than a month.
    weekdays: u64,
    /// Years since 1970.
    years: [u64; 4],
    months: u64,
    days: u64,
    /// Days counted from the end of the month; the last day is 1.
    days_from_end: u64,
    hours: u64,
    minutes: u64,
    seconds: u64,
}

/// Times of all lines, merged by the wall time in the check's zone.
pub(super) struct OnCalendarOccurrences<'a> {
    zone: &'a Timezone,
    /// Wall time in the check's zone at the last result; `None` before the first.
    last: Option<WallTime>,
    positions: Vec<OnCalendarPosition<'a>>,
}

/// Position of the search in one line.
struct OnCalendarPosition<'a> {
    line: &'a OnCalendarLine,
    /// Wall time in the line's zone.
    wall: WallTime,
    at: Timestamp,
    /// Wall time in the check's zone.
    local: WallTime,
}

impl OnCalendar {
    /// Parses a text without blanks at its ends.
    ///
    /// # Errors
    /// Says which part is wrong and why, for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lines = text
            .split('\n')
            .map(OnCalendarLine::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { lines })
    }

    /// True if a line names a zone of its own.
    pub(super) fn has_own_zone(&self) -> bool {
        self.lines.iter().any(|line| line.zone.is_some())
    }

    /// Times later than `after`.
    pub(super) fn occurrences<'a>(
        &'a self,
        after: Timestamp,
        zone: &'a Timezone,
    ) -> OnCalendarOccurrences<'a> {
        let position = |line: &'a OnCalendarLine| {
            let wall = line.zone.as_ref().unwrap_or(zone).search_start_at(after)?;
            Some(OnCalendarPosition {
                line,
                wall,
                at: after,
                local: wall,
            })
        };
        OnCalendarOccurrences {
            zone,
            last: None,
            positions: self.lines.iter().filter_map(position).collect(),
        }
    }
}

impl Iterator for OnCalendarOccurrences<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let zone = self.zone;
        let last = self.last;
        self.positions.retain_mut(|position| {
            last.is_some_and(|last| position.local > last) || position.advance(zone).is_some()
        });
        let next = self
            .positions
            .iter()
            .min_by_key(|position| position.local)?;
        self.last = Some(next.local);
        Some(next.at)
    }
}

impl OnCalendarPosition<'_> {
    /// Advances to the next time of the line; `None` at its end.
    fn advance(&mut self, zone: &Timezone) -> Option<()> {
        let line_zone = self.line.zone.as_ref();
        (self.wall, self.at) = self.line.next_after(self.wall, line_zone.unwrap_or(zone))?;
        self.local = if line_zone.is_some() {
            zone.wall_time_at(self.at)?
        } else {
            self.wall
        };
        Some(())
    }
}

impl OnCalendarLine {
    /// Next matching wall time that a clock in the zone does not skip, and the time at which the
    /// clock first shows it.
    fn next_after(&self, mut wall: WallTime, zone: &Timezone) -> Option<(WallTime, Timestamp)> {
        loop {
            wall = WallTime::from_civil(self.next_wall_time(wall.plus_secs(1).to_civil()?)?)?;
            match zone.resolve(wall)? {
                WallTimeResolution::Once(at) | WallTimeResolution::Twice([at, _], _) => {
                    return Some((wall, at));
                }
                WallTimeResolution::Skipped(_, until) => wall = until.plus_secs(-1),
            }
        }
    }

    /// First matching wall time at or after this one.
    fn next_wall_time(&self, from: DateTime) -> Option<DateTime> {
        let mut date = self.next_date(from.date())?;
        if date == from.date() {
            if let Some(time) = self.next_time(from.time()) {
                return Some(date.to_datetime(time));
            }
            date = self.next_date(date.tomorrow().ok()?)?;
        }
        Some(date.to_datetime(self.next_time(Time::midnight())?))
    }

    /// First matching date at or after this one.
    fn next_date(&self, from: Date) -> Option<Date> {
        let from = from.max(Date::constant(FIRST_YEAR, 1, 1));
        for year in from.year()..=LAST_YEAR {
            let since = usize::from(year.abs_diff(FIRST_YEAR));
            if self.years.get(since / 64)? >> (since % 64) & 1 == 0 {
                continue;
            }
            let first_month = if year == from.year() { from.month() } else { 1 };
            for month in (first_month..=12).filter(|month| self.months >> month & 1 == 1) {
                let start = if (year, month) == (from.year(), from.month()) {
                    from.day()
                } else {
                    1
                };
                let days = self.days_of(Date::new(year, month, 1).ok()?) & u64::MAX << start;
                if days != 0 {
                    return Date::new(year, month, i8::try_from(days.trailing_zeros()).ok()?).ok();
                }
            }
        }
        None
    }

    /// Matching days of the month that begins on this date.
    fn days_of(&self, first: Date) -> u64 {
        let length = first.days_in_month();
        // Mirrored, so that bit 1 becomes the last day of the month.
        let from_end = self.days_from_end.reverse_bits() >> (62 - length);
        let weekdays = self.weekdays >> first.weekday().to_monday_zero_offset() << 1;
        (self.days | from_end) & weekdays & ((2 << length) - 2)
    }

    /// First matching time of day at or after this one.
    fn next_time(&self, from: Time) -> Option<Time> {
        let hour = from.hour();
        let minute = from.minute();
        let second = from.second();
        let first_second = lowest_from(self.seconds, 0)?;
        let (hour, minute, second) = if self.hours >> hour & 1 == 0 {
            (
                lowest_from(self.hours, hour)?,
                lowest_from(self.minutes, 0)?,
                first_second,
            )
        } else if self.minutes >> minute & 1 == 1
            && let Some(second) = lowest_from(self.seconds, second)
        {
            (hour, minute, second)
        } else if let Some(minute) = lowest_from(self.minutes, minute + 1) {
            (hour, minute, first_second)
        } else {
            (
                lowest_from(self.hours, hour + 1)?,
                lowest_from(self.minutes, 0)?,
                first_second,
            )
        };
        Time::new(hour, minute, second, 0).ok()
    }
}

/// Lowest value in the set that is not below `from`.
fn lowest_from(set: u64, from: i8) -> Option<i8> {
    let rest = set >> from << from;
    (rest != 0)
        .then(|| rest.trailing_zeros())
        .and_then(|value| i8::try_from(value).ok())
}
