//! Records about channels and checks that are down: which channels were notified, and which
//! audiences are still to be compared.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, CheckId, ProjectId};

/// Maximum number of records of one project. Channels beyond it count as notified.
const MAX_STATES: usize = 20_000;
/// Maximum number of pairs of one project whose audience is still to be compared. Further pairs
/// stay as they are.
const MAX_PENDING_PAIRS: usize = 100_000;

/// State of a channel for the current downtime of a check, as far as their settings do not show it.
/// A channel without a record was notified if it belongs to the audience.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AudienceState {
    /// The channel was not notified.
    Unnotified,
    /// The channel was notified after the beginning of the downtime, when the outbox was full and
    /// no channel was notified.
    Notified,
    /// The channel was notified and has left the audience since.
    Left,
    /// The channel has left the audience, and its incident was closed because of that.
    Closed,
}

/// Records about the audiences of checks that are down.
#[derive(Clone, Debug, Default)]
pub struct AudienceStates {
    projects: BTreeMap<ProjectId, ProjectAudienceStates>,
    /// Projects with audiences that are still to be compared.
    pending_projects: BTreeSet<ProjectId>,
}

#[derive(Clone, Debug, Default)]
struct ProjectAudienceStates {
    pairs: BTreeMap<(CheckId, ChannelId), AudienceState>,
    /// Checks that went down while the outbox was full, so that no channel was notified.
    outbox_full_checks: BTreeSet<CheckId>,
    /// Pairs that are still to be compared; true if the channel belonged to the audience before.
    pending_pairs: BTreeMap<(CheckId, ChannelId), bool>,
}

impl AudienceStates {
    /// Records the state of a channel for the current downtime of a check.
    pub fn set(&mut self, check: &Check, channel: ChannelId, audience_state: AudienceState) {
        let pairs = &mut self.projects.entry(check.project).or_default().pairs;
        let is_full = pairs.len() >= MAX_STATES;
        match pairs.entry((check.id, channel)) {
            Entry::Occupied(mut entry) => _ = entry.insert(audience_state),
            Entry::Vacant(entry) if !is_full => _ = entry.insert(audience_state),
            Entry::Vacant(_) => {}
        }
    }

    /// Records that no channel was notified of the current downtime of a check.
    pub(in crate::engine::apply) fn record_outbox_full(&mut self, check: &Check) {
        self.projects
            .entry(check.project)
            .or_default()
            .outbox_full_checks
            .insert(check.id);
    }

    pub(in crate::engine::apply) fn get(
        &self,
        check: &Check,
        channel: ChannelId,
    ) -> Option<AudienceState> {
        self.projects
            .get(&check.project)?
            .pairs
            .get(&(check.id, channel))
            .copied()
    }

    /// True if a channel was not notified of the current downtime of a check.
    pub(in crate::engine::apply) fn is_unnotified(
        &self,
        check: &Check,
        channel: ChannelId,
    ) -> bool {
        self.projects
            .get(&check.project)
            .is_some_and(
                |audience_states| match audience_states.pairs.get(&(check.id, channel)) {
                    Some(audience_state) => *audience_state == AudienceState::Unnotified,
                    None => audience_states.outbox_full_checks.contains(&check.id),
                },
            )
    }

    /// Records that a channel is notified of the current downtime of a check.
    pub(in crate::engine::apply) fn set_notified(&mut self, check: &Check, channel: ChannelId) {
        let Some(audience_states) = self.projects.get_mut(&check.project) else {
            return;
        };
        if audience_states.outbox_full_checks.contains(&check.id) {
            self.set(check, channel, AudienceState::Notified);
        } else {
            audience_states.pairs.remove(&(check.id, channel));
        }
    }

    /// Checks of a project whose downtime a channel was not notified of. Includes all checks that
    /// went down while the outbox was full, even if the channel is not in their audience or was
    /// notified later.
    pub(in crate::engine::apply) fn unnotified_of(
        &self,
        project: ProjectId,
        channel: ChannelId,
    ) -> Vec<CheckId> {
        let Some(audience_states) = self.projects.get(&project) else {
            return Vec::new();
        };
        let unnotified_pairs =
            audience_states
                .pairs
                .iter()
                .filter(|((_, other), audience_state)| {
                    *other == channel && **audience_state == AudienceState::Unnotified
                });
        unnotified_pairs
            .map(|((check, _), _)| *check)
            .chain(audience_states.outbox_full_checks.iter().copied())
            .collect()
    }

    /// Records that a channel joins or leaves the audience of a check. `was_in`: it belonged to the
    /// audience before.
    pub fn record_membership_change(&mut self, check: &Check, channel: ChannelId, was_in: bool) {
        let pending_pairs = &mut self
            .projects
            .entry(check.project)
            .or_default()
            .pending_pairs;
        let is_full = pending_pairs.len() >= MAX_PENDING_PAIRS;
        match pending_pairs.entry((check.id, channel)) {
            // The pair is as it was before the first change.
            Entry::Occupied(entry) if *entry.get() != was_in => _ = entry.remove(),
            Entry::Vacant(entry) if !is_full => _ = entry.insert(was_in),
            Entry::Occupied(_) | Entry::Vacant(_) => {}
        }
        if pending_pairs.is_empty() {
            self.pending_projects.remove(&check.project)
        } else {
            self.pending_projects.insert(check.project)
        };
    }

    /// True if audiences remain to be compared.
    pub(in crate::engine::apply) fn has_pending(&self) -> bool {
        !self.pending_projects.is_empty()
    }

    /// Takes the next pair to compare.
    pub(in crate::engine::apply) fn take_next_pending(
        &mut self,
    ) -> Option<(CheckId, ChannelId, bool)> {
        while let Some(project) = self.pending_projects.first().copied() {
            let pair = self
                .projects
                .get_mut(&project)
                .and_then(|audience_states| audience_states.pending_pairs.pop_first());
            if let Some(((check, channel), was_in)) = pair {
                return Some((check, channel, was_in));
            }
            self.pending_projects.pop_first();
        }
        None
    }

    /// Takes the channels of a check whose pairs are to be compared.
    pub(in crate::engine::apply) fn take_pending_of(
        &mut self,
        check: &Check,
    ) -> Vec<(ChannelId, bool)> {
        if !self.pending_projects.contains(&check.project) {
            return Vec::new();
        }
        let Some(audience_states) = self.projects.get_mut(&check.project) else {
            return Vec::new();
        };
        let entries = take_check_entries(&mut audience_states.pending_pairs, check.id);
        entries
            .into_iter()
            .map(|((_, channel), was_in)| (channel, was_in))
            .collect()
    }

    /// Removes the records about a check that is deleted or whose downtime begins or ends.
    pub(in crate::engine::apply) fn remove_check(&mut self, project: ProjectId, check: CheckId) {
        let Some(audience_states) = self.projects.get_mut(&project) else {
            return;
        };
        take_check_entries(&mut audience_states.pairs, check);
        take_check_entries(&mut audience_states.pending_pairs, check);
        audience_states.outbox_full_checks.remove(&check);
        if audience_states.pairs.is_empty()
            && audience_states.outbox_full_checks.is_empty()
            && audience_states.pending_pairs.is_empty()
        {
            self.remove_project(project);
        }
    }

    /// Removes the records about a channel that is deleted.
    pub(in crate::engine::apply) fn remove_channel(
        &mut self,
        project: ProjectId,
        channel: ChannelId,
    ) {
        if let Some(audience_states) = self.projects.get_mut(&project) {
            audience_states
                .pairs
                .retain(|(_, other), _| *other != channel);
            audience_states
                .pending_pairs
                .retain(|(_, other), _| *other != channel);
        }
    }

    /// Removes the records about the checks of a project that is deleted.
    pub(in crate::engine::apply) fn remove_project(&mut self, project: ProjectId) {
        self.projects.remove(&project);
        self.pending_projects.remove(&project);
    }

    #[cfg(test)]
    pub(in crate::engine::apply) fn len(&self) -> usize {
        self.projects
            .values()
            .map(|audience_states| {
                audience_states.pairs.len()
                    + audience_states.outbox_full_checks.len()
                    + audience_states.pending_pairs.len()
            })
            .sum()
    }
}

/// Takes the entries of a check out of a map.
fn take_check_entries<V: Copy>(
    map: &mut BTreeMap<(CheckId, ChannelId), V>,
    check: CheckId,
) -> Vec<((CheckId, ChannelId), V)> {
    let range = (check, ChannelId(0))..=(check, ChannelId(u64::MAX));
    let entries: Vec<_> = map
        .range(range)
        .map(|(pair, value)| (*pair, *value))
        .collect();
    entries.iter().for_each(|(pair, _)| _ = map.remove(pair));
    entries
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::{MAIN_PROJECT, add_check, working_state};
    use super::*;

    #[test]
    fn records_about_a_deleted_channel_are_removed_and_records_about_others_stay() {
        let mut working = working_state();
        let id = add_check(&mut working, 7);
        let check = working.state.check(id).unwrap();
        let mut states = AudienceStates::default();
        let deleted = ChannelId(1);
        let other = ChannelId(2);
        for channel in [deleted, other] {
            states.set(check, channel, AudienceState::Unnotified);
            states.record_membership_change(check, channel, true);
        }
        states.remove_channel(MAIN_PROJECT, deleted);
        assert_eq!(states.get(check, deleted), None);
        assert_eq!(states.get(check, other), Some(AudienceState::Unnotified));
        assert_eq!(states.take_pending_of(check), [(other, true)]);
    }

    #[test]
    fn a_project_has_at_most_a_hundred_thousand_pairs_to_compare() {
        let mut working = working_state();
        let id = add_check(&mut working, 7);
        let check = working.state.check(id).unwrap();
        let mut states = AudienceStates::default();
        for channel in 0..=MAX_PENDING_PAIRS as u64 {
            states.record_membership_change(check, ChannelId(channel), true);
        }
        assert_eq!(states.len(), MAX_PENDING_PAIRS);
    }
}
