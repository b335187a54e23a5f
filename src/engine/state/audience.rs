//! Audiences of checks: the channels of a check, those with `every=on`, and the members of groups
//! among them.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use uuid::Uuid;

use super::State;
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelClass, ChannelSettings, is_usable_member_name};
use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, ProjectId, parse_hyphenated_uuid};
use crate::domain::project::Channel;

/// Checks of its project whose audience a channel belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AudienceMembership {
    /// True if it belongs to the audience of every check.
    is_every_check: bool,
    /// Channels through which it belongs to audiences: the channel itself and the groups that it
    /// is a member of.
    via_channels: BTreeSet<ChannelId>,
}

impl AudienceMembership {
    /// Channels whose checks these are. `None` if the channel belongs to the audience of every
    /// check.
    pub fn via_channels(&self) -> Option<&BTreeSet<ChannelId>> {
        (!self.is_every_check).then_some(&self.via_channels)
    }

    /// True if the channel belongs to the audience of this check.
    pub fn includes(&self, check: &Check) -> bool {
        self.is_every_check
            || check
                .settings
                .channels
                .iter()
                .any(|channel| self.via_channels.contains(channel))
    }
}

/// Reason why an alert for a downtime of a check reaches no channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnnotifiedReason {
    /// The check has no channel, and no channel has `every=on`.
    NoChannel,
    /// The groups of the check have no members.
    NoMember,
    /// All channels of the check are disabled.
    Disabled,
    /// The channels of the check do not accept alerts for downtimes.
    AlertNotAccepted,
}

impl UnnotifiedReason {
    /// Reason if the channels lack something that they need to deliver.
    pub const CANNOT_DELIVER: &'static str = "its channels cannot deliver";

    /// Reason as the end of a log line, with the check as "it".
    pub fn description(self) -> &'static str {
        match self {
            Self::NoChannel => "it has no channel",
            Self::NoMember => "its channels cannot deliver: the group has no channel",
            Self::Disabled => "its channels cannot deliver: they are disabled",
            Self::AlertNotAccepted => "its channels do not send alerts for downtimes",
        }
    }
}

/// Index of the groups of a project and their members: a project may have a thousand of either.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupIndex {
    /// Channels by UUID.
    by_uuid: HashMap<Uuid, ChannelId>,
    /// Channels by name.
    by_name: HashMap<Box<str>, BTreeSet<ChannelId>>,
    /// Groups by the UUIDs that they list.
    by_member: HashMap<Uuid, BTreeSet<ChannelId>>,
}

impl GroupIndex {
    /// Replaces a channel in the index.
    pub(super) fn put(&mut self, old: Option<&Channel>, new: Option<&Channel>) {
        if let Some(channel) = old {
            self.by_uuid.remove(&channel.uuid);
            remove(&mut self.by_name, channel.name.as_str(), channel.id);
            channel
                .settings
                .members()
                .for_each(|member| remove(&mut self.by_member, &member, channel.id));
        }
        if let Some(channel) = new {
            self.by_uuid.insert(channel.uuid, channel.id);
            self.by_name
                .entry(channel.name.as_str().into())
                .or_default()
                .insert(channel.id);
            channel.settings.members().for_each(|member| {
                _ = self.by_member.entry(member).or_default().insert(channel.id);
            });
        }
    }

    /// Members of these groups. A channel may occur several times. Other channels have no members.
    fn members<'a>(
        &'a self,
        groups: impl Iterator<Item = &'a Arc<Channel>>,
    ) -> impl Iterator<Item = &'a ChannelId> {
        groups
            .flat_map(|group| group.settings.members())
            .filter_map(|member| self.by_uuid.get(&member))
    }

    /// Groups that a channel is a member of, each once.
    fn groups_of(&self, channel: &Channel) -> impl Iterator<Item = &ChannelId> {
        self.by_member.get(&channel.uuid).into_iter().flatten()
    }
}

fn remove<K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized>(
    ids: &mut HashMap<K, BTreeSet<ChannelId>>,
    key: &Q,
    id: ChannelId,
) {
    if let Some(members) = ids.get_mut(key) {
        members.remove(&id);
        if members.is_empty() {
            ids.remove(key);
        }
    }
}

impl State {
    /// Returns the channels that are notified of an event of a check.
    pub fn audience(&self, check: &Check, event: AlertEvent) -> BTreeMap<ChannelId, Arc<Channel>> {
        let Some(project_state) = self.project(check.project) else {
            return BTreeMap::new();
        };
        let every = project_state
            .channels
            .values()
            .filter(|channel| channel.settings.common().all_checks);
        let channels: Vec<_> = self.channels_of(check).chain(every).collect();
        let members = project_state
            .groups
            .members(channels.iter().copied())
            .filter_map(|id| project_state.channels.get(id));
        let all = channels
            .iter()
            .copied()
            .chain(members)
            .filter(|channel| channel.settings.handles_event(event));
        all.map(|channel| (channel.id, Arc::clone(channel)))
            .collect()
    }

    /// Reason why an alert for a downtime of a check would reach no channel. `None` if it reaches
    /// one.
    pub fn unnotified_reason(&self, check: &Check) -> Option<UnnotifiedReason> {
        let audience = self.audience(check, AlertEvent::Down);
        if !audience.is_empty() {
            let is_disabled = audience
                .values()
                .all(|channel| channel.health.disabled.is_some());
            return is_disabled.then_some(UnnotifiedReason::Disabled);
        }
        let every = self
            .project(check.project)
            .into_iter()
            .flat_map(|project_state| project_state.channels.values());
        let every = every.filter(|channel| channel.settings.common().all_checks);
        let channels: Vec<_> = self.channels_of(check).chain(every).collect();
        Some(match channels.as_slice() {
            [] => UnnotifiedReason::NoChannel,
            channels
                if channels
                    .iter()
                    .all(|channel| channel.settings.kind().class == ChannelClass::Group) =>
            {
                let is_empty = channels
                    .iter()
                    .all(|group| self.members_of(group).next().is_none());
                if is_empty {
                    UnnotifiedReason::NoMember
                } else {
                    UnnotifiedReason::AlertNotAccepted
                }
            }
            _ => UnnotifiedReason::AlertNotAccepted,
        })
    }

    /// Members of a group, in its order. Empty for other channels.
    pub fn members_of(&self, group: &Channel) -> impl Iterator<Item = &Arc<Channel>> {
        let project_state = self.project(group.project).into_iter();
        project_state.flat_map(|project_state| {
            let members = group
                .settings
                .members()
                .filter_map(|member| project_state.groups.by_uuid.get(&member));
            members.filter_map(|id| project_state.channels.get(id))
        })
    }

    /// Groups that a channel is a member of, oldest first.
    pub fn groups_of(&self, channel: &Channel) -> impl Iterator<Item = &Arc<Channel>> {
        let project_state = self.project(channel.project).into_iter();
        project_state.flat_map(|project_state| {
            project_state
                .groups
                .groups_of(channel)
                .filter_map(|id| project_state.channels.get(id))
        })
    }

    /// UUID of the channel that a group of this project lists by name or UUID.
    ///
    /// # Errors
    /// With the rest of a sentence that begins with the setting.
    pub fn find_member(&self, project: ProjectId, text: &str) -> Result<Uuid, String> {
        let project_state = self.project(project);
        let found = project_state.into_iter().flat_map(|project_state| {
            let by_uuid = parse_hyphenated_uuid(text)
                .and_then(|uuid| project_state.groups.by_uuid.get(&uuid));
            let by_name = project_state.groups.by_name.get(text).into_iter().flatten();
            by_uuid
                .into_iter()
                .chain(by_name)
                .filter_map(|id| project_state.channels.get(id))
        });
        let found: Vec<_> = found
            .map(|channel| (channel.uuid, channel.settings.kind().class))
            .collect();
        choose_member(text, &found)
    }

    /// Settings of a channel for display: the members of a group by name.
    pub fn display_settings<'a>(&self, channel: &'a Channel) -> Cow<'a, ChannelSettings> {
        let project_state = self.project(channel.project);
        channel.settings.with_member_names(|uuid| {
            let project_state = project_state?;
            let name = project_state
                .channels
                .get(project_state.groups.by_uuid.get(&uuid)?)?
                .name
                .as_str();
            let is_only = project_state
                .groups
                .by_name
                .get(name)
                .is_some_and(|ids| ids.len() == 1);
            (is_only && is_usable_member_name(name)).then(|| name.to_owned())
        })
    }

    /// Returns the audiences that a channel belongs to.
    pub fn audience_membership(&self, channel: &Channel) -> AudienceMembership {
        let project_state = self.project(channel.project);
        let groups = project_state
            .into_iter()
            .flat_map(|project_state| project_state.groups.groups_of(channel))
            .copied();
        let via_channels: BTreeSet<_> = groups.chain([channel.id]).collect();
        let has_all_checks = |id| {
            self.channel(id)
                .is_some_and(|channel| channel.settings.common().all_checks)
        };
        AudienceMembership {
            is_every_check: channel.settings.common().all_checks
                || via_channels.iter().any(|id| has_all_checks(*id)),
            via_channels,
        }
    }
}

/// UUID of the member that a group lists as `text`. `found` are the channels of the project with
/// that name or UUID.
///
/// # Errors
/// With the rest of a sentence that begins with the setting.
pub(in crate::engine) fn choose_member(
    text: &str,
    found: &[(Uuid, ChannelClass)],
) -> Result<Uuid, String> {
    match found {
        [(_, ChannelClass::Group)] => Err(format!(
            "names {text:?}, which is a group itself; name the channels in it"
        )),
        [(uuid, _)] => Ok(*uuid),
        [] => Err(format!(
            "names {text:?}, but the project has no such channel; create it first, or leave it out"
        )),
        several => {
            let uuids: Vec<_> = several.iter().map(|(uuid, _)| uuid.to_string()).collect();
            Err(format!(
                "names {text:?}, and several channels have this name; give the UUID of one: {}",
                uuids.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::channels;
    use crate::domain::alert::ChannelHealth;
    use crate::domain::project::ChannelName;

    const NAMES: [&str; 3] = ["", "a", "b"];

    /// Channel with this number. A group lists the UUIDs of the numbers in `listed`.
    fn channel(id: u64, name: usize, listed: Option<&[u64]>) -> Channel {
        let uuid = |id: u64| Uuid::from_u128(u128::from(id));
        let settings = match listed.filter(|listed| !listed.is_empty()) {
            Some(listed) => {
                let members = listed
                    .iter()
                    .map(|id| uuid(*id).to_string())
                    .collect::<Vec<_>>()
                    .join(",");
                ChannelSettings::parse(
                    channels::find_kind("group").unwrap(),
                    [("channels", members)],
                )
                .unwrap()
            }
            None => ChannelSettings::parse(
                channels::find_kind("email").unwrap(),
                [("to", "a@example.org")],
            )
            .unwrap(),
        };
        let name = ChannelName::parse(NAMES[name]).unwrap();
        let project = ProjectId(1);
        Channel {
            id: ChannelId(id),
            uuid: uuid(id),
            project,
            name,
            settings,
            set_by_operator: true,
            health: ChannelHealth::default(),
        }
    }

    proptest! {
        #[test]
        fn the_group_index_matches_a_search_of_all_channels(
            steps in prop::collection::vec(
                (
                    0..5_u64,
                    0..3_usize,
                    prop::option::of(prop::collection::vec(0..5_u64, 0..3)),
                    any::<bool>(),
                ),
                1..30,
            )
        ) {
            let mut groups = GroupIndex::default();
            let mut channels = BTreeMap::<ChannelId, Arc<Channel>>::new();
            for (id, name, listed, is_gone) in steps {
                let new = (!is_gone).then(|| Arc::new(channel(id, name, listed.as_deref())));
                let old = channels.remove(&ChannelId(id));
                groups.put(old.as_deref(), new.as_deref());
                channels.extend(new.map(|new| (new.id, new)));
                for one in channels.values() {
                    let lists = |group: &Channel, member: &Channel| {
                        group.settings.members().any(|uuid| member.uuid == uuid)
                    };
                    let ids = |matches: &dyn Fn(&Channel) -> bool| {
                        channels
                            .values()
                            .filter(|other| matches(other))
                            .map(|other| other.id)
                            .collect::<BTreeSet<_>>()
                    };
                    let members: BTreeSet<_> =
                        groups.members([one].into_iter()).copied().collect();
                    let groups_of_one: BTreeSet<_> = groups.groups_of(one).copied().collect();
                    prop_assert_eq!(members, ids(&|other: &Channel| lists(one, other)));
                    prop_assert_eq!(groups_of_one, ids(&|other: &Channel| lists(other, one)));
                    prop_assert_eq!(
                        &groups.by_name[one.name.as_str()],
                        &ids(&|other: &Channel| other.name == one.name)
                    );
                }
            }
            channels.values().for_each(|one| groups.put(Some(one), None));
            prop_assert!(groups.by_uuid.is_empty());
            prop_assert!(groups.by_name.is_empty());
            prop_assert!(groups.by_member.is_empty());
        }
    }
}
