//! Who hears of which checks: the channels that a check is assigned to, those that hear of every check, and the members of groups among
//! them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::State;
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
    /// The channels to which checks are assigned that it hears of; `None`: it hears of every one.
    pub fn through(&self) -> Option<&BTreeSet<ChannelId>> {
        (!self.every).then_some(&self.through)
    }

    /// Whether it hears of this one.
    pub fn is_of(&self, check: &Check) -> bool {
        self.every || check.settings.channels.iter().any(|channel| self.through.contains(channel))
    }
}

/// Which channel names mean which channels, and which groups list them: a project may have a thousand of either.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// Channels by name and by UUID.
    called: HashMap<Box<str>, BTreeSet<ChannelId>>,
    /// Groups by the names and UUIDs that they list.
    listing: HashMap<Box<str>, BTreeSet<ChannelId>>,
}

impl Groups {
    /// A channel takes the place of what it was before.
    pub(super) fn put(&mut self, old: Option<&Channel>, new: Option<&Channel>) {
        if let Some(channel) = old {
            names(channel).iter().for_each(|name| remove(&mut self.called, name, channel.id));
            channel.settings.members().for_each(|name| remove(&mut self.listing, name, channel.id));
        }
        if let Some(channel) = new {
            names(channel).into_iter().for_each(|name| _ = self.called.entry(name).or_default().insert(channel.id));
            channel.settings.members().for_each(|name| _ = self.listing.entry(name.into()).or_default().insert(channel.id));
        }
    }

    /// The channels that these groups stand for, each once or twice; channels of other kinds stand for none.
    fn members<'a>(&'a self, groups: impl Iterator<Item = &'a Arc<Channel>>) -> impl Iterator<Item = &'a ChannelId> {
        let names: BTreeSet<_> = groups.flat_map(|group| group.settings.members()).collect();
        names.into_iter().filter_map(|name| self.called.get(name)).flatten()
    }

    /// The groups that a channel is a member of, each once or twice.
    fn of(&self, channel: &Channel) -> impl Iterator<Item = &ChannelId> {
        names(channel).into_iter().filter_map(|name| self.listing.get(&name)).flatten()
    }
}

/// What a group may call a channel: its name, or its UUID in lower case.
fn names(channel: &Channel) -> [Box<str>; 2] {
    [channel.name.as_str().into(), channel.uuid.hyphenated().to_string().into()]
}

fn remove(ids: &mut HashMap<Box<str>, BTreeSet<ChannelId>>, name: &str, id: ChannelId) {
    if let Some(own) = ids.get_mut(name) {
        own.remove(&id);
        if own.is_empty() {
            ids.remove(name);
        }
    }
}

impl State {
    /// The channels that are to be told of an event of a check, each once.
    pub fn audience(&self, check: &Check, event: Event) -> BTreeMap<ChannelId, Arc<Channel>> {
        let Some(project_state) = self.project(check.project) else { return BTreeMap::new() };
        let every = project_state.channels.values().filter(|channel| channel.settings.common().every);
        let asked: Vec<_> = self.channels_of(check).chain(every).collect();
        let members = project_state.groups.members(asked.iter().copied()).filter_map(|id| project_state.channels.get(id));
        let all = asked.iter().copied().chain(members).filter(|channel| channel.settings.takes(event));
        all.map(|channel| (channel.id, Arc::clone(channel))).collect()
    }

    /// Of which checks a channel hears.
    pub fn hearing(&self, channel: &Channel) -> Hearing {
        let project_state = self.project(channel.project);
        let groups = project_state.into_iter().flat_map(|project_state| project_state.groups.of(channel)).copied();
        let through: BTreeSet<_> = groups.chain([channel.id]).collect();
        let is_of_all = |id| self.channel(id).is_some_and(|channel| channel.settings.common().every);
        Hearing { every: channel.settings.common().every || through.iter().any(|id| is_of_all(*id)), through }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::alert::ChannelHealth;
    use crate::domain::channel::{ChannelKind, ChannelSettings};
    use crate::domain::ids::ProjectId;
    use crate::domain::project::ChannelName;

    const NAMES: [&str; 3] = ["", "a", "b"];

    /// A channel of this number; a group lists these names and the UUIDs of those numbers.
    fn channel(id: u64, name: usize, listed: Option<&[(bool, u64)]>) -> Channel {
        let uuid = |id: u64| uuid::Uuid::from_u128(u128::from(id));
        let member = |(by_name, id): &(bool, u64)| if *by_name { NAMES[1 + *id as usize % 2].to_owned() } else { uuid(*id).to_string() };
        let settings = match listed.filter(|listed| !listed.is_empty()) {
            Some(listed) => {
                let members = listed.iter().map(member).collect::<Vec<_>>().join(",");
                ChannelSettings::parse(ChannelKind::named("group").unwrap(), [("channels", members)]).unwrap()
            }
            None => ChannelSettings::parse(ChannelKind::named("email").unwrap(), [("to", "a@example.org")]).unwrap(),
        };
        let name = ChannelName::parse(NAMES[name]).unwrap();
        let project = ProjectId(1);
        Channel { id: ChannelId(id), uuid: uuid(id), project, name, settings, operator: true, health: ChannelHealth::default() }
    }

    proptest! {
        #[test]
        fn groups_are_found_as_if_all_channels_were_looked_at(
            steps in prop::collection::vec(
                (0..5_u64, 0..3_usize, prop::option::of(prop::collection::vec((any::<bool>(), 0..5_u64), 0..3)), any::<bool>()),
                1..30,
            )
        ) {
            let (mut groups, mut channels) = (Groups::default(), BTreeMap::<ChannelId, Arc<Channel>>::new());
            for (id, name, listed, is_gone) in steps {
                let new = (!is_gone).then(|| Arc::new(channel(id, name, listed.as_deref())));
                let old = channels.remove(&ChannelId(id));
                groups.put(old.as_deref(), new.as_deref());
                channels.extend(new.map(|new| (new.id, new)));
                for one in channels.values() {
                    let lists = |group: &Channel, member: &Channel| group.settings.members().any(|name| member.is_called(name));
                    let members: BTreeSet<_> = channels.values().filter(|other| lists(one, other)).map(|other| other.id).collect();
                    let of: BTreeSet<_> = channels.values().filter(|other| lists(other, one)).map(|other| other.id).collect();
                    prop_assert_eq!(groups.members([one].into_iter()).copied().collect::<BTreeSet<_>>(), members);
                    prop_assert_eq!(groups.of(one).copied().collect::<BTreeSet<_>>(), of);
                }
            }
            channels.values().for_each(|one| groups.put(Some(one), None));
            prop_assert!(groups.called.is_empty() && groups.listing.is_empty());
        }
    }
}
