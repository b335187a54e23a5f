//! Reads a document to a declared configuration. All problems are reported at once, and a result is
//! returned only if there are none.

mod channel;
mod config_object;
mod keys_and_users;

use std::collections::BTreeMap;

use super::document::{ConfigDocument, ConfigNode, ConfigProblem, ConfigValue};
use super::fields::{self, ConfigField};
use super::merge::OBJECT_TABLES;
use super::{FORMAT_VERSION, MAX_OBJECTS};
use crate::domain::check::CheckSettings;
use crate::domain::check_edit::field_value::{CheckFieldType, CheckFieldValue};
use crate::domain::check_edit::fields::{self as check_fields, CheckField};
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::check_input;
use crate::domain::declared::{
    ConfigSource, DeclaredCheck, DeclaredConfig, DeclaredKey, DeclaredProject, DeclaredWindow,
    ObjectName,
};
use crate::domain::maintenance_window::WindowTimesInput;
use crate::domain::number::FailureThreshold;
use crate::domain::project::{KeyLabel, ProjectName};
use crate::domain::text::{Name, Slug};
use config_object::{ConfigObject, FieldNode};
use keys_and_users::{key_hint, parse_ping_key};

/// Reads the declared configuration of a document.
///
/// # Errors
/// All problems in it.
pub fn read_config(document: &ConfigDocument) -> Result<DeclaredConfig, Vec<ConfigProblem>> {
    let mut reader = ConfigReader {
        problems: Vec::new(),
        object_count: 0,
    };
    let config = reader.read_document(&document.root);
    if reader.object_count > MAX_OBJECTS {
        reader.add_problem(
            &document.root,
            &[],
            format!(
                "there are {} objects; the maximum is {MAX_OBJECTS}",
                reader.object_count
            ),
        );
    }
    if reader.problems.is_empty() {
        Ok(config)
    } else {
        Err(reader.problems)
    }
}

struct ConfigReader {
    problems: Vec<ConfigProblem>,
    object_count: usize,
}

/// Returns a path with one more key.
fn child_path(path: &[String], key: &str) -> Vec<String> {
    path.iter().cloned().chain([key.to_owned()]).collect()
}

impl ConfigReader {
    fn add_problem(&mut self, node: &ConfigNode, path: &[String], reason: impl Into<String>) {
        self.problems.push(ConfigProblem {
            location: Some(node.location.clone()),
            path: path.to_vec(),
            reason: reason.into(),
        });
    }

    /// Returns the tables of a table, by key.
    fn child_tables<'a>(
        &mut self,
        node: Option<&'a ConfigNode>,
        path: &[String],
    ) -> Vec<(&'a str, &'a ConfigNode, Vec<String>)> {
        let Some(node) = node else { return Vec::new() };
        let ConfigValue::Table(entries) = &node.value else {
            self.add_problem(
                node,
                path,
                format!("it is {}; give a table", node.type_name()),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (key, _, inner) in entries {
            let path = child_path(path, key);
            self.object_count += 1;
            match &inner.value {
                ConfigValue::Table(_) => tables.push((key.as_str(), inner, path)),
                _ => self.add_problem(
                    inner,
                    &path,
                    format!("it is {}; give a table", inner.type_name()),
                ),
            }
        }
        tables
    }

    fn read_document(&mut self, root: &ConfigNode) -> DeclaredConfig {
        let mut config = DeclaredConfig::default();
        let head = ConfigObject::new(root, None, Vec::new(), fields::ROOT_FIELDS, &[]);
        self.reject_unknown_keys(&head, &["project", "user", "defaults"]);
        match self.read_number(&head, "version") {
            Some(FORMAT_VERSION) => {}
            Some(other) => {
                self.add_problem(
                    root,
                    &["version".into()],
                    format!(
                        "version {other} is not supported; this release supports version \
                         {FORMAT_VERSION}"
                    ),
                );
            }
            None if root.get("version").is_none() => {
                self.add_problem(
                    root,
                    &[],
                    format!("the version is missing; write version = {FORMAT_VERSION} at the top"),
                );
            }
            None => {}
        }
        config.source = self.read_parsed(&head, "source", |text| {
            ConfigSource::parse(text).map_err(String::from)
        });
        let defaults = root.get("defaults");
        if let Some(node) = defaults {
            let head = ConfigObject::new(node, None, child_path(&[], "defaults"), &[], &[]);
            self.reject_unknown_keys(&head, &["check"]);
            if let Some(check) = node.get("check") {
                let path = child_path(&head.path, "check");
                let object =
                    ConfigObject::new(check, None, path, &fields::CHECK_DEFAULT_FIELDS, &[]);
                // Problems of the defaults are reported once, and not for each check.
                let before = self.problems.len();
                self.reject_unknown_keys(&object, &[]);
                self.read_check_fields(&object, Slug::default(), false);
                if self.problems.len() > before {
                    return config;
                }
            }
        }
        let defaults = defaults.and_then(|defaults| defaults.get("check"));
        for (name, node, path) in
            self.child_tables(root.get("project"), &child_path(&[], "project"))
        {
            config
                .projects
                .extend(self.read_project(name, node, path, defaults));
        }
        let mut folded = BTreeMap::new();
        for (name, node, path) in self.child_tables(root.get("user"), &child_path(&[], "user")) {
            let Some(user) = self.read_user(name, node, path.clone()) else {
                continue;
            };
            if let Some(other) = folded.insert(user.name.case_folded(), name) {
                self.add_problem(
                    node,
                    &path,
                    format!(
                        "it is the same user as {other:?}: names of users are not case-sensitive"
                    ),
                );
            }
            config.users.push(user);
        }
        config
    }

    fn read_project(
        &mut self,
        name: &str,
        node: &ConfigNode,
        path: Vec<String>,
        defaults: Option<&ConfigNode>,
    ) -> Option<DeclaredProject> {
        let object = ConfigObject::new(node, None, path, fields::PROJECT_FIELDS, &[]);
        self.reject_unknown_keys(&object, &OBJECT_TABLES);
        let Ok(name) =
            ProjectName::parse(name).map_err(|reason| self.add_problem(node, &object.path, reason))
        else {
            return None;
        };
        let mut project = DeclaredProject::new(name);
        project.uuid = self.read_uuid(&object);
        project.previous_name = self.read_parsed(&object, "was", |text| {
            ProjectName::parse(text).map_err(String::from)
        });
        project.check_limit = self.read_limit(&object, "check-limit");
        project.ping_log_limit = self
            .read_number(&object, "ping-log-limit")
            .and_then(|number| u32::try_from(number).ok());
        project.allows_ping_settings = self.read_bool(&object, "ping-settings");
        let ping_key = self.read_parsed(&object, "ping-key", |text| {
            parse_ping_key(text).map(|secret| (secret, key_hint(text)))
        });
        project
            .keys
            .extend(ping_key.map(|(secret, hint)| DeclaredKey {
                label: KeyLabel::default(),
                secret,
                hint,
            }));
        let part = |part: &str| (node.get(part), child_path(&object.path, part));
        let (channels, at) = part("channel");
        for (key, node, path) in self.child_tables(channels, &at) {
            project.channels.extend(self.read_channel(key, node, path));
        }
        let (checks, at) = part("check");
        for (key, node, path) in self.child_tables(checks, &at) {
            project
                .checks
                .extend(self.read_check(key, node, path, defaults));
        }
        let (windows, at) = part("window");
        for (key, node, path) in self.child_tables(windows, &at) {
            project.windows.extend(self.read_window(key, node, path));
        }
        let (keys, at) = part("key");
        for (key, node, path) in self.child_tables(keys, &at) {
            project.keys.extend(self.read_key(key, node, path));
        }
        Some(project)
    }

    fn read_check(
        &mut self,
        key: &str,
        node: &ConfigNode,
        path: Vec<String>,
        defaults: Option<&ConfigNode>,
    ) -> Option<DeclaredCheck> {
        let object = ConfigObject::new(
            node,
            defaults,
            path,
            fields::CHECK_FIELDS,
            &fields::CHECK_DEFAULT_FIELDS,
        );
        self.reject_unknown_keys(&object, &[]);
        let id = ObjectName::new(key);
        // An export may contain texts of an imported check that exceed the present limits.
        let is_known = matches!(id, ObjectName::Uuid(_)) || object.field_node("uuid").is_some();
        let slug = match &id {
            ObjectName::Uuid(_) => self
                .read_parsed(&object, "slug", |text| Ok(Slug::from_stored(text)))
                .unwrap_or_default(),
            ObjectName::Text(text) => {
                if let Some(FieldNode { node, path }) = object.field_node("slug") {
                    self.add_problem(
                        node,
                        &path,
                        "the key of the table is already the slug; remove this line",
                    );
                }
                match check_input::parse_slug(text) {
                    Ok(slug) if !slug.is_empty() => slug,
                    Ok(_) => {
                        return self.reject(
                            node,
                            &object.path,
                            "the key of a check is its slug, which must not be empty",
                        );
                    }
                    Err(reason) => {
                        return self.reject(
                            node,
                            &object.path,
                            &format!("the key of a check is its slug: {reason}"),
                        );
                    }
                }
            }
        };
        let (edit, after, parents) = self.read_check_fields(&object, slug, is_known);
        let uuid = self.read_uuid(&object);
        let was = self.read_parsed(&object, "was", check_input::parse_slug);
        let paused = self.read_bool(&object, "paused");
        Some(DeclaredCheck {
            id,
            uuid,
            previous_slug: was,
            edit,
            failure_threshold: after,
            parents,
            paused,
        })
    }

    /// Reads the settings of a check, or the defaults of all. `is_known`: its UUID is given, so its
    /// texts may come from elsewhere.
    fn read_check_fields(
        &mut self,
        object: &ConfigObject<'_>,
        slug: Slug,
        is_known: bool,
    ) -> (CheckEdit, FailureThreshold, Vec<ObjectName>) {
        if let (Some(_), Some(FieldNode { node, path })) =
            (object.field_node("every"), object.field_node("schedule"))
            && object.has_own("every") == object.has_own("schedule")
        {
            self.add_problem(
                node,
                &path,
                "a check has either every or schedule; remove one of them",
            );
        }
        let has_schedule = object.has_own("schedule")
            || object.field_node("schedule").is_some() && !object.has_own("every");
        let mut edit = CheckEdit {
            name: Some(Name::from_stored(slug.as_str())),
            slug: Some(slug),
            channels: Some(ChannelSelection::Listed(Vec::new())),
            ..CheckEdit::from_settings(&CheckSettings::default())
        };
        for field in check_fields::CONFIG_FIELDS {
            self.read_check_field(object, field, is_known, &mut edit);
        }
        if !has_schedule {
            edit.schedule = None;
        }
        // Fields without a meaning stay as they are.
        match edit.schedule {
            Some(_) => edit.timeout = None,
            None => edit.tz = None,
        }
        let filter = self.read_table(object, "filter");
        let alert = self.read_table(object, "alert");
        if let Some(filter) = &filter {
            for field in check_fields::CONFIG_FILTER_FIELDS {
                self.read_check_field(filter, field, is_known, &mut edit);
            }
        }
        self.read_check_field(object, &check_fields::NAME, is_known, &mut edit);
        let after = alert
            .as_ref()
            .and_then(|alert| self.read_number(alert, "after"))
            .and_then(|number| u64::try_from(number).ok());
        let after = after
            .and_then(|number| FailureThreshold::parse(number).ok())
            .unwrap_or(FailureThreshold::ONE);
        let parents = alert
            .as_ref()
            .and_then(|alert| self.read_list(alert, "parents"))
            .unwrap_or_default();
        (
            edit,
            after,
            parents
                .iter()
                .map(|parent| ObjectName::new(parent))
                .collect(),
        )
    }

    /// Reads a field of a check into an edit, if the object has it. `is_known`: its texts may
    /// exceed the present limits.
    fn read_check_field(
        &mut self,
        object: &ConfigObject<'_>,
        field: &CheckField,
        is_known: bool,
        edit: &mut CheckEdit,
    ) {
        let key = field.config_key;
        let value = match field.field_type {
            CheckFieldType::Flag => self.read_bool(object, key).map(CheckFieldValue::Flag),
            CheckFieldType::Duration { .. } => {
                self.read_duration(object, key).map(CheckFieldValue::Number)
            }
            CheckFieldType::Words { separator, .. } => self
                .read_words(object, key, separator)
                .map(CheckFieldValue::from),
            CheckFieldType::Choice { .. } => {
                self.read_choice(object, key).map(CheckFieldValue::from)
            }
            CheckFieldType::Channels => {
                edit.channels = Some(self.read_channel_selection(object));
                None
            }
            CheckFieldType::Text(_) => self.read_text(object, key).map(CheckFieldValue::from),
        };
        // A text that exceeds the present limits may be an old one of the check.
        let new_settings = CheckSettings::default();
        let stored = (!is_known && !field.was_unlimited).then_some(&new_settings);
        if let Some(value) = value
            && let Err(error) = field.set(edit, &value, stored)
        {
            self.add_field_problem(object, key, &error.explanation);
        }
    }

    fn read_channel_selection(&mut self, object: &ConfigObject<'_>) -> ChannelSelection {
        match object.field_node("channels") {
            Some(FieldNode {
                node:
                    ConfigNode {
                        value: ConfigValue::Text(text),
                        ..
                    },
                ..
            }) if text == "*" => ChannelSelection::All,
            _ => ChannelSelection::Listed(
                self.read_list(object, "channels")
                    .unwrap_or_default()
                    .into_iter()
                    .map(String::into_boxed_str)
                    .collect(),
            ),
        }
    }

    fn read_window(
        &mut self,
        key: &str,
        node: &ConfigNode,
        path: Vec<String>,
    ) -> Option<DeclaredWindow> {
        let object = ConfigObject::new(node, None, path, fields::WINDOW_FIELDS, &[]);
        self.reject_unknown_keys(&object, &[]);
        let id = ObjectName::new(key);
        let name = self.read_name(&object, &id, check_input::parse_name)?;
        let uuid = self.read_uuid(&object);
        let tags = self.read_words(&object, "tags", " ").unwrap_or_default();
        let tags = check_input::parse_tags(&tags)
            .map_err(|reason| self.add_field_problem(&object, "tags", &reason))
            .ok()?;
        let minutes = self
            .read_duration(&object, "for")
            .map(|seconds| seconds.unsigned_abs() / 60);
        let mut text = |key| self.read_text(&object, key).map(String::from);
        let from = text("from");
        let to = text("to");
        let at = text("at");
        let tz = text("tz");
        if at.is_none() && from.is_none() {
            return self.reject(
                node,
                &object.path,
                "the start is missing; give at = SCHEDULE or from = TIME",
            );
        }
        // A file is read for years, so a window may be in the past.
        let now = from
            .as_deref()
            .and_then(|from| from.parse::<jiff::Timestamp>().ok());
        let now = now.map_or_else(Default::default, |now| {
            crate::domain::timestamp::Timestamp::from_micros(now.as_microsecond())
        });
        match (WindowTimesInput {
            from,
            to,
            schedule: at,
            minutes,
            tz,
        })
        .parse(now)
        {
            Ok(times) => Some(DeclaredWindow {
                id,
                uuid,
                name,
                tags,
                times,
            }),
            Err(error) => {
                let key = match error.0 {
                    "schedule" => "at",
                    "minutes" => "for",
                    other => other,
                };
                self.add_field_problem(&object, key, &error.1);
                None
            }
        }
    }
}

/// Returns the field of a key.
fn find_field(table: &'static [ConfigField], key: &str) -> Option<&'static ConfigField> {
    table.iter().find(|field| field.key == key)
}
