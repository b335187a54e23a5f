//! Limits for the runs of a check, and warnings about a check that is not down: it is late, or a
//! run passes a limit.

use super::{CheckSettings, CheckState};
use crate::domain::check_edit::field_value::{
    CheckFieldType, CheckFieldValue, EditValue, InvalidValue, ValueProblem,
};
use crate::domain::status::Status;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// Limit of a run in seconds, from 1 to 31,536,000 (365 days), or none: see
/// [limits](crate::docs::limits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RunLimit(u32);

impl RunLimit {
    /// Maximum: 365 days.
    pub const MAX: i64 = 31_536_000;

    /// Returns the limit of this number of seconds; 0 is none.
    ///
    /// # Errors
    /// If the number is negative or above the maximum.
    pub fn parse(number: i64) -> Result<Self, ValueProblem> {
        match number {
            ..0 => Err(ValueProblem::TooSmall),
            // In range, so it fits.
            0..=Self::MAX => Ok(Self(number as u32)),
            _ => Err(ValueProblem::TooLarge),
        }
    }

    /// Number of seconds. `None` if there is no limit.
    pub fn secs(self) -> Option<i64> {
        (self.0 > 0).then_some(self.0.into())
    }

    /// Number of seconds, 0 if there is no limit: the number that [`parse`](Self::parse) reads.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl EditValue for RunLimit {
    const FORM: CheckFieldType = CheckFieldType::Duration {
        min: 0,
        max: Self::MAX,
    };

    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        let CheckFieldValue::Number(number) = value else {
            return Err(Self::FORM.unexpected());
        };
        Self::parse(*number).map_err(|problem| {
            let max = Self::MAX;
            let explanation = format!("give a whole number of seconds up to {max}, or 0 for none");
            InvalidValue::new(problem, explanation)
        })
    }

    fn value(&self) -> CheckFieldValue<'_> {
        CheckFieldValue::Number(self.0.into())
    }
}

/// Limits for the runs of a check. A run that passes one causes a warning; the status of the check
/// does not depend on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunLimits {
    /// Longest time that a run may take.
    pub longest_run: RunLimit,
    /// Shortest time in which a run can succeed.
    pub shortest_run: RunLimit,
    /// Longest time after the expected ping by which a run must have started.
    pub latest_start: RunLimit,
}

/// Warning about a check that is not down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WarningKind {
    /// The expected ping did not arrive.
    Late,
    /// No run started within [`RunLimits::latest_start`].
    NotStarted,
    /// A run takes longer than [`RunLimits::longest_run`].
    RanLong,
    /// A run succeeded faster than [`RunLimits::shortest_run`].
    RanShort,
}

impl WarningKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Late, Self::NotStarted, Self::RanLong, Self::RanShort];
    /// Kinds that are about the expected ping.
    pub(super) const OF_EXPECTATION: &[Self] = &[Self::Late, Self::NotStarted];
    /// Seconds after the expected time at which a check counts as late for warnings: jobs that
    /// start at that time have time to say so.
    pub const LATE_SECS: i64 = 60;
    /// Seconds after which a warning that could not be given any earlier is left out.
    pub const MAX_DELAY_SECS: i64 = 15 * 60;

    /// Word for the warning in API responses and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::NotStarted => "not-started",
            Self::RanLong => "ran-long",
            Self::RanShort => "ran-short",
        }
    }
}

/// Set of kinds of warnings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WarningSet(u8);

impl WarningSet {
    /// Returns the set of these bits. Unknown bits are ignored.
    pub fn from_bits(bits: u8) -> Self {
        let kinds = WarningKind::ALL.into_iter();
        Self(bits & kinds.fold(0, |all, kind| all | Self::bit(kind)))
    }

    /// Bits that [`from_bits`](Self::from_bits) reads.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// True if the kind is in the set.
    pub fn contains(self, kind: WarningKind) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    /// Adds a kind.
    pub fn insert(&mut self, kind: WarningKind) {
        self.0 |= Self::bit(kind);
    }

    /// Removes kinds.
    pub(super) fn remove(&mut self, kinds: &[WarningKind]) {
        for kind in kinds {
            self.0 &= !Self::bit(*kind);
        }
    }

    fn bit(kind: WarningKind) -> u8 {
        // Stored: the bits of the kinds never change.
        match kind {
            WarningKind::Late => 1,
            WarningKind::NotStarted => 2,
            WarningKind::RanLong => 4,
            WarningKind::RanShort => 8,
        }
    }
}

/// Warning with its time and limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Kind of the warning.
    pub kind: WarningKind,
    /// Expected ping or start of the run: the time from which the limit counts.
    pub from: Timestamp,
    /// Time at which the limit was passed. Of a run that was too short, its end.
    pub at: Timestamp,
    /// Limit that was passed. None for a check that is late.
    pub limit: RunLimit,
}

impl Warning {
    fn new(kind: WarningKind, from: Timestamp, limit: RunLimit) -> Option<Self> {
        let secs = match kind {
            WarningKind::Late => WarningKind::LATE_SECS,
            _ => limit.secs()?,
        };
        Some(Self {
            kind,
            from,
            at: from.plus_secs(secs),
            limit,
        })
    }
}

impl CheckState {
    /// Warnings that become due unless something happens, and were not given yet. Those at or after
    /// the deadline are left out: the check is down then.
    fn pending_warnings(&self, settings: &CheckSettings) -> impl Iterator<Item = Warning> {
        let limits = &settings.limits;
        let expected = self
            .grace_start
            .filter(|_| self.status == Status::Up && self.run.is_none());
        let run = self
            .run
            .filter(|_| matches!(self.status, Status::New | Status::Up));
        let of_expected = |kind, limit| Warning::new(kind, expected?, limit);
        let all = [
            of_expected(WarningKind::Late, RunLimit::default()),
            of_expected(WarningKind::NotStarted, limits.latest_start),
            run.and_then(|run| Warning::new(WarningKind::RanLong, run.start, limits.longest_run)),
        ];
        let deadline = self.deadline(settings);
        let given = self.given_warnings;
        all.into_iter()
            .flatten()
            .filter(move |warning| !given.contains(warning.kind))
            .filter(move |warning| deadline.is_none_or(|deadline| warning.at < deadline))
    }

    /// Time of the next warning after `after`, unless something happens.
    pub fn next_warning(&self, settings: &CheckSettings, after: Timestamp) -> Option<Timestamp> {
        let times = self.pending_warnings(settings).map(|warning| warning.at);
        times.filter(|at| *at > after).min()
    }

    /// Time at which the check is evaluated next, unless something happens: its deadline, a pending
    /// decision, or a warning that is still to be given at `now`. Not after `now` if any of them is
    /// due.
    pub fn next_due(&self, settings: &CheckSettings, now: Timestamp) -> Option<Timestamp> {
        let oldest = now.plus_secs(-WarningKind::MAX_DELAY_SECS - 1);
        let times = [
            self.next_evaluation(settings),
            self.next_warning(settings, oldest),
        ];
        times.into_iter().flatten().min()
    }

    /// Warnings that are due at `now`, oldest first. Warnings that are too old are left out.
    pub fn due_warnings(&self, settings: &CheckSettings, now: Timestamp) -> Vec<Warning> {
        let oldest = now.plus_secs(-WarningKind::MAX_DELAY_SECS);
        let mut due: Vec<_> = self
            .pending_warnings(settings)
            .filter(|warning| (oldest..=now).contains(&warning.at))
            .collect();
        due.sort_by_key(|warning| (warning.at, warning.kind));
        due
    }

    /// Warning about the run that succeeded at `now`, if it was too short.
    pub fn short_run_warning(&self, settings: &CheckSettings, now: Timestamp) -> Option<Warning> {
        let limit = settings.limits.shortest_run;
        let took = self.last_duration?;
        (took < limit.secs()? * MICROS_PER_SEC).then_some(Warning {
            kind: WarningKind::RanShort,
            from: now.plus_micros(-took),
            at: now,
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::check::{FlipCause, PingMeaning};
    use crate::domain::number::Seconds;
    use crate::domain::schedule::Schedule;

    const START: i64 = 1_800_000_000;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(START + secs)
    }

    /// Hourly check with 10 minutes of grace and these limits, pinged at 0.
    fn hourly(limits: RunLimits) -> (CheckState, CheckSettings) {
        let settings = CheckSettings {
            timeout: Seconds::HOUR,
            grace: Seconds::parse(600).unwrap(),
            limits,
            ..CheckSettings::default()
        };
        let mut state = CheckState::new(at(0));
        ping(&mut state, &settings, PingMeaning::Success, 0);
        (state, settings)
    }

    fn ping(state: &mut CheckState, settings: &CheckSettings, meaning: PingMeaning, secs: i64) {
        state.apply_ping(settings, meaning, None, at(secs), &mut Vec::new());
    }

    fn limits(longest: i64, shortest: i64, latest: i64) -> RunLimits {
        let [longest_run, shortest_run, latest_start] =
            [longest, shortest, latest].map(|secs| RunLimit::parse(secs).unwrap());
        RunLimits {
            longest_run,
            shortest_run,
            latest_start,
        }
    }

    fn due(state: &CheckState, settings: &CheckSettings, secs: i64) -> Vec<WarningKind> {
        let due = state.due_warnings(settings, at(secs));
        due.into_iter().map(|warning| warning.kind).collect()
    }

    #[test]
    fn a_check_is_late_once_a_minute_after_its_time() {
        let (mut state, settings) = hourly(RunLimits::default());
        assert_eq!(due(&state, &settings, 3659), []);
        assert_eq!(state.next_warning(&settings, at(3659)), Some(at(3660)));
        assert_eq!(state.next_warning(&settings, at(3660)), None);
        assert_eq!(due(&state, &settings, 3660), [WarningKind::Late]);
        state.given_warnings.insert(WarningKind::Late);
        assert_eq!(due(&state, &settings, 3700), []);
        // The next ping allows another one.
        ping(&mut state, &settings, PingMeaning::Success, 3720);
        assert_eq!(due(&state, &settings, 3720 + 3660), [WarningKind::Late]);
    }

    #[test]
    fn a_run_that_has_started_is_not_late() {
        let (mut state, settings) = hourly(limits(200, 0, 120));
        assert_eq!(
            due(&state, &settings, 3720),
            [WarningKind::Late, WarningKind::NotStarted]
        );
        ping(&mut state, &settings, PingMeaning::Start, 3605);
        assert_eq!(due(&state, &settings, 3804), []);
        assert_eq!(due(&state, &settings, 3805), [WarningKind::RanLong]);
        state.given_warnings.insert(WarningKind::RanLong);
        assert_eq!(due(&state, &settings, 3850), []);
        // Another run.
        ping(&mut state, &settings, PingMeaning::Start, 3850);
        assert_eq!(due(&state, &settings, 4050), [WarningKind::RanLong]);
        ping(&mut state, &settings, PingMeaning::Success, 4051);
        assert_eq!(due(&state, &settings, 4100), []);
    }

    #[test]
    fn nothing_is_due_at_or_after_the_deadline_or_while_down_or_paused() {
        // The run is down after the grace time of ten minutes.
        let (mut state, settings) = hourly(limits(600, 0, 600));
        ping(&mut state, &settings, PingMeaning::Start, 10);
        assert_eq!(due(&state, &settings, 620), []);
        ping(&mut state, &settings, PingMeaning::Success, 20);
        assert_eq!(due(&state, &settings, 20 + 4200), [WarningKind::Late]);
        ping(
            &mut state,
            &settings,
            PingMeaning::Fail(FlipCause::Fail),
            30,
        );
        ping(&mut state, &settings, PingMeaning::Start, 40);
        assert_eq!(state.next_warning(&settings, at(0)), None);
        let (mut state, settings) = hourly(limits(300, 0, 120));
        state.pause(None, &settings, at(1), &mut Vec::new());
        assert_eq!(state.next_warning(&settings, at(0)), None);
    }

    #[test]
    fn a_warning_that_nobody_wanted_in_time_is_left_out() {
        let (state, mut settings) = hourly(limits(0, 0, 60));
        settings.grace = Seconds::DAY;
        let last = 3660 + WarningKind::MAX_DELAY_SECS;
        assert_eq!(due(&state, &settings, last).len(), 2);
        assert_eq!(state.next_due(&settings, at(last)), Some(at(3660)));
        assert_eq!(due(&state, &settings, last + 1), []);
        assert_eq!(
            state.next_due(&settings, at(last + 1)),
            state.deadline(&settings)
        );
    }

    #[test]
    fn a_run_is_too_short_below_its_limit() {
        for (took, is_short) in [(0, true), (29, true), (30, false), (31, false)] {
            let (mut state, settings) = hourly(limits(0, 30, 0));
            assert_eq!(state.short_run_warning(&settings, at(0)), None);
            ping(&mut state, &settings, PingMeaning::Start, 3600);
            ping(&mut state, &settings, PingMeaning::Success, 3600 + took);
            let warning = state.short_run_warning(&settings, at(3600 + took));
            assert_eq!(warning.is_some(), is_short, "{took}");
            assert!(warning.is_none_or(|warning| warning.from == at(3600)));
        }
    }

    #[test]
    fn a_new_schedule_allows_another_warning() {
        let (mut state, settings) = hourly(RunLimits::default());
        state.given_warnings.insert(WarningKind::Late);
        let renamed = CheckSettings {
            manual_resume: true,
            ..settings.clone()
        };
        state.change_settings(&settings, &renamed, at(3700), &mut Vec::new());
        assert_eq!(due(&state, &renamed, 3700), []);
        let daily = CheckSettings {
            schedule: Some(Arc::new(Schedule::parse("0 0 * * *").unwrap())),
            ..settings.clone()
        };
        state.change_settings(&renamed, &daily, at(3700), &mut Vec::new());
        assert!(!state.given_warnings.contains(WarningKind::Late));
    }

    #[test]
    fn limits_have_bounds() {
        for (number, expected) in [
            (-1, Err(ValueProblem::TooSmall)),
            (0, Ok(None)),
            (1, Ok(Some(1))),
            (31_536_000, Ok(Some(31_536_000))),
            (31_536_001, Err(ValueProblem::TooLarge)),
        ] {
            assert_eq!(RunLimit::parse(number).map(RunLimit::secs), expected);
        }
        assert_eq!(WarningSet::from_bits(0xff).bits(), 0x0f);
    }
}
