//! Fields of one object: looked up by key, for checks also in the defaults, and read by their
//! types.

use uuid::Uuid;

use super::{ConfigReader, child_path, find_field};
use crate::config::document::{ConfigNode, ConfigValue};
use crate::config::fields::{ConfigField, ConfigFieldType};
use crate::domain::declared::ObjectName;
use crate::domain::ids::parse_hyphenated_uuid;

/// Minimum similarity of an unknown key and the key that is suggested for it; 1 is equality.
const MIN_SIMILARITY: f64 = 0.8;

/// A table whose fields are read.
pub(super) struct ConfigObject<'a> {
    node: &'a ConfigNode,
    defaults: Option<&'a ConfigNode>,
    pub(super) path: Vec<String>,
    field_tables: [&'static [ConfigField]; 2],
}

/// Value of a field, and its location.
pub(super) struct FieldNode<'a> {
    pub(super) node: &'a ConfigNode,
    pub(super) path: Vec<String>,
}

impl<'a> ConfigObject<'a> {
    /// Creates an object with the fields of both tables; `defaults` apply to fields that it omits.
    pub(super) fn new(
        node: &'a ConfigNode,
        defaults: Option<&'a ConfigNode>,
        path: Vec<String>,
        own: &'static [ConfigField],
        more: &'static [ConfigField],
    ) -> Self {
        Self {
            node,
            defaults,
            path,
            field_tables: [own, more],
        }
    }

    /// True if the object itself sets a field.
    pub(super) fn has_own(&self, key: &str) -> bool {
        self.node.get(key).is_some()
    }

    /// Returns the value of a field in the object or in the defaults.
    pub(super) fn field_node(&self, key: &str) -> Option<FieldNode<'a>> {
        let own_node = self.node.get(key).map(|node| FieldNode {
            node,
            path: child_path(&self.path, key),
        });
        let default = || {
            let node = self.defaults?.get(key)?;
            Some(FieldNode {
                node,
                path: ["defaults", "check", key].map(String::from).to_vec(),
            })
        };
        own_node.or_else(default)
    }

    fn field_type(&self, key: &str) -> Option<ConfigFieldType> {
        self.field_tables
            .iter()
            .find_map(|table| find_field(table, key))
            .map(|field| field.field_type)
    }
}

impl ConfigReader {
    /// Reports every unknown key.
    pub(super) fn reject_unknown_keys(&mut self, object: &ConfigObject<'_>, others: &[&str]) {
        let ConfigValue::Table(entries) = &object.node.value else {
            let reason = format!("it is {}; give a table", object.node.type_name());
            self.add_problem(object.node, &object.path, reason);
            return;
        };
        let known: Vec<&str> = object
            .field_tables
            .iter()
            .flat_map(|table| table.iter())
            .map(|field| field.key)
            .chain(others.iter().copied())
            .collect();
        for (key, location, _) in entries
            .iter()
            .filter(|(key, ..)| !known.contains(&key.as_str()))
        {
            let reason = unknown_key_message(key, &known);
            let node = ConfigNode {
                value: ConfigValue::Bool(false),
                location: location.clone(),
            };
            self.add_problem(&node, &child_path(&object.path, key), reason);
        }
    }

    /// Reports a problem of a field, at the location of its value.
    pub(super) fn add_field_problem(&mut self, object: &ConfigObject<'_>, key: &str, reason: &str) {
        match object.field_node(key) {
            Some(FieldNode { node, path }) => self.add_problem(node, &path, reason),
            None => self.add_problem(object.node, &object.path, reason),
        }
    }

    /// Reports a problem, and returns `None`.
    pub(super) fn reject<T>(
        &mut self,
        node: &ConfigNode,
        path: &[String],
        reason: &str,
    ) -> Option<T> {
        self.add_problem(node, path, reason);
        None
    }

    fn reject_type<T>(&mut self, field: &FieldNode<'_>, expected: &str) -> Option<T> {
        let reason = format!("it is {}; give {expected}", field.node.type_name());
        self.add_problem(field.node, &field.path, reason);
        None
    }

    pub(super) fn read_text<'a>(
        &mut self,
        object: &ConfigObject<'a>,
        key: &str,
    ) -> Option<&'a str> {
        let field = object.field_node(key)?;
        let ConfigValue::Text(text) = &field.node.value else {
            let expected = if matches!(object.field_type(key), Some(ConfigFieldType::Secret)) {
                "text, or { env = \"NAME\" }"
            } else {
                "text"
            };
            return self.reject_type(&field, expected);
        };
        Some(text)
    }

    pub(super) fn read_parsed<T>(
        &mut self,
        object: &ConfigObject<'_>,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.read_text(object, key)?;
        parse(text)
            .map_err(|reason| self.add_field_problem(object, key, &reason))
            .ok()
    }

    pub(super) fn read_choice<'a>(
        &mut self,
        object: &ConfigObject<'a>,
        key: &str,
    ) -> Option<&'a str> {
        let text = self.read_text(object, key)?;
        let Some(ConfigFieldType::Choice(words)) = object.field_type(key) else {
            return Some(text);
        };
        if words.contains(&text) {
            return Some(text);
        }
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        self.add_field_problem(
            object,
            key,
            &format!("{text:?} is none of {}", words.join(", ")),
        );
        None
    }

    pub(super) fn read_bool(&mut self, object: &ConfigObject<'_>, key: &str) -> Option<bool> {
        let field = object.field_node(key)?;
        match field.node.value {
            ConfigValue::Bool(flag) => Some(flag),
            _ => self.reject_type(&field, "true or false"),
        }
    }

    pub(super) fn read_number(&mut self, object: &ConfigObject<'_>, key: &str) -> Option<i64> {
        let field = object.field_node(key)?;
        let Some(ConfigFieldType::Number(min, max) | ConfigFieldType::Limit(min, max)) =
            object.field_type(key)
        else {
            return None;
        };
        match field.node.value {
            // An unsupported version has a message of its own.
            ConfigValue::Number(number) if key == "version" || (min..=max).contains(&number) => {
                Some(number)
            }
            ConfigValue::Number(_) => {
                self.add_problem(
                    field.node,
                    &field.path,
                    format!("give a whole number from {min} to {max}"),
                );
                None
            }
            _ => self.reject_type(&field, &format!("a whole number from {min} to {max}")),
        }
    }

    /// Reads a number, or `none`.
    pub(super) fn read_limit(
        &mut self,
        object: &ConfigObject<'_>,
        key: &str,
    ) -> Option<Option<u32>> {
        let field = object.field_node(key)?;
        if matches!(&field.node.value, ConfigValue::Text(text) if text == "none") {
            return Some(None);
        }
        self.read_number(object, key)
            .and_then(|number| u32::try_from(number).ok())
            .map(Some)
    }

    /// Reads a duration in seconds.
    pub(super) fn read_duration(&mut self, object: &ConfigObject<'_>, key: &str) -> Option<i64> {
        let field = object.field_node(key)?;
        let Some(ConfigFieldType::Duration(min, max)) = object.field_type(key) else {
            return None;
        };
        let seconds = match &field.node.value {
            ConfigValue::Number(number) => Some(*number),
            ConfigValue::Text(text) => parse_duration(text),
            _ => {
                return self
                    .reject_type(&field, r#"a time such as "90s", "15m", "2h", "1d" or "1w""#);
            }
        };
        let fitting = seconds.filter(|seconds| (min..=max).contains(seconds));
        if fitting.is_none() {
            let reason = match seconds {
                None => {
                    r#"give a whole number and its unit, as in "90s", "15m", "2h", "1d" or "1w""#
                        .to_owned()
                }
                Some(seconds) => format!("it is {seconds} seconds; give {min} to {max}"),
            };
            self.add_problem(field.node, &field.path, reason);
        }
        fitting
    }

    pub(super) fn read_uuid(&mut self, object: &ConfigObject<'_>) -> Option<Uuid> {
        self.read_parsed(object, "uuid", |text| {
            parse_hyphenated_uuid(text)
                .ok_or_else(|| "a UUID has the form 8-4-4-4-12, in hexadecimal digits".into())
        })
    }

    /// Reads the name of an object: its key or, if that is a UUID, the field.
    pub(super) fn read_name<T>(
        &mut self,
        object: &ConfigObject<'_>,
        id: &ObjectName,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = match id {
            ObjectName::Uuid(_) => self.read_text(object, "name").unwrap_or_default(),
            ObjectName::Text(text) => {
                if object.has_own("name") {
                    self.add_field_problem(
                        object,
                        "name",
                        "the key of the table is already the name; remove this line",
                    );
                }
                text
            }
        };
        parse(text)
            .map_err(|reason| self.add_problem(object.node, &object.path, reason))
            .ok()
    }

    pub(super) fn read_list(
        &mut self,
        object: &ConfigObject<'_>,
        key: &str,
    ) -> Option<Vec<String>> {
        let field = object.field_node(key)?;
        let ConfigValue::List(items) = &field.node.value else {
            return self.reject_type(&field, r#"a list of texts, such as ["a", "b"]"#);
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                ConfigValue::Text(text) => texts.push(text.clone()),
                _ => self.add_problem(
                    item,
                    &field.path,
                    format!("it is {}; give text", item.type_name()),
                ),
            }
        }
        Some(texts)
    }

    /// Reads a list, or its text with a separator between the items.
    pub(super) fn read_words(
        &mut self,
        object: &ConfigObject<'_>,
        key: &str,
        separator: &str,
    ) -> Option<String> {
        let field = object.field_node(key)?;
        if let ConfigValue::Text(text) = &field.node.value {
            return Some(text.clone());
        }
        let items = self.read_list(object, key)?;
        if let Some(item) = items
            .iter()
            .find(|item| item.contains(separator) || item.trim().is_empty())
        {
            let separator_name = if separator == " " {
                "a space"
            } else {
                "a comma"
            };
            self.add_field_problem(
                object,
                key,
                &format!("{item:?} is empty or contains {separator_name}"),
            );
        }
        Some(items.join(separator))
    }

    /// Reads a table within an object.
    pub(super) fn read_table<'a>(
        &mut self,
        object: &ConfigObject<'a>,
        key: &str,
    ) -> Option<ConfigObject<'a>> {
        let FieldNode { node, path } = object.field_node(key)?;
        let Some(ConfigFieldType::Fields(fields)) = object.field_type(key) else {
            return None;
        };
        let inner = ConfigObject::new(node, None, path, fields, &[]);
        self.reject_unknown_keys(&inner, &[]);
        Some(inner)
    }
}

/// Parses a duration such as `90s`, `15m`, `2h`, `1d` or `1w`.
fn parse_duration(text: &str) -> Option<i64> {
    let units = [
        ("s", 1),
        ("m", 60),
        ("h", 3_600),
        ("d", 86_400),
        ("w", 604_800),
    ];
    let in_unit = |(unit, seconds): (&str, i64)| {
        let digits = text.strip_suffix(unit)?;
        let number: i64 = digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| digits.parse().ok())
            .flatten()?;
        number.checked_mul(seconds)
    };
    units.into_iter().find_map(in_unit)
}

fn unknown_key_message(key: &str, known: &[&str]) -> String {
    let likeness = |other: &&&str| strsim::jaro_winkler(key, other);
    let best = known
        .iter()
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match best.filter(|best| likeness(best) >= MIN_SIMILARITY) {
        Some(best) => format!("unknown key; did you mean {best}?"),
        None => format!("unknown key; the known keys are {}", known.join(", ")),
    }
}
