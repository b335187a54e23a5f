//! Cron expressions as Debian's cron and the contract read them: five words, and a rule for clocks that are put forward or back.

mod calendar;
mod field;
mod real_time;

use calendar::Calendar;

use super::moment::Moment;
use super::timezone::Timezone;
use super::timezone::wall::{Reading, Wall};

/// How many years ahead a search looks: the rarest date, 29 February on a weekday, comes at least every 40.
const YEARS_AHEAD: i32 = 50;

/// Days in each month at most, a bit for each day.
const LONGEST: [u64; 12] = {
    const fn days(days: u32) -> u64 {
        (2 << days) - 2
    }
    [days(31), days(29), days(31), days(30), days(31), days(30), days(31), days(31), days(30), days(31), days(30), days(31)]
};

/// A cron expression, compiled.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    /// Neither the minute nor the hour begins with `*`: the job runs by the clock on the wall. Otherwise it runs in real time.
    by_wall: bool,
    calendar: Calendar,
}

impl Cron {
    /// Reads the five words: minute, hour, day of month, month, weekday.
    ///
    /// # Errors
    /// Which word is wrong and why, for a person.
    pub(super) fn parse(words: [&str; 5]) -> Result<Self, String> {
        let words = words.map(str::to_uppercase);
        let [minute, hour, day, month, weekday] = &words;
        let chosen = [
            field::MINUTE.parse(minute)?,
            field::HOUR.parse(hour)?,
            field::DAY.parse(day)?,
            field::MONTH.parse(month)?,
            field::WEEKDAY.parse(weekday)?,
        ];
        let [minutes, hours, days, months, _] = chosen;
        let longest = (1..).zip(LONGEST).filter(|(month, _)| months.values >> month & 1 == 1).fold(0, |all, (_, days)| all | days);
        // Even where a weekday would do as well.
        if !days.last_day && !days.last_workday && days.values & longest == 0 {
            return Err(field::DAY.wrong(day, "no chosen month has such a day"));
        }
        let both = day.starts_with('*') || weekday.starts_with('*');
        Ok(Self {
            minutes: minutes.values,
            hours: hours.values,
            by_wall: !minute.starts_with('*') && !hour.starts_with('*'),
            calendar: Calendar::new(chosen, both).map_err(|error| format!("saffron: {error}"))?,
        })
    }

    /// The first moment later than `after`, `None` when none comes within 50 years.
    pub(super) fn next_after(&self, after: Moment, zone: &Timezone) -> Option<Moment> {
        let last_year = i32::from(zone.wall(after.plus_secs(1))?.civil()?.year()) + YEARS_AHEAD;
        if *zone == Timezone::utc() {
            let next = self.calendar.next_after(Wall::from_secs(after.secs()), last_year)?;
            return Some(Moment::from_secs(next.secs()));
        }
        if self.by_wall { self.next_by_wall(after, zone, last_year) } else { self.next_in_real_time(after, zone, last_year) }
    }

    /// A skipped time comes when the clock goes on, a repeated one in the first pass.
    fn next_by_wall(&self, after: Moment, zone: &Timezone, last_year: i32) -> Option<Moment> {
        let mut wall = zone.wall(after)?;
        loop {
            wall = self.calendar.next_after(wall, last_year)?;
            let next = loop {
                match zone.reading(wall)? {
                    Reading::Once(at) | Reading::Twice([at, _]) => break at,
                    // Readings are on a full minute, the end of what is skipped need not be.
                    Reading::Skipped(_, until) => wall = wall.plus_secs((until.secs() - wall.secs() + 59) / 60 * 60),
                }
            };
            // From within a second pass, the rest of the first is still ahead on the wall, but past.
            if next > after {
                return Some(next);
            }
        }
    }
}
