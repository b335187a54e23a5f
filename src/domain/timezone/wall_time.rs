//! Wall-clock times. They have a type of their own, since one wall time can be one point in time,
//! two, or none.

use jiff::civil;
use jiff::tz::{AmbiguousOffset, Offset};

use super::Timezone;
use crate::domain::timestamp::Timestamp;

/// Time that a wall clock shows: seconds since it showed 1970-01-01T00:00:00, with 86,400 seconds
/// in every day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct WallTime(i64);

impl WallTime {
    pub(crate) const fn from_secs(secs: i64) -> Self {
        Self(secs)
    }

    pub(crate) const fn secs(self) -> i64 {
        self.0
    }

    pub(crate) const fn plus_secs(self, secs: i64) -> Self {
        Self(self.0.saturating_add(secs))
    }

    pub(crate) const fn second_of_day(self) -> i64 {
        self.0.rem_euclid(86_400)
    }

    pub(crate) const fn midnight(self) -> Self {
        Self(self.0 - self.second_of_day())
    }

    /// Date and time of day; `None` outside years -9999 to 9999.
    pub(crate) fn to_civil(self) -> Option<civil::DateTime> {
        jiff::Timestamp::from_second(self.0)
            .ok()
            .map(|stamp| Offset::UTC.to_datetime(stamp))
    }

    /// Converts a date and time; `None` for the last day that a date can have.
    pub(crate) fn from_civil(shown: civil::DateTime) -> Option<Self> {
        Offset::UTC
            .to_timestamp(shown)
            .ok()
            .map(|stamp| Self(stamp.as_second()))
    }
}

/// Points in time at which a clock shows a wall time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WallTimeResolution {
    /// The clock shows it once.
    Once(Timestamp),
    /// The clocks are put back: the times of the first and the second pass, and the wall time that
    /// ends the repeated part.
    Twice([Timestamp; 2], WallTime),
    /// The clocks are put forward over it: the times by the offsets before and after, neither of
    /// which shows it, and the wall time that ends the gap.
    Skipped([Timestamp; 2], WallTime),
}

/// All methods return `None` if the result is outside years -9999 to 9999.
impl Timezone {
    /// Wall time at this point in time, rounded down to whole seconds.
    pub(crate) fn wall_time_at(&self, at: Timestamp) -> Option<WallTime> {
        let stamp = jiff::Timestamp::from_second(at.secs()).ok()?;
        Some(WallTime(
            at.secs() + i64::from(self.rules().to_offset(stamp).seconds()),
        ))
    }

    /// Wall time from which a search for times after `at` starts, exclusive. In the second pass of
    /// a repeated hour: the end of that hour.
    pub(crate) fn search_start_at(&self, at: Timestamp) -> Option<WallTime> {
        let wall = self.wall_time_at(at)?;
        Some(match self.resolve(wall)? {
            WallTimeResolution::Twice([_, second], until) if second.secs() == at.secs() => {
                until.plus_secs(-1)
            }
            _ => wall,
        })
    }

    /// Points in time at which the clock shows this wall time.
    pub(crate) fn resolve(&self, wall: WallTime) -> Option<WallTimeResolution> {
        let at = |offset: Offset| Timestamp::from_secs(wall.0 - i64::from(offset.seconds()));
        // By the greater of the two offsets, the wall time is before the change of the clocks. The
        // affected part ends by that offset.
        let until = |offset: Offset| {
            self.transitions_after(at(offset))
                .next()
                .map(|(change, _)| WallTime(change.secs() + i64::from(offset.seconds())))
        };
        Some(
            match self
                .rules()
                .to_ambiguous_timestamp(wall.to_civil()?)
                .offset()
            {
                AmbiguousOffset::Unambiguous { offset } => WallTimeResolution::Once(at(offset)),
                AmbiguousOffset::Fold { before, after } => {
                    WallTimeResolution::Twice([at(before), at(after)], until(before)?)
                }
                AmbiguousOffset::Gap { before, after } => {
                    WallTimeResolution::Skipped([at(before), at(after)], until(after)?)
                }
            },
        )
    }

    /// First time of the day that begins at the wall time `midnight`. If the clocks are put forward
    /// over midnight, the time of that change.
    pub(crate) fn start_of_day(&self, midnight: WallTime) -> Option<Timestamp> {
        match self.resolve(midnight)? {
            WallTimeResolution::Once(at) | WallTimeResolution::Twice([at, _], _) => Some(at),
            // By the offset after the change, the wall time is before the change.
            WallTimeResolution::Skipped([_, before], _) => self
                .transitions_after(before)
                .next()
                .map(|(change, _)| change),
        }
    }

    /// Later changes of the zone's rules, each with its new offset from UTC in seconds. Some change
    /// only a name.
    pub(crate) fn transitions_after(
        &self,
        after: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, i64)> {
        let changes = jiff::Timestamp::from_second(after.secs())
            .ok()
            .map(|stamp| self.rules().following(stamp));
        changes.into_iter().flatten().map(|change| {
            (
                Timestamp::from_secs(change.timestamp().as_second()),
                i64::from(change.offset().seconds()),
            )
        })
    }

    /// True if the zone's rules stay the same from just after `from` up to and including `to`.
    pub(crate) fn has_no_transition(&self, from: Timestamp, to: Timestamp) -> bool {
        self.transitions_after(from)
            .next()
            .is_none_or(|(change, _)| change > to)
    }
}
