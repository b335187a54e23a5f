//! When the writer has to look at the time: the wheel of deadlines, and the hourly round of housekeeping in it.

use std::collections::HashMap;

use crate::domain::check::Check;
use crate::domain::ids::CheckId;
use crate::domain::moment::Moment;
use crate::wheel::Wheel;

/// Microseconds of a tick of the wheel (about 65 ms).
const TICK_MICROS: i64 = 1 << 16;
/// The wheel's entry for housekeeping; ids of checks begin at 1.
const HOUSEKEEPING: u64 = 0;
/// Seconds between two rounds of housekeeping.
const HOUSEKEEPING_SECS: i64 = 3600;

/// The deadlines of all checks. Entries of the wheel are hints: a ping that postpones a deadline leaves them alone.
pub(super) struct Alarm {
    wheel: Wheel,
    /// The earliest tick at which each check will be looked at.
    armed: HashMap<CheckId, u64>,
    due: Vec<u64>,
}

/// What has come due.
#[derive(Default, Debug)]
pub(super) struct Due {
    /// Checks whose deadline may have passed.
    pub(super) checks: Vec<CheckId>,
    /// Time for a round of housekeeping.
    pub(super) housekeeping: bool,
    /// There is more; this was as much as was asked for.
    pub(super) more: bool,
}

/// The first tick that does not begin before the moment, so that nothing comes due early.
fn tick_after(moment: Moment) -> u64 {
    let micros = moment.micros().max(0);
    (micros / TICK_MICROS + i64::from(micros % TICK_MICROS > 0)).unsigned_abs()
}

/// The tick that has begun at a moment.
fn tick_at(moment: Moment) -> u64 {
    (moment.micros().max(0) / TICK_MICROS).unsigned_abs()
}

impl Alarm {
    /// Arms all checks, and the first round of housekeeping at once.
    pub(super) fn new<'a>(checks: impl Iterator<Item = &'a Check>, now: Moment) -> Self {
        let mut alarm = Self { wheel: Wheel::new(tick_at(now)), armed: HashMap::new(), due: Vec::new() };
        alarm.wheel.insert(tick_at(now), HOUSEKEEPING);
        checks.for_each(|check| alarm.arm(check));
        alarm
    }

    /// Sees to it that the check is looked at when its deadline passes.
    pub(super) fn arm(&mut self, check: &Check) {
        let Some(deadline) = check.state.deadline(&check.settings) else { return };
        let tick = tick_after(deadline);
        let armed = self.armed.entry(check.id).or_insert(u64::MAX);
        if tick < *armed {
            *armed = tick;
            self.wheel.insert(tick, check.id.0);
        }
    }

    /// At most `most` of what has come due at `now`. Each check named has to be armed again.
    pub(super) fn due(&mut self, now: Moment, most: usize) -> Due {
        let mut due = Due { more: self.wheel.advance(tick_at(now), most, &mut self.due), ..Due::default() };
        for id in self.due.drain(..) {
            if id == HOUSEKEEPING {
                due.housekeeping = true;
                self.wheel.insert(tick_after(now.plus_secs(HOUSEKEEPING_SECS)), HOUSEKEEPING);
            } else {
                self.armed.remove(&CheckId(id));
                due.checks.push(CheckId(id));
            }
        }
        due
    }

    /// Microseconds from `now` until something may come due.
    pub(super) fn micros_until_next(&self, now: Moment) -> Option<u64> {
        let next = i64::try_from(self.wheel.next()?.saturating_mul(TICK_MICROS.unsigned_abs())).unwrap_or(i64::MAX);
        Some(Moment::from_micros(next).micros_since(now).max(0).unsigned_abs())
    }

    /// Whether a check that waits for a deadline will be looked at no later than that.
    pub(super) fn covers(&self, check: &Check) -> bool {
        let armed = self.armed.get(&check.id);
        check.state.deadline(&check.settings).is_none_or(|deadline| armed.is_some_and(|tick| *tick <= tick_after(deadline)))
    }
}
