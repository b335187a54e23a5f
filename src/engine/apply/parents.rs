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

/// Maximum number of checks that are counted when a check gets a parent: the checks above each
/// check that depends on it. See [limits](crate::docs::limits).
const MAX_VISITED_CHECKS: usize = 100_000;

impl WorkingState {
    /// Returns an error if a check may not depend on these parents, or if too many checks would
    /// then be above one of the checks that depend on it.
    pub(super) fn validate_parents(
        &self,
        check: &Check,
        parents: &Parents,
    ) -> Result<(), ParentsError> {
        let parents_of = |id| {
            if id == check.id {
                return Some(parents);
            }
            let other = self.state.check(id)?;
            (other.project == check.project).then_some(&other.settings.parents)
        };
        parents.validate_for(check.id, parents_of)?;
        let is_stored = |parent: &CheckId| check.settings.parents.ids().contains(parent);
        if parents.ids().iter().all(is_stored) {
            return Ok(());
        }
        let project = self.state.project(check.project);
        let descendants = project
            .into_iter()
            .flat_map(|project| project.descendants_of(check.id));
        // Deleted parents do not count.
        let none = Parents::default();
        let parents_of = |id| parents_of(id).or(Some(&none));
        let mut visited = 0;
        for descendant in descendants {
            let own_parents = parents_of(descendant).unwrap_or(&none);
            visited += 1 + own_parents.validate_for(descendant, parents_of)?;
            if visited > MAX_VISITED_CHECKS {
                return Err(ParentsError::TooManyDependents);
            }
        }
        Ok(())
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
    use crate::engine::command::{Command, CommandError};

    const CHANNEL_URLS: [(&str, &str); 2] = [("down-url", "http://a/"), ("up-url", "http://a/")];

    fn set_parents(
        working: &mut WorkingState,
        check: CheckId,
        parents: &[CheckId],
    ) -> Result<(), CommandError> {
        let command = Command::UpdateAlertSettings {
            check,
            failure_threshold: None,
            parents: Some(Parents::new(parents.to_vec()).unwrap()),
        };
        working.apply(command, NOW.plus_secs(60)).map(drop)
    }

    /// The first check is due first.
    fn add_pinged_checks(working: &mut WorkingState, count: usize) -> Vec<CheckId> {
        let numbers = 0..count as u128;
        let add = |number| {
            let check = add_check(working, number);
            send_ping(
                working,
                number,
                PingKind::Success,
                NOW.plus_secs(number as i64),
            );
            check
        };
        numbers.map(add).collect()
    }

    /// A shorter path goes through a check that is up, so that the lowest check may depend on all.
    #[test]
    fn an_alert_is_held_only_by_a_notified_check_at_most_32_levels_above() {
        let mut working = working_state();
        add_channel(&mut working, "webhook", &CHANNEL_URLS);
        let chain = add_pinged_checks(&mut working, Parents::MAX_LEVELS + 2);
        let up = add_check(&mut working, 1000);
        set_parents(&mut working, up, &[chain[1]]).unwrap();
        for pair in chain.windows(2) {
            let is_lowest = pair[1] == chain[Parents::MAX_LEVELS + 1];
            let parents = if is_lowest {
                vec![pair[0], up]
            } else {
                vec![pair[0]]
            };
            set_parents(&mut working, pair[1], &parents).unwrap();
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

    #[test]
    fn a_parent_is_refused_if_a_check_below_would_have_too_many_levels() {
        let mut working = working_state();
        let mut chain: Vec<_> = (0..35)
            .map(|number| add_check(&mut working, number))
            .collect();
        let too_deep = Err(CommandError::InvalidParents(ParentsError::TooDeep));
        // From below, so that nothing is above the changed check.
        for pair in chain[2..].windows(2).rev() {
            set_parents(&mut working, pair[1], &[pair[0]]).unwrap();
        }
        assert_eq!(set_parents(&mut working, chain[2], &[chain[1]]), too_deep);
        // Nothing is added above with a parent that the check has already.
        let lowest = chain.pop().unwrap();
        set_parents(&mut working, lowest, &[]).unwrap();
        set_parents(&mut working, chain[2], &[chain[1]]).unwrap();
        assert_eq!(set_parents(&mut working, chain[1], &[chain[0]]), too_deep);
        set_parents(&mut working, chain[2], &[chain[1]]).unwrap();
    }

    /// The pause of a check that is down ends before the deadline of its parent, which was not
    /// evaluated yet: its alert waits for the parent that is down, not for the deadline.
    #[test]
    fn the_parents_of_a_check_are_evaluated_before_a_pause_that_has_ended() {
        let mut working = working_state();
        add_channel(&mut working, "webhook", &CHANNEL_URLS);
        let [parent, child] = [1, 2].map(|number| add_check(&mut working, number));
        set_parents(&mut working, child, &[parent]).unwrap();
        send_ping(&mut working, 2, PingKind::Success, NOW);
        send_ping(&mut working, 1, PingKind::Success, NOW.plus_secs(3600));
        let deadline = |working: &WorkingState, check| {
            let found = working.state.check(check).unwrap();
            found.state.deadline(&found.settings).unwrap()
        };
        let missed = deadline(&working, child);
        let evaluation = Command::EvaluateChecks(vec![parent, child]);
        working.apply(evaluation.clone(), missed).unwrap();
        let now = deadline(&working, parent).plus_micros(3000);
        let pause = Command::PauseCheck(child, Some(now.plus_secs(-1)));
        working.apply(pause, now).unwrap();
        working.apply(evaluation, now).unwrap();
        let pending = NotificationState::Pending {
            at: now.plus_secs(HoldReason::RECHECK_SECS),
            reason: HoldReason::ParentDown(parent),
        };
        assert_eq!(
            working.state.check(child).unwrap().state.notification,
            pending
        );
    }

    /// Adds levels of as many checks as one may have parents, each below all of the one before.
    fn add_levels(working: &mut WorkingState, levels: usize) -> Vec<CheckId> {
        let mut above = Vec::new();
        for level in 0..levels {
            let numbers = (0..Parents::MAX_PARENTS).map(|column| level * 100 + column);
            let checks: Vec<_> = numbers
                .map(|number| add_check(working, number as u128))
                .collect();
            for check in &checks {
                set_parents(working, *check, &above).unwrap();
            }
            above = checks;
        }
        above
    }

    #[test]
    fn a_parent_is_refused_if_too_many_checks_would_be_visited_below() {
        let mut working = working_state();
        let levels = 24;
        let above = add_levels(&mut working, levels);
        let router = add_check(&mut working, 10_000);
        set_parents(&mut working, router, &above).unwrap();
        // For each child, itself, its parent and all levels are visited.
        let children = MAX_VISITED_CHECKS / (2 + levels * Parents::MAX_PARENTS);
        for child in 0..children as u128 {
            let child = add_check(&mut working, 20_000 + child);
            set_parents(&mut working, child, &[router]).unwrap();
        }
        set_parents(&mut working, router, &above[1..]).unwrap();
        set_parents(&mut working, router, &above).unwrap();
        let child = add_check(&mut working, 30_000);
        set_parents(&mut working, child, &[router]).unwrap();
        set_parents(&mut working, router, &above[1..]).unwrap();
        let too_many = Err(CommandError::InvalidParents(
            ParentsError::TooManyDependents,
        ));
        assert_eq!(set_parents(&mut working, router, &above), too_many);
    }
}
