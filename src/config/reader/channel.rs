//! Channels of a file. The keys are the fields of their kind, whose table parses the values.

use super::{ConfigObject, ConfigReader, child_path};
use crate::channels;
use crate::config::document::{ConfigNode, ConfigValue};
use crate::config::fields;
use crate::config::secret_references::secret_reference;
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::declared::{DeclaredChannel, ObjectName};
use crate::domain::project::ChannelName;

/// Keys of every channel in a file, beside the fields of its kind.
const COMMON_KEYS: [&str; 4] = ["kind", "uuid", "name", "incomplete"];

impl ConfigReader {
    pub(super) fn read_channel(
        &mut self,
        key: &str,
        node: &ConfigNode,
        path: Vec<String>,
    ) -> Option<DeclaredChannel> {
        let object = ConfigObject::new(node, None, path, fields::CHANNEL_FIELDS, &[]);
        let id = ObjectName::new(key);
        let name = self.read_name(&object, &id, |text| {
            ChannelName::parse(text).map_err(String::from)
        })?;
        let uuid = self.read_uuid(&object);
        let Some(kind) = node.get("kind") else {
            return self.reject(
                node,
                &object.path,
                "the kind is missing; `overdue channel kinds` lists all kinds",
            );
        };
        let channel_kind = match &kind.value {
            ConfigValue::Text(text) => channels::find_kind(text),
            _ => None,
        };
        let Some(channel_kind) = channel_kind else {
            return self.reject(
                kind,
                &child_path(&object.path, "kind"),
                "unknown kind of channel; `overdue channel kinds` lists all kinds",
            );
        };
        let mut pairs = Vec::new();
        let before = self.problems.len();
        for (key, _, value) in node
            .entries()
            .iter()
            .filter(|(key, ..)| !COMMON_KEYS.contains(&key.as_str()))
        {
            self.read_setting(
                channel_kind,
                key.clone(),
                value,
                &child_path(&object.path, key),
                &mut pairs,
            );
        }
        if self.problems.len() > before {
            return None;
        }
        let parsed = match self.read_bool(&object, "incomplete") {
            Some(true) => ChannelSettings::from_incomplete(channel_kind, pairs),
            _ => ChannelSettings::parse_any_format(channel_kind, pairs),
        };
        match parsed {
            Ok(settings) => Some(DeclaredChannel {
                id,
                uuid,
                name,
                settings,
            }),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason
                    .split_once(": ")
                    .map_or(reason.as_str(), |(_, reason)| reason);
                // The reason names the setting that it is about, if any.
                let is_about = |key: &str| {
                    reason.starts_with(&format!("{key} ")) || reason.contains(&format!("{key:?}"))
                };
                let about = node.entries().iter().find(|(key, ..)| is_about(key));
                match about {
                    Some((key, _, value)) => {
                        self.add_problem(value, &child_path(&object.path, key), reason);
                    }
                    None => self.add_problem(node, &object.path, reason),
                }
                None
            }
        }
    }

    /// Reads a setting as text, or several below one key.
    fn read_setting(
        &mut self,
        kind: &ChannelKind,
        key: String,
        node: &ConfigNode,
        path: &[String],
        pairs: &mut Vec<(String, String)>,
    ) {
        let text = match &node.value {
            ConfigValue::Text(text) => text.clone(),
            ConfigValue::Number(number) => number.to_string(),
            ConfigValue::Bool(flag) => if *flag { "on" } else { "off" }.into(),
            ConfigValue::List(items) => {
                let texts = items.iter().filter_map(|item| match &item.value {
                    ConfigValue::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                let texts: Vec<_> = texts.collect();
                if texts.len() < items.len() {
                    self.add_problem(node, path, "give a list of texts");
                }
                texts.join(",")
            }
            ConfigValue::Table(entries) if kind.is_key_prefix(&key) => {
                for (name, _, value) in entries {
                    self.read_setting(
                        kind,
                        format!("{key}.{name}"),
                        value,
                        &child_path(path, name),
                        pairs,
                    );
                }
                return;
            }
            ConfigValue::Table(_) => match secret_reference(node) {
                Some(("file", file)) => {
                    pairs.push((format!("{key}-file"), file.to_owned()));
                    return;
                }
                Some(_) => {
                    return self.add_problem(node, path, "the secret has not been filled in");
                }
                None => {
                    return self.add_problem(
                        node,
                        path,
                        r#"it is a table; give text, or { env = "NAME" } for a secret"#,
                    );
                }
            },
            ConfigValue::Unsupported(other) => {
                return self.add_problem(node, path, format!("it is {other}; give text"));
            }
        };
        pairs.push((key, text));
    }
}
