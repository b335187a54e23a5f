//! Records about channels and the checks that are down: which channels were notified, and whose audiences are still to be compared.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, CheckId, ProjectId};

/// Records of one project. Channels beyond them count as notified.
const MOST_PAIRS: usize = 20_000;
/// Pairs of one project whose audience is still to be compared. What is beyond stays as it is.
const MOST_MOVED: usize = 100_000;

/// What is known of a channel and the downtime that a check is in, beyond what their settings say. A channel without a record was
/// notified if it belongs to the audience.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The channel was not notified.
    Unnotified,
    /// The channel was notified later, of a downtime whose alerts were all refused at its beginning.
    Notified,
    /// The channel was notified, and has left the audience since.
    Left,
    /// The channel has left the audience, and its incident was closed for that reason.
    Closed,
}

/// Records about the audiences of checks that are down.
#[derive(Clone, Debug, Default)]
pub struct AudienceNotes {
    projects: BTreeMap<ProjectId, ProjectNotes>,
    /// Projects with audiences that are still to be compared.
    moving: BTreeSet<ProjectId>,
}

#[derive(Clone, Debug, Default)]
struct ProjectNotes {
    pairs: BTreeMap<(CheckId, ChannelId), Note>,
    /// Checks of which no channel was notified when they went down, since too much waited.
    refused: BTreeSet<CheckId>,
    /// Pairs that are still to be compared; true if the channel belonged to the audience before.
    moved: BTreeMap<(CheckId, ChannelId), bool>,
}

impl AudienceNotes {
    /// Records what is known of a channel and the downtime that a check is in.
    pub fn set(&mut self, check: &Check, channel: ChannelId, note: Note) {
        let pairs = &mut self.projects.entry(check.project).or_default().pairs;
        let is_full = pairs.len() >= MOST_PAIRS;
        match pairs.entry((check.id, channel)) {
            Entry::Occupied(mut entry) => _ = entry.insert(note),
            Entry::Vacant(entry) if !is_full => _ = entry.insert(note),
            Entry::Vacant(_) => {}
        }
    }

    /// Records that no channel was notified of the downtime that a check is in.
    pub(in crate::engine::apply) fn set_refused(&mut self, check: &Check) {
        self.projects.entry(check.project).or_default().refused.insert(check.id);
    }

    pub(in crate::engine::apply) fn get(&self, check: &Check, channel: ChannelId) -> Option<Note> {
        self.projects.get(&check.project)?.pairs.get(&(check.id, channel)).copied()
    }

    /// True if a channel is known not to have been notified of the downtime that a check is in.
    pub(in crate::engine::apply) fn is_unnotified(&self, check: &Check, channel: ChannelId) -> bool {
        self.projects.get(&check.project).is_some_and(|notes| match notes.pairs.get(&(check.id, channel)) {
            Some(note) => *note == Note::Unnotified,
            None => notes.refused.contains(&check.id),
        })
    }

    /// Records that a channel is notified of the downtime that a check is in.
    pub(in crate::engine::apply) fn set_notified(&mut self, check: &Check, channel: ChannelId) {
        let Some(notes) = self.projects.get_mut(&check.project) else { return };
        if notes.refused.contains(&check.id) {
            self.set(check, channel, Note::Notified);
        } else {
            notes.pairs.remove(&(check.id, channel));
        }
    }

    /// The checks of a project of which a channel was not notified. Those of a downtime that was refused may be others.
    pub(in crate::engine::apply) fn unnotified_of(&self, project: ProjectId, channel: ChannelId) -> Vec<CheckId> {
        let Some(notes) = self.projects.get(&project) else { return Vec::new() };
        let own = notes.pairs.iter().filter(|((_, other), note)| *other == channel && **note == Note::Unnotified);
        own.map(|((check, _), _)| *check).chain(notes.refused.iter().copied()).collect()
    }

    /// Records that a channel joins or leaves the audience of a check, to which it belonged before if `was_in`.
    pub fn move_channel(&mut self, check: &Check, channel: ChannelId, was_in: bool) {
        let moved = &mut self.projects.entry(check.project).or_default().moved;
        let is_full = moved.len() >= MOST_MOVED;
        match moved.entry((check.id, channel)) {
            // It is as it was before the first change.
            Entry::Occupied(entry) if *entry.get() != was_in => _ = entry.remove(),
            Entry::Vacant(entry) if !is_full => _ = entry.insert(was_in),
            Entry::Occupied(_) | Entry::Vacant(_) => {}
        }
        if moved.is_empty() {
            self.moving.remove(&check.project)
        } else {
            self.moving.insert(check.project)
        };
    }

    /// True if there are audiences to compare.
    pub(in crate::engine::apply) fn is_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Takes a pair that is to be compared.
    pub(in crate::engine::apply) fn next_moved(&mut self) -> Option<(CheckId, ChannelId, bool)> {
        while let Some(project) = self.moving.first().copied() {
            let moved = self.projects.get_mut(&project).and_then(|notes| notes.moved.pop_first());
            if let Some(((check, channel), was_in)) = moved {
                return Some((check, channel, was_in));
            }
            self.moving.pop_first();
        }
        None
    }

    /// Takes the channels of a check that are to be compared.
    pub(in crate::engine::apply) fn moved_of(&mut self, check: &Check) -> Vec<(ChannelId, bool)> {
        if !self.moving.contains(&check.project) {
            return Vec::new();
        }
        let Some(notes) = self.projects.get_mut(&check.project) else { return Vec::new() };
        let moved = take(&mut notes.moved, check.id);
        moved.into_iter().map(|((_, channel), was_in)| (channel, was_in)).collect()
    }

    /// Removes the records about a check whose downtime is over or begins, or that is deleted.
    pub(in crate::engine::apply) fn forget(&mut self, project: ProjectId, check: CheckId) {
        let Some(notes) = self.projects.get_mut(&project) else { return };
        take(&mut notes.pairs, check);
        take(&mut notes.moved, check);
        notes.refused.remove(&check);
        if notes.pairs.is_empty() && notes.refused.is_empty() && notes.moved.is_empty() {
            self.forget_project(project);
        }
    }

    /// Removes the records about a channel that is deleted.
    pub(in crate::engine::apply) fn forget_channel(&mut self, project: ProjectId, channel: ChannelId) {
        if let Some(notes) = self.projects.get_mut(&project) {
            notes.pairs.retain(|(_, other), _| *other != channel);
            notes.moved.retain(|(_, other), _| *other != channel);
        }
    }

    /// Removes the records about the checks of a project that is deleted.
    pub(in crate::engine::apply) fn forget_project(&mut self, project: ProjectId) {
        self.projects.remove(&project);
        self.moving.remove(&project);
    }

    #[cfg(test)]
    pub(in crate::engine::apply) fn len(&self) -> usize {
        self.projects.values().map(|notes| notes.pairs.len() + notes.refused.len() + notes.moved.len()).sum()
    }
}

/// Takes the entries of a check out of a map.
fn take<V: Copy>(map: &mut BTreeMap<(CheckId, ChannelId), V>, check: CheckId) -> Vec<((CheckId, ChannelId), V)> {
    let range = (check, ChannelId(0))..=(check, ChannelId(u64::MAX));
    let own: Vec<_> = map.range(range).map(|(pair, value)| (*pair, *value)).collect();
    own.iter().for_each(|(pair, _)| _ = map.remove(pair));
    own
}
