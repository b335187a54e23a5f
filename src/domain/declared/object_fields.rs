//! Objects as configuration files show them: the fields that differ from their defaults, in the
//! order in which people read them.

use crate::domain::channel::{ChannelKind, ChannelSettings, Requirement, SettingFieldType};
use crate::domain::check::CheckSettings;
use crate::domain::check_edit::field_value::{CheckFieldType, CheckFieldValue};
use crate::domain::check_edit::fields::{self, CheckField};
use crate::domain::formatting::format_seconds;
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes};
use crate::domain::number::FailureThreshold;
use crate::domain::text::Tags;
use crate::domain::timestamp::Timestamp;

/// Value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectValue {
    /// Text.
    Text(Box<str>),
    /// Whole number.
    Number(i64),
    /// Boolean value.
    Flag(bool),
    /// List of texts.
    List(Vec<Box<str>>),
    /// Text that must not be shown.
    Secret(Box<str>),
    /// Path of a file that holds a secret.
    Path(Box<str>),
    /// Nested table.
    Table(ObjectFields),
}

/// Fields with their values.
pub type ObjectFields = Vec<(Box<str>, ObjectValue)>;

impl ObjectValue {
    /// Value as a difference shows it.
    pub fn display_text(&self) -> String {
        match self {
            Self::Text(text) if text.is_empty() || text.chars().any(char::is_control) => {
                format!("{text:?}")
            }
            Self::Text(text) => text.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(items) => format!("[{}]", items.join(", ")),
            Self::Secret(_) => "(secret)".into(),
            Self::Path(path) => format!("the file {path}"),
            Self::Table(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| format!("{name} = {}", value.display_text()))
                    .collect();
                format!("{{ {} }}", fields.join(", "))
            }
        }
    }
}

/// Returns the fields that differ: the name of each field, before and after. For a secret, only the
/// fact that it changed is shown.
pub fn diff_fields(
    old: &ObjectFields,
    new: &ObjectFields,
) -> Vec<(Box<str>, Option<String>, Option<String>)> {
    let old = flatten_tables(old);
    let new = flatten_tables(new);
    let old_value = |name: &str| {
        old.iter()
            .find(|(other, _)| **other == *name)
            .map(|(_, value)| *value)
    };
    let changed = new
        .iter()
        .filter(|(name, value)| old_value(name) != Some(*value))
        .map(|(name, value)| {
            let new_text = if matches!(value, ObjectValue::Secret(_)) && old_value(name).is_some() {
                "(changed)".into()
            } else {
                value.display_text()
            };
            (
                name.clone(),
                old_value(name).map(ObjectValue::display_text),
                Some(new_text),
            )
        });
    let removed = old
        .iter()
        .filter(|(name, _)| !new.iter().any(|(other, _)| other == name));
    changed
        .chain(removed.map(|(name, value)| (name.clone(), Some(value.display_text()), None)))
        .collect()
}

/// Flattens nested tables: the name of the table precedes the names of its fields.
fn flatten_tables(fields: &ObjectFields) -> Vec<(Box<str>, &ObjectValue)> {
    let mut all = Vec::new();
    for (name, value) in fields {
        match value {
            ObjectValue::Table(inner) => all.extend(
                inner
                    .iter()
                    .map(|(key, value)| (format!("{name}.{key}").into(), value)),
            ),
            value => all.push((name.clone(), value)),
        }
    }
    all
}

/// Formats a time as in files: RFC 3339.
fn timestamp_value(at: Timestamp) -> ObjectValue {
    let mut text = String::new();
    if at.micros() % 1_000_000 == 0 {
        at.write_rfc3339_secs(&mut text);
    } else {
        at.write_rfc3339_micros(&mut text);
    }
    ObjectValue::Text(text.into())
}

/// Splits a text into a list, or returns the text itself if the list would not reproduce it.
fn list_or_text(text: &str, separator: &str) -> ObjectValue {
    let items: Vec<Box<str>> = text.split(separator).map(Box::from).collect();
    let is_plain = |item: &str| !item.is_empty() && item.trim() == item;
    if items.iter().all(|item| is_plain(item)) {
        ObjectValue::List(items)
    } else {
        ObjectValue::Text(text.into())
    }
}

/// Tags as a list, or as text if a list would not reproduce them.
pub fn tags_value(tags: &Tags) -> ObjectValue {
    list_or_text(tags.as_str(), " ")
}

/// Value of a field of a check as files show it. `None` if it is the default.
fn check_field_value(field: &CheckField, settings: &CheckSettings) -> Option<ObjectValue> {
    let value = field.used_value(settings)?;
    // The period is always shown.
    if field.name != fields::TIMEOUT.name
        && field.value(&CheckSettings::default()).as_ref() == Some(&value)
    {
        return None;
    }
    Some(match (value, field.field_type) {
        (CheckFieldValue::Flag(flag), _) => ObjectValue::Flag(flag),
        (CheckFieldValue::Number(seconds), CheckFieldType::Duration { .. }) => {
            ObjectValue::Text(format_seconds(seconds).into())
        }
        (CheckFieldValue::Number(number), _) => ObjectValue::Number(number),
        (CheckFieldValue::Text(text), CheckFieldType::Words { separator, .. }) => {
            list_or_text(&text, separator)
        }
        (CheckFieldValue::Text(text), _) => ObjectValue::Text(text.into()),
    })
}

/// Fields of a check without its slug. `channels` and `parents` are the names of its channels and
/// parents.
pub fn check_fields(
    settings: &CheckSettings,
    mut channels: Vec<Box<str>>,
    mut parents: Vec<Box<str>>,
) -> ObjectFields {
    channels.sort();
    parents.sort();
    let list = |items: Vec<_>| (!items.is_empty()).then_some(ObjectValue::List(items));
    let table = |fields: ObjectFields| (!fields.is_empty()).then_some(ObjectValue::Table(fields));
    let name = Some(settings.name.as_str()).filter(|name| *name != settings.slug.as_str());
    let threshold = Some(settings.failure_threshold).filter(|of| *of != FailureThreshold::ONE);
    let alert = present_fields([
        (
            "after",
            threshold.map(|number| ObjectValue::Number(number.get().into())),
        ),
        ("parents", list(parents)),
    ]);
    let value_of = |field: &CheckField| (field.config_key, check_field_value(field, settings));
    let filter = present_fields(fields::CONFIG_FILTER_FIELDS.map(value_of));
    let mut channels = list(channels);
    let own_fields = fields::CONFIG_FIELDS.map(|field| match field.field_type {
        CheckFieldType::Channels => (field.config_key, channels.take()),
        _ => value_of(field),
    });
    let mut shown = present_fields([("name", name.map(|name| ObjectValue::Text(name.into())))]);
    shown.extend(present_fields(own_fields));
    shown.extend(present_fields([
        ("filter", table(filter)),
        ("alert", table(alert)),
    ]));
    shown
}

/// Fields that have a value.
fn present_fields<const N: usize>(
    fields: [(&'static str, Option<ObjectValue>); N],
) -> ObjectFields {
    let present = |(name, value): (&str, Option<_>)| Some((name.into(), value?));
    fields.into_iter().filter_map(present).collect()
}

/// Fields of a channel without its name, its kind first.
pub fn channel_fields(settings: &ChannelSettings) -> ObjectFields {
    let kind = settings.kind();
    let mut fields: ObjectFields = vec![("kind".into(), ObjectValue::Text(kind.name.into()))];
    for (key, value) in settings.pairs() {
        if is_default_value(kind, key, value) {
            continue;
        }
        match kind.secret_key_of_file(key) {
            Some(of) => fields.push((of.into(), ObjectValue::Path(value.into()))),
            None if kind.is_secret(key) => {
                fields.push((key.into(), ObjectValue::Secret(value.into())));
            }
            None => fields.push((key.into(), ObjectValue::Text(value.into()))),
        }
    }
    fields
}

/// True if the value equals the default of the key.
fn is_default_value(kind: &ChannelKind, key: &str, value: &str) -> bool {
    let preset = kind.fields.iter().find(|field| field.key == key);
    preset.is_some_and(|field| {
        matches!(field.requirement, Requirement::Default(default) if default == value)
            && !matches!(field.field_type, SettingFieldType::Header)
    })
}

/// Fields of a maintenance window without its name.
pub fn window_fields(window_tags: &Tags, times: &WindowTimes) -> ObjectFields {
    let mut fields = ObjectFields::new();
    if !window_tags.as_str().is_empty() {
        fields.push(("tags".into(), tags_value(window_tags)));
    }
    match times {
        WindowTimes::Once { from, to } => {
            fields.push(("from".into(), timestamp_value(*from)));
            fields.push(("to".into(), timestamp_value(*to)));
        }
        WindowTimes::Recurring {
            schedule,
            tz,
            minutes,
        } => {
            fields.push(("at".into(), ObjectValue::Text(schedule.text().into())));
            if tz.name() != "UTC" {
                fields.push(("tz".into(), ObjectValue::Text(tz.name().into())));
            }
            fields.push((
                "for".into(),
                ObjectValue::Text(format_seconds(i64::from(*minutes) * 60).into()),
            ));
        }
    }
    fields
}

impl MaintenanceWindow {
    /// Fields of the window in a file.
    pub fn fields(&self) -> ObjectFields {
        window_fields(&self.tags, &self.times)
    }
}
