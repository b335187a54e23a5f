//! Cron expressions as Debian's cron reads them: five words, and a rule for changes of the clocks.

mod calendar;
mod cron_field;
mod real_time;

use calendar::CronCalendar;

use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall_time::WallTimeResolution;

/// Number of years that a search covers: the rarest date, 29 February on a weekday, comes at least
/// every 40.
const SEARCH_YEARS: i32 = 50;

/// Maximum number of days in each month.
const MAX_MONTH_DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Compiled cron expression.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    /// True if neither the minute nor the hour begins with `*`: the job runs by the wall clock.
    /// Otherwise it runs in real time.
    uses_wall_clock: bool,
    calendar: CronCalendar,
}

impl Cron {
    /// Parses the five words: minute, hour, day of month, month, weekday.
    ///
    /// # Errors
    /// Says which word is wrong and why, for people.
    pub(super) fn parse(words: [&str; 5]) -> Result<Self, String> {
        let words = words.map(str::to_uppercase);
        let [minute, hour, day, month, weekday] = &words;
        let fields = [
            cron_field::MINUTE.parse(minute)?,
            cron_field::HOUR.parse(hour)?,
            cron_field::DAY.parse(day)?,
            cron_field::MONTH.parse(month)?,
            cron_field::WEEKDAY.parse(weekday)?,
        ];
        let [minutes, hours, days, months, _] = fields;
        let longest = (1..)
            .zip(MAX_MONTH_DAYS)
            .filter(|(month, _)| months.values >> month & 1 == 1)
            .map(|(_, length)| length)
            .max();
        // Rejected even if a weekday would match as well.
        if !days.last_day && !days.last_workday && longest < Some(days.values.trailing_zeros()) {
            return Err(cron_field::DAY.error(day, "none of these months has such a day"));
        }
        let requires_both = day.starts_with('*') || weekday.starts_with('*');
        Ok(Self {
            minutes: minutes.values,
            hours: hours.values,
            uses_wall_clock: !minute.starts_with('*') && !hour.starts_with('*'),
            calendar: CronCalendar::new(fields, requires_both)
                .map_err(|error| format!("saffron: {error}"))?,
        })
    }

    /// First time later than `after`; `None` if there is none within 50 years.
    pub(super) fn next_after(&self, after: Timestamp, zone: &Timezone) -> Option<Timestamp> {
        let after = Timestamp::from_secs(after.secs());
        let last_year =
            i32::from(zone.wall_time_at(after.plus_secs(1))?.to_civil()?.year()) + SEARCH_YEARS;
        // Without changes of the clocks, both have the same result.
        if self.uses_wall_clock || *zone == Timezone::utc() {
            self.next_by_wall_clock(after, zone, last_year)
        } else {
            self.next_in_real_time(after, zone, last_year)
        }
    }

    /// Searches by the wall clock. A skipped time comes right after the gap, a repeated one in the
    /// first pass only.
    fn next_by_wall_clock(
        &self,
        after: Timestamp,
        zone: &Timezone,
        last_year: i32,
    ) -> Option<Timestamp> {
        let mut wall = self
            .calendar
            .next_after(zone.search_start_at(after)?, last_year)?;
        loop {
            match zone.resolve(wall)? {
                WallTimeResolution::Once(at) | WallTimeResolution::Twice([at, _], _) => {
                    return Some(at);
                }
                // Rounded up to whole minutes, even if the gap ends within a minute.
                WallTimeResolution::Skipped(_, until) => {
                    wall = wall.plus_secs((until.secs() - wall.secs() + 59) / 60 * 60);
                }
            }
        }
    }
}
