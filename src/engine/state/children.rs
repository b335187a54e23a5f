//! Index of the checks that depend on a check.

use std::collections::{BTreeMap, BTreeSet};

use super::ProjectState;
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::CheckId;

/// Parents with their children. One parent may have thousands of children, which are added and
/// removed one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct ChildIndex(BTreeSet<(CheckId, CheckId)>);

impl ChildIndex {
    /// Updates the parents of a check. `old` is `None` if it is new, `new` is `None` if it is
    /// deleted.
    pub(super) fn update(
        &mut self,
        id: CheckId,
        old: Option<&CheckSettings>,
        new: Option<&CheckSettings>,
    ) {
        let [old, new] = [old, new].map(|settings| {
            settings
                .map(|settings| settings.parents.ids())
                .unwrap_or_default()
        });
        for parent in old.iter().filter(|parent| !new.contains(parent)) {
            self.0.remove(&(*parent, id));
        }
        for parent in new.iter().filter(|parent| !old.contains(parent)) {
            self.0.insert((*parent, id));
        }
    }
}

/// Checks whose alerts are held because a parent is down, by that parent. Usually there are few of
/// them, however many children a parent has.
#[derive(Clone, Debug, Default)]
pub(super) struct ParentHoldIndex {
    parents: BTreeMap<CheckId, CheckId>,
    children: BTreeSet<(CheckId, CheckId)>,
}

impl ParentHoldIndex {
    /// Updates a check. `None` if it was deleted.
    pub(super) fn update(&mut self, id: CheckId, check: Option<&Check>) {
        let parent = match check.map(|check| check.state.notification) {
            Some(NotificationState::Pending {
                reason: HoldReason::ParentDown(parent),
                ..
            }) => Some(parent),
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
    /// Checks whose alerts are held because of a check, oldest first. That check may be deleted.
    pub fn checks_held_by(&self, parent: CheckId) -> impl Iterator<Item = CheckId> {
        self.held_by_parent
            .children
            .range((parent, CheckId(0))..=(parent, CheckId(u64::MAX)))
            .map(|(_, child)| *child)
    }

    /// Checks that depend on a check, oldest first. That check may be deleted.
    pub fn children_of(&self, parent: CheckId) -> impl Iterator<Item = CheckId> {
        self.children
            .0
            .range((parent, CheckId(0))..=(parent, CheckId(u64::MAX)))
            .map(|(_, child)| *child)
    }

    /// Checks below a check, each once: its children, their children, and so on. That check may be
    /// deleted.
    pub fn descendants_of(&self, ancestor: CheckId) -> impl Iterator<Item = CheckId> {
        let mut found = BTreeSet::new();
        let mut parents = Vec::new();
        let mut children = self.children_of(ancestor);
        std::iter::from_fn(move || {
            loop {
                if let Some(child) = children.find(|child| found.insert(*child)) {
                    parents.push(child);
                    return Some(child);
                }
                children = self.children_of(parents.pop()?);
            }
        })
    }
}
