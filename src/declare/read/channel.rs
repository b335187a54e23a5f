//! Channels of a file: the keys are those of their kind, whose table reads the values.

use super::{Object, Reader, below};
use crate::declare::document::{Node, Value};
use crate::declare::fields;
use crate::declare::secrets::reference;
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::project::ChannelName;
use crate::domain::wanted::{ObjectName, WantedChannel};

/// Keys that every channel of a file has beside those of its kind.
const OWN: [&str; 4] = ["kind", "uuid", "name", "incomplete"];

impl Reader {
    pub(super) fn channel(&mut self, key: &str, node: &Node, path: Vec<String>) -> Option<WantedChannel> {
        let object = Object::new(node, None, path, fields::CHANNEL, &[]);
        let id = ObjectName::new(key);
        let name = self.name(&object, &id, |text| ChannelName::parse(text).map_err(String::from))?;
        let uuid = self.uuid(&object);
        let Some(kind) = node.get("kind") else {
            return self.refused(node, &object.path, "there is no kind; `overdue channel kinds` shows those there are");
        };
        let named = match &kind.value {
            Value::Text(text) => ChannelKind::named(text),
            _ => None,
        };
        let Some(named) = named else {
            return self.refused(
                kind,
                &below(&object.path, "kind"),
                "it is no kind of channel; `overdue channel kinds` shows those there are",
            );
        };
        let mut pairs = Vec::new();
        let before = self.problems.len();
        for (key, _, value) in node.entries().iter().filter(|(key, ..)| !OWN.contains(&key.as_str())) {
            self.setting(named, key.clone(), value, &below(&object.path, key), &mut pairs);
        }
        if self.problems.len() > before {
            return None;
        }
        let parsed = match self.flag(&object, "incomplete") {
            Some(true) => ChannelSettings::stored(named, pairs),
            _ => ChannelSettings::unchecked(named, pairs),
        };
        match parsed {
            Ok(settings) => Some(WantedChannel { id, uuid, name, settings }),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.split_once(": ").map_or(reason.as_str(), |(_, reason)| reason);
                // It names the setting that it is about, if it is about one.
                let is_about = |key: &str| reason.starts_with(&format!("{key} ")) || reason.contains(&format!("{key:?}"));
                let about = node.entries().iter().find(|(key, ..)| is_about(key));
                match about {
                    Some((key, _, value)) => self.problem(value, &below(&object.path, key), reason),
                    None => self.problem(node, &object.path, reason),
                }
                None
            }
        }
    }

    /// A setting as text, or several below one key.
    fn setting(&mut self, kind: &ChannelKind, key: String, node: &Node, path: &[String], pairs: &mut Vec<(String, String)>) {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => if *flag { "on" } else { "off" }.into(),
            Value::List(items) => {
                let texts = items.iter().filter_map(|item| match &item.value {
                    Value::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                let texts: Vec<_> = texts.collect();
                if texts.len() < items.len() {
                    self.problem(node, path, "give texts in a list");
                }
                texts.join(",")
            }
            Value::Table(entries) if kind.begins_keys(&key) => {
                for (name, _, value) in entries {
                    self.setting(kind, format!("{key}.{name}"), value, &below(path, name), pairs);
                }
                return;
            }
            Value::Table(_) => match reference(node) {
                Some(("file", file)) => {
                    pairs.push((format!("{key}-file"), file.to_owned()));
                    return;
                }
                Some(_) => return self.problem(node, path, "the secret is not filled in"),
                None => return self.problem(node, path, "it is a table; give text, or { env = \"NAME\" } for a secret"),
            },
            Value::Other(other) => return self.problem(node, path, format!("it is {other}; give text")),
        };
        pairs.push((key, text));
    }
}
