//! A check that depends on one that is down and told is not told itself, unless it reports a failure: it hides behind its parent.

use super::super::state::Change;
use super::WorkingState;
use crate::domain::alert::{Event, Held, Telling};
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::outcomes::RunOutcome;
use crate::domain::parents::{Parents, ParentsError};
use crate::domain::status::Status;

/// Children that are looked at again in the batch in which their parent changes. What is beyond is looked at within
/// [`Held::LOOK_SECS`].
const MOST_RELEASED: usize = 512;

impl WorkingState {
    /// Whether a check may depend on these.
    pub(super) fn may_depend(&self, check: &Check, parents: &Parents) -> Result<(), ParentsError> {
        let parent = |id| self.state.check(id).filter(|parent| parent.project == check.project);
        parents.allowed_for(check.id, |id| parent(id).map(|parent| &parent.settings.parents))
    }

    /// What its parents say to telling that a check is down, which was held back before for the given reason. One that reported a failure
    /// is told.
    pub(super) fn held_by_parents(&self, check: &Check, before: Option<Held>, now: Moment) -> Option<Telling> {
        if check.settings.parents.ids().is_empty() || check.state.outcomes.newest_first().next() != Some(RunOutcome::Missed) {
            return None;
        }
        let parents = || check.settings.parents.ids().iter().filter_map(|id| self.state.check(*id));
        let latest = now.plus_secs(Held::LOOK_SECS);
        if let Some(parent) = parents().find(|parent| self.hides(parent, Parents::MOST_LEVELS)) {
            return Some(Telling::Due { at: latest, held: Held::Behind(parent.id) });
        }
        if matches!(before, Some(Held::Parent | Held::Behind(_))) {
            // It has been waited for.
            return None;
        }
        let decided = parents().filter_map(|parent| match (parent.state.status, parent.state.telling) {
            (Status::Down, Telling::Due { at, .. }) => Some(at.min(latest)),
            (Status::Down, _) => None,
            // It has the longer period, and has not shown that it is there.
            _ if parent.state.last_ping.is_some_and(|ping| ping > check.state.changed) => None,
            _ => parent.state.deadline(&parent.settings).filter(|deadline| *deadline <= latest),
        });
        // The parent comes first.
        decided.max().map(|at| Telling::Due { at: at.max(now).plus_secs(1), held: Held::Parent })
    }

    /// Whether a check is down so that those who want to know have been told, of itself or of one that it depends on.
    fn hides(&self, check: &Check, levels: usize) -> bool {
        match check.state.telling {
            _ if check.state.status != Status::Down => false,
            Telling::Told => self.state.audience(check, Event::Down).values().any(|channel| channel.health.disabled.is_none()),
            Telling::Due { held: Held::Behind(parent), .. } if levels > 1 => {
                self.state.check(parent).is_some_and(|parent| self.hides(parent, levels - 1))
            }
            Telling::Due { .. } | Telling::Quiet | Telling::Unheard => false,
        }
    }

    /// Lets the checks that hide behind one come out if it hides them no more: each has its grace to report, then that it is down is told.
    pub(super) fn release_children(&mut self, project: ProjectId, parent: CheckId, now: Moment) {
        let mut parents = vec![parent];
        let mut released = 0;
        while let Some(parent) = parents.pop() {
            let Some(project_state) = self.state.project(project) else { return };
            let hidden: Vec<_> = project_state.hidden_behind(parent).take(MOST_RELEASED - released).collect();
            if hidden.is_empty() || self.state.check(parent).is_some_and(|parent| self.hides(parent, Parents::MOST_LEVELS)) {
                continue;
            }
            let hidden: Vec<_> = hidden.into_iter().filter_map(|id| self.state.check(id)).cloned().collect();
            released += hidden.len();
            for mut check in hidden {
                check.state.telling = Telling::Due { at: now.plus_secs(check.settings.grace.get()), held: Held::Parent };
                parents.push(check.id);
                self.change(Change::Check(Box::new(check)));
            }
        }
    }
}
