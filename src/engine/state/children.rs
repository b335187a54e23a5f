//! Which checks depend on a check, for whoever has to look at them again when it changes.

use std::collections::{BTreeMap, BTreeSet};

use super::ProjectState;
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::CheckId;

/// Parents with their children. Thousands of children of one parent come and go one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct ChildIndex(BTreeSet<(CheckId, CheckId)>);

impl ChildIndex {
    /// A check has got other settings, is new (`old` is `None`) or goes (`new` is `None`).
    pub(super) fn update(&mut self, id: CheckId, old: Option<&CheckSettings>, new: Option<&CheckSettings>) {
        let [old, new] = [old, new].map(|settings| settings.map(|settings| settings.parents.ids()).unwrap_or_default());
        for parent in old.iter().filter(|parent| !new.contains(parent)) {
            self.0.remove(&(*parent, id));
        }
        for parent in new.iter().filter(|parent| !old.contains(parent)) {
            self.0.insert((*parent, id));
        }
    }
}

/// Checks whose alerts are held because a parent is down, by that parent. There are few of them while all is well, however many children
/// a parent has.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenChecks {
    parents: BTreeMap<CheckId, CheckId>,
    children: BTreeSet<(CheckId, CheckId)>,
}

impl HiddenChecks {
    /// Takes note of a check; `None`: it is gone.
    pub(super) fn update(&mut self, id: CheckId, check: Option<&Check>) {
        let parent = match check.map(|check| check.state.notification) {
            Some(NotificationState::Pending { reason: HoldReason::ParentDown(parent), .. }) => Some(parent),
            _ => None,
        };
        let before = match parent {
            Some(parent) => self.parents.insert(id, parent),
            None => self.parents.remove(&id),
        };
        if before != parent {
            before.map(|before| self.children.remove(&(before, id)));
            parent.map(|parent| self.children.insert((parent, id)));
        }
    }
}

impl ProjectState {
    /// The checks that are held behind a check, oldest first. It may be gone itself.
    pub fn hidden_behind(&self, parent: CheckId) -> impl Iterator<Item = CheckId> {
        self.hidden_checks.children.range((parent, CheckId(0))..=(parent, CheckId(u64::MAX))).map(|(_, child)| *child)
    }

    /// The checks that depend on a check, oldest first. It may be gone itself.
    pub fn children_of(&self, parent: CheckId) -> impl Iterator<Item = CheckId> {
        self.children.0.range((parent, CheckId(0))..=(parent, CheckId(u64::MAX))).map(|(_, child)| *child)
    }
}
