//! Cron jobs that run in real time: they skip the times that the clocks skip, and run again in the
//! times that the clocks repeat.

use super::Cron;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall_time::{WallTime, WallTimeResolution};

/// Number of steps after which a search gives up. Some wall times lead back to themselves: `54 */3
/// * * *` has one where clocks are put back at a quarter to four.
const MAX_STEPS: u32 = 1_000;

/// Seconds around a change of the clocks in which the wall clock alone does not decide. No clock
/// was ever moved by more than a day, and the search goes back to the full hour.
const TRANSITION_MARGIN_SECS: i64 = 86_400 + 3_600;

/// Position of a search on the wall clock. It moves forward from one wall time to the next.
struct WallTimeCursor<'a> {
    zone: &'a Timezone,
    wall: WallTime,
    /// True in the second pass of a repeated wall time, or if the offset after the change counts
    /// for a skipped one.
    second_pass: bool,
    steps: u32,
}

impl<'a> WallTimeCursor<'a> {
    fn new(zone: &'a Timezone, at: Timestamp) -> Option<Self> {
        let mut cursor = Self {
            zone,
            wall: zone.wall_time_at(at)?,
            second_pass: false,
            steps: 0,
        };
        cursor.set(at)?;
        Some(cursor)
    }

    fn moment(&self) -> Option<Timestamp> {
        Some(match self.zone.resolve(self.wall)? {
            WallTimeResolution::Once(at) => at,
            WallTimeResolution::Twice([before, after], _)
            | WallTimeResolution::Skipped([before, after], _) => {
                if self.second_pass {
                    after
                } else {
                    before
                }
            }
        })
    }

    fn set(&mut self, at: Timestamp) -> Option<()> {
        self.wall = self.zone.wall_time_at(at)?;
        self.second_pass = match self.zone.resolve(self.wall)? {
            WallTimeResolution::Twice([_, second], _) => second == at,
            WallTimeResolution::Once(_) | WallTimeResolution::Skipped(..) => false,
        };
        Some(())
    }

    /// Advances by this many seconds.
    fn skip_secs(&mut self, secs: i64) -> Option<()> {
        self.steps += 1;
        self.set(self.moment()?.plus_secs(secs))
    }

    /// Number of the current unit of this many seconds, counted from midnight.
    fn units_since_midnight(&self, secs: i64) -> i64 {
        self.wall.second_of_day() / secs
    }

    /// Goes back to the beginning of the hour or minute, in the same pass. Then advances by whole
    /// units until one is among `values`, or until the first of the day or hour.
    fn advance_to_match(&mut self, values: u64, unit_secs: i64, unit_count: i64) -> Option<()> {
        self.wall = self.wall.plus_secs(-self.wall.second_of_day() % unit_secs);
        // If there is only one minute, goes to it directly.
        if unit_count == 60 && values.is_power_of_two() {
            self.skip_secs(
                (i64::from(values.trailing_zeros()) - self.units_since_midnight(60)).rem_euclid(60)
                    * 60,
            )?;
        }
        while values >> (self.units_since_midnight(unit_secs) % unit_count) & 1 == 0 {
            self.skip_secs(unit_secs)?;
            if self.units_since_midnight(unit_secs) % unit_count == 0 {
                break;
            }
        }
        Some(())
    }
}

impl Cron {
    /// Finds the next time. A skipped time does not come, a repeated one comes in both passes.
    ///
    /// Some clocks are moved by half an hour, at midnight, or by a day. There the order of the
    /// steps decides the result. These are the steps that Healthchecks takes.
    pub(super) fn next_in_real_time(
        &self,
        after: Timestamp,
        zone: &Timezone,
        last_year: i32,
    ) -> Option<Timestamp> {
        let mut cursor = WallTimeCursor::new(zone, after.plus_secs(1))?;
        while cursor.steps < MAX_STEPS {
            let next = self
                .calendar
                .next_after(cursor.wall.plus_secs(-1), last_year)?;
            let now = cursor.moment()?;
            let next_at = now.plus_secs(next.secs() - cursor.wall.secs());
            // Far from all changes the wall clock alone decides.
            let found = if zone.has_no_transition(now.plus_secs(-TRANSITION_MARGIN_SECS), next_at) {
                next_at
            } else if self.advance_cursor(&mut cursor, last_year)? {
                continue;
            } else {
                cursor.moment()?
            };
            if found > after {
                return Some(found);
            }
            break;
        }
        self.next_between_transitions(after, zone, last_year)
    }

    /// Moves the cursor to the next wall time that may match. Returns false if its present one
    /// matches.
    fn advance_cursor(&self, cursor: &mut WallTimeCursor<'_>, last_year: i32) -> Option<bool> {
        let date = self
            .calendar
            .next_after(cursor.wall.midnight().plus_secs(-1), last_year)?
            .midnight();
        if date != cursor.wall.midnight() {
            (cursor.wall, cursor.second_pass) = (date, false);
        }
        if self.hours >> cursor.units_since_midnight(3_600) & 1 == 0 {
            cursor.advance_to_match(self.hours, 3_600, 24)?;
        } else if self.minutes >> (cursor.units_since_midnight(60) % 60) & 1 == 0 {
            cursor.advance_to_match(self.minutes, 60, 60)?;
        } else if cursor.units_since_midnight(1) % 60 != 0 {
            cursor.skip_secs(60 - cursor.units_since_midnight(1) % 60)?;
        } else {
            return Some(false);
        }
        Some(true)
    }

    /// Searches the wall clock from each change of the clocks to the next.
    fn next_between_transitions(
        &self,
        after: Timestamp,
        zone: &Timezone,
        last_year: i32,
    ) -> Option<Timestamp> {
        let mut from = after;
        let mut offset = zone.wall_time_at(after)?.secs() - after.secs();
        for change in zone.transitions_after(after).map(Some).chain([None]) {
            let next = self
                .calendar
                .next_after(WallTime::from_secs(from.secs() + offset), last_year)?;
            let next = Timestamp::from_secs(next.secs() - offset);
            match change {
                Some((begins, new_offset)) if next >= begins => {
                    (from, offset) = (begins.plus_secs(-1), new_offset);
                }
                _ => return Some(next),
            }
        }
        None
    }
}
