//! Declared channels, maintenance windows and keys of a project.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::projects::Within;
use super::{Found, Planner, Step};
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelSettings, Class, Maker};
use crate::domain::ids::{ChannelId, KeyId, WindowId};
use crate::domain::project::{Access, Channel, ChannelName, Key, Secret};
use crate::domain::wanted::fields::{self, Fields, Value};
use crate::domain::wanted::{ObjectKind, ObjectName, ObjectPath, WantedChannel, WantedKey, WantedWindow};
use crate::domain::window::{Window, WindowTimes};
use crate::engine::apply::MOST_WINDOWS;
use crate::engine::command::NewKey;
use crate::engine::state::member_of_found;

/// The channels that a project will have, as checks may name them.
#[derive(Default)]
pub(super) struct NamedChannels {
    by_name: HashMap<Box<str>, Vec<ChannelId>>,
    by_uuid: HashMap<Uuid, ChannelId>,
    all: BTreeMap<ChannelId, (Box<str>, Uuid, Class)>,
}

impl NamedChannels {
    fn add(&mut self, id: ChannelId, name: &str, uuid: Uuid, class: Class) {
        self.by_name.entry(name.into()).or_default().push(id);
        self.by_uuid.insert(uuid, id);
        self.all.insert(id, (name.into(), uuid, class));
    }

    /// The UUID of the channel that a group means by a name or a UUID.
    fn find_member(&self, text: &str) -> Result<Uuid, String> {
        let found: Vec<_> = self.named(text).iter().filter_map(|id| self.all.get(id)).map(|(_, uuid, class)| (*uuid, *class)).collect();
        member_of_found(text, &found)
    }

    /// Fields of a channel as a difference shows them: the members of a group by name.
    fn fields(&self, name: &ChannelName, settings: &ChannelSettings) -> Fields {
        let member = |uuid: Uuid| self.shown(*self.by_uuid.get(&uuid)?).map(String::from);
        let mut fields = fields::channel(&settings.with_members_named(member));
        fields.push(("name".into(), Value::Text(name.as_str().into())));
        fields
    }

    /// All of them, oldest first.
    pub(super) fn ids(&self) -> impl Iterator<Item = ChannelId> {
        self.all.keys().copied()
    }

    /// Those that have this name or UUID.
    pub(super) fn named(&self, name: &str) -> BTreeSet<ChannelId> {
        let by_uuid = match ObjectName::new(name) {
            ObjectName::Uuid(uuid) => self.by_uuid.get(&uuid).copied(),
            ObjectName::Text(_) => None,
        };
        self.by_name.get(name).into_iter().flatten().copied().chain(by_uuid).collect()
    }

    /// How a difference calls one: by its name, or by its UUID where several have that.
    pub(super) fn shown(&self, id: ChannelId) -> Option<Box<str>> {
        let (name, uuid, _) = self.all.get(&id)?;
        let is_only = self.by_name.get(name).is_some_and(|ids| ids.len() == 1);
        Some(if name.is_empty() || !is_only { uuid.to_string().into() } else { name.clone() })
    }
}

impl Planner<'_> {
    /// The one of several that a file means; `None`: there is none. Of two with the same name nobody knows.
    fn meant<T: Clone>(
        &mut self,
        at: &ObjectPath,
        (id, uuid): (&ObjectName, Option<Uuid>),
        mut all: impl Iterator<Item = T> + Clone,
        named: impl Fn(&T) -> (Uuid, bool),
    ) -> Option<T> {
        let wanted = match id {
            ObjectName::Uuid(uuid) => Some(*uuid),
            ObjectName::Text(_) => uuid,
        };
        if let ObjectName::Text(_) = id {
            let mut fitting: Vec<_> = all.clone().filter(|one| named(one).1).collect();
            if fitting.len() > 1 {
                let uuids: Vec<_> = fitting.iter().map(|one| named(one).0.to_string()).collect();
                self.conflict(at, None, format!("several have this name; write the UUID of one as the key: {}", uuids.join(", ")));
                return None;
            }
            if let Some(found) = fitting.pop() {
                let (found_uuid, _) = named(&found);
                if uuid.is_some_and(|uuid| uuid != found_uuid) {
                    self.conflict(at, Some("uuid"), format!("it has the UUID {found_uuid}, which cannot be changed"));
                }
                return Some(found);
            }
        }
        all.find(|one| Some(named(one).0) == wanted)
    }

    /// The UUID of something that is made: the one that is wanted, if nothing else has it.
    pub(super) fn new_uuid(&mut self, at: &ObjectPath, id: &ObjectName, uuid: Option<Uuid>, is_taken: impl Fn(Uuid) -> bool) -> Uuid {
        let wanted = match id {
            ObjectName::Uuid(uuid) => Some(*uuid),
            ObjectName::Text(_) => uuid,
        };
        let drawn = self.draw();
        if let Some(wanted) = wanted
            && (is_taken(wanted) || !self.uuids.insert(wanted))
        {
            self.conflict(at, Some("uuid"), "something else has this UUID already");
        }
        wanted.unwrap_or(drawn)
    }

    /// Plans the channels, and gives all that the project will have.
    pub(super) fn channels(&mut self, within: &Within<'_>, wanted: &[WantedChannel]) -> NamedChannels {
        let mut named = NamedChannels::default();
        let there = || within.there.into_iter().flat_map(|project_state| project_state.channels.values());
        let mut placed = Vec::with_capacity(wanted.len());
        for channel in wanted {
            let at = within.path(ObjectKind::Channel, &channel.id);
            let is_named = |one: &&std::sync::Arc<Channel>| (one.uuid, channel.id.text() == Some(one.name.as_str()));
            let found = self.meant(&at, (&channel.id, channel.uuid), there(), is_named);
            let (id, uuid) = match found {
                Some(found) => {
                    self.kept.insert(found.id.0);
                    (found.id, found.uuid)
                }
                None => self.placed_channel(channel, &at),
            };
            named.add(id, channel.name.as_str(), uuid, channel.settings.kind().class);
            placed.push((channel, at, found, id, uuid));
        }
        let others = there().filter(|channel| !self.kept.contains(&channel.id.0) && !self.is_leaving(channel.id.0));
        others.for_each(|channel| named.add(channel.id, channel.name.as_str(), channel.uuid, channel.settings.kind().class));
        // Groups may name channels that come after them in the file.
        for (channel, at, found, id, uuid) in placed {
            let settings = match channel.settings.with_members_found(None, |text| named.find_member(text)) {
                Ok(settings) => settings.into_owned(),
                Err(error) => {
                    self.conflict(&at, Some("channels"), error.problem());
                    continue;
                }
            };
            let wanted = Channel {
                id,
                uuid,
                project: within.id,
                name: channel.name.clone(),
                settings,
                operator: true,
                health: ChannelHealth::default(),
            };
            match found {
                Some(there) => self.known_channel(there, wanted, &named, &at),
                None => {
                    let fields = fields::channel(&channel.settings);
                    self.steps.push(Step::Channel(wanted));
                    self.added(id.0, &at, &fields, None);
                }
            }
        }
        named
    }

    fn known_channel(&mut self, there: &Channel, wanted: Channel, named: &NamedChannels, at: &ObjectPath) {
        if there.settings.kind() != wanted.settings.kind() {
            let reason = format!("it is of kind {} here; delete that channel, or give this one another name", there.settings.kind().name);
            return self.conflict(at, Some("kind"), reason);
        }
        if self.has_odd_value(&wanted.settings, Some(&there.settings), at) {
            return;
        }
        let (old, new) = (named.fields(&there.name, &there.settings), named.fields(&wanted.name, &wanted.settings));
        if self.there(there.id.0, at, &old, &new, Some(there.uuid)) {
            let mut channel = Channel { name: wanted.name, ..there.clone() };
            channel.give(wanted.settings, Maker::Operator);
            self.steps.push(Step::Channel(channel));
        }
    }

    /// Refuses a new value that its service cannot have given.
    fn has_odd_value(&mut self, wanted: &ChannelSettings, stored: Option<&ChannelSettings>, at: &ObjectPath) -> bool {
        let refused = wanted.check_shapes(stored).err();
        if let Some(error) = &refused {
            self.conflict(at, error.field().map(|field| field.key), error.problem());
        }
        refused.is_some()
    }

    /// The number and the UUID of a channel that is not there yet.
    fn placed_channel(&mut self, wanted: &WantedChannel, at: &ObjectPath) -> (ChannelId, Uuid) {
        self.has_odd_value(&wanted.settings, None, at);
        let id = ChannelId(self.new_id());
        let state = self.state;
        let has =
            move |uuid| state.projects().flat_map(|project_state| project_state.channels.values()).any(|channel| channel.uuid == uuid);
        (id, self.new_uuid(at, &wanted.id, wanted.uuid, has))
    }

    pub(super) fn windows(&mut self, within: &Within<'_>, wanted: &[WantedWindow]) {
        let mut count = within.there.map_or(0, |project_state| project_state.windows.len());
        let mut last = None;
        for window in wanted {
            let at = within.path(ObjectKind::Window, &window.id);
            let all = within.there.into_iter().flat_map(|project_state| project_state.windows.values());
            let is_named = |one: &&std::sync::Arc<Window>| (one.uuid, window.id.text() == Some(one.name.as_str()));
            let found = self.meant(&at, (&window.id, window.uuid), all, is_named);
            let (name, tags, times) = (window.name.clone(), window.tags.clone(), window.times.clone());
            let fields = |name: &str, fields: Fields| [("name".into(), Value::Text(name.into()))].into_iter().chain(fields).collect();
            let new: Fields = fields(name.as_str(), fields::window(&tags, &times));
            if let Some(there) = found {
                let old: Fields = fields(there.name.as_str(), there.fields());
                if self.there(there.id.0, &at, &old, &new, Some(there.uuid)) {
                    self.steps.push(Step::Window(Window { name, tags, times, ..Window::clone(there) }));
                }
                continue;
            }
            // It stands in the file for longer than it lasts.
            if matches!(times, WindowTimes::Once { to, .. } if to <= self.now) {
                continue;
            }
            let id = WindowId(self.new_id());
            let state = self.state;
            let has = move |uuid| state.projects().flat_map(|project_state| project_state.windows.values()).any(|one| one.uuid == uuid);
            let uuid = self.new_uuid(&at, &window.id, window.uuid, has);
            let fields = fields::window(&tags, &times);
            self.steps.push(Step::Window(Window { id, uuid, project: within.id, name, tags, times }));
            self.added(id.0, &at, &fields, None);
            (count, last) = (count + 1, Some(at));
        }
        if let Some(at) = last.filter(|_| count > MOST_WINDOWS) {
            self.conflict(&at, None, format!("a project has at most {MOST_WINDOWS} maintenance windows"));
        }
    }

    pub(super) fn keys(&mut self, within: &Within<'_>, wanted: &[WantedKey]) {
        let mut secrets: Vec<&Secret> = Vec::new();
        for key in wanted {
            let at = within.path(ObjectKind::Key, &key.label.as_str());
            let there = within.there.into_iter().flat_map(|project_state| project_state.keys());
            let there = there.filter_map(|id| self.state.key(id)).filter(|one| one.label == key.label);
            // Without a label only a ping key can be meant.
            let there = there.filter(|one| !key.label.as_str().is_empty() || one.secret.access() == Access::Ping);
            let there: Vec<_> = there.collect();
            let same = match &key.secret {
                Secret::Ping(ping_key) => self.state.ping_key(ping_key),
                Secret::ReadWrite(hash) | Secret::ReadOnly(hash) => self.state.key_by_hash(hash),
                Secret::Hashed(hashed) => self.state.hashed_key(hashed),
            };
            let is_same = |one: &Key| same.is_some_and(|same| same.id == one.id);
            let is_elsewhere = same.is_some_and(|same| !there.iter().any(|one| one.id == same.id));
            if is_elsewhere || secrets.contains(&&key.secret) {
                self.conflict(&at, Some("value"), "another key has this value; a key is good for one project and one access");
                continue;
            }
            secrets.push(&key.secret);
            match there.as_slice() {
                [] => self.new_key(within, key, &at),
                [one] => {
                    let same_value = is_same(one);
                    self.known_key(within, one, key, same_value, &at);
                }
                several => {
                    let Some(one) = several.iter().find(|one| is_same(one)) else {
                        let numbers: Vec<_> = several.iter().map(|one| one.id.0.to_string()).collect();
                        let reason = format!("several keys have this label; revoke all but one of these: {}", numbers.join(", "));
                        self.conflict(&at, None, reason);
                        continue;
                    };
                    self.known_key(within, one, key, true, &at);
                }
            }
        }
    }

    fn known_key(&mut self, within: &Within<'_>, there: &Key, wanted: &WantedKey, same_value: bool, at: &ObjectPath) {
        let fields = |secret: &Secret, value: &str| -> Fields {
            let access = ("access".into(), Value::Text(secret.access().name().into()));
            vec![access, ("value".into(), Value::Secret(value.into()))]
        };
        let (old, new) = (fields(&there.secret, ""), fields(&wanted.secret, if same_value { "" } else { "other" }));
        if self.there(there.id.0, at, &old, &new, None) {
            self.steps.push(Step::Gone(Found::Key(there.id)));
            let id = self.key_step(within, wanted);
            self.steps.push(Step::Managed(id.0, self.source.cloned()));
        }
    }

    fn new_key(&mut self, within: &Within<'_>, wanted: &WantedKey, at: &ObjectPath) {
        let id = self.key_step(within, wanted);
        self.added(id.0, at, &vec![("access".into(), Value::Text(wanted.secret.access().name().into()))], None);
    }

    fn key_step(&mut self, within: &Within<'_>, wanted: &WantedKey) -> KeyId {
        let id = KeyId(self.new_id());
        let WantedKey { label, secret, hint } = wanted.clone();
        let key = NewKey { project: within.id, secret, label, hint };
        self.steps.push(Step::Key(id, Box::new(key)));
        id
    }
}
