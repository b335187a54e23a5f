//! Cron jobs that run in real time: they skip what the clocks skip and run again in what the clocks repeat.

use super::Cron;
use crate::domain::moment::Moment;
use crate::domain::timezone::Timezone;
use crate::domain::timezone::wall::{Reading, Wall};

/// A search that takes more steps has run into one of the readings that lead back to themselves, as `54 */3 * * *` does where clocks are
/// put back at a quarter to four.
const MAX_TICKS: u32 = 1_000;

/// No clock was ever put forward or back by more than a day; the search goes back to the full hour.
const UNSETTLED_SECS: i64 = 86_400 + 3_600;

/// A clock that is moved forward from reading to reading.
struct Hand<'a> {
    zone: &'a Timezone,
    wall: Wall,
    /// Which pass of a repeated reading, or which side of a skipped one.
    second_pass: bool,
    ticks: u32,
}

impl<'a> Hand<'a> {
    fn new(zone: &'a Timezone, at: Moment) -> Option<Self> {
        let mut hand = Self { zone, wall: zone.wall(at)?, second_pass: false, ticks: 0 };
        hand.set(at)?;
        Some(hand)
    }

    fn moment(&self) -> Option<Moment> {
        Some(match self.zone.reading(self.wall)? {
            Reading::Once(at) => at,
            Reading::Twice([before, after], _) | Reading::Skipped([before, after], _) => {
                if self.second_pass {
                    after
                } else {
                    before
                }
            }
        })
    }

    fn set(&mut self, at: Moment) -> Option<()> {
        self.wall = self.zone.wall(at)?;
        self.second_pass = matches!(self.zone.reading(self.wall)?, Reading::Twice([_, second], _) if second == at);
        Some(())
    }

    /// Lets so many seconds pass.
    fn tick(&mut self, secs: i64) -> Option<()> {
        self.ticks += 1;
        self.set(self.moment()?.plus_secs(secs))
    }

    /// The unit of so many seconds, counted from midnight.
    fn units(&self, secs: i64) -> i64 {
        self.wall.second_of_day() / secs
    }

    /// Turns back to the beginning of the hour or minute, in the same pass, and lets whole ones pass until one is chosen or the first comes.
    fn advance(&mut self, chosen: u64, secs: i64, of: i64) -> Option<()> {
        self.wall = self.wall.plus_secs(-self.wall.second_of_day() % secs);
        // A minute that is the only one is gone to directly.
        if of == 60 && chosen.is_power_of_two() {
            self.tick((i64::from(chosen.trailing_zeros()) - self.units(60)).rem_euclid(60) * 60)?;
        }
        while chosen >> (self.units(secs) % of) & 1 == 0 {
            self.tick(secs)?;
            if self.units(secs) % of == 0 {
                break;
            }
        }
        Some(())
    }
}

impl Cron {
    /// A skipped time does not come, a repeated one comes in both passes.
    ///
    /// Clocks are put forward and back also by half an hour, at midnight, by a day. There the order of the steps decides what comes, and
    /// these are the steps of the reference.
    pub(super) fn next_in_real_time(&self, after: Moment, zone: &Timezone, last_year: i32) -> Option<Moment> {
        let mut hand = Hand::new(zone, after.plus_secs(1))?;
        while hand.ticks < MAX_TICKS {
            let next = self.calendar.next_after(hand.wall.plus_secs(-1), last_year)?;
            let now = hand.moment()?;
            let then = now.plus_secs(next.secs() - hand.wall.secs());
            // Far from all changes the wall clock alone decides.
            let found = if zone.is_steady(now.plus_secs(-UNSETTLED_SECS), then) {
                then
            } else if self.step(&mut hand, last_year)? {
                continue;
            } else {
                hand.moment()?
            };
            if found > after {
                return Some(found);
            }
            break;
        }
        self.next_in_stretches(after, zone, last_year)
    }

    /// Moves the hand to the next reading worth a look; false when it stands on a match.
    fn step(&self, hand: &mut Hand<'_>, last_year: i32) -> Option<bool> {
        let date = self.calendar.next_after(hand.wall.midnight().plus_secs(-1), last_year)?.midnight();
        if date != hand.wall.midnight() {
            (hand.wall, hand.second_pass) = (date, false);
        }
        if self.hours >> hand.units(3_600) & 1 == 0 {
            hand.advance(self.hours, 3_600, 24)?;
        } else if self.minutes >> (hand.units(60) % 60) & 1 == 0 {
            hand.advance(self.minutes, 60, 60)?;
        } else if hand.units(1) % 60 != 0 {
            hand.tick(60 - hand.units(1) % 60)?;
        } else {
            return Some(false);
        }
        Some(true)
    }

    /// Searches the wall clock from each change of the clocks to the next.
    fn next_in_stretches(&self, after: Moment, zone: &Timezone, last_year: i32) -> Option<Moment> {
        let mut from = after;
        let mut offset = zone.wall(after)?.secs() - after.secs();
        for change in zone.changes_after(after).map(Some).chain([None]) {
            let next = self.calendar.next_after(Wall::from_secs(from.secs() + offset), last_year)?;
            let next = Moment::from_secs(next.secs() - offset);
            match change {
                Some((begins, new_offset)) if next >= begins => (from, offset) = (begins.plus_secs(-1), new_offset),
                _ => return Some(next),
            }
        }
        None
    }
}
