//! Jobs of a soak: the times at which each of them reports, fails, is silent or comes back.

use std::collections::BTreeMap;

use overdue::domain::ping::PingKind;

use super::model::{DAY, HOUR, JobSchedule, MINUTE};
use crate::support::seeded_rng::SeededRng;

/// Interval at which the clock moves. All jobs report at multiples of it.
pub(super) const TICK: i64 = 10 * MINUTE;

/// Next action of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobAction {
    /// It begins a run, or reports one that was short.
    Begin,
    /// It ends the run that it began.
    Complete,
}

/// Action of the job of a check, which may have been deleted in the meantime.
#[derive(Clone, Copy, Debug)]
struct JobEvent {
    slot: usize,
    uuid: u128,
    action: JobAction,
}

/// All jobs. A job is known by its slot and by the UUID of its check.
#[derive(Default)]
pub(super) struct Jobs(BTreeMap<i64, Vec<JobEvent>>);

/// Returns the schedule of the job in a slot, and the grace time of its check. No deadline is at a
/// multiple of [`TICK`].
pub(super) fn schedule_of(slot: usize) -> (JobSchedule, i64) {
    let grace = if slot.is_multiple_of(2) {
        HOUR
    } else {
        HOUR / 2
    };
    let schedule = if slot % 200 == 7 {
        JobSchedule::Every(TICK)
    } else if slot % 100 == 9 {
        JobSchedule::HalfHourly
    } else if slot % 33 == 3 {
        JobSchedule::Every(HOUR)
    } else if slot % 30 == 2 {
        JobSchedule::Every(6 * HOUR)
    } else if slot % 20 == 5 {
        JobSchedule::Every(7 * DAY)
    } else if slot.is_multiple_of(3) {
        JobSchedule::Daily((slot % 24) as i8)
    } else {
        JobSchedule::Every(DAY)
    };
    (schedule, grace + 1)
}

/// True if the output of the job in a slot is long.
pub(super) fn is_verbose(slot: usize) -> bool {
    slot % 200 == 11 || slot % 1000 == 36
}

/// True if the job in a slot often fails or is silent.
fn is_flapping(slot: usize) -> bool {
    slot % 10 == 4
}

impl Jobs {
    /// Begins the job of a new check within its first interval.
    pub(super) fn begin(&mut self, slot: usize, uuid: u128, now: i64, rng: &SeededRng) {
        let interval = match schedule_of(slot).0 {
            JobSchedule::Every(secs) => secs,
            JobSchedule::HalfHourly => HOUR / 2,
            JobSchedule::Daily(_) => DAY,
        };
        let ticks = 1 + rng.below((interval / TICK) as u64) as i64;
        self.add(now + ticks * TICK, slot, uuid, JobAction::Begin);
    }

    fn add(&mut self, at: i64, slot: usize, uuid: u128, action: JobAction) {
        let event = JobEvent { slot, uuid, action };
        self.0.entry(at).or_default().push(event);
    }

    /// Returns the pings at `now`, each with its slot, and plans the next ones. `uuids` has the
    /// UUID of the current check in each slot.
    pub(super) fn take_due(
        &mut self,
        now: i64,
        uuids: impl Fn(usize) -> u128,
        rng: &SeededRng,
    ) -> Vec<(usize, PingKind)> {
        let mut pings = Vec::new();
        for JobEvent { slot, uuid, action } in self.0.remove(&now).unwrap_or_default() {
            if uuids(slot) != uuid {
                continue;
            }
            match action {
                JobAction::Begin => self.begin_run(slot, uuid, now, rng, &mut pings),
                JobAction::Complete => {
                    pings.push((slot, PingKind::Success));
                    self.plan_next(slot, uuid, now, rng);
                }
            }
        }
        pings
    }

    fn begin_run(
        &mut self,
        slot: usize,
        uuid: u128,
        now: i64,
        rng: &SeededRng,
        pings: &mut Vec<(usize, PingKind)>,
    ) {
        // Of a thousand runs.
        let trouble = if is_flapping(slot) { 100 } else { 2 };
        let (schedule, _) = schedule_of(slot);
        let drawn = rng.below(1000);
        if drawn < trouble {
            // The job is silent for some intervals, sometimes for many.
            let intervals = 2 + rng.below(if rng.chance(10) { 20 } else { 4 });
            let end = (0..intervals).fold(now, |at, _| schedule.next_after(at));
            return self.add(end, slot, uuid, JobAction::Begin);
        }
        if drawn < 2 * trouble {
            pings.push((slot, PingKind::Log));
            pings.push((slot, PingKind::Fail));
            return self.plan_next(slot, uuid, now, rng);
        }
        let is_measured = schedule != JobSchedule::Every(TICK) && slot.is_multiple_of(5);
        if !is_measured {
            pings.push((slot, PingKind::Success));
            return self.plan_next(slot, uuid, now, rng);
        }
        pings.push((slot, PingKind::Start));
        if drawn < 3 * trouble {
            // The run does not end. The next one begins as planned.
            self.plan_next(slot, uuid, now, rng);
        } else {
            self.add(now + TICK, slot, uuid, JobAction::Complete);
        }
    }

    fn plan_next(&mut self, slot: usize, uuid: u128, now: i64, rng: &SeededRng) {
        let (schedule, _) = schedule_of(slot);
        let is_late = schedule != JobSchedule::Every(TICK) && rng.chance(20);
        let at = schedule.next_after(now) + if is_late { TICK } else { 0 };
        self.add(at, slot, uuid, JobAction::Begin);
    }
}
