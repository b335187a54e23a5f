//! Plans declared channels, maintenance windows and keys of a project.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::projects::ProjectScope;
use super::{ConfigPlanner, ExistingObject, PlanStep};
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelClass, ChannelSettings, SettingsAuthor};
use crate::domain::declared::object_fields::{self, ObjectFields, ObjectValue};
use crate::domain::declared::{
    DeclaredChannel, DeclaredKey, DeclaredWindow, ObjectKind, ObjectName, ObjectPath,
};
use crate::domain::ids::{ChannelId, KeyId, WindowId};
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes};
use crate::domain::project::{Channel, ChannelName, KeyAccess, KeySecret, ProjectKey};
use crate::engine::apply::MAX_WINDOWS;
use crate::engine::command::NewKey;
use crate::engine::state::choose_member;

/// Channels that a project will have, by the names that checks use.
#[derive(Default)]
pub(super) struct ChannelLookup {
    by_name: HashMap<Box<str>, Vec<ChannelId>>,
    by_uuid: HashMap<Uuid, ChannelId>,
    all: BTreeMap<ChannelId, (Box<str>, Uuid, ChannelClass)>,
}

impl ChannelLookup {
    fn add(&mut self, id: ChannelId, name: &str, uuid: Uuid, class: ChannelClass) {
        self.by_name.entry(name.into()).or_default().push(id);
        self.by_uuid.insert(uuid, id);
        self.all.insert(id, (name.into(), uuid, class));
    }

    /// UUID of the channel that a group lists by name or UUID.
    fn find_member(&self, text: &str) -> Result<Uuid, String> {
        let found: Vec<_> = self
            .find_by_name(text)
            .iter()
            .filter_map(|id| self.all.get(id))
            .map(|(_, uuid, class)| (*uuid, *class))
            .collect();
        choose_member(text, &found)
    }

    /// Fields of a channel as shown in a difference: the members of a group by name.
    fn fields(&self, name: &ChannelName, settings: &ChannelSettings) -> ObjectFields {
        let member = |uuid: Uuid| {
            self.display_name(*self.by_uuid.get(&uuid)?)
                .map(String::from)
        };
        let mut fields = object_fields::channel_fields(&settings.with_member_names(member));
        fields.push(("name".into(), ObjectValue::Text(name.as_str().into())));
        fields
    }

    /// Numbers of all channels, oldest first.
    pub(super) fn ids(&self) -> impl Iterator<Item = ChannelId> {
        self.all.keys().copied()
    }

    /// Channels with this name or UUID.
    pub(super) fn find_by_name(&self, name: &str) -> BTreeSet<ChannelId> {
        let by_uuid = match ObjectName::new(name) {
            ObjectName::Uuid(uuid) => self.by_uuid.get(&uuid).copied(),
            ObjectName::Text(_) => None,
        };
        self.by_name
            .get(name)
            .into_iter()
            .flatten()
            .copied()
            .chain(by_uuid)
            .collect()
    }

    /// Name of a channel in a difference: its name, or its UUID if several channels have the name.
    pub(super) fn display_name(&self, id: ChannelId) -> Option<Box<str>> {
        let (name, uuid, _) = self.all.get(&id)?;
        let is_only = self.by_name.get(name).is_some_and(|ids| ids.len() == 1);
        Some(if name.is_empty() || !is_only {
            uuid.to_string().into()
        } else {
            name.clone()
        })
    }
}

impl ConfigPlanner<'_> {
    /// Finds the existing object that a declaration means. `None` if there is none. Several with
    /// the same name are recorded as a conflict.
    fn match_existing<T: Clone>(
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
                self.add_conflict(
                    at,
                    None,
                    format!(
                        "several have this name; write the UUID of one as the key: {}",
                        uuids.join(", ")
                    ),
                );
                return None;
            }
            if let Some(found) = fitting.pop() {
                let (found_uuid, _) = named(&found);
                if uuid.is_some_and(|uuid| uuid != found_uuid) {
                    self.add_conflict(
                        at,
                        Some("uuid"),
                        format!("it has the UUID {found_uuid}, which cannot be changed"),
                    );
                }
                return Some(found);
            }
        }
        all.find(|one| Some(named(one).0) == wanted)
    }

    /// UUID of a new object: the declared one, if no other object has it.
    pub(super) fn new_uuid(
        &mut self,
        at: &ObjectPath,
        id: &ObjectName,
        uuid: Option<Uuid>,
        is_taken: impl Fn(Uuid) -> bool,
    ) -> Uuid {
        let wanted = match id {
            ObjectName::Uuid(uuid) => Some(*uuid),
            ObjectName::Text(_) => uuid,
        };
        let drawn = self.draw_uuid();
        if let Some(wanted) = wanted
            && (is_taken(wanted) || !self.new_uuids.insert(wanted))
        {
            self.add_conflict(at, Some("uuid"), "something else has this UUID already");
        }
        wanted.unwrap_or(drawn)
    }

    /// Plans the channels, and returns all channels that the project will have.
    pub(super) fn plan_channels(
        &mut self,
        within: &ProjectScope<'_>,
        wanted: &[DeclaredChannel],
    ) -> ChannelLookup {
        let mut named = ChannelLookup::default();
        let there = || {
            within
                .existing
                .into_iter()
                .flat_map(|project_state| project_state.channels.values())
        };
        let mut placed = Vec::with_capacity(wanted.len());
        for channel in wanted {
            let at = within.path(ObjectKind::Channel, &channel.id);
            let is_named = |one: &&std::sync::Arc<Channel>| {
                (one.uuid, channel.id.text() == Some(one.name.as_str()))
            };
            let found = self.match_existing(&at, (&channel.id, channel.uuid), there(), is_named);
            let (id, uuid) = match found {
                Some(found) => {
                    self.declared_ids.insert(found.id.0);
                    (found.id, found.uuid)
                }
                None => self.new_channel_ids(channel, &at),
            };
            named.add(
                id,
                channel.name.as_str(),
                uuid,
                channel.settings.kind().class,
            );
            placed.push((channel, at, found, id, uuid));
        }
        let others = there().filter(|channel| {
            !self.declared_ids.contains(&channel.id.0) && !self.is_to_be_deleted(channel.id.0)
        });
        others.for_each(|channel| {
            named.add(
                channel.id,
                channel.name.as_str(),
                channel.uuid,
                channel.settings.kind().class,
            )
        });
        // Groups may list channels that are declared after them.
        for (channel, at, found, id, uuid) in placed {
            let settings = match channel
                .settings
                .with_resolved_members(None, |text| named.find_member(text))
            {
                Ok(settings) => settings.into_owned(),
                Err(error) => {
                    self.add_conflict(&at, Some("channels"), error.problem());
                    continue;
                }
            };
            let wanted = Channel {
                id,
                uuid,
                project: within.id,
                name: channel.name.clone(),
                settings,
                set_by_operator: true,
                health: ChannelHealth::default(),
            };
            match found {
                Some(there) => self.plan_channel_update(there, wanted, &named, &at),
                None => {
                    let fields = object_fields::channel_fields(&channel.settings);
                    self.steps.push(PlanStep::PutChannel(wanted));
                    self.note_new_object(id.0, &at, &fields, None);
                }
            }
        }
        named
    }

    fn plan_channel_update(
        &mut self,
        there: &Channel,
        wanted: Channel,
        named: &ChannelLookup,
        at: &ObjectPath,
    ) {
        if there.settings.kind() != wanted.settings.kind() {
            let reason = format!(
                "it is of kind {} here; delete that channel, or give this one another name",
                there.settings.kind().name
            );
            return self.add_conflict(at, Some("kind"), reason);
        }
        if self.has_implausible_value(&wanted.settings, Some(&there.settings), at) {
            return;
        }
        let old = named.fields(&there.name, &there.settings);
        let new = named.fields(&wanted.name, &wanted.settings);
        if self.compare_existing(there.id.0, at, &old, &new, Some(there.uuid)) {
            let mut channel = Channel {
                name: wanted.name,
                ..there.clone()
            };
            channel.replace_settings(wanted.settings, SettingsAuthor::Operator);
            self.steps.push(PlanStep::PutChannel(channel));
        }
    }

    /// Refuses a new value that the service of the channel cannot have issued.
    fn has_implausible_value(
        &mut self,
        wanted: &ChannelSettings,
        stored: Option<&ChannelSettings>,
        at: &ObjectPath,
    ) -> bool {
        let refused = wanted.check_formats(stored).err();
        if let Some(error) = &refused {
            self.add_conflict(at, error.field().map(|field| field.key), error.problem());
        }
        refused.is_some()
    }

    /// Number and UUID of a new channel.
    fn new_channel_ids(&mut self, wanted: &DeclaredChannel, at: &ObjectPath) -> (ChannelId, Uuid) {
        self.has_implausible_value(&wanted.settings, None, at);
        let id = ChannelId(self.new_id());
        let state = self.state;
        let has = move |uuid| {
            state
                .projects()
                .flat_map(|project_state| project_state.channels.values())
                .any(|channel| channel.uuid == uuid)
        };
        (id, self.new_uuid(at, &wanted.id, wanted.uuid, has))
    }

    pub(super) fn plan_windows(&mut self, within: &ProjectScope<'_>, wanted: &[DeclaredWindow]) {
        let mut count = within
            .existing
            .map_or(0, |project_state| project_state.windows.len());
        let mut last = None;
        for window in wanted {
            let at = within.path(ObjectKind::Window, &window.id);
            let all = within
                .existing
                .into_iter()
                .flat_map(|project_state| project_state.windows.values());
            let is_named = |one: &&std::sync::Arc<MaintenanceWindow>| {
                (one.uuid, window.id.text() == Some(one.name.as_str()))
            };
            let found = self.match_existing(&at, (&window.id, window.uuid), all, is_named);
            let name = window.name.clone();
            let tags = window.tags.clone();
            let times = window.times.clone();
            let fields = |name: &str, fields: ObjectFields| {
                [("name".into(), ObjectValue::Text(name.into()))]
                    .into_iter()
                    .chain(fields)
                    .collect()
            };
            let new: ObjectFields =
                fields(name.as_str(), object_fields::window_fields(&tags, &times));
            if let Some(there) = found {
                let old: ObjectFields = fields(there.name.as_str(), there.fields());
                if self.compare_existing(there.id.0, &at, &old, &new, Some(there.uuid)) {
                    self.steps.push(PlanStep::PutWindow(MaintenanceWindow {
                        name,
                        tags,
                        times,
                        ..MaintenanceWindow::clone(there)
                    }));
                }
                continue;
            }
            // The declaration may still contain a window that has ended.
            if matches!(times, WindowTimes::Once { to, .. } if to <= self.now) {
                continue;
            }
            let id = WindowId(self.new_id());
            let state = self.state;
            let has = move |uuid| {
                state
                    .projects()
                    .flat_map(|project_state| project_state.windows.values())
                    .any(|one| one.uuid == uuid)
            };
            let uuid = self.new_uuid(&at, &window.id, window.uuid, has);
            let fields = object_fields::window_fields(&tags, &times);
            self.steps.push(PlanStep::PutWindow(MaintenanceWindow {
                id,
                uuid,
                project: within.id,
                name,
                tags,
                times,
            }));
            self.note_new_object(id.0, &at, &fields, None);
            (count, last) = (count + 1, Some(at));
        }
        if let Some(at) = last.filter(|_| count > MAX_WINDOWS) {
            self.add_conflict(
                &at,
                None,
                format!("a project has at most {MAX_WINDOWS} maintenance windows"),
            );
        }
    }

    pub(super) fn plan_keys(&mut self, within: &ProjectScope<'_>, wanted: &[DeclaredKey]) {
        let mut secrets: Vec<&KeySecret> = Vec::new();
        for key in wanted {
            let at = within.path(ObjectKind::Key, &key.label.as_str());
            let there = within
                .existing
                .into_iter()
                .flat_map(|project_state| project_state.keys());
            let there = there
                .filter_map(|id| self.state.key(id))
                .filter(|one| one.label == key.label);
            // A declaration without a label can only mean a ping key.
            let there = there.filter(|one| {
                !key.label.as_str().is_empty() || one.secret.access() == KeyAccess::Ping
            });
            let there: Vec<_> = there.collect();
            let same = match &key.secret {
                KeySecret::Ping(ping_key) => self.state.key_by_ping_key(ping_key),
                KeySecret::ReadWrite(hash) | KeySecret::ReadOnly(hash) => {
                    self.state.key_by_hash(hash)
                }
                KeySecret::Legacy(hashed) => self.state.legacy_key(hashed),
            };
            let is_same = |one: &ProjectKey| same.is_some_and(|same| same.id == one.id);
            let is_elsewhere = same.is_some_and(|same| !there.iter().any(|one| one.id == same.id));
            if is_elsewhere || secrets.contains(&&key.secret) {
                self.add_conflict(
                    &at,
                    Some("value"),
                    "another key has this value; a key is good for one project and one access",
                );
                continue;
            }
            secrets.push(&key.secret);
            match there.as_slice() {
                [] => self.plan_new_key(within, key, &at),
                [one] => {
                    let same_value = is_same(one);
                    self.plan_key_update(within, one, key, same_value, &at);
                }
                several => {
                    let Some(one) = several.iter().find(|one| is_same(one)) else {
                        let numbers: Vec<_> =
                            several.iter().map(|one| one.id.0.to_string()).collect();
                        let reason = format!(
                            "several keys have this label; revoke all but one of these: {}",
                            numbers.join(", ")
                        );
                        self.add_conflict(&at, None, reason);
                        continue;
                    };
                    self.plan_key_update(within, one, key, true, &at);
                }
            }
        }
    }

    fn plan_key_update(
        &mut self,
        within: &ProjectScope<'_>,
        there: &ProjectKey,
        wanted: &DeclaredKey,
        same_value: bool,
        at: &ObjectPath,
    ) {
        let fields = |secret: &KeySecret, value: &str| -> ObjectFields {
            let access = (
                "access".into(),
                ObjectValue::Text(secret.access().name().into()),
            );
            vec![access, ("value".into(), ObjectValue::Secret(value.into()))]
        };
        let old = fields(&there.secret, "");
        let new = fields(&wanted.secret, if same_value { "" } else { "other" });
        if self.compare_existing(there.id.0, at, &old, &new, None) {
            self.steps
                .push(PlanStep::Delete(ExistingObject::Key(there.id)));
            let id = self.add_key_step(within, wanted);
            self.steps
                .push(PlanStep::SetSource(id.0, self.source.cloned()));
        }
    }

    fn plan_new_key(&mut self, within: &ProjectScope<'_>, wanted: &DeclaredKey, at: &ObjectPath) {
        let id = self.add_key_step(within, wanted);
        self.note_new_object(
            id.0,
            at,
            &vec![(
                "access".into(),
                ObjectValue::Text(wanted.secret.access().name().into()),
            )],
            None,
        );
    }

    fn add_key_step(&mut self, within: &ProjectScope<'_>, wanted: &DeclaredKey) -> KeyId {
        let id = KeyId(self.new_id());
        let DeclaredKey {
            label,
            secret,
            hint,
        } = wanted.clone();
        let key = NewKey {
            project: within.id,
            secret,
            label,
            hint,
        };
        self.steps.push(PlanStep::CreateKey(id, Box::new(key)));
        id
    }
}
