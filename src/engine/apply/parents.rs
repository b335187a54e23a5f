//! Holds the alert for a check whose parent is down and whose channels were notified of that,
//! unless the check reports a failure.

use super::super::state::Change;
use super::WorkingState;
use crate::domain::alert::{AlertEvent, HoldReason, NotificationState};
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::parents::{Parents, ParentsError};
use crate::domain::recent_outcomes::RunOutcome;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;

/// Maximum number of children that are evaluated again in the batch in which their parent changes.
/// The others are evaluated within [`HoldReason::RECHECK_SECS`].
const MAX_RELEASED_CHILDREN: usize = 512;

impl WorkingState {
    /// Returns an error if a check may not depend on these parents.
    pub(super) fn validate_parents(
        &self,
        check: &Check,
        parents: &Parents,
    ) -> Result<(), ParentsError> {
        let parent = |id| {
            self.state
                .check(id)
                .filter(|parent| parent.project == check.project)
        };
        parents.validate_for(check.id, |id| {
            parent(id).map(|parent| &parent.settings.parents)
        })
    }

    /// Reason to hold the alert for a downtime because of the parents of the check.
    /// `previous_reason` is the one for which it was held so far. The alert of a check that
    /// reported a failure is not held.
    pub(super) fn hold_for_parents(
        &self,
        check: &Check,
        previous_reason: Option<HoldReason>,
        now: Timestamp,
    ) -> Option<NotificationState> {
        if check.settings.parents.ids().is_empty()
            || check.state.outcomes.newest_first().next() != Some(RunOutcome::Missed)
        {
            return None;
        }
        let parents = || {
            check
                .settings
                .parents
                .ids()
                .iter()
                .filter_map(|id| self.state.check(*id))
        };
        let latest = now.plus_secs(HoldReason::RECHECK_SECS);
        if let Some(parent) = self.holding_parent(check) {
            return Some(NotificationState::Pending {
                at: latest,
                reason: HoldReason::ParentDown(parent),
            });
        }
        if matches!(
            previous_reason,
            Some(HoldReason::ParentPending | HoldReason::ParentDown(_))
        ) {
            // The decision about the parent was awaited already.
            return None;
        }
        let decided =
            parents().filter_map(
                |parent| match (parent.state.status, parent.state.notification) {
                    (Status::Down, NotificationState::Pending { at, .. }) => Some(at.min(latest)),
                    (Status::Down, _) => None,
                    // The parent has reported since the check went down.
                    _ if parent
                        .state
                        .last_ping
                        .is_some_and(|ping| ping > check.state.changed) =>
                    {
                        None
                    }
                    _ => parent
                        .state
                        .deadline(&parent.settings)
                        .filter(|deadline| *deadline <= latest),
                },
            );
        // One second later, so that the parent is decided on first.
        decided.max().map(|at| NotificationState::Pending {
            at: at.max(now).plus_secs(1),
            reason: HoldReason::ParentPending,
        })
    }

    /// Parent whose downtime holds back the alerts of a check.
    pub(super) fn holding_parent(&self, check: &Check) -> Option<CheckId> {
        let parents = check.settings.parents.ids().iter();
        parents
            .filter_map(|id| self.state.check(*id))
            .find(|parent| self.holds_child_alerts(parent, Parents::MAX_LEVELS))
            .map(|parent| parent.id)
    }

    /// True if a check is about to be stored without the parents that it has. Deleted parents do
    /// not count: the time to report that their deletion gave the check continues.
    pub(super) fn loses_its_parents(&self, check: &Check) -> bool {
        let is_existing = |parent: &CheckId| self.state.check(*parent).is_some();
        check.settings.parents.ids().is_empty()
            && self
                .state
                .check(check.id)
                .is_some_and(|stored| stored.settings.parents.ids().iter().any(is_existing))
    }

    /// True if a check is down and channels were notified of it, or of a check that it depends on.
    fn holds_child_alerts(&self, check: &Check, levels: usize) -> bool {
        match check.state.notification {
            _ if check.state.status != Status::Down => false,
            NotificationState::Notified => self
                .state
                .audience(check, AlertEvent::Down)
                .values()
                .any(|channel| channel.health.disabled.is_none()),
            NotificationState::Pending {
                reason: HoldReason::ParentDown(parent),
                ..
            } if levels > 1 => self
                .state
                .check(parent)
                .is_some_and(|parent| self.holds_child_alerts(parent, levels - 1)),
            NotificationState::Pending { .. }
            | NotificationState::NotNeeded
            | NotificationState::Undelivered => false,
        }
    }

    /// Releases the children of a check if it no longer holds their alerts. Each child then has its
    /// grace time to report, after which its channels are notified.
    pub(super) fn release_children(&mut self, project: ProjectId, parent: CheckId, now: Timestamp) {
        let mut parents = vec![parent];
        let mut released = 0;
        while let Some(parent) = parents.pop() {
            let Some(project_state) = self.state.project(project) else {
                return;
            };
            let held_checks: Vec<_> = project_state
                .checks_held_by(parent)
                .take(MAX_RELEASED_CHILDREN - released)
                .collect();
            if held_checks.is_empty()
                || self
                    .state
                    .check(parent)
                    .is_some_and(|parent| self.holds_child_alerts(parent, Parents::MAX_LEVELS))
            {
                continue;
            }
            let held_checks: Vec<_> = held_checks
                .into_iter()
                .filter_map(|id| self.state.check(id))
                .cloned()
                .collect();
            released += held_checks.len();
            for mut check in held_checks {
                check.state.notification = NotificationState::Pending {
                    at: now.plus_secs(check.settings.grace.get()),
                    reason: HoldReason::ParentPending,
                };
                parents.push(check.id);
                self.record_change(Change::Check(Box::new(check)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{NOW, add_channel, add_check, send_ping, working_state};
    use super::*;
    use crate::domain::ping::PingKind;
    use crate::engine::command::Command;

    /// A longer chain arises if its checks get their parents one after the other, each before its
    /// own parent does.
    #[test]
    fn an_alert_is_held_only_by_a_notified_check_at_most_32_levels_above() {
        let mut working = working_state();
        let urls = [("down-url", "http://a/"), ("up-url", "http://a/")];
        add_channel(&mut working, "webhook", &urls);
        // The highest check comes first and is due first.
        let mut chain = Vec::new();
        for level in 0..Parents::MAX_LEVELS as u128 + 2 {
            chain.push(add_check(&mut working, level));
            let now = NOW.plus_secs(level as i64);
            send_ping(&mut working, level, PingKind::Success, now);
        }
        for pair in chain.windows(2).rev() {
            let command = Command::UpdateAlertSettings {
                check: pair[1],
                failure_threshold: None,
                parents: Some(Parents::new(vec![pair[0]]).unwrap()),
            };
            working.apply(command, NOW.plus_secs(60)).unwrap();
        }
        for check in &chain {
            let found = working.state.check(*check).unwrap();
            let deadline = found.state.deadline(&found.settings).unwrap();
            let command = Command::EvaluateChecks(vec![*check]);
            working.apply(command, deadline).unwrap();
        }
        let hold_reason = |check| match working.state.check(check).unwrap().state.notification {
            NotificationState::Pending { reason, .. } => Some(reason),
            _ => None,
        };
        let highest = chain[0];
        let held = &chain[..=Parents::MAX_LEVELS];
        let lowest = chain.last();
        assert_eq!(hold_reason(highest), None);
        for pair in held.windows(2) {
            assert_eq!(hold_reason(pair[1]), Some(HoldReason::ParentDown(pair[0])));
        }
        let lowest = hold_reason(*lowest.unwrap());
        assert_eq!(lowest, Some(HoldReason::ParentPending));
    }
}
