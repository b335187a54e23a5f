//! Exports the current state as declared files: in a fixed order, without defaults.

use std::collections::{BTreeSet, HashMap, HashSet};
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
}

fn export_project(
    copied: &ProjectCopy,
    writer: &mut ObjectWriter,
    objects: &mut Vec<ExportedObject>,
) {
    let ProjectCopy {
        project,
        channels,
        windows,
        checks,
        ..
    } = copied;
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
    let object = |kind, key: String, fields| ExportedObject {
        project: Some(name.into()),
        kind,
        name: key,
        fields,
        comments: Vec::new(),
    };
    objects.push(ExportedObject {
        comments,
        ..object(ObjectKind::Project, name.into(), fields)
    });
    let members: HashSet<_> = channels
        .iter()
        .flat_map(|channel| channel.settings.members())
        .collect();
    let mut counts = HashMap::new();
    channels
        .iter()
        .for_each(|channel| *counts.entry(channel.name.as_str()).or_insert(0) += 1);
    let channel_keys = channels.iter().map(|channel| {
        let is_only = counts.get(channel.name.as_str()) == Some(&1);
        let is_found =
            !members.contains(&channel.uuid) || is_usable_member_name(channel.name.as_str());
        (
            channel.id,
            object_key(channel.name.as_str(), channel.uuid, is_only && is_found),
        )
    });
    let channel_keys: HashMap<_, _> = channel_keys.collect();
    let uuids: HashMap<_, _> = channels
        .iter()
        .map(|channel| (channel.uuid, channel.id))
        .collect();
    // The keys are valid also where these channels have other UUIDs.
    let member_key = |uuid| channel_keys.get(uuids.get(&uuid)?).cloned();
    let channel_key = |one: &ChannelId| channel_keys.get(one).cloned();
    let mut written: Vec<_> = channels
        .iter()
        .filter_map(|channel| Some((channel_key(&channel.id)?, channel)))
        .collect();
    written.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (key, channel) in written {
        let mut fields = name_field(&key, channel.name.as_str());
        let settings = channel
            .settings
            .with_retained_members(|uuid| uuids.contains_key(&uuid));
        fields.extend(writer.field_values(
            &object_fields::channel_fields(&settings.with_member_names(member_key)),
            &[name, &key],
        ));
        if !settings.is_complete() {
            fields.push(("incomplete".to_owned(), true.into()));
        }
        objects.push(object(ObjectKind::Channel, key, fields));
    }
    let mut slugs = HashMap::new();
    checks
        .iter()
        .for_each(|check| *slugs.entry(&check.settings.slug).or_insert(0) += 1);
    let check_key = |check: &Check| {
        let slug = &check.settings.slug;
        object_key(
            slug.as_str(),
            check.uuid,
            slug.is_within_limit() && slugs.get(slug) == Some(&1),
        )
    };
    // Checks are in the order of their numbers.
    let by_id = |id: &CheckId| {
        checks
            .binary_search_by_key(id, |check| check.id)
            .ok()
            .and_then(|index| checks.get(index))
    };
    let mut written: Vec<_> = checks
        .iter()
        .map(|check| (check_key(check), check))
        .collect();
    written.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (key, check) in written {
        let assigned = check
            .settings
            .channels
            .iter()
            .filter_map(channel_key)
            .map(Into::into)
            .collect();
        let parents = check
            .settings
            .parents
            .ids()
            .iter()
            .filter_map(by_id)
            .map(|parent| check_key(parent).into());
        let mut fields = Vec::new();
        if key == check.uuid.to_string() {
            if !check.settings.slug.is_empty() {
                fields.push(("slug".to_owned(), check.settings.slug.as_str().into()));
            }
        } else {
            fields.push(("uuid".to_owned(), check.uuid.to_string().into()));
        }
        fields.extend(writer.field_values(
            &object_fields::check_fields(&check.settings, assigned, parents.collect()),
            &[],
        ));
        objects.push(object(ObjectKind::Check, key, fields));
    }
    let is_only = |name: &str| {
        windows
            .iter()
            .filter(|other| other.name.as_str() == name)
            .count()
            == 1
    };
    let mut written: Vec<_> = windows
        .iter()
        .map(|window| {
            (
                object_key(
                    window.name.as_str(),
                    window.uuid,
                    is_only(window.name.as_str()),
                ),
                window,
            )
        })
        .collect();
    written.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (key, window) in written {
        let mut fields = name_field(&key, window.name.as_str());
        fields.extend(writer.field_values(&window.fields(), &[]));
        objects.push(object(ObjectKind::Window, key, fields));
    }
    objects.extend(keys);
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
