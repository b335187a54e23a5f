//! Warnings about checks that are late and about runs that pass the limits of their check.
//!
//! A warning is due at a time, and given once, for the expected ping or the run. When a look at the
//! check comes later, because the server was stopped or asleep, it is given up to a quarter of an
//! hour late, unless the check went down meanwhile. It goes to the channels that choose it, or the
//! log of deliveries says why to none.
//!
//! Two kinds of warnings are uncertain: those that no channel chose when they were due, and those
//! whose time was over when an edit or the end of a pause made them possible. The engine gives them
//! if it happens to look at the check within a quarter of an hour and a channel wants them by then.
//! The model accepts that, once.

use overdue::domain::check::RunLimit;
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ping::PingKind;

use super::super::message_log::StoredMessage;
use super::*;

/// Time after the expected ping at which a check is late.
const LATE_AFTER: i64 = 60 * SECOND;
/// Maximum delay of a warning.
const MAX_DELAY: i64 = 15 * 60 * SECOND;
/// Delay of a warning that was due while the server did not run.
const LONG_DELAY: i64 = 2 * SECOND;

/// Reason for which a warning is not sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum WarningObstacle {
    LostPing,
    Window,
    Parent,
}

/// Limits for the runs of a check in seconds, 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ModelLimits {
    pub(crate) latest_start: i64,
    pub(crate) longest_run: i64,
    pub(crate) shortest_run: i64,
}

/// Warning that is possible while nothing happens to its check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ModelWarning {
    at: i64,
    kind: WarningKind,
    /// Time of the expected ping, or start of the run.
    from: i64,
    limit: i64,
}

#[derive(Clone, Default)]
pub(super) struct WarningModel {
    limits: BTreeMap<u64, ModelLimits>,
    /// Check, kind, and time from which the limit counts of each given warning.
    given: BTreeSet<(u64, WarningKind, i64)>,
    /// Warnings whose time has passed and that were not given.
    passed_over: BTreeSet<(u64, ModelWarning)>,
    /// Uncertain warnings that may be given until the next comparison, with their channels and 0 for
    /// the log.
    allowed: BTreeMap<(u64, ModelWarning), BTreeSet<u64>>,
}

impl WarningObstacle {
    fn outcome(self) -> ExpectedOutcome {
        match self {
            Self::LostPing => message_log::LOST_PING,
            Self::Window => message_log::WINDOW_OPEN,
            Self::Parent => message_log::PARENT_DOWN,
        }
    }
}

impl ModelLimits {
    fn edit(&mut self, edit: &CheckEdit) {
        let set = |limit: &mut i64, new: Option<_>| {
            *limit = new.map_or(*limit, |new: RunLimit| new.number().into());
        };
        set(&mut self.latest_start, edit.latest_start);
        set(&mut self.longest_run, edit.longest_run);
        set(&mut self.shortest_run, edit.shortest_run);
    }
}

impl AlertModel {
    pub(crate) fn limits(&self, check: u64) -> ModelLimits {
        self.warnings
            .limits
            .get(&check)
            .copied()
            .unwrap_or_default()
    }

    /// Applies a command to the limits of its check.
    pub(super) fn set_limits(&mut self, command: &Command, answer: &ExpectedAnswer) {
        let limits = &mut self.warnings.limits;
        match (command, answer) {
            (Command::CreateCheck(request), ExpectedAnswer::Created(check)) => {
                limits.entry(*check).or_default().edit(&request.edit);
            }
            (Command::UpdateCheck(check, edit), _) => {
                limits.entry(check.0).or_default().edit(edit);
            }
            (Command::DeleteCheck(check), _) => drop(limits.remove(&check.0)),
            _ => {}
        }
    }

    /// Returns the time from which the limit of this kind counts.
    fn warning_origin(&self, check: u64, kind: WarningKind) -> Option<i64> {
        let replay = self.replayed.get(&check)?;
        match kind {
            WarningKind::Late | WarningKind::NotStarted => replay.grace_start(),
            WarningKind::RanLong => replay.run.map(|(start, _)| start),
            WarningKind::RanShort => None,
        }
    }

    /// Returns the warnings of a check that is neither down nor paused: a check without a run waits
    /// for its ping, a run waits for its end. At the deadline the check is down, which is no reason
    /// to warn.
    fn possible_warnings(&self, check: u64) -> impl Iterator<Item = ModelWarning> {
        let limits = self.limits(check);
        let replay = self.replayed.get(&check);
        let replay = replay.filter(|replay| matches!(replay.status, Status::New | Status::Up));
        let warning = move |kind, delay: i64, limit| {
            let at = self.warning_origin(check, kind)? + delay;
            let from = at - delay;
            let is_in_time = replay?.deadline().is_none_or(|deadline| at < deadline);
            (is_in_time && delay > 0).then_some(ModelWarning {
                at,
                kind,
                from,
                limit,
            })
        };
        let ModelLimits {
            latest_start,
            longest_run,
            ..
        } = limits;
        let is_running = replay.is_some_and(|replay| replay.run.is_some());
        let of_run = warning(WarningKind::RanLong, longest_run * SECOND, longest_run);
        let of_expected_ping = [
            warning(WarningKind::Late, LATE_AFTER, 0),
            warning(WarningKind::NotStarted, latest_start * SECOND, latest_start),
        ];
        let of_expected_ping = of_expected_ping.into_iter().filter(move |_| !is_running);
        of_expected_ping
            .chain([of_run])
            .flatten()
            .filter(move |warning| {
                let given = (check, warning.kind, warning.from);
                !self.warnings.given.contains(&given)
            })
    }

    /// Returns the warnings of a check that are neither given nor passed over.
    fn next_warnings(&self, check: u64) -> impl Iterator<Item = ModelWarning> {
        let passed_over = &self.warnings.passed_over;
        self.possible_warnings(check)
            .filter(move |warning| !passed_over.contains(&(check, *warning)))
    }

    pub(super) fn next_warning(&self, check: u64) -> Option<i64> {
        self.next_warnings(check).map(|warning| warning.at).min()
    }

    /// Gives the warnings about a check that were due until then.
    pub(super) fn give_due_warnings(&mut self, check: u64, until: i64, now: i64) {
        let mut due: Vec<_> = self.next_warnings(check).collect();
        due.retain(|warning| warning.at <= until);
        due.sort();
        for warning in due {
            if now - warning.at >= MAX_DELAY {
                self.count(AlertCase::WarningTooOld);
            } else if self.give_warning(check, warning, now) {
                let given = (check, warning.kind, warning.from);
                self.warnings.given.insert(given);
            } else {
                self.count(AlertCase::WarningUnwanted);
            }
        }
        self.pass_over_warnings(check, until);
    }

    /// Passes over the warnings about a check whose time was over by `until`, and forgets those of
    /// earlier pings and runs.
    pub(super) fn pass_over_warnings(&mut self, check: u64, until: i64) {
        let over: Vec<_> = self.next_warnings(check).collect();
        let over = over.into_iter().filter(|warning| warning.at <= until);
        let origin_of = |kind| self.warning_origin(check, kind);
        let origins: BTreeMap<_, _> = WarningKind::ALL.map(|kind| (kind, origin_of(kind))).into();
        let is_present = |kind, from| origins[&kind] == Some(from);
        let WarningModel {
            given, passed_over, ..
        } = &mut self.warnings;
        passed_over.extend(over.map(|warning| (check, warning)));
        passed_over
            .retain(|(other, warning)| *other != check || is_present(warning.kind, warning.from));
        given.retain(|(other, kind, from)| *other != check || is_present(*kind, *from));
    }

    /// Warns of a run that succeeded faster than allowed with the ping in `command`.
    pub(super) fn warn_of_short_run(&mut self, check: u64, command: &Command, now: i64) {
        let Command::Ping(_) = command else { return };
        let limit = self.limits(check).shortest_run;
        let replay = self.replayed_check(check);
        let is_success = replay.log.last().map(|ping| ping.kind) == Some(PingKind::Success);
        let took = replay.last_duration.filter(|_| is_success);
        if let Some(took) = took.filter(|took| *took < limit * SECOND) {
            let warning = ModelWarning {
                at: now,
                kind: WarningKind::RanShort,
                from: now - took,
                limit,
            };
            self.give_warning(check, warning, now);
        }
    }

    /// Warns the channels that choose it. Returns false if there are none.
    fn give_warning(&mut self, check: u64, warning: ModelWarning, now: i64) -> bool {
        let event = AlertEvent::Warning(warning.kind);
        let audience = self.audience(check, event);
        if audience.is_empty() {
            return false;
        }
        let flip = self.flip_count(check);
        let row = |channel| {
            ExpectedMessage::new(channel, check, flip, event).with_limit(warning.at, warning.limit)
        };
        if let Some(obstacle) = self.obstacle(check, warning, now) {
            self.count(AlertCase::WarningLeftOut(obstacle));
            self.log.add(row(0), obstacle.outcome());
        } else {
            self.count(AlertCase::Warned(warning.kind));
            if now - warning.at > LONG_DELAY {
                self.count(AlertCase::WarnedLater);
            }
            audience
                .into_iter()
                .for_each(|channel| self.queue(row(channel)));
        }
        true
    }

    /// Returns the reason against a warning. A run that was too short has reported everything, so
    /// an outage is no reason.
    fn obstacle(&self, check: u64, warning: ModelWarning, now: i64) -> Option<WarningObstacle> {
        let ModelWarning { kind, from, at, .. } = warning;
        let mut parents = self.model.checks[&check].parents.iter();
        if kind != WarningKind::RanShort && self.outage_between(from, at, now).is_some() {
            Some(WarningObstacle::LostPing)
        } else if self.window_end(check, now).is_some() {
            Some(WarningObstacle::Window)
        } else if parents.any(|parent| self.is_downtime_known(*parent)) {
            Some(WarningObstacle::Parent)
        } else {
            None
        }
    }

    /// Allows the engine to give the warnings that are uncertain now.
    pub(crate) fn allow_uncertain_warnings(&mut self, now: i64) {
        let checks: Vec<_> = self.model.checks.keys().copied().collect();
        for check in checks {
            let uncertain: Vec<_> = self
                .possible_warnings(check)
                .filter(|warning| (warning.at..=warning.at + MAX_DELAY).contains(&now))
                .collect();
            for warning in uncertain {
                let audience = self.audience(check, AlertEvent::Warning(warning.kind));
                let allowed = self.warnings.allowed.entry((check, warning)).or_default();
                allowed.extend(audience.into_iter().chain([0]));
            }
        }
    }

    /// Identifies the rows of the engine, and adopts the uncertain warnings that it has given since
    /// the last comparison.
    pub(crate) fn adopt_uncertain_warnings(&mut self, found: &[StoredMessage]) {
        let mut allowed = std::mem::take(&mut self.warnings.allowed);
        let all = found;
        for found in self.log.identify(found) {
            let row_of = |check, warning: ModelWarning| {
                let event = AlertEvent::Warning(warning.kind);
                ExpectedMessage::new(found.channel, check, found.flip, event)
                    .with_limit(warning.at, warning.limit)
            };
            let adopted = allowed.iter_mut().find_map(|((check, warning), channels)| {
                let row = row_of(*check, *warning);
                let is_allowed = found.is_for(&row) && channels.remove(&found.channel);
                is_allowed.then_some((*warning, row))
            });
            if let Some((warning, row)) = adopted {
                self.count(AlertCase::UncertainWarning);
                let given = (found.check, warning.kind, warning.from);
                self.warnings.given.insert(given);
                self.log.adopt_warning(row, found, all);
            }
        }
    }
}
