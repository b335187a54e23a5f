//! Holds back alerts for downtimes, and decides later whether they are sent.

use super::super::command::CommandOutcome;
use super::super::state::Change;
use super::WorkingState;
use crate::domain::alert::{HoldReason, NotificationState, Outage};
use crate::domain::check::Check;
use crate::domain::recent_outcomes::RunOutcome;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;

/// Seconds after an outage of the server at which alerts for checks that still have not reported
/// are decided again, unless their ping is expected soon.
const OUTAGE_RECHECK_SECS: i64 = 2 * 60;

impl WorkingState {
    /// Decides again whether a held alert for a downtime is sent, if that is due at `now`.
    /// `windows_may_differ`: the settings of the check or the windows of its project may have
    /// changed since the last decision. Otherwise an open window is known to be still open.
    pub(super) fn reconsider_held_alert(
        &mut self,
        check: &mut Check,
        windows_may_differ: bool,
        now: Timestamp,
    ) {
        let NotificationState::Pending { at, reason } = check.state.notification else {
            return;
        };
        if check.state.status != Status::Down {
            // The check is no longer down.
            check.state.notification = NotificationState::NotNeeded;
            return;
        }
        let outage = if at <= now {
            self.outage_covering(check, at, now)
        } else {
            None
        };
        if at <= now
            && reason == HoldReason::BelowThreshold
            && outage.is_none()
            && check.state.has_missed_ping(&check.settings, now)
        {
            // This ping cannot have been lost during an outage of the server.
            check.state.count_missed_ping();
        }
        let is_hold_over = self.is_hold_over(check, reason, windows_may_differ, now);
        // Another outage of the server covered the time in which the check could have reported.
        let next_recheck = outage
            .filter(|_| reason == HoldReason::ServerOutage && !is_hold_over)
            .and_then(|outage| recheck_after_outage(check, outage, now));
        if let Some(at) = next_recheck.filter(|recheck| *recheck > at) {
            check.state.notification = NotificationState::Pending { at, reason };
        } else if at <= now || is_hold_over {
            let hold = self.find_hold(check, Some(reason), now, now);
            self.alert_unless_held(hold, check, check.state.changed, now);
        }
    }

    /// True if the reason for holding the alert of a check no longer exists, even if the time of
    /// the next decision has not come.
    fn is_hold_over(
        &mut self,
        check: &Check,
        reason: HoldReason,
        windows_may_differ: bool,
        now: Timestamp,
    ) -> bool {
        // A failure that the check has reported since is an event of its own.
        let has_failed = || check.state.outcomes.newest_first().next() == Some(RunOutcome::Fail);
        match reason {
            HoldReason::ServerOutage => has_failed(),
            HoldReason::ParentPending => has_failed() || self.loses_its_parents(check),
            HoldReason::ParentDown(parent) => {
                has_failed() || !check.settings.parents.ids().contains(&parent)
            }
            // The window was deleted, or the check has other tags.
            HoldReason::MaintenanceWindow => {
                windows_may_differ && self.hold_for_window(check, now).is_none()
            }
            HoldReason::Trial => !self.is_project_on_trial(check),
            HoldReason::BelowThreshold => {
                check.state.failures >= u16::from(check.settings.failure_threshold.get())
            }
        }
    }

    /// Reason to hold the alert for a downtime. `previous_reason` is the one for which it was held
    /// so far. Expected pings count as missed if they are overdue after `misses_from`. `None` if
    /// the alert is not held.
    pub(super) fn find_hold(
        &mut self,
        check: &Check,
        previous_reason: Option<HoldReason>,
        misses_from: Timestamp,
        now: Timestamp,
    ) -> Option<NotificationState> {
        if self.is_project_on_trial(check) {
            return Some(NotificationState::Pending {
                at: now.plus_secs(HoldReason::RECHECK_SECS),
                reason: HoldReason::Trial,
            });
        }
        if let Some(hold) = Self::hold_for_failures(check, misses_from) {
            return Some(hold);
        }
        if let Some(hold) = self.hold_for_window(check, now) {
            return Some(hold);
        }
        self.hold_for_parents(check, previous_reason, now)
    }

    /// True if the project of a check is on trial.
    fn is_project_on_trial(&self, check: &Check) -> bool {
        self.state
            .project(check.project)
            .is_some_and(|project_state| project_state.project.is_on_trial())
    }

    /// While a check is below its failure threshold, the first time after `misses_from` at which a
    /// ping would be overdue. `None` if the threshold is reached or no ping is expected.
    fn hold_for_failures(check: &Check, misses_from: Timestamp) -> Option<NotificationState> {
        if check.state.failures >= u16::from(check.settings.failure_threshold.get()) {
            return None;
        }
        check
            .settings
            .next_miss_after(check.state.last_activity(), misses_from)
            .map(|at| NotificationState::Pending {
                at,
                reason: HoldReason::BelowThreshold,
            })
    }

    /// Outage during which the ping that is missing at `deadline` may have been lost: the one of
    /// the import of the project, or else the latest one of the server.
    pub(super) fn outage_covering(
        &self,
        check: &Check,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Option<Outage> {
        let expected = deadline.plus_secs(-check.settings.grace.get());
        self.outage_between(check, expected, deadline, now)
    }

    /// Outage during which a ping may have been lost that was expected at `expected` and is missing
    /// at `deadline`.
    pub(super) fn outage_between(
        &self,
        check: &Check,
        expected: Timestamp,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Option<Outage> {
        let of_project = self
            .state
            .project(check.project)
            .and_then(|project_state| project_state.project.import.as_ref()?.outage);
        let all = of_project.iter().chain(self.state.outages.iter().rev());
        all.filter_map(|outage| outage.clip_to(now))
            .find(|outage| outage.overlaps(expected, deadline))
    }

    /// Records an outage of the server, during which no pings could be received.
    pub(super) fn record_outage(&mut self, outage: Outage) -> CommandOutcome {
        let mut all = self.state.outages.to_vec();
        let merged = all
            .pop_if(|last| last.merge(outage).is_some())
            .and_then(|last| last.merge(outage));
        all.push(merged.unwrap_or(outage));
        let surplus = all.len().saturating_sub(Outage::MAX_REMEMBERED);
        self.record_change(Change::Outages(all.into_iter().skip(surplus).collect()));
        CommandOutcome::Completed
    }

    /// Removes the future part of outages, which was recorded while the clock was ahead.
    pub(super) fn drop_future_outages(&mut self, now: Timestamp) -> CommandOutcome {
        let past = self
            .state
            .outages
            .iter()
            .filter_map(|outage| outage.clip_to(now))
            .collect();
        self.record_change(Change::Outages(past));
        CommandOutcome::Completed
    }
}

/// Time to decide again about a check whose ping may have been lost: its next chance to report, if
/// that is soon. `None` if the outage of the server ended so long ago that the check has had time
/// to report.
pub(super) fn recheck_after_outage(
    check: &Check,
    outage: Outage,
    now: Timestamp,
) -> Option<Timestamp> {
    let end = outage.to.plus_secs(Outage::CATCH_UP_SECS);
    if now >= end {
        return None;
    }
    let from = check.state.last_activity();
    let expected = if check.settings.schedule.is_some() {
        check.settings.next_ping_after(outage.to)
    } else {
        Some(outage.to.plus_secs(check.settings.timeout.get()))
    };
    let next_report = expected
        .filter(|_| from <= outage.to)
        .map(|expected| expected.plus_secs(check.settings.grace.get()));
    Some(
        next_report
            .filter(|next_report| *next_report < end)
            .unwrap_or(outage.to.plus_secs(OUTAGE_RECHECK_SECS)),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::fixture::{NOW, add_channel, add_check, send_ping, working_state};
    use super::*;
    use crate::domain::check::CheckSettings;
    use crate::domain::ids::CheckId;
    use crate::domain::number::{FailureThreshold, Seconds};
    use crate::domain::ping::PingKind;
    use crate::engine::command::Command;

    const CHECK: u128 = 7;

    /// State with a check that has this failure threshold and was pinged at [`NOW`].
    fn state_with_threshold(threshold: u64, kind: PingKind) -> (WorkingState, CheckId) {
        let mut working = working_state();
        let urls = [("down-url", "http://a/"), ("up-url", "http://a/")];
        add_channel(&mut working, "webhook", &urls);
        let check = add_check(&mut working, CHECK);
        let threshold = FailureThreshold::parse(threshold).unwrap();
        let settings = Command::UpdateAlertSettings {
            check,
            failure_threshold: Some(threshold),
            parents: None,
        };
        working.apply(settings, NOW).unwrap();
        send_ping(&mut working, CHECK, kind, NOW);
        (working, check)
    }

    /// Evaluates the check. Returns its number of failures and of queued alerts.
    fn evaluate(working: &mut WorkingState, check: CheckId, now: Timestamp) -> (u16, usize) {
        working
            .apply(Command::EvaluateChecks(vec![check]), now)
            .unwrap();
        let failures = working.state.check(check).unwrap().state.failures;
        let rows = working.state.outbox.rows_of_check(check);
        (failures, rows.count())
    }

    fn next_decision(working: &WorkingState, check: CheckId) -> Timestamp {
        match working.state.check(check).unwrap().state.notification {
            NotificationState::Pending { at, .. } => at,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_missed_ping_counts_at_the_time_at_which_it_is_overdue() {
        let (mut working, check) = state_with_threshold(2, PingKind::Fail);
        let overdue = next_decision(&working, check);
        let before = overdue.plus_micros(-1);
        assert_eq!(evaluate(&mut working, check, before), (1, 0));
        assert_eq!(evaluate(&mut working, check, overdue), (2, 1));
    }

    #[test]
    fn a_missed_ping_counts_once_however_often_the_check_is_examined() {
        let (mut working, check) = state_with_threshold(3, PingKind::Success);
        let settings = &working.state.check(check).unwrap().settings;
        let period = settings.timeout.get();
        let deadline = NOW.plus_secs(period + settings.grace.get());
        for secs in [1, 10, 20] {
            let now = deadline.plus_secs(secs);
            assert_eq!(evaluate(&mut working, check, now), (1, 0));
        }
        let next = next_decision(&working, check);
        assert_eq!(next, deadline.plus_secs(period));
        assert_eq!(evaluate(&mut working, check, next), (2, 0));
        let later = next.plus_secs(period);
        assert_eq!(evaluate(&mut working, check, later), (3, 1));
    }

    #[test]
    fn a_check_is_examined_again_until_it_has_had_time_to_report_after_an_outage() {
        let (working, check) = state_with_threshold(1, PingKind::Success);
        let mut check = working.state.check(check).unwrap().clone();
        check.settings = Arc::new(CheckSettings {
            timeout: Seconds::clamped(60),
            grace: Seconds::clamped(60),
            ..CheckSettings::clone(&check.settings)
        });
        let from = NOW.plus_secs(60);
        let to = NOW.plus_secs(600);
        let outage = Outage { from, to };
        let end = to.plus_secs(Outage::CATCH_UP_SECS);
        let next_report = Some(to.plus_secs(120));
        assert_eq!(recheck_after_outage(&check, outage, to), next_report);
        let before_end = end.plus_micros(-1);
        assert_eq!(
            recheck_after_outage(&check, outage, before_end),
            next_report
        );
        assert_eq!(recheck_after_outage(&check, outage, end), None);
    }
}
