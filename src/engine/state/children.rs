//! Which checks depend on a check, for whoever has to look at them again when it changes.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::ProjectState;
use crate::domain::check::Settings;
use crate::domain::ids::CheckId;

/// The children of each check that has any, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Children(HashMap<CheckId, Vec<CheckId>, RandomState>);

impl Children {
    /// A check has got other settings, is new (`old` is `None`) or goes (`new` is `None`).
    pub(super) fn change(&mut self, id: CheckId, old: Option<&Settings>, new: Option<&Settings>) {
        let [old, new] = [old, new].map(|settings| settings.map(|settings| settings.parents.ids()).unwrap_or_default());
        for parent in old.iter().filter(|parent| !new.contains(parent)) {
            if let Some(children) = self.0.get_mut(parent) {
                children.retain(|child| *child != id);
                if children.is_empty() {
                    self.0.remove(parent);
                }
            }
        }
        for parent in new.iter().filter(|parent| !old.contains(parent)) {
            let children = self.0.entry(*parent).or_default();
            children.insert(children.partition_point(|child| *child < id), id);
        }
    }
}

impl ProjectState {
    /// The checks that depend on a check, oldest first. It may be gone itself.
    pub fn children_of(&self, parent: CheckId) -> &[CheckId] {
        self.children.0.get(&parent).map_or(&[], Vec::as_slice)
    }
}
