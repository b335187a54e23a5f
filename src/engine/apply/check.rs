//! Checks: made, changed, paused, resumed, deleted, and taken down by time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::super::command::{CheckNames, CreateCheck, Outcome, Refusal};
use super::super::state::Change;
use super::{Applied, WorkingState};
use crate::domain::check::{Check, CheckState, Settings};
use crate::domain::edit::{ChannelChoice, Edit};
use crate::domain::flip::Flip;
use crate::domain::ids::{Arrival, ChannelId, CheckId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::parents::Parents;
use crate::domain::text::Failures;

/// Children of a check that are looked at before it changes. What is due of the others is noticed within a tick.
const MOST_NOTICED: usize = 512;

impl WorkingState {
    pub(super) fn create_check(&mut self, request: CreateCheck, now: Moment) -> Applied {
        let CreateCheck { project, mut edit, mut unique, names } = request;
        // A request may repeat them thousands of times.
        unique.sort_unstable();
        unique.dedup();
        let found = if unique.is_empty() { None } else { self.state.check_by_unique(project, &edit, &unique) };
        let new = Settings::default();
        let stored = found.and_then(|id| self.state.check(id)).map_or(&new, |check| &check.settings);
        // Without `unique` the door has seen to it.
        if let Some(field) = edit.too_long(stored).filter(|_| !unique.is_empty()) {
            return Err(Refusal::TooLong(field));
        }
        if let Some(id) = found {
            return self.update_check(id, edit, now);
        }
        self.room_for_check(project, |limit| limit)?;
        let channels = self.edited_channels(project, &mut edit)?;
        let settings = edit.applied(&new, channels);
        Ok(Outcome::Created(Box::new(self.insert_check(project, names, settings, now))))
    }

    pub(super) fn update_check(&mut self, id: CheckId, mut edit: Edit, now: Moment) -> Applied {
        let check = self.existing(id)?;
        let channels = self.edited_channels(check.project, &mut edit)?;
        let settings = edit.applied(&check.settings, channels);
        Ok(Outcome::Check(Box::new(self.give_settings(check, settings, now))))
    }

    /// Gives a check other settings.
    pub(super) fn give_settings(&mut self, check: Check, settings: Settings, now: Moment) -> Check {
        self.notice(check.id, now);
        let mut check = self.existing(check.id).unwrap_or(check);
        let mut flips = Vec::new();
        check.state.edit(&check.settings, &settings, now, &mut flips);
        check.settings = Arc::new(settings);
        self.put_check(check, &flips, now)
    }

    pub(super) fn pause(&mut self, id: CheckId, now: Moment) -> Applied {
        self.transition(id, now, |state, settings, flips| {
            state.pause(settings, now, flips);
            true
        })
    }

    pub(super) fn resume(&mut self, id: CheckId, now: Moment) -> Applied {
        self.transition(id, now, |state, settings, flips| state.resume(settings, now, flips))
    }

    /// Pause or resume: `turn` changes the state, or returns `false` when the check is not paused.
    fn transition(&mut self, id: CheckId, now: Moment, turn: impl FnOnce(&mut CheckState, &Settings, &mut Vec<Flip>) -> bool) -> Applied {
        // Also when refused: a deadline that has passed is a fact.
        self.notice(id, now);
        let mut check = self.existing(id)?;
        let mut flips = Vec::new();
        if !turn(&mut check.state, &check.settings, &mut flips) {
            return Err(Refusal::NotPaused);
        }
        Ok(Outcome::Check(Box::new(self.put_check(check, &flips, now))))
    }

    pub(super) fn delete_check(&mut self, id: CheckId, now: Moment) -> Applied {
        self.notice(id, now);
        let check = self.existing(id)?;
        self.end_alerts(&check, now);
        self.change(Change::CheckGone(id));
        self.release_children(check.project, id, now);
        Ok(Outcome::Check(Box::new(check)))
    }

    /// Does what is due of these checks, in the order in which it fell due: a parent that went down first hides its children. Ends when the
    /// rows that alerts take are enough for a batch: the rest of the checks is still due.
    pub(super) fn expire(&mut self, ids: &[CheckId], now: Moment) -> Outcome {
        let mut due: Vec<_> = ids.iter().filter_map(|id| self.state.check(*id)).collect();
        due.sort_by_cached_key(|check| (check.state.next_look(&check.settings), check.id));
        let due: Vec<_> = due.into_iter().map(|check| check.id).collect();
        for id in due {
            if !self.has_alert_rows_left() {
                break;
            }
            self.expire_one(id, now);
        }
        Outcome::Done
    }

    fn expire_one(&mut self, id: CheckId, now: Moment) {
        let Ok(mut check) = self.existing(id) else { return };
        let mut flips = Vec::new();
        check.state.settle(&check.settings, now, &mut flips);
        if !flips.is_empty() || check.state.is_due_to_tell(now) {
            self.put_check(check, &flips, now);
        }
    }

    /// Does for a check what `Expire` does, if something of it is due: its deadline, or the decision whether a downtime is told. Every
    /// command that concerns a check begins with this, so that the same channels are notified whichever command comes first. What is due
    /// of its parents comes before, in the order in which it fell due, and what is due of its children after it: what they wait for
    /// depends on this check.
    pub(super) fn notice(&mut self, id: CheckId, now: Moment) {
        self.notice_with_parents(id, now);
        self.notice_children(id, now, now);
    }

    fn notice_with_parents(&mut self, id: CheckId, now: Moment) {
        let due = |id: CheckId| {
            let check = self.state.check(id)?;
            let at = check.state.next_look(&check.settings).filter(|at| *at <= now)?;
            Some((at, id))
        };
        let Some(own) = due(id) else { return };
        let mut all = BTreeSet::from([own]);
        let mut next = vec![id];
        for _ in 0..Parents::MOST_LEVELS {
            let above = std::mem::take(&mut next).into_iter().filter_map(|id| self.state.check(id));
            next = above.flat_map(|check| check.settings.parents.ids()).copied().collect();
            all.extend(next.iter().filter_map(|id| due(*id)));
        }
        all.into_iter().for_each(|(_, id)| self.expire_one(id, now));
    }

    /// Does the same for the checks that depend on one that is about to change, as far as it fell due by `until`.
    pub(super) fn notice_children(&mut self, parent: CheckId, until: Moment, now: Moment) {
        let Some(project) = self.state.check(parent).and_then(|check| self.state.project(check.project)) else { return };
        if project.children_of(parent).next().is_none() {
            return;
        }
        let (mut due, mut next, mut seen) = (BTreeSet::new(), vec![parent], 0);
        while let Some(parent) = next.pop() {
            for child in project.children_of(parent).filter_map(|id| self.state.check(id)).take(MOST_NOTICED - seen) {
                due.extend(child.state.next_look(&child.settings).filter(|at| *at <= until.min(now)).map(|at| (at, child.id)));
                next.push(child.id);
                seen += 1;
            }
        }
        for (_, id) in due {
            // The others are still due.
            if self.has_alert_rows_left() {
                self.expire_one(id, now);
            }
        }
    }

    pub(super) fn set_alerting(&mut self, id: CheckId, after: Option<Failures>, parents: Option<Parents>, now: Moment) -> Applied {
        let mut check = self.existing(id)?;
        if let Some(parents) = &parents {
            self.may_depend(&check, parents).map_err(Refusal::Parents)?;
        }
        self.notice(id, now);
        check.state = self.existing(id)?.state;
        let settings = Arc::make_mut(&mut check.settings);
        settings.after = after.unwrap_or(settings.after);
        settings.parents = parents.unwrap_or_else(|| settings.parents.clone());
        check.state.untouched = false;
        Ok(Outcome::Check(Box::new(self.put_check(check, &[], now))))
    }

    pub(super) fn assign_channel(&mut self, channel: ChannelId, checks: Vec<CheckId>, assigned: bool, now: Moment) -> Applied {
        let project = self.state.channel(channel).ok_or(Refusal::NotFound)?.project;
        let mut count = 0;
        for id in checks {
            let Ok(mut check) = self.existing(id) else { continue };
            if check.project != project || check.settings.channels.contains(&channel) == assigned {
                continue;
            }
            self.notice(id, now);
            check.state = self.state.check(id).map_or(check.state, |check| check.state);
            let others = check.settings.channels.iter().copied().filter(|other| *other != channel);
            let channels: BTreeSet<_> = others.chain(assigned.then_some(channel)).collect();
            Arc::make_mut(&mut check.settings).channels = channels.into_iter().collect();
            check.state.untouched = false;
            self.put_check(check, &[], now);
            count += 1;
        }
        Ok(Outcome::Assigned(count))
    }

    pub(super) fn bring_back(&mut self, ids: &[CheckId], now: Moment) -> Outcome {
        for id in ids {
            let Ok(mut check) = self.existing(*id) else { continue };
            if check.state.is_ahead_of(&check.settings, now) {
                self.notice(*id, now);
                check.state = self.state.check(*id).map_or(check.state, |check| check.state);
                let mut flips = Vec::new();
                check.state.bring_back(&check.settings, now, &mut flips);
                self.put_check(check, &flips, now);
            }
        }
        Outcome::Done
    }

    /// Refuses when the project has as many checks already as `most` makes of its check limit.
    pub(super) fn room_for_check(&self, project: ProjectId, most: impl FnOnce(Option<usize>) -> Option<usize>) -> Result<(), Refusal> {
        let project_state = self.state.project(project).ok_or(Refusal::NotFound)?;
        // A u32 fits a usize on every target with sockets.
        let most = most(project_state.project.check_limit.map(|limit| limit as usize));
        if most.is_some_and(|most| project_state.checks.len() >= most) { Err(Refusal::CheckLimit) } else { Ok(()) }
    }

    pub(super) fn insert_check(&mut self, project: ProjectId, names: CheckNames, settings: Settings, now: Moment) -> Check {
        let id = CheckId(self.next_id());
        self.insert_check_as(id, project, names, settings, now)
    }

    pub(super) fn insert_check_as(&mut self, id: CheckId, project: ProjectId, names: CheckNames, settings: Settings, now: Moment) -> Check {
        let CheckNames { uuid, badge } = names;
        let check = Check { id, uuid, badge, project, settings: Arc::new(settings), state: CheckState::new(now), told_as: None };
        self.put_check(check, &[], now)
    }

    /// A check to be changed or shown, without channels and parents that are gone.
    pub(super) fn existing(&self, id: CheckId) -> Result<Check, Refusal> {
        let mut check = self.state.check(id).cloned().ok_or(Refusal::NotFound)?;
        let channels: Box<[_]> = self.state.channels_of(&check).map(|channel| channel.id).collect();
        if channels.len() < check.settings.channels.len() {
            Arc::make_mut(&mut check.settings).channels = channels;
        }
        if check.settings.parents.ids().iter().any(|parent| self.state.check(*parent).is_none()) {
            Arc::make_mut(&mut check.settings).parents.retain(|parent| self.state.check(parent).is_some());
        }
        Ok(check)
    }

    pub(super) fn put_check(&mut self, mut check: Check, flips: &[Flip], now: Moment) -> Check {
        self.keep_names_told(&mut check);
        self.note_channels(&check);
        self.log_flips(&mut check, Arrival(0), flips, now);
        self.tell_if_due(&mut check, true, now);
        self.change(Change::Check(Box::new(check.clone())));
        self.release_children(check.project, check.id, now);
        check
    }

    fn edited_channels(&self, project: ProjectId, edit: &mut Edit) -> Result<Option<Box<[ChannelId]>>, Refusal> {
        edit.channels.take().map(|choice| self.chosen_channels(project, &choice)).transpose()
    }

    /// The channels of a project that a request asks for: each item is the UUID (lower case) or the name of exactly one.
    pub(super) fn chosen_channels(&self, project: ProjectId, choice: &ChannelChoice) -> Result<Box<[ChannelId]>, Refusal> {
        let channels = &self.state.project(project).ok_or(Refusal::NotFound)?.channels;
        let ChannelChoice::Listed(items) = choice else { return Ok(channels.keys().copied().collect()) };
        // A request may list half a million items: each must cost one look-up.
        let mut fitting = HashMap::<Box<str>, BTreeSet<ChannelId>>::new();
        for channel in channels.values() {
            for key in [Box::from(channel.name.as_str()), channel.uuid.to_string().into()] {
                fitting.entry(key).or_default().insert(channel.id);
            }
        }
        let mut chosen = BTreeSet::new();
        for item in items {
            if item.is_empty() {
                return Err(Refusal::EmptyChannel);
            }
            let mut fitting = fitting.get(item).into_iter().flatten();
            match (fitting.next(), fitting.next()) {
                (None, _) => return Err(Refusal::InvalidChannel(item.clone())),
                (Some(_), Some(_)) => return Err(Refusal::AmbiguousChannel(item.clone())),
                (Some(channel), None) => chosen.insert(*channel),
            };
        }
        Ok(chosen.into_iter().collect())
    }
}
