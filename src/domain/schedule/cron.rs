//! Cron expressions as Debian's cron reads them: five words, and a rule for clocks that are put forward or back.

mod calendar;
mod cron_field;
mod real_time;

use calendar::CronCalendar;

use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall_time::WallTimeResolution;

/// How many years ahead a search looks: the rarest date, 29 February on a weekday, comes at least every 40.
const SEARCH_YEARS: i32 = 50;

/// Days in each month at most.
const MAX_MONTH_DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A cron expression, compiled.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    /// Neither the minute nor the hour begins with `*`: the job runs by the clock on the wall. Otherwise it runs in real time.
    uses_wall_clock: bool,
    calendar: CronCalendar,
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
            cron_field::MINUTE.parse(minute)?,
            cron_field::HOUR.parse(hour)?,
            cron_field::DAY.parse(day)?,
            cron_field::MONTH.parse(month)?,
            cron_field::WEEKDAY.parse(weekday)?,
        ];
        let [minutes, hours, days, months, _] = chosen;
        let longest = (1..).zip(MAX_MONTH_DAYS).filter(|(month, _)| months.values >> month & 1 == 1).map(|(_, length)| length).max();
        // Refused even where a weekday would do as well.
        if !days.last_day && !days.last_workday && longest < Some(days.values.trailing_zeros()) {
            return Err(cron_field::DAY.error(day, "no chosen month has such a day"));
        }
        let both = day.starts_with('*') || weekday.starts_with('*');
        Ok(Self {
            minutes: minutes.values,
            hours: hours.values,
            uses_wall_clock: !minute.starts_with('*') && !hour.starts_with('*'),
            calendar: CronCalendar::new(chosen, both).map_err(|error| format!("saffron: {error}"))?,
        })
    }

    /// The first moment later than `next_after`, `None` when none comes within 50 years.
    pub(super) fn next_after(&self, after: Timestamp, zone: &Timezone) -> Option<Timestamp> {
        let after = Timestamp::from_secs(after.secs());
        let last_year = i32::from(zone.wall_time_at(after.plus_secs(1))?.to_civil()?.year()) + SEARCH_YEARS;
        // Where clocks never change, both come to the same.
        if self.uses_wall_clock || *zone == Timezone::utc() {
            self.next_by_wall_clock(after, zone, last_year)
        } else {
            self.next_in_real_time(after, zone, last_year)
        }
    }

    /// A skipped time comes when the clock goes on, a repeated one in the first pass.
    fn next_by_wall_clock(&self, after: Timestamp, zone: &Timezone, last_year: i32) -> Option<Timestamp> {
        let mut wall = self.calendar.next_after(zone.last_shown_by(after)?, last_year)?;
        loop {
            match zone.resolve(wall)? {
                WallTimeResolution::Once(at) | WallTimeResolution::Twice([at, _], _) => return Some(at),
                // In whole minutes, even where what is skipped ends within one.
                WallTimeResolution::Skipped(_, until) => wall = wall.plus_secs((until.secs() - wall.secs() + 59) / 60 * 60),
            }
        }
    }
}
