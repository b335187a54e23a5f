//! Exports the current state as declared files: in a fixed order, without defaults.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::domain::channel::is_usable_member_name;
use crate::domain::check::{Check, CheckSettings};
use crate::domain::declared::object_fields::{self, ObjectFields, ObjectValue};
use crate::domain::declared::{ObjectKind, ObjectName};
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{
    Channel, DEFAULT_PING_LOG_LIMIT, KeyAccess, KeySecret, Project, ProjectKey,
};
use crate::domain::user::{Grant, User};
use crate::engine::Handle;
use crate::engine::state::State;

/// Comments at the top of an export.
pub const HEADER_COMMENTS: &[&str] = &[
    "Configuration for `overdue apply`; `overdue schema` describes the format. Omitted fields have \
     their defaults.",
    "Anyone who knows the UUID of a check can ping it. Secrets are read from the environment \
     variables named here.",
    "A line such as source = \"homelab\" makes this file the owner of its objects, which --prune \
     needs.",
];

/// An object as a file declares it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExportedObject {
    /// Name of its project, or its own if it is one.
    pub project: Option<String>,
    /// Kind of the object.
    #[serde(with = "kind")]
    pub kind: ObjectKind,
    /// Key of the object.
    pub name: String,
    /// Fields, in the order of the file.
    pub fields: Vec<(String, Json)>,
    /// Comments about the object.
    pub comments: Vec<String>,
}

mod kind {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::domain::declared::ObjectKind;

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde requires"
    )]
    pub(super) fn serialize<S: Serializer>(kind: &ObjectKind, to: S) -> Result<S::Ok, S::Error> {
        kind.name().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectKind, D::Error> {
        ObjectKind::parse(&String::deserialize(from)?)
            .ok_or_else(|| serde::de::Error::custom("unknown kind of object"))
    }
}

/// Collects objects, and names the variables of their secrets.
struct ObjectWriter {
    /// True to write secrets in clear text.
    show_secrets: bool,
    used_variables: BTreeSet<String>,
}

impl ObjectWriter {
    fn value_json(&mut self, value: &ObjectValue, path: &[&str]) -> Json {
        match value {
            ObjectValue::Text(text) => (&**text).into(),
            ObjectValue::Number(number) => (*number).into(),
            ObjectValue::Flag(flag) => (*flag).into(),
            ObjectValue::List(items) => items.iter().map(|item| &**item).collect(),
            ObjectValue::Secret(text) if self.show_secrets => (&**text).into(),
            ObjectValue::Secret(_) => json!({ "env": self.name_secret_variable(path) }),
            ObjectValue::Path(path) => json!({ "file": path }),
            ObjectValue::Table(fields) => Json::Object(
                fields
                    .iter()
                    .map(|(name, value)| (name.to_string(), self.value_json(value, path)))
                    .collect(),
            ),
        }
    }

    /// Returns the name of the variable for a secret: `OVERDUE_HOME_TELEGRAM_TOKEN`.
    fn name_secret_variable(&mut self, path: &[&str]) -> String {
        let words = path.iter().map(|word| {
            let word: String = word
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() {
                        c.to_ascii_uppercase()
                    } else {
                        '_'
                    }
                })
                .collect();
            word.trim_matches('_').to_owned()
        });
        let name = std::iter::once("OVERDUE".to_owned())
            .chain(words.filter(|word| !word.is_empty()))
            .collect::<Vec<_>>()
            .join("_");
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone())
            .chain(numbered)
            .find(|name| !self.used_variables.contains(name))
            .unwrap_or(name);
        self.used_variables.insert(free.clone());
        free
    }

    fn field_values(&mut self, fields: &ObjectFields, path: &[&str]) -> Vec<(String, Json)> {
        let mut entries = Vec::new();
        for (name, value) in fields {
            let path: Vec<_> = path.iter().copied().chain([&**name]).collect();
            entries.push((name.to_string(), self.value_json(value, &path)));
        }
        entries
    }
}

/// Returns the key of an object in a file: its name, or its UUID if the name is unsuitable.
fn object_key(name: &str, uuid: uuid::Uuid, is_only: bool) -> String {
    let is_suitable =
        !name.is_empty() && is_only && matches!(ObjectName::new(name), ObjectName::Text(_));
    if is_suitable {
        name.into()
    } else {
        uuid.to_string()
    }
}

/// Exports one project, or all projects and users. With `secrets`, secrets are written in clear
/// text.
pub fn export_config(
    handle: &Handle,
    project: Option<ProjectId>,
    secrets: bool,
) -> Vec<ExportedObject> {
    let mut writer = ObjectWriter {
        show_secrets: secrets,
        used_variables: BTreeSet::new(),
    };
    let all = handle.with_state(|state| {
        state
            .projects()
            .map(|project_state| Arc::clone(&project_state.project))
            .collect::<Vec<_>>()
    });
    let mut projects: Vec<_> = all
        .into_iter()
        .filter(|one| project.is_none_or(|project| one.id == project))
        .collect();
    projects.sort_by(|one, other| one.name.cmp(&other.name));
    let mut objects = Vec::new();
    for project in projects {
        export_project(
            &ProjectCopy::read(handle, project),
            &mut writer,
            &mut objects,
        );
    }
    if project.is_none() {
        handle.with_state(|state| {
            let mut users: Vec<_> = state.users.iter().collect();
            users.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
            objects.extend(users.into_iter().map(|user| export_user(state, user)));
        });
    }
    objects
}

/// Copy of a project, so that the state is not locked while it is exported.
struct ProjectCopy {
    project: Arc<Project>,
    keys: Vec<Arc<ProjectKey>>,
    channels: Vec<Arc<Channel>>,
    windows: Vec<Arc<MaintenanceWindow>>,
    checks: Vec<Check>,
}

impl ProjectCopy {
    fn read(handle: &Handle, project: Arc<Project>) -> Self {
        let mut copied = Self {
            project,
            keys: Vec::new(),
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        };
        handle.with_state(|state| {
            if let Some(project_state) = state.project(copied.project.id) {
                copied
                    .keys
                    .extend(project_state.keys().filter_map(|id| state.key(id).cloned()));
                copied
                    .channels
                    .extend(project_state.channels.values().cloned());
                copied
                    .windows
                    .extend(project_state.windows.values().cloned());
            }
        });
        handle.for_each_check(copied.project.id, |check| copied.checks.push(check));
        copied
    }

    /// Object of this project, without comments.
    fn object(&self, kind: ObjectKind, key: String, fields: Vec<(String, Json)>) -> ExportedObject {
        ExportedObject {
            project: Some(self.project.name.as_str().into()),
            kind,
            name: key,
            fields,
            comments: Vec::new(),
        }
    }

    /// Keys of the channels in files: their names, as far as these are unique and can be written.
    fn channel_keys(&self) -> HashMap<ChannelId, String> {
        let members = self.channels.iter();
        let members = members.flat_map(|channel| channel.settings.members());
        let members: HashSet<_> = members.collect();
        let counts = count_by(self.channels.iter().map(|channel| channel.name.as_str()));
        let keyed = self.channels.iter().map(|channel| {
            let name = channel.name.as_str();
            let is_only = counts.get(name) == Some(&1);
            let is_found = !members.contains(&channel.uuid) || is_usable_member_name(name);
            (
                channel.id,
                object_key(name, channel.uuid, is_only && is_found),
            )
        });
        keyed.collect()
    }
}

/// Exports a project with everything that belongs to it.
fn export_project(
    copied: &ProjectCopy,
    writer: &mut ObjectWriter,
    objects: &mut Vec<ExportedObject>,
) {
    let project = &copied.project;
    let name = project.name.as_str();
    let mut fields = Vec::new();
    fields.extend(
        project
            .check_limit
            .map(|limit| ("check-limit".to_owned(), limit.into())),
    );
    let logs = Some(project.ping_log_limit).filter(|limit| *limit != DEFAULT_PING_LOG_LIMIT);
    fields.extend(logs.map(|limit| ("ping-log-limit".to_owned(), limit.into())));
    if project.allows_ping_settings {
        fields.push(("ping-settings".to_owned(), true.into()));
    }
    let (keys, comments) = export_keys(&copied.keys, name, writer, &mut fields);
    objects.push(ExportedObject {
        comments,
        ..copied.object(ObjectKind::Project, name.into(), fields)
    });
    let channel_keys = copied.channel_keys();
    export_channels(copied, &channel_keys, writer, objects);
    export_checks(copied, &channel_keys, writer, objects);
    export_windows(copied, writer, objects);
    objects.extend(keys);
}

fn export_channels(
    copied: &ProjectCopy,
    keys: &HashMap<ChannelId, String>,
    writer: &mut ObjectWriter,
    objects: &mut Vec<ExportedObject>,
) {
    let channels = &copied.channels;
    let uuids = channels.iter().map(|channel| (channel.uuid, channel.id));
    let uuids: HashMap<_, _> = uuids.collect();
    // The keys are valid also where these channels have other UUIDs.
    let member_key = |uuid| keys.get(uuids.get(&uuid)?).cloned();
    let sorted = sorted_by_key(channels, |channel| keys.get(&channel.id).cloned());
    for (key, channel) in sorted {
        let mut fields = name_field(&key, channel.name.as_str());
        let settings = channel
            .settings
            .with_retained_members(|uuid| uuids.contains_key(&uuid));
        fields.extend(writer.field_values(
            &object_fields::channel_fields(&settings.with_member_names(member_key)),
            &[copied.project.name.as_str(), &key],
        ));
        if !settings.is_complete() {
            fields.push(("incomplete".to_owned(), true.into()));
        }
        objects.push(copied.object(ObjectKind::Channel, key, fields));
    }
}

fn export_checks(
    copied: &ProjectCopy,
    channel_keys: &HashMap<ChannelId, String>,
    writer: &mut ObjectWriter,
    objects: &mut Vec<ExportedObject>,
) {
    let checks = &copied.checks;
    let counts = count_by(checks.iter().map(|check| &check.settings.slug));
    let check_key = |check: &Check| {
        let slug = &check.settings.slug;
        let is_only = counts.get(slug) == Some(&1);
        object_key(slug.as_str(), check.uuid, slug.is_within_limit() && is_only)
    };
    // Checks are in the order of their numbers.
    let by_id = |id: &CheckId| {
        checks
            .binary_search_by_key(id, |check| check.id)
            .ok()
            .and_then(|index| checks.get(index))
    };
    for (key, check) in sorted_by_key(checks, |check| Some(check_key(check))) {
        let CheckSettings {
            channels,
            parents,
            slug,
            ..
        } = &*check.settings;
        let assigned = channels.iter().filter_map(|id| channel_keys.get(id));
        let assigned = assigned.cloned().map(Into::into).collect();
        let parents = parents.ids().iter().filter_map(by_id);
        let parents = parents.map(|parent| check_key(parent).into()).collect();
        let mut fields = Vec::new();
        if key != check.uuid.to_string() {
            fields.push(("uuid".to_owned(), check.uuid.to_string().into()));
        } else if !slug.is_empty() {
            fields.push(("slug".to_owned(), slug.as_str().into()));
        }
        let all_fields = object_fields::check_fields(&check.settings, assigned, parents);
        fields.extend(writer.field_values(&all_fields, &[]));
        objects.push(copied.object(ObjectKind::Check, key, fields));
    }
}

fn export_windows(
    copied: &ProjectCopy,
    writer: &mut ObjectWriter,
    objects: &mut Vec<ExportedObject>,
) {
    let counts = count_by(copied.windows.iter().map(|window| window.name.as_str()));
    let window_key = |window: &Arc<MaintenanceWindow>| {
        let name = window.name.as_str();
        Some(object_key(name, window.uuid, counts.get(name) == Some(&1)))
    };
    for (key, window) in sorted_by_key(&copied.windows, window_key) {
        let mut fields = name_field(&key, window.name.as_str());
        fields.extend(writer.field_values(&window.fields(), &[]));
        objects.push(copied.object(ObjectKind::Window, key, fields));
    }
}

/// Returns the objects that have a key, sorted by it.
fn sorted_by_key<T>(objects: &[T], key_of: impl Fn(&T) -> Option<String>) -> Vec<(String, &T)> {
    let keyed = objects.iter().filter_map(|one| Some((key_of(one)?, one)));
    let mut keyed: Vec<_> = keyed.collect();
    keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
    keyed
}

/// Returns how often each value occurs.
fn count_by<T: Eq + Hash>(values: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_insert(0) += 1);
    counts
}

/// Returns the name field of an object whose key is not its name.
fn name_field(key: &str, name: &str) -> Vec<(String, Json)> {
    if key == name || name.is_empty() {
        Vec::new()
    } else {
        vec![("name".to_owned(), name.into())]
    }
}

/// Exports ping keys. The values of other keys are not stored, so comments replace them.
fn export_keys(
    keys: &[Arc<ProjectKey>],
    project: &str,
    writer: &mut ObjectWriter,
    fields: &mut Vec<(String, Json)>,
) -> (Vec<ExportedObject>, Vec<String>) {
    let mut keys: Vec<&ProjectKey> = keys.iter().map(AsRef::as_ref).collect();
    keys.sort_by(|one, other| {
        one.label
            .as_str()
            .cmp(other.label.as_str())
            .then(one.id.cmp(&other.id))
    });
    let mut objects = Vec::new();
    let mut comments = Vec::new();
    for key in &keys {
        let label = key.label.as_str();
        let same = |other: &&&ProjectKey| {
            other.label == key.label
                && (!label.is_empty() || other.secret.access() == KeyAccess::Ping)
        };
        match &key.secret {
            KeySecret::Ping(value) if keys.iter().filter(same).count() == 1 => {
                let secret = ObjectValue::Secret(value.as_str().into());
                if label.is_empty() {
                    fields.push((
                        "ping-key".to_owned(),
                        writer.value_json(&secret, &[project, "ping-key"]),
                    ));
                    continue;
                }
                let value = writer.value_json(&secret, &[project, label, "key"]);
                let fields = vec![
                    ("access".to_owned(), "ping".into()),
                    ("value".to_owned(), value),
                ];
                let name = label.to_owned();
                objects.push(ExportedObject {
                    project: Some(project.into()),
                    kind: ObjectKind::Key,
                    name,
                    fields,
                    comments: Vec::new(),
                });
            }
            other => comments.push(format!(
                "not in this file: the {} key {} ({}...)",
                other.access().name(),
                if label.is_empty() {
                    "without a label".to_owned()
                } else {
                    format!("{label:?}")
                },
                key.hint
            )),
        }
    }
    (objects, comments)
}

fn export_user(state: &State, user: &User) -> ExportedObject {
    let mut fields: Vec<(String, Json)> = Vec::new();
    match &user.grant {
        Grant::Owner => fields.push(("owner".into(), true.into())),
        Grant::Projects(projects) => {
            let named = projects.iter().filter_map(|(id, kind)| {
                Some((
                    state.project(id)?.project.name.as_str().to_owned(),
                    kind.name().into(),
                ))
            });
            fields.push(("projects".into(), Json::Object(named.collect())));
        }
    }
    if user.disabled {
        fields.push(("disabled".into(), true.into()));
    }
    ExportedObject {
        project: None,
        kind: ObjectKind::User,
        name: user.name.as_str().into(),
        fields,
        comments: Vec::new(),
    }
}

/// Returns a proposed check, as a file would declare it.
pub fn export_proposed_check(
    project: &str,
    uuid: uuid::Uuid,
    settings: &CheckSettings,
    comments: Vec<String>,
) -> ExportedObject {
    let mut writer = ObjectWriter {
        show_secrets: false,
        used_variables: BTreeSet::new(),
    };
    let mut fields = vec![("uuid".to_owned(), uuid.to_string().into())];
    fields.extend(writer.field_values(
        &object_fields::check_fields(settings, Vec::new(), Vec::new()),
        &[],
    ));
    let name = settings.slug.as_str().to_owned();
    ExportedObject {
        project: Some(project.to_owned()),
        kind: ObjectKind::Check,
        name,
        fields,
        comments,
    }
}
