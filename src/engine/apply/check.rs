//! Creates, changes, pauses, resumes and deletes checks, and applies their deadlines.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::super::command::{
    CheckRestoration, CheckUuids, CommandError, CommandOutcome, CreateCheckRequest,
};
use super::super::state::Change;
use super::{ApplyResult, WorkingState};
use crate::domain::check::{Check, CheckSettings, CheckState};
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::flip::Flip;
use crate::domain::ids::{Arrival, ChannelId, CheckId, ProjectId};
use crate::domain::number::FailureThreshold;
use crate::domain::parents::Parents;
use crate::domain::timestamp::Timestamp;

/// Maximum number of children of a check that are evaluated before it changes. The next tick
/// evaluates the others.
const MAX_EVALUATED_CHILDREN: usize = 512;

/// Due event of a check, ordered by time.
type DueEvent = (Timestamp, DueEventKind, CheckId);

/// Kind of a due event. Of simultaneous events, changes are first: a parent that goes down prevents
/// the warnings about its children.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DueEventKind {
    /// A deadline, the end of a pause, or a decision about a held alert.
    Change,
    /// A warning about a check without a due change.
    Warning,
}

/// Result of a change of a state, which may refuse it.
type ChangeResult = Result<(), CommandError>;

impl WorkingState {
    pub(super) fn create_check(
        &mut self,
        request: CreateCheckRequest,
        now: Timestamp,
    ) -> ApplyResult {
        let CreateCheckRequest {
            project,
            mut edit,
            mut unique,
            uuids,
        } = request;
        // A request may repeat a field thousands of times.
        unique.sort_unstable();
        unique.dedup();
        let existing = if unique.is_empty() {
            None
        } else {
            self.state.check_by_unique(project, &edit, &unique)
        };
        let defaults = CheckSettings::default();
        let stored = existing
            .and_then(|id| self.state.check(id))
            .map_or(&defaults, |check| &check.settings);
        // Without `unique` the caller has already checked the lengths.
        if let Some(field) = edit
            .first_overlong_field(stored)
            .filter(|_| !unique.is_empty())
        {
            return Err(CommandError::FieldTooLong(field));
        }
        if let Some(id) = existing {
            return self.update_check(id, edit, now);
        }
        self.ensure_check_limit(project, |limit| limit)?;
        let channels = self.resolve_edited_channels(project, &mut edit)?;
        let settings = edit.apply_to(&defaults, channels);
        Ok(CommandOutcome::CheckCreated(Box::new(
            self.insert_check(project, uuids, settings, now),
        )))
    }

    pub(super) fn update_check(
        &mut self,
        id: CheckId,
        mut edit: CheckEdit,
        now: Timestamp,
    ) -> ApplyResult {
        let check = self.find_check(id)?;
        let channels = self.resolve_edited_channels(check.project, &mut edit)?;
        let settings = edit.apply_to(&check.settings, channels);
        Ok(CommandOutcome::Check(Box::new(
            self.apply_settings(check, settings, now),
        )))
    }

    /// Changes the settings of a check.
    pub(super) fn apply_settings(
        &mut self,
        check: Check,
        settings: CheckSettings,
        now: Timestamp,
    ) -> Check {
        self.evaluate_before_change(check.id, &settings.parents, now);
        let mut check = self.find_check(check.id).unwrap_or(check);
        let mut flips = Vec::new();
        check
            .state
            .change_settings(&check.settings, &settings, now, &mut flips);
        check.settings = Arc::new(settings);
        self.put_check(check, &flips, now)
    }

    pub(super) fn pause_check(
        &mut self,
        id: CheckId,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> ApplyResult {
        self.transition(id, now, |state, settings, flips| {
            state.pause(until, settings, now, flips);
            Ok(())
        })
    }

    pub(super) fn resume_check(&mut self, id: CheckId, now: Timestamp) -> ApplyResult {
        self.transition(id, now, |state, settings, flips| {
            let is_resumed = state.resume(settings, now, flips);
            is_resumed.then_some(()).ok_or(CommandError::NotPaused)
        })
    }

    pub(super) fn restore_check(
        &mut self,
        restoration: CheckRestoration,
        now: Timestamp,
    ) -> ApplyResult {
        let CheckRestoration {
            check,
            earlier,
            newest,
        } = restoration;
        self.transition(check, now, |state, settings, flips| {
            if (state.last_arrival, state.last_flip) != newest {
                return Err(CommandError::Outdated);
            }
            state.restore(&earlier, settings, now, flips);
            Ok(())
        })
    }

    /// Pauses, resumes or restores a check by `change`.
    fn transition(
        &mut self,
        id: CheckId,
        now: Timestamp,
        change: impl FnOnce(&mut CheckState, &CheckSettings, &mut Vec<Flip>) -> ChangeResult,
    ) -> ApplyResult {
        // Takes effect even if the command is refused: a passed deadline stays passed. A check that
        // was down is down again if its pause has ended already.
        self.evaluate_before_change(id, &Parents::default(), now);
        let mut check = self.find_check(id)?;
        let mut flips = Vec::new();
        change(&mut check.state, &check.settings, &mut flips)?;
        Ok(CommandOutcome::Check(Box::new(
            self.put_check(check, &flips, now),
        )))
    }

    pub(super) fn delete_check(&mut self, id: CheckId, now: Timestamp) -> ApplyResult {
        self.evaluate_if_due(id, now);
        let check = self.find_check(id)?;
        self.close_alerts(&check, now);
        self.record_change(Change::CheckDeleted(id));
        self.release_children(check.project, id, now);
        Ok(CommandOutcome::Check(Box::new(check)))
    }

    /// Applies due deadlines and alert decisions of these checks and gives their warnings, in the
    /// order in which they fell due: a parent that goes down first holds the alerts of its
    /// children. Stops when the batch has enough rows for alerts, and records the rest of the
    /// checks, which stay due.
    pub(super) fn evaluate_checks(&mut self, ids: &[CheckId], now: Timestamp) -> CommandOutcome {
        let checks = ids.iter().filter_map(|id| self.state.check(*id));
        let mut due: Vec<_> = checks.flat_map(|check| due_events(check, now)).collect();
        due.sort_unstable();
        self.unevaluated_checks.clear();
        for event in due {
            if self.has_alert_rows_left() {
                self.apply_due_event(event, now);
            } else {
                let (.., id) = event;
                self.unevaluated_checks.push(id);
            }
        }
        CommandOutcome::Completed
    }

    fn apply_due_event(&mut self, (at, kind, id): DueEvent, now: Timestamp) {
        match kind {
            DueEventKind::Change => self.evaluate_one(id, now),
            DueEventKind::Warning => self.give_due_warnings(id, at, now),
        }
    }

    fn evaluate_one(&mut self, id: CheckId, now: Timestamp) {
        let Ok(mut check) = self.find_check(id) else {
            return;
        };
        let mut flips = Vec::new();
        check.state.apply_deadline(&check.settings, now, &mut flips);
        if !flips.is_empty() || check.state.is_notification_due(now) {
            self.put_check(check, &flips, now);
        }
    }

    /// Applies what is due for one check, as `EvaluateChecks` does: its deadline, or the decision
    /// about a held alert. Every command about a check begins with this, so that the set of
    /// notified channels does not depend on which command comes first. Its parents are evaluated
    /// before it, in the order in which they fell due, and its children after it, because they
    /// depend on this check.
    pub(super) fn evaluate_if_due(&mut self, id: CheckId, now: Timestamp) {
        let needs_evaluation = |check: &Check| {
            check.state.is_alert_held()
                || check
                    .state
                    .next_due(&check.settings, now)
                    .is_some_and(|at| at <= now)
        };
        if self.state.check(id).is_some_and(needs_evaluation) {
            self.evaluate_with_parents(id, &[], now);
        }
        self.evaluate_children(id, (now, DueEventKind::Warning), now);
    }

    /// Applies what is due for a check, its parents, `new_parents` and its children, before a
    /// change that may take the check down.
    pub(super) fn evaluate_before_change(
        &mut self,
        id: CheckId,
        new_parents: &Parents,
        now: Timestamp,
    ) {
        self.evaluate_with_parents(id, new_parents.ids(), now);
        self.evaluate_children(id, (now, DueEventKind::Warning), now);
    }

    /// Applies what is due for a check, for all checks it depends on and for `new_parents`.
    pub(super) fn evaluate_with_parents(
        &mut self,
        id: CheckId,
        new_parents: &[CheckId],
        now: Timestamp,
    ) {
        let due = |id: CheckId| self.state.check(id).map(|check| due_events(check, now));
        // Several paths may lead to a parent: each is visited once.
        let mut next: Vec<_> = new_parents.iter().copied().chain([id]).collect();
        let mut visited: BTreeSet<_> = next.iter().copied().collect();
        let mut events = BTreeSet::new();
        while let Some(id) = next.pop() {
            events.extend(due(id).into_iter().flatten());
            let parents = self
                .state
                .check(id)
                .map_or(&[][..], |check| check.settings.parents.ids());
            next.extend(
                parents
                    .iter()
                    .copied()
                    .filter(|parent| visited.insert(*parent)),
            );
        }
        events
            .into_iter()
            .for_each(|event| self.apply_due_event(event, now));
    }

    /// Applies the events of the checks that depend on a check before it goes to another status,
    /// which was due at `at`.
    pub(super) fn evaluate_children_before_flip(
        &mut self,
        parent: CheckId,
        at: Timestamp,
        now: Timestamp,
    ) {
        self.evaluate_children(parent, (at, DueEventKind::Change), now);
    }

    /// Applies the events up to `last` of the checks that depend on a check that is about to
    /// change.
    fn evaluate_children(
        &mut self,
        parent: CheckId,
        last: (Timestamp, DueEventKind),
        now: Timestamp,
    ) {
        let Some(project) = self
            .state
            .check(parent)
            .and_then(|check| self.state.project(check.project))
        else {
            return;
        };
        let mut due: Vec<_> = project
            .descendants_of(parent)
            .take(MAX_EVALUATED_CHILDREN)
            .filter_map(|id| self.state.check(id))
            .flat_map(|child| due_events(child, now))
            .filter(|(at, kind, _)| (*at, *kind) <= last)
            .collect();
        due.sort_unstable();
        for event in due {
            // The others stay due.
            if self.has_alert_rows_left() {
                self.apply_due_event(event, now);
            }
        }
    }

    pub(super) fn update_alert_settings(
        &mut self,
        id: CheckId,
        failure_threshold: Option<FailureThreshold>,
        parents: Option<Parents>,
        now: Timestamp,
    ) -> ApplyResult {
        let mut check = self.find_check(id)?;
        if let Some(parents) = &parents {
            self.validate_parents(&check, parents)
                .map_err(CommandError::InvalidParents)?;
        }
        let parents = parents.unwrap_or_else(|| check.settings.parents.clone());
        self.evaluate_before_change(id, &parents, now);
        check.state = self.find_check(id)?.state;
        let settings = Arc::make_mut(&mut check.settings);
        settings.failure_threshold = failure_threshold.unwrap_or(settings.failure_threshold);
        settings.parents = parents;
        check.state.unused_since_import = false;
        Ok(CommandOutcome::Check(Box::new(self.put_check(
            check,
            &[],
            now,
        ))))
    }

    pub(super) fn assign_channel(
        &mut self,
        channel: ChannelId,
        checks: Vec<CheckId>,
        assigned: bool,
        now: Timestamp,
    ) -> ApplyResult {
        let project = self
            .state
            .channel(channel)
            .ok_or(CommandError::NotFound)?
            .project;
        let mut count = 0;
        for id in checks {
            let Ok(mut check) = self.find_check(id) else {
                continue;
            };
            if check.project != project || check.settings.channels.contains(&channel) == assigned {
                continue;
            }
            self.evaluate_if_due(id, now);
            check.state = self
                .state
                .check(id)
                .map_or(check.state, |check| check.state);
            let others = check
                .settings
                .channels
                .iter()
                .copied()
                .filter(|other| *other != channel);
            let channels: BTreeSet<_> = others.chain(assigned.then_some(channel)).collect();
            Arc::make_mut(&mut check.settings).channels = channels.into_iter().collect();
            check.state.unused_since_import = false;
            self.put_check(check, &[], now);
            count += 1;
        }
        Ok(CommandOutcome::ChannelAssigned(count))
    }

    pub(super) fn clamp_future_times(&mut self, ids: &[CheckId], now: Timestamp) -> CommandOutcome {
        for id in ids {
            let Ok(mut check) = self.find_check(*id) else {
                continue;
            };
            if check.state.has_future_times(&check.settings, now) {
                self.evaluate_if_due(*id, now);
                check.state = self
                    .state
                    .check(*id)
                    .map_or(check.state, |check| check.state);
                let mut flips = Vec::new();
                check
                    .state
                    .clamp_future_times(&check.settings, now, &mut flips);
                self.put_check(check, &flips, now);
            }
        }
        CommandOutcome::Completed
    }

    /// Refuses if the number of checks in the project has reached its limit. `limit_of` derives the
    /// limit from the project's check limit.
    pub(super) fn ensure_check_limit(
        &self,
        project: ProjectId,
        limit_of: impl FnOnce(Option<usize>) -> Option<usize>,
    ) -> Result<(), CommandError> {
        let project_state = self.state.project(project).ok_or(CommandError::NotFound)?;
        // A u32 fits a usize on every target with sockets.
        let limit = limit_of(
            project_state
                .project
                .check_limit
                .map(|limit| limit as usize),
        );
        if limit.is_some_and(|limit| project_state.checks.len() >= limit) {
            Err(CommandError::CheckLimitReached)
        } else {
            Ok(())
        }
    }

    pub(super) fn insert_check(
        &mut self,
        project: ProjectId,
        uuids: CheckUuids,
        settings: CheckSettings,
        now: Timestamp,
    ) -> Check {
        let id = CheckId(self.next_id());
        self.insert_check_with_id(id, project, uuids, settings, now)
    }

    pub(super) fn insert_check_with_id(
        &mut self,
        id: CheckId,
        project: ProjectId,
        uuids: CheckUuids,
        settings: CheckSettings,
        now: Timestamp,
    ) -> Check {
        let CheckUuids { uuid, badge } = uuids;
        let check = Check {
            id,
            uuid,
            badge,
            project,
            settings: Arc::new(settings),
            state: CheckState::new(now),
            alerted_labels: None,
        };
        self.put_check(check, &[], now)
    }

    /// Finds a check to change or show, without deleted channels and parents.
    pub(super) fn find_check(&self, id: CheckId) -> Result<Check, CommandError> {
        let mut check = self
            .state
            .check(id)
            .cloned()
            .ok_or(CommandError::NotFound)?;
        let channels: Box<[_]> = self
            .state
            .channels_of(&check)
            .map(|channel| channel.id)
            .collect();
        if channels.len() < check.settings.channels.len() {
            Arc::make_mut(&mut check.settings).channels = channels;
        }
        if check
            .settings
            .parents
            .ids()
            .iter()
            .any(|parent| self.state.check(*parent).is_none())
        {
            Arc::make_mut(&mut check.settings)
                .parents
                .retain(|parent| self.state.check(parent).is_some());
        }
        Ok(check)
    }

    /// Stores a created or changed check: logs its flips, decides about its alerts, and releases
    /// its children.
    pub(super) fn put_check(&mut self, mut check: Check, flips: &[Flip], now: Timestamp) -> Check {
        self.keep_alerted_labels(&mut check);
        self.record_audience_of(&check);
        self.record_flips(&mut check, Arrival(0), flips, now);
        self.reconsider_held_alert(&mut check, true, now);
        self.record_change(Change::Check(Box::new(check.clone())));
        self.release_children(check.project, check.id, now);
        check
    }

    pub(super) fn resolve_edited_channels(
        &self,
        project: ProjectId,
        edit: &mut CheckEdit,
    ) -> Result<Option<Box<[ChannelId]>>, CommandError> {
        edit.channels
            .take()
            .map(|selection| self.resolve_channel_selection(project, &selection))
            .transpose()
    }

    /// Resolves the channels that a request lists: each item is the UUID (lower case) or the name
    /// of exactly one channel of the project.
    pub(super) fn resolve_channel_selection(
        &self,
        project: ProjectId,
        selection: &ChannelSelection,
    ) -> Result<Box<[ChannelId]>, CommandError> {
        let channels = &self
            .state
            .project(project)
            .ok_or(CommandError::NotFound)?
            .channels;
        let ChannelSelection::Listed(items) = selection else {
            return Ok(channels.keys().copied().collect());
        };
        // A request may list half a million items: each must cost only one lookup.
        let mut fitting = HashMap::<Box<str>, BTreeSet<ChannelId>>::new();
        for channel in channels.values() {
            for key in [
                Box::from(channel.name.as_str()),
                channel.uuid.to_string().into(),
            ] {
                fitting.entry(key).or_default().insert(channel.id);
            }
        }
        let mut chosen = BTreeSet::new();
        for item in items {
            if item.is_empty() {
                return Err(CommandError::EmptyChannel);
            }
            let mut fitting = fitting.get(item).into_iter().flatten();
            match (fitting.next(), fitting.next()) {
                (None, _) => return Err(CommandError::InvalidChannel(item.clone())),
                (Some(_), Some(_)) => return Err(CommandError::AmbiguousChannel(item.clone())),
                (Some(channel), None) => chosen.insert(*channel),
            };
        }
        Ok(chosen.into_iter().collect())
    }
}

/// Events of a check that are due at `now`.
fn due_events(check: &Check, now: Timestamp) -> impl Iterator<Item = DueEvent> + use<> {
    let Check {
        id,
        state,
        settings,
        ..
    } = check;
    let id = *id;
    let change = state.next_evaluation(settings).filter(|at| *at <= now);
    let warnings = if change.is_none() {
        state.due_warnings(settings, now)
    } else {
        Vec::new()
    };
    let changes = change
        .into_iter()
        .map(move |at| (at, DueEventKind::Change, id));
    let warnings = warnings.into_iter();
    changes.chain(warnings.map(move |warning| (warning.at, DueEventKind::Warning, id)))
}
