//! Deadlines: determines when the writer must check the time, by a timing wheel of the deadlines
//! and of the hourly housekeeping.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::domain::check::{Check, WarningKind};
use crate::domain::ids::CheckId;
use crate::domain::timestamp::Timestamp;
use crate::util::wheel::TimingWheel;

/// Microseconds of a tick of the wheel (about 65 ms).
const TICK_MICROS: i64 = 1 << 16;
/// Entry of the wheel for housekeeping. Ids of checks begin at 1.
const HOUSEKEEPING_ENTRY: u64 = 0;
/// Seconds between two rounds of housekeeping.
const HOUSEKEEPING_SECS: i64 = 3600;

/// Numbers of entries, for each check and in addition, above which the wheel is rebuilt. Most
/// entries are then stale.
const ENTRIES_PER_CHECK: usize = 4;
const STALE_ENTRY_ALLOWANCE: usize = 4096;

/// Deadlines of all checks. Entries of the wheel are hints: a ping that postpones a deadline does
/// not remove them.
pub(super) struct DeadlineWheel {
    wheel: TimingWheel,
    armed: HashMap<CheckId, ArmedTicks, RandomState>,
    /// Latest tick for which due entries were taken.
    latest_tick: u64,
    /// Tick of the next round of housekeeping.
    housekeeping: u64,
    due: Vec<u64>,
}

/// Two earliest entries of a check in the wheel. The deadline of a run often precedes that of
/// the ping. Remembering both avoids inserting the latter again after every run.
struct ArmedTicks {
    next: u64,
    later: Option<u64>,
}

/// Work that is due.
#[derive(Default, Debug)]
pub(super) struct DueWork {
    /// Checks whose deadline may have passed.
    pub(super) checks: Vec<CheckId>,
    /// True if a round of housekeeping is due.
    pub(super) housekeeping: bool,
    /// True if more checks are due than the requested number.
    pub(super) more: bool,
}

/// First tick that does not begin before the moment, so that nothing is due early.
fn tick_after(moment: Timestamp) -> u64 {
    let micros = moment.micros().max(0);
    (micros / TICK_MICROS + i64::from(micros % TICK_MICROS > 0)).unsigned_abs()
}

/// Tick in which a moment lies.
fn tick_at(moment: Timestamp) -> u64 {
    (moment.micros().max(0) / TICK_MICROS).unsigned_abs()
}

/// Returns the time after which a warning must have fallen due to be still given.
fn oldest_warning_time(now: Timestamp) -> Timestamp {
    now.plus_secs(-WarningKind::MAX_DELAY_SECS)
}

/// Time at which a tick begins.
fn time_of(tick: u64) -> Timestamp {
    let tick = i64::try_from(tick).unwrap_or(i64::MAX);
    Timestamp::from_micros(tick.saturating_mul(TICK_MICROS))
}

impl DeadlineWheel {
    /// Arms all checks. The first round of housekeeping is due at once.
    pub(super) fn new<'a>(checks: impl Iterator<Item = &'a Check>, now: Timestamp) -> Self {
        let tick = tick_at(now);
        let mut deadlines = Self {
            wheel: TimingWheel::new(tick),
            armed: HashMap::default(),
            latest_tick: tick,
            housekeeping: tick_at(now),
            due: Vec::new(),
        };
        deadlines.rebuild(checks);
        deadlines
    }

    /// Removes a deleted check. Its entries in the wheel stay until they are due or the wheel is
    /// rebuilt.
    pub(super) fn disarm(&mut self, id: CheckId) {
        self.armed.remove(&id);
    }

    /// True if most entries of the wheel are stale.
    pub(super) fn has_stale_entries(&self) -> bool {
        self.wheel.len() > STALE_ENTRY_ALLOWANCE + ENTRIES_PER_CHECK * self.armed.len()
    }

    /// Rebuilds the wheel with the needed entries only. Due warnings stay, since they may not have
    /// been taken yet.
    pub(super) fn rebuild<'a>(&mut self, checks: impl Iterator<Item = &'a Check>) {
        let oldest = oldest_warning_time(time_of(self.latest_tick));
        (self.wheel, self.armed) = (TimingWheel::new(self.latest_tick), HashMap::default());
        self.wheel.insert(self.housekeeping, HOUSEKEEPING_ENTRY);
        checks.for_each(|check| self.arm_after(oldest, check));
    }

    /// Arms a check for its deadline, the decision about a held alert, or a warning.
    pub(super) fn arm(&mut self, check: &Check) {
        // A warning whose time was examined is not wanted. Its entry would be due at once,
        // repeatedly.
        self.arm_after(time_of(self.latest_tick), check);
    }

    /// Arms a check that was not evaluated when it was due.
    pub(super) fn arm_unevaluated(&mut self, check: &Check, now: Timestamp) {
        self.arm_after(oldest_warning_time(now), check);
    }

    fn arm_after(&mut self, oldest: Timestamp, check: &Check) {
        let Check {
            state, settings, ..
        } = check;
        let times = [
            state.next_evaluation(settings),
            state.next_warning(settings, oldest),
        ];
        let Some(at) = times.into_iter().flatten().min() else {
            return;
        };
        let next = tick_after(at);
        let later = self.armed.get(&check.id).map(|armed| armed.next);
        if later.is_none_or(|later| next < later) {
            self.armed.insert(check.id, ArmedTicks { next, later });
            self.wheel.insert(next, check.id.0);
        }
    }

    /// True if due entries were taken for a time later than `now`. Entries armed for a time in
    /// between would be due at once, repeatedly.
    pub(super) fn is_ahead_of(&self, now: Timestamp) -> bool {
        self.latest_tick > tick_at(now)
    }

    /// Takes at most `limit` entries that are due at `now`. The caller must arm each returned check
    /// again.
    pub(super) fn take_due(&mut self, now: Timestamp, limit: usize) -> DueWork {
        self.latest_tick = self.latest_tick.max(tick_at(now));
        let mut due = DueWork {
            more: self.wheel.advance(self.latest_tick, limit, &mut self.due),
            ..DueWork::default()
        };
        for id in self.due.drain(..) {
            if id == HOUSEKEEPING_ENTRY {
                due.housekeeping = true;
                self.housekeeping = tick_after(now.plus_secs(HOUSEKEEPING_SECS));
                self.wheel.insert(self.housekeeping, HOUSEKEEPING_ENTRY);
                continue;
            }
            // An entry before the next known one is superseded.
            let id = CheckId(id);
            let Some(armed) = self
                .armed
                .get_mut(&id)
                .filter(|armed| armed.next <= self.latest_tick)
            else {
                continue;
            };
            match armed.later.take() {
                Some(later) => armed.next = later,
                None => drop(self.armed.remove(&id)),
            }
            due.checks.push(id);
        }
        due
    }

    /// Microseconds from `now` until an entry may be due.
    pub(super) fn micros_until_next(&self, now: Timestamp) -> Option<u64> {
        let next = time_of(self.wheel.next_tick()?);
        Some(next.micros_since(now).max(0).unsigned_abs())
    }

    /// True if the check will be evaluated in time, or waits for nothing.
    pub(super) fn covers(&self, check: &Check) -> bool {
        let armed = self.armed.get(&check.id);
        check
            .state
            .next_evaluation(&check.settings)
            .is_none_or(|at| armed.is_some_and(|armed| armed.next <= tick_after(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ProjectId;
    use crate::domain::ping::PingKind;
    use crate::util::random::Random;

    const DAY: i64 = 86_400;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    /// Check with a daily ping and an hour of grace.
    fn daily() -> Check {
        let random = Random::seeded(1);
        let state = crate::domain::check::CheckState::new(at(0));
        let id = CheckId(1);
        let project = ProjectId(2);
        Check {
            id,
            uuid: random.uuid(),
            badge: random.uuid(),
            project,
            settings: std::sync::Arc::default(),
            state,
            alerted_labels: None,
        }
    }

    fn ping(deadlines: &mut DeadlineWheel, check: &mut Check, kind: PingKind, now: Timestamp) {
        check.state.apply_ping(
            &check.settings.clone(),
            kind.into(),
            None,
            now,
            &mut Vec::new(),
        );
        deadlines.arm(check);
    }

    #[test]
    fn runs_that_end_in_time_leave_few_entries() {
        let mut check = daily();
        let mut deadlines = DeadlineWheel::new(std::iter::once(&check), at(0));
        for run in 0..1000 {
            let start = run * 2 * 3600;
            ping(&mut deadlines, &mut check, PingKind::Start, at(start));
            ping(
                &mut deadlines,
                &mut check,
                PingKind::Success,
                at(start + 60),
            );
            assert!(deadlines.covers(&check));
            if !deadlines.take_due(at(start + 3601), 512).checks.is_empty() {
                deadlines.arm(&check);
            }
            assert!(deadlines.covers(&check));
            assert!(
                deadlines.wheel.len() <= 4,
                "{} entries after {run} runs",
                deadlines.wheel.len()
            );
        }
    }

    #[test]
    fn no_check_is_due_before_its_deadline_or_much_later() {
        let mut check = daily();
        let mut deadlines = DeadlineWheel::new(std::iter::once(&check), at(0));
        ping(
            &mut deadlines,
            &mut check,
            PingKind::Success,
            at(0).plus_micros(1),
        );
        // The check is late before: the warning is examined once.
        let late = at(DAY + 60);
        assert!(deadlines.take_due(late, 512).checks.is_empty());
        let after = late.plus_micros(1 + TICK_MICROS);
        assert_eq!(deadlines.take_due(after, 512).checks, [check.id]);
        deadlines.arm(&check);
        assert!(deadlines.take_due(at(DAY + 3600), 512).checks.is_empty());
        assert_eq!(
            deadlines
                .take_due(at(DAY + 3600).plus_micros(1 + TICK_MICROS), 512)
                .checks,
            [check.id]
        );
    }

    #[test]
    fn a_due_warning_that_is_not_taken_yet_stays_in_a_rebuilt_wheel() {
        let mut check = daily();
        let mut deadlines = DeadlineWheel::new(std::iter::once(&check), at(0));
        ping(&mut deadlines, &mut check, PingKind::Success, at(0));
        let late = at(DAY + 61);
        // The hourly work comes first.
        let first = deadlines.take_due(late, 1);
        assert!(first.housekeeping && first.more && first.checks.is_empty());
        deadlines.rebuild(std::iter::once(&check));
        assert_eq!(deadlines.take_due(late, 1).checks, [check.id]);
    }

    #[test]
    fn deleted_checks_leave_no_entries() {
        let mut deadlines = DeadlineWheel::new(std::iter::empty(), at(0));
        for number in 1..20_000 {
            let mut check = Check {
                id: CheckId(number),
                ..daily()
            };
            ping(&mut deadlines, &mut check, PingKind::Success, at(0));
            deadlines.disarm(check.id);
            if deadlines.has_stale_entries() {
                deadlines.rebuild(std::iter::empty());
            }
            assert!(
                deadlines.wheel.len() <= STALE_ENTRY_ALLOWANCE + 1 && deadlines.armed.is_empty(),
                "{} entries",
                deadlines.wheel.len()
            );
        }
        assert!(
            deadlines.take_due(at(1), 512).housekeeping,
            "the round of housekeeping is kept"
        );
    }

    #[test]
    fn a_wheel_is_ahead_of_a_clock_that_was_set_back() {
        let check = daily();
        let mut deadlines = DeadlineWheel::new(std::iter::once(&check), at(0));
        assert!(!deadlines.is_ahead_of(at(0)));
        while deadlines.take_due(at(DAY), 512).more {}
        assert!(deadlines.is_ahead_of(at(0)) && !deadlines.is_ahead_of(at(DAY)));
    }
}
