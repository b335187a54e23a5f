//! Output of objects: TOML for people, JSON for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::FORMAT_VERSION;
use super::export::ExportedObject;
use crate::domain::declared::ObjectKind;

/// Returns a key in TOML: bare if possible.
pub(super) fn toml_key(key: &str) -> String {
    let is_bare = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_bare { key.into() } else { quote_toml(key) }
}

/// Returns a quoted TOML string.
fn quote_toml(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => drop(write!(out, "\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a value in TOML.
pub fn toml_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote_toml(text),
        Value::Array(items) => format!(
            "[{}]",
            items
                .iter()
                .map(self::toml_value)
                .collect::<Vec<_>>()
                .join(", ")
        ),
        Value::Object(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(name, inner)| format!("{} = {}", toml_key(name), self::toml_value(inner)))
                .collect();
            if entries.is_empty() {
                "{}".into()
            } else {
                format!("{{ {} }}", entries.join(", "))
            }
        }
        other => other.to_string(),
    }
}

/// Returns the table header of an object.
fn table_header(object: &ExportedObject) -> String {
    let kind = object.kind.name();
    match (&object.project, object.kind) {
        (Some(project), ObjectKind::Project) => format!("project.{}", toml_key(project)),
        (Some(project), _) => format!(
            "project.{}.{kind}.{}",
            toml_key(project),
            toml_key(&object.name)
        ),
        (None, _) => format!("{kind}.{}", toml_key(&object.name)),
    }
}

/// Returns objects as a TOML file; `head` are comments at its top.
pub fn to_toml(objects: &[ExportedObject], head: &[&str]) -> String {
    let mut text: String = head
        .iter()
        .map(|line| {
            if line.is_empty() {
                "#\n".into()
            } else {
                format!("# {line}\n")
            }
        })
        .collect();
    let _ = writeln!(text, "version = {FORMAT_VERSION}");
    for object in objects {
        let _ = write!(text, "\n[{}]\n", table_header(object));
        for comment in &object.comments {
            let _ = writeln!(text, "# {comment}");
        }
        for (name, field) in &object.fields {
            let _ = writeln!(text, "{} = {}", toml_key(name), toml_value(field));
        }
    }
    text
}

/// Returns objects as a JSON document, without comments.
pub fn to_json(objects: &[ExportedObject]) -> Value {
    fn table<'a>(of: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
        of.entry(key)
            .or_insert_with(|| Map::new().into())
            .as_object_mut()
    }
    let mut root = Map::new();
    root.insert("version".into(), FORMAT_VERSION.into());
    for object in objects {
        let entries = match (&object.project, object.kind) {
            (Some(project), ObjectKind::Project) => {
                table(&mut root, "project").and_then(|projects| table(projects, project))
            }
            (Some(project), kind) => table(&mut root, "project")
                .and_then(|projects| table(projects, project))
                .and_then(|project| table(project, kind.name()))
                .and_then(|objects| table(objects, &object.name)),
            (None, kind) => {
                table(&mut root, kind.name()).and_then(|objects| table(objects, &object.name))
            }
        };
        if let Some(entries) = entries {
            entries.extend(object.fields.iter().cloned());
        }
    }
    root.into()
}
