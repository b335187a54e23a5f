//! How the places to send are shared: no project holds more than half of them, in all and to one receiver, and projects take turns.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::{MAX_IN_FLIGHT, MAX_PER_DESTINATION};
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::project::Channel;

/// Messages of one project that are under way at the same time: see [limits](crate::docs::limits).
const MAX_PER_PROJECT: usize = MAX_IN_FLIGHT / 2;
/// And to one place: see [limits](crate::docs::limits).
const MAX_PROJECT_PER_DESTINATION: usize = MAX_PER_DESTINATION / 2;

/// The places that are taken, and whose turn it is.
#[derive(Default)]
pub(super) struct SendSlots {
    used: usize,
    by_project: HashMap<ProjectId, usize>,
    by_destination: HashMap<String, BTreeMap<ProjectId, usize>>,
    /// The project that sent last, and the channel of each project that did.
    last_project: Option<ProjectId>,
    last_channels: HashMap<ProjectId, ChannelId>,
}

/// The channels of a project, the one whose turn it is first.
pub(super) type ProjectTurn = (ProjectId, VecDeque<Arc<Channel>>);

impl SendSlots {
    /// True if nothing more can be sent.
    pub(super) fn are_full(&self) -> bool {
        self.used >= MAX_IN_FLIGHT
    }

    /// True if the project can send nothing more.
    pub(super) fn are_full_for(&self, project: ProjectId) -> bool {
        self.by_project.get(&project).is_some_and(|count| *count >= MAX_PER_PROJECT)
    }

    /// True if the project can send to this place.
    pub(super) fn has_slot(&self, project: ProjectId, place: &str) -> bool {
        let Some(taken) = self.by_destination.get(place) else { return true };
        let own = taken.get(&project).copied().unwrap_or_default();
        own < MAX_PROJECT_PER_DESTINATION && taken.values().sum::<usize>() < MAX_PER_DESTINATION
    }

    /// Takes a place for a message.
    pub(super) fn acquire(&mut self, channel: &Channel, place: &str) {
        self.used += 1;
        *self.by_project.entry(channel.project).or_default() += 1;
        *self.by_destination.entry(place.to_owned()).or_default().entry(channel.project).or_default() += 1;
        self.last_project = Some(channel.project);
        self.last_channels.insert(channel.project, channel.id);
    }

    /// Frees the place of a message.
    pub(super) fn release(&mut self, project: ProjectId, place: &str) {
        self.used = self.used.saturating_sub(1);
        if let Some(count) = self.by_project.get_mut(&project) {
            *count -= 1;
        }
        self.by_project.retain(|_, count| *count > 0);
        if let Some(taken) = self.by_destination.get_mut(place) {
            if let Some(count) = taken.get_mut(&project) {
                *count -= 1;
            }
            taken.retain(|_, count| *count > 0);
            if taken.is_empty() {
                self.by_destination.remove(place);
            }
        }
    }

    /// Groups channels by project. First comes the project after the one that sent last, and in each project the channel after its last.
    pub(super) fn round_robin(&mut self, channels: Vec<Arc<Channel>>) -> VecDeque<ProjectTurn> {
        let mut projects: BTreeMap<ProjectId, Vec<Arc<Channel>>> = BTreeMap::new();
        for channel in channels {
            projects.entry(channel.project).or_default().push(channel);
        }
        self.last_channels.retain(|project, _| projects.contains_key(project));
        let turn = |(project, mut channels): (ProjectId, Vec<Arc<Channel>>)| {
            channels.sort_unstable_by_key(|channel| channel.id);
            let last = self.last_channels.get(&project);
            let first = channels.partition_point(|channel| Some(&channel.id) <= last);
            channels.rotate_left(first);
            (project, channels.into())
        };
        let mut turns: VecDeque<_> = projects.into_iter().map(turn).collect();
        let first = turns.partition_point(|(project, _)| Some(*project) <= self.last_project);
        turns.rotate_left(first);
        turns
    }
}
