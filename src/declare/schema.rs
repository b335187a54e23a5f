//! The JSON Schema of files (2020-12), made of the tables of fields, for editors and for whoever generates files.

use serde_json::{Map, Value, json};

use super::VERSION;
use super::fields::{self, Field, Form};
use crate::domain::channel::{self, ChannelKind};

const UUID: &str = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";

fn reference(kinds: &[&str]) -> Value {
    let one = |kind: &&str| json!({ "type": "object", "properties": { *kind: { "type": "string" } }, "required": [kind], "additionalProperties": false });
    json!({ "oneOf": kinds.iter().map(one).collect::<Vec<_>>() })
}

fn secret() -> Value {
    json!({ "anyOf": [{ "type": "string" }, reference(&["env", "file", "credential"])] })
}

fn form(form: Form) -> Value {
    let words = json!({ "type": "array", "items": { "type": "string" } });
    match form {
        Form::Text(most) => json!({ "type": "string", "maxLength": most }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Number(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Form::Limit(least, most) => json!({ "anyOf": [{ "type": "integer", "minimum": least, "maximum": most }, { "const": "none" }] }),
        Form::Duration(least, most) => {
            json!({ "anyOf": [{ "type": "integer", "minimum": least, "maximum": most }, { "type": "string", "pattern": "^[0-9]+[smhdw]$" }] })
        }
        Form::Words => json!({ "anyOf": [words, { "type": "string" }] }),
        Form::Channels => json!({ "anyOf": [words, { "const": "*" }] }),
        Form::Schedule | Form::Zone | Form::Time => json!({ "type": "string" }),
        Form::Uuid => json!({ "type": "string", "pattern": UUID }),
        Form::Slug => json!({ "type": "string", "pattern": "^[a-z0-9_-]*$", "maxLength": 100 }),
        Form::Secret => secret(),
        Form::Choice(words) => json!({ "enum": words }),
        Form::Fields(fields) => object(&[fields], Map::new()),
        Form::Access => json!({ "type": "object", "additionalProperties": { "enum": ["member", "read-only"] } }),
    }
}

fn described(of: Value, help: &str) -> Value {
    let Value::Object(mut of) = of else { return of };
    of.insert("description".into(), help.into());
    of.into()
}

/// An object with these fields, and with more properties.
fn object(tables: &[&[Field]], more: Map<String, Value>) -> Value {
    let fields = tables.iter().flat_map(|table| table.iter());
    let mut properties: Map<String, Value> = fields.map(|field| (field.key.into(), described(form(field.form), field.help))).collect();
    properties.extend(more);
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// A table of objects by key.
fn by_key(of: &Value, key: &str) -> Value {
    json!({ "type": "object", "propertyNames": { "pattern": key }, "additionalProperties": of })
}

fn setting(field: &channel::Field) -> (String, Value) {
    let text = json!({ "type": ["string", "integer", "boolean"] });
    let lists = matches!(field.form, channel::Form::List(_) | channel::Form::MailAddresses(_));
    let one = match &field.form {
        channel::Form::Choice(words) => json!({ "enum": words }),
        _ if field.is_secret() => secret(),
        _ if lists => json!({ "anyOf": [text, { "type": "array", "items": { "type": "string" } }] }),
        _ => text,
    };
    match field.key.strip_suffix(".NAME") {
        Some(prefix) => (prefix.into(), json!({ "type": "object", "additionalProperties": one, "description": field.help })),
        None => (field.key.into(), described(one, field.help)),
    }
}

fn channel_of(kind: &'static ChannelKind) -> Value {
    let mut properties: Map<String, Value> = kind.common_fields().map(setting).collect();
    properties.extend(kind.fields.iter().map(setting));
    let words: Vec<_> = std::iter::once(kind.name).chain(kind.aliases.iter().copied()).collect();
    properties.insert("kind".into(), json!({ "enum": words }));
    let mut of = object(&[fields::CHANNEL], properties);
    if let Value::Object(of) = &mut of {
        of.insert("title".into(), kind.title.into());
        of.insert("required".into(), json!(["kind"]));
        // Keys such as "header.X-Key" may be written in one.
        let dotted = kind.fields.iter().filter_map(|field| field.key.strip_suffix(".NAME"));
        let dotted: Map<_, _> = dotted.map(|prefix| (format!("^{prefix}\\."), secret())).collect();
        of.insert("patternProperties".into(), dotted.into());
    }
    of
}

/// The schema.
pub fn schema() -> Value {
    let check = object(&[fields::CHECK, fields::CHECK_DEFAULTS], Map::new());
    let channels: Vec<_> = ChannelKind::ALL.into_iter().map(channel_of).collect();
    let parts = json!({
        "check": by_key(&check, "^[a-z0-9_-]{1,100}$|^[0-9A-F-]{36}$"),
        "channel": by_key(&json!({ "oneOf": channels }), "^.{0,100}$"),
        "window": by_key(&object(&[fields::WINDOW], Map::new()), "^.{0,100}$"),
        "key": by_key(&object(&[fields::KEY], Map::new()), "^.{1,100}$"),
    });
    let Value::Object(parts) = parts else { return parts };
    let defaults = object(&[fields::CHECK_DEFAULTS], Map::new());
    let more = json!({
        "version": { "const": VERSION, "description": "the version of the format" },
        "defaults": { "type": "object", "properties": { "check": defaults }, "additionalProperties": false },
        "project": by_key(&object(&[fields::PROJECT], parts), "^.{1,100}$"),
        "user": by_key(&object(&[fields::USER], Map::new()), "^.{1,100}$"),
    });
    let Value::Object(more) = more else { return more };
    let mut root = object(&[fields::ROOT], more);
    if let Value::Object(root) = &mut root {
        root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        root.insert("title".into(), "overdue: what there is to be".into());
        root.insert("required".into(), json!(["version"]));
    }
    root
}
