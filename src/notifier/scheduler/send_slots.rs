//! Slots for sending. No project has more than half of them, in total and for one receiver, and
//! projects take turns. A keyed semaphore has no turns, and its permits would have to follow each
//! message.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::{MAX_IN_FLIGHT, MAX_PER_DESTINATION};
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::project::Channel;

/// Maximum number of messages of one project in flight: see [limits](crate::docs::limits).
const MAX_PER_PROJECT: usize = MAX_IN_FLIGHT / 2;
/// Maximum number of messages of one project in flight to one destination: see
/// [limits](crate::docs::limits).
const MAX_PROJECT_PER_DESTINATION: usize = MAX_PER_DESTINATION / 2;

/// Used slots, and the order of projects and channels.
#[derive(Default)]
pub(super) struct SendSlots {
    used: usize,
    by_project: HashMap<ProjectId, usize>,
    by_destination: HashMap<String, BTreeMap<ProjectId, usize>>,
    /// Last project that sent, and the last channel of each project.
    last_project: Option<ProjectId>,
    last_channels: HashMap<ProjectId, ChannelId>,
}

/// Channels of a project, in order of their turn.
pub(super) type ProjectTurn = (ProjectId, VecDeque<Arc<Channel>>);

impl SendSlots {
    /// True if all slots are used.
    pub(super) fn are_full(&self) -> bool {
        self.used >= MAX_IN_FLIGHT
    }

    /// True if the project has used its share of the slots.
    pub(super) fn are_full_for(&self, project: ProjectId) -> bool {
        self.by_project
            .get(&project)
            .is_some_and(|count| *count >= MAX_PER_PROJECT)
    }

    /// True if the project has a free slot for this destination.
    pub(super) fn has_slot(&self, project: ProjectId, destination: &str) -> bool {
        let Some(counts) = self.by_destination.get(destination) else {
            return true;
        };
        let project_count = counts.get(&project).copied().unwrap_or_default();
        project_count < MAX_PROJECT_PER_DESTINATION
            && counts.values().sum::<usize>() < MAX_PER_DESTINATION
    }

    /// Takes a slot for a message.
    pub(super) fn acquire(&mut self, channel: &Channel, destination: &str) {
        self.used += 1;
        *self.by_project.entry(channel.project).or_default() += 1;
        *self
            .by_destination
            .entry(destination.to_owned())
            .or_default()
            .entry(channel.project)
            .or_default() += 1;
        self.last_project = Some(channel.project);
        self.last_channels.insert(channel.project, channel.id);
    }

    /// Frees the slot of a message.
    pub(super) fn release(&mut self, project: ProjectId, destination: &str) {
        self.used = self.used.saturating_sub(1);
        if let Some(count) = self.by_project.get_mut(&project) {
            *count -= 1;
        }
        self.by_project.retain(|_, count| *count > 0);
        if let Some(counts) = self.by_destination.get_mut(destination) {
            if let Some(count) = counts.get_mut(&project) {
                *count -= 1;
            }
            counts.retain(|_, count| *count > 0);
            if counts.is_empty() {
                self.by_destination.remove(destination);
            }
        }
    }

    /// Groups channels by project. The project after the last one that sent comes first, and within
    /// each project the channel after its last.
    pub(super) fn round_robin(&mut self, channels: Vec<Arc<Channel>>) -> VecDeque<ProjectTurn> {
        let mut projects: BTreeMap<ProjectId, Vec<Arc<Channel>>> = BTreeMap::new();
        for channel in channels {
            projects.entry(channel.project).or_default().push(channel);
        }
        self.last_channels
            .retain(|project, _| projects.contains_key(project));
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
