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
            .find(text)
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
    pub(super) fn find(&self, name: &str) -> BTreeSet<ChannelId> {
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
        path: &ObjectPath,
        (id, uuid): (&ObjectName, Option<Uuid>),
        mut all: impl Iterator<Item = T> + Clone,
        identify: impl Fn(&T) -> (Uuid, bool),
    ) -> Option<T> {
        let expected_uuid = id.uuid_or(uuid);
        if let ObjectName::Text(_) = id {
            let mut matches: Vec<_> = all.clone().filter(|one| identify(one).1).collect();
            if matches.len() > 1 {
                let uuids: Vec<_> = matches
                    .iter()
                    .map(|one| identify(one).0.to_string())
                    .collect();
                self.add_conflict(
                    path,
                    None,
                    format!(
                        "several objects have this name; use the UUID of one as the key: {}",
                        uuids.join(", ")
                    ),
                );
                return None;
            }
            if let Some(found) = matches.pop() {
                let (found_uuid, _) = identify(&found);
                if uuid.is_some_and(|uuid| uuid != found_uuid) {
                    self.add_conflict(
                        path,
                        Some("uuid"),
                        format!("it has the UUID {found_uuid}, which cannot be changed"),
                    );
                }
                return Some(found);
            }
        }
        all.find(|one| Some(identify(one).0) == expected_uuid)
    }

    /// UUID of a new object: the declared one, if no other object has it.
    pub(super) fn new_uuid(
        &mut self,
        path: &ObjectPath,
        id: &ObjectName,
        uuid: Option<Uuid>,
        is_taken: impl Fn(Uuid) -> bool,
    ) -> Uuid {
        let declared_uuid = id.uuid_or(uuid);
        let random_uuid = self.generate_uuid();
        if let Some(declared_uuid) = declared_uuid
            && (is_taken(declared_uuid) || !self.new_uuids.insert(declared_uuid))
        {
            self.add_conflict(path, Some("uuid"), "another object has this UUID");
        }
        declared_uuid.unwrap_or(random_uuid)
    }

    /// Plans the channels, and returns all channels that the project will have.
    pub(super) fn plan_channels(
        &mut self,
        scope: &ProjectScope<'_>,
        declared: &[DeclaredChannel],
    ) -> ChannelLookup {
        let mut lookup = ChannelLookup::default();
        let existing = || {
            scope
                .existing
                .into_iter()
                .flat_map(|project_state| project_state.channels.values())
        };
        let mut matched_channels = Vec::with_capacity(declared.len());
        for channel in declared {
            let path = scope.path(ObjectKind::Channel, &channel.id);
            let is_named = |one: &&std::sync::Arc<Channel>| {
                (one.uuid, channel.id.text() == Some(one.name.as_str()))
            };
            let found =
                self.match_existing(&path, (&channel.id, channel.uuid), existing(), is_named);
            let (id, uuid) = match found {
                Some(found) => {
                    self.declared_ids.insert(found.id.0);
                    (found.id, found.uuid)
                }
                None => self.new_channel_ids(channel, &path),
            };
            lookup.add(
                id,
                channel.name.as_str(),
                uuid,
                channel.settings.kind().class,
            );
            matched_channels.push((channel, path, found, id, uuid));
        }
        let others = existing().filter(|channel| {
            !self.declared_ids.contains(&channel.id.0) && !self.is_to_be_deleted(channel.id.0)
        });
        others.for_each(|channel| {
            lookup.add(
                channel.id,
                channel.name.as_str(),
                channel.uuid,
                channel.settings.kind().class,
            );
        });
        // Groups may list channels that are declared after them.
        for (channel, path, found, id, uuid) in matched_channels {
            let settings = match channel
                .settings
                .with_resolved_members(None, |text| lookup.find_member(text))
            {
                Ok(settings) => settings.into_owned(),
                Err(error) => {
                    self.add_conflict(&path, Some("channels"), error.problem());
                    continue;
                }
            };
            let new_channel = Channel {
                id,
                uuid,
                project: scope.id,
                name: channel.name.clone(),
                settings,
                set_by_operator: true,
                health: ChannelHealth::default(),
            };
            match found {
                Some(existing) => self.plan_channel_update(existing, new_channel, &lookup, &path),
                None => {
                    let fields = object_fields::channel_fields(&channel.settings);
                    self.steps.push(PlanStep::PutChannel(new_channel));
                    self.record_new_object(id.0, &path, &fields, None);
                }
            }
        }
        lookup
    }

    fn plan_channel_update(
        &mut self,
        existing: &Channel,
        declared: Channel,
        lookup: &ChannelLookup,
        path: &ObjectPath,
    ) {
        if existing.settings.kind() != declared.settings.kind() {
            let reason = format!(
                "the existing channel is of kind {}; delete it, or give this one another name",
                existing.settings.kind().name
            );
            return self.add_conflict(path, Some("kind"), reason);
        }
        if self.record_format_conflict(&declared.settings, Some(&existing.settings), path) {
            return;
        }
        let old = lookup.fields(&existing.name, &existing.settings);
        let new = lookup.fields(&declared.name, &declared.settings);
        if self.compare_existing(existing.id.0, path, &old, &new, Some(existing.uuid)) {
            let mut channel = Channel {
                name: declared.name,
                ..existing.clone()
            };
            channel.replace_settings(declared.settings, SettingsAuthor::Operator);
            self.steps.push(PlanStep::PutChannel(channel));
        }
    }

    /// Records a conflict if the service of the channel cannot have issued a new value. Returns
    /// true if there is one.
    fn record_format_conflict(
        &mut self,
        settings: &ChannelSettings,
        stored: Option<&ChannelSettings>,
        path: &ObjectPath,
    ) -> bool {
        let refusal = settings.validate_formats(stored).err();
        if let Some(error) = &refusal {
            self.add_conflict(path, error.field().map(|field| field.key), error.problem());
        }
        refusal.is_some()
    }

    /// Number and UUID of a new channel.
    fn new_channel_ids(
        &mut self,
        declared: &DeclaredChannel,
        path: &ObjectPath,
    ) -> (ChannelId, Uuid) {
        self.record_format_conflict(&declared.settings, None, path);
        let id = ChannelId(self.new_id());
        let state = self.state;
        let is_taken = move |uuid| {
            state
                .projects()
                .flat_map(|project_state| project_state.channels.values())
                .any(|channel| channel.uuid == uuid)
        };
        (
            id,
            self.new_uuid(path, &declared.id, declared.uuid, is_taken),
        )
    }

    pub(super) fn plan_windows(&mut self, scope: &ProjectScope<'_>, declared: &[DeclaredWindow]) {
        let mut count = scope
            .existing
            .map_or(0, |project_state| project_state.windows.len());
        let mut last = None;
        for window in declared {
            let path = scope.path(ObjectKind::Window, &window.id);
            let all = scope
                .existing
                .into_iter()
                .flat_map(|project_state| project_state.windows.values());
            let is_named = |one: &&std::sync::Arc<MaintenanceWindow>| {
                (one.uuid, window.id.text() == Some(one.name.as_str()))
            };
            let found = self.match_existing(&path, (&window.id, window.uuid), all, is_named);
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
            if let Some(existing) = found {
                let old: ObjectFields = fields(existing.name.as_str(), existing.fields());
                if self.compare_existing(existing.id.0, &path, &old, &new, Some(existing.uuid)) {
                    self.steps.push(PlanStep::PutWindow(MaintenanceWindow {
                        name,
                        tags,
                        times,
                        ..MaintenanceWindow::clone(existing)
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
            let is_taken = move |uuid| {
                state
                    .projects()
                    .flat_map(|project_state| project_state.windows.values())
                    .any(|one| one.uuid == uuid)
            };
            let uuid = self.new_uuid(&path, &window.id, window.uuid, is_taken);
            let fields = object_fields::window_fields(&tags, &times);
            self.steps.push(PlanStep::PutWindow(MaintenanceWindow {
                id,
                uuid,
                project: scope.id,
                name,
                tags,
                times,
            }));
            self.record_new_object(id.0, &path, &fields, None);
            (count, last) = (count + 1, Some(path));
        }
        if let Some(path) = last.filter(|_| count > MAX_WINDOWS) {
            self.add_conflict(
                &path,
                None,
                format!("a project has at most {MAX_WINDOWS} maintenance windows"),
            );
        }
    }

    pub(super) fn plan_keys(&mut self, scope: &ProjectScope<'_>, declared: &[DeclaredKey]) {
        let mut secrets: Vec<&KeySecret> = Vec::new();
        for key in declared {
            let path = scope.path(ObjectKind::Key, &key.label.as_str());
            let existing_keys = scope
                .existing
                .into_iter()
                .flat_map(|project_state| project_state.keys());
            let existing_keys = existing_keys
                .filter_map(|id| self.state.key(id))
                .filter(|one| one.label == key.label);
            // A declaration without a label can only mean a ping key.
            let existing_keys = existing_keys.filter(|one| {
                !key.label.as_str().is_empty() || one.secret.access() == KeyAccess::Ping
            });
            let existing_keys: Vec<_> = existing_keys.collect();
            let same = match &key.secret {
                KeySecret::Ping(ping_key) => self.state.key_by_ping_key(ping_key),
                KeySecret::ReadWrite(hash) | KeySecret::ReadOnly(hash) => {
                    self.state.key_by_hash(hash)
                }
                KeySecret::Legacy(hashed) => self.state.legacy_key(hashed),
            };
            let is_same = |one: &ProjectKey| same.is_some_and(|same| same.id == one.id);
            let is_elsewhere =
                same.is_some_and(|same| !existing_keys.iter().any(|one| one.id == same.id));
            if is_elsewhere || secrets.contains(&&key.secret) {
                self.add_conflict(
                    &path,
                    Some("value"),
                    "another key has this value; a key is valid for one project and one kind of \
                    access",
                );
                continue;
            }
            secrets.push(&key.secret);
            match existing_keys.as_slice() {
                [] => self.plan_new_key(scope, key, &path),
                [one] => {
                    let same_value = is_same(one);
                    self.plan_key_update(scope, one, key, same_value, &path);
                }
                several => {
                    let Some(one) = several.iter().find(|one| is_same(one)) else {
                        let numbers: Vec<_> =
                            several.iter().map(|one| one.id.0.to_string()).collect();
                        let reason = format!(
                            "several keys have this label; revoke all but one of these: {}",
                            numbers.join(", ")
                        );
                        self.add_conflict(&path, None, reason);
                        continue;
                    };
                    self.plan_key_update(scope, one, key, true, &path);
                }
            }
        }
    }

    fn plan_key_update(
        &mut self,
        scope: &ProjectScope<'_>,
        existing: &ProjectKey,
        declared: &DeclaredKey,
        same_value: bool,
        path: &ObjectPath,
    ) {
        let fields = |secret: &KeySecret, value: &str| -> ObjectFields {
            let access = (
                "access".into(),
                ObjectValue::Text(secret.access().name().into()),
            );
            vec![access, ("value".into(), ObjectValue::Secret(value.into()))]
        };
        let old = fields(&existing.secret, "");
        let new = fields(&declared.secret, if same_value { "" } else { "other" });
        if self.compare_existing(existing.id.0, path, &old, &new, None) {
            self.steps
                .push(PlanStep::Delete(ExistingObject::Key(existing.id)));
            let id = self.add_key_step(scope, declared);
            self.steps
                .push(PlanStep::SetSource(id.0, self.source.cloned()));
        }
    }

    fn plan_new_key(
        &mut self,
        scope: &ProjectScope<'_>,
        declared: &DeclaredKey,
        path: &ObjectPath,
    ) {
        let id = self.add_key_step(scope, declared);
        self.record_new_object(
            id.0,
            path,
            &vec![(
                "access".into(),
                ObjectValue::Text(declared.secret.access().name().into()),
            )],
            None,
        );
    }

    fn add_key_step(&mut self, scope: &ProjectScope<'_>, declared: &DeclaredKey) -> KeyId {
        let id = KeyId(self.new_id());
        let DeclaredKey {
            label,
            secret,
            hint,
        } = declared.clone();
        let key = NewKey {
            project: scope.id,
            secret,
            label,
            hint,
        };
        self.steps.push(PlanStep::CreateKey(id, Box::new(key)));
        id
    }
}
