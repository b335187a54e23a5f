//! Who hears of which checks: the channels that a check is assigned to, those that hear of every check, and the members of groups among
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ProjectState, State};
use crate::domain::alert::Event;
use crate::domain::check::Check;
use crate::domain::ids::ChannelId;
use crate::domain::project::Channel;

/// Of which checks of its project a channel hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hearing {
    /// Of every one.
    every: bool,
    /// Of those that are assigned to one of these: the channel itself and the groups that it is a member of.
    through: BTreeSet<ChannelId>,
}

impl Hearing {
    /// Whether it hears of this one.
    pub fn is_of(&self, check: &Check) -> bool {
        self.every || check.settings.channels.iter().any(|channel| self.through.contains(channel))
    }
}

impl State {
    /// The channels that are to be told of an event of a check, each once.
    pub fn audience(&self, check: &Check, event: Event) -> BTreeMap<ChannelId, Arc<Channel>> {
        let Some(project_state) = self.project(check.project) else { return BTreeMap::new() };
        let every = project_state.channels.values().filter(|channel| channel.settings.common().every);
        let asked: Vec<_> = self.channels_of(check).chain(every).collect();
        let members = asked.iter().flat_map(|channel| project_state.members(channel));
        let all = asked.iter().copied().chain(members).filter(|channel| channel.settings.takes(event));
        all.map(|channel| (channel.id, Arc::clone(channel))).collect()
    }

    /// Of which checks a channel hears.
    pub fn hearing(&self, channel: &Channel) -> Hearing {
        let all = self
            .project(channel.project)
            .into_iter()
            .flat_map(|project_state| project_state.channels.values().map(move |group| (project_state, group)));
        let is_member = |project_state: &ProjectState, group: &Channel| project_state.members(group).any(|member| member.id == channel.id);
        let groups = all.filter(|(project_state, group)| is_member(project_state, group)).map(|(_, group)| &**group);
        let asked: Vec<_> = groups.chain([channel]).collect();
        Hearing {
            every: asked.iter().any(|channel| channel.settings.common().every),
            through: asked.iter().map(|channel| channel.id).collect(),
        }
    }
}

impl ProjectState {
    /// The channels that a group stands for; of every other kind none.
    fn members<'a>(&'a self, group: &'a Channel) -> impl Iterator<Item = &'a Arc<Channel>> {
        group.settings.members().flat_map(|name| self.channels.values().filter(move |channel| channel.is_called(name)))
    }
}
