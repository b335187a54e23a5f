//! JSON Schema of files (2020-12), generated from the tables of fields, for editors and for
//! programs that generate files.

use serde_json::{Map, Value, json};

use super::FORMAT_VERSION;
use super::fields::{self, ConfigField, ConfigFieldType};
use crate::channels;
use crate::domain::channel::{self, ChannelKind};
use crate::domain::check_edit::field_value::TextRules;

const UUID_PATTERN: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";

fn reference_schema(kinds: &[&str]) -> Value {
    let reference = |kind: &&str| {
        json!({
            "type": "object",
            "properties": { *kind: { "type": "string" } },
            "required": [kind],
            "additionalProperties": false,
        })
    };
    json!({ "oneOf": kinds.iter().map(reference).collect::<Vec<_>>() })
}

fn secret_schema() -> Value {
    json!({ "anyOf": [{ "type": "string" }, reference_schema(&["env", "file", "credential"])] })
}

fn text_schema(rules: TextRules) -> Value {
    let mut schema = Map::from_iter([("type".to_owned(), "string".into())]);
    if let Some(pattern) = rules.pattern {
        schema.insert("pattern".into(), pattern.into());
    }
    if let Some(max_chars) = rules.max_chars {
        schema.insert("maxLength".into(), max_chars.into());
    }
    schema.into()
}

fn type_schema(field_type: ConfigFieldType) -> Value {
    let words = json!({ "type": "array", "items": { "type": "string" } });
    match field_type {
        ConfigFieldType::Text(rules) => text_schema(rules),
        ConfigFieldType::Bool => json!({ "type": "boolean" }),
        ConfigFieldType::Number(min, max) => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        ConfigFieldType::Limit(min, max) => {
            let number = json!({ "type": "integer", "minimum": min, "maximum": max });
            json!({ "anyOf": [number, { "const": "none" }] })
        }
        ConfigFieldType::Duration(min, max) => {
            let seconds = json!({ "type": "integer", "minimum": min, "maximum": max });
            let text = json!({ "type": "string", "pattern": "^[0-9]+[smhdw]$" });
            json!({ "anyOf": [seconds, text] })
        }
        ConfigFieldType::Words => json!({ "anyOf": [words, { "type": "string" }] }),
        ConfigFieldType::Channels => json!({ "anyOf": [words, { "const": "*" }] }),
        ConfigFieldType::Uuid => json!({ "type": "string", "pattern": UUID_PATTERN }),
        ConfigFieldType::Secret => secret_schema(),
        ConfigFieldType::Choice(words) => json!({ "enum": words }),
        ConfigFieldType::Fields(fields) => object_schema(&[fields], Map::new()),
        ConfigFieldType::Access => {
            json!({ "type": "object", "additionalProperties": { "enum": ["member", "read-only"] } })
        }
    }
}

fn with_description(schema: Value, help: &str) -> Value {
    let Value::Object(mut schema) = schema else {
        return schema;
    };
    schema.insert("description".into(), help.into());
    schema.into()
}

/// Returns the schema of an object with these fields and additional properties.
fn object_schema(tables: &[&[ConfigField]], more: Map<String, Value>) -> Value {
    let fields = tables.iter().flat_map(|table| table.iter());
    let mut properties: Map<String, Value> = fields
        .map(|field| {
            (
                field.key.into(),
                with_description(type_schema(field.field_type), field.help),
            )
        })
        .collect();
    properties.extend(more);
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Returns the schema of a table of objects by key.
fn table_schema(item_schema: &Value, key: &str) -> Value {
    json!({
        "type": "object",
        "propertyNames": { "pattern": key },
        "additionalProperties": item_schema
    })
}

fn setting_schema(field: &channel::SettingField) -> (String, Value) {
    let text = json!({ "type": ["string", "integer", "boolean"] });
    let lists = matches!(
        field.field_type,
        channel::SettingFieldType::List(_) | channel::SettingFieldType::MailAddresses(_)
    );
    let value_schema = match &field.field_type {
        channel::SettingFieldType::Choice(words) => json!({ "enum": words }),
        channel::SettingFieldType::Words(words) => json!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "enum": words } }]
        }),
        _ if field.is_secret() => secret_schema(),
        _ if lists => {
            json!({ "anyOf": [text, { "type": "array", "items": { "type": "string" } }] })
        }
        _ => text,
    };
    match field.key.strip_suffix(".NAME") {
        Some(prefix) => (
            prefix.into(),
            json!({
                "type": "object",
                "additionalProperties": value_schema,
                "description": field.help,
            }),
        ),
        None => (field.key.into(), with_description(value_schema, field.help)),
    }
}

fn channel_schema(kind: &'static ChannelKind) -> Value {
    let mut properties: Map<String, Value> = kind.common_fields().map(setting_schema).collect();
    properties.extend(kind.fields.iter().map(setting_schema));
    let words: Vec<_> = std::iter::once(kind.name)
        .chain(kind.aliases.iter().copied())
        .collect();
    properties.insert("kind".into(), json!({ "enum": words }));
    let mut schema = object_schema(&[fields::CHANNEL_FIELDS], properties);
    if let Value::Object(schema) = &mut schema {
        schema.insert("title".into(), kind.title.into());
        schema.insert("required".into(), json!(["kind"]));
        // Keys such as "header.X-Key" may be written as one.
        let dotted = kind
            .fields
            .iter()
            .filter_map(|field| field.key.strip_suffix(".NAME"));
        let dotted: Map<_, _> = dotted
            .map(|prefix| (format!("^{prefix}\\."), secret_schema()))
            .collect();
        schema.insert("patternProperties".into(), dotted.into());
    }
    schema
}

/// Returns the schema.
pub fn json_schema() -> Value {
    let check = object_schema(
        &[fields::CHECK_FIELDS, &fields::CHECK_DEFAULT_FIELDS],
        Map::new(),
    );
    let channels: Vec<_> = channels::all_kinds().map(channel_schema).collect();
    let parts = json!({
        "check": table_schema(&check, "^[a-z0-9_-]{1,100}$|^[0-9A-F-]{36}$"),
        "channel": table_schema(&json!({ "oneOf": channels }), "^.{0,100}$"),
        "window": table_schema(&object_schema(&[fields::WINDOW_FIELDS], Map::new()), "^.{0,100}$"),
        "key": table_schema(&object_schema(&[fields::KEY_FIELDS], Map::new()), "^.{1,100}$"),
    });
    let Value::Object(parts) = parts else {
        return parts;
    };
    let defaults = object_schema(&[&fields::CHECK_DEFAULT_FIELDS], Map::new());
    let more = json!({
        "version": { "const": FORMAT_VERSION, "description": "version of the format" },
        "defaults": {
            "type": "object",
            "properties": { "check": defaults },
            "additionalProperties": false,
        },
        "project": table_schema(&object_schema(&[fields::PROJECT_FIELDS], parts), "^.{1,100}$"),
        "user": table_schema(&object_schema(&[fields::USER_FIELDS], Map::new()), "^.{1,100}$"),
    });
    let Value::Object(more) = more else {
        return more;
    };
    let mut root = object_schema(&[fields::ROOT_FIELDS], more);
    if let Value::Object(root) = &mut root {
        root.insert(
            "$schema".into(),
            "https://json-schema.org/draft/2020-12/schema".into(),
        );
        root.insert("title".into(), "overdue: configuration".into());
        root.insert("required".into(), json!(["version"]));
    }
    root
}
