//! Lookups of a project: its keys, its checks that are down, and checks by settings.

use std::collections::BTreeSet;

use super::ProjectState;
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{CheckId, KeyId};

impl ProjectState {
    /// Keys of the project, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.keys.iter().copied()
    }

    /// Number of keys.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Checks that are down and whose downtime was notified.
    pub fn notified_downtimes(&self) -> &BTreeSet<CheckId> {
        &self.notified_downtimes
    }

    /// Updates the indexes of notified downtimes and of checks whose alert a parent holds.
    pub(super) fn update_alert_indexes(&mut self, check: &Check) {
        self.held_by_parent.update(check.id, Some(check));
        if check.state.notification.is_notified() {
            self.notified_downtimes.insert(check.id);
        } else {
            self.notified_downtimes.remove(&check.id);
        }
    }

    /// Updates the lookups by settings. `old` is `None` if the check is new, `new` is `None` if it
    /// is deleted.
    pub(super) fn update_lookups(
        &mut self,
        id: CheckId,
        old: Option<&CheckSettings>,
        new: Option<&CheckSettings>,
    ) {
        self.uniques.update(id, old, new);
        self.children.update(id, old, new);
        let [old, new] = [old, new].map(|settings| {
            settings
                .map(|settings| &settings.slug)
                .filter(|slug| !slug.is_empty())
        });
        if old == new {
            return;
        }
        if let Some(slug) = old
            && let Some(ids) = self.slugs.get_mut(slug)
        {
            ids.retain(|one| *one != id);
            if ids.is_empty() {
                self.slugs.remove(slug);
            }
        }
        if let Some(slug) = new {
            let ids = self.slugs.entry(slug.clone()).or_default();
            ids.insert(ids.partition_point(|one| *one < id), id);
        }
    }
}
