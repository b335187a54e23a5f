//! What is known of a project beside its checks themselves: its keys, those of its checks that are down, and look-ups by settings.

use std::collections::BTreeSet;

use super::ProjectState;
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{CheckId, KeyId};

impl ProjectState {
    /// Its keys, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.keys.iter().copied()
    }

    /// How many keys it has.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Its checks of which somebody was told that they are down.
    pub fn alerted_down(&self) -> &BTreeSet<CheckId> {
        &self.alerted_down
    }

    /// Notes whether this check is one of them, and whether it is held behind a parent.
    pub(super) fn update_alert_indexes(&mut self, check: &Check) {
        self.hidden_checks.update(check.id, Some(check));
        if check.state.notification.is_notified() {
            self.alerted_down.insert(check.id);
        } else {
            self.alerted_down.remove(&check.id);
        }
    }

    /// Keeps the look-ups by settings true when a check gets other ones, is new (`old` is `None`) or goes (`new` is `None`).
    pub(super) fn update_lookups(&mut self, id: CheckId, old: Option<&CheckSettings>, new: Option<&CheckSettings>) {
        self.uniques.update(id, old, new);
        self.children.update(id, old, new);
        let [old, new] = [old, new].map(|settings| settings.map(|settings| &settings.slug).filter(|slug| !slug.is_empty()));
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
