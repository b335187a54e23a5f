//! Objects as files have them: the fields that are not at their defaults, in the order in which people read them.

use crate::domain::channel::{ChannelKind, ChannelSettings, Form, Need};
use crate::domain::check::Settings;
use crate::domain::moment::Moment;
use crate::domain::text::{Failures, Keywords, Seconds, Tags};
use crate::domain::window::{Window, WindowTimes};

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Text.
    Text(Box<str>),
    /// A whole number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// Texts.
    List(Vec<Box<str>>),
    /// Text that is shown to nobody.
    Secret(Box<str>),
    /// The path of a file that holds a secret.
    Path(Box<str>),
    /// Fields of their own.
    Table(Fields),
}

/// Fields with their values.
pub type Fields = Vec<(Box<str>, Value)>;

impl Value {
    /// The value as a difference shows it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) if text.is_empty() || text.chars().any(char::is_control) => format!("{text:?}"),
            Self::Text(text) => text.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(items) => format!("[{}]", items.join(", ")),
            Self::Secret(_) => "(secret)".into(),
            Self::Path(path) => format!("the file {path}"),
            Self::Table(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name} = {}", value.shown())).collect();
                format!("{{ {} }}", fields.join(", "))
            }
        }
    }
}

/// What of an object differs: the name of each field, before and after. Of a secret only that it is another one is told.
pub fn differences(old: &Fields, new: &Fields) -> Vec<(Box<str>, Option<String>, Option<String>)> {
    let (old, new) = (flat(old), flat(new));
    let before = |name: &str| old.iter().find(|(other, _)| **other == *name).map(|(_, value)| *value);
    let changed = new.iter().filter(|(name, value)| before(name) != Some(*value)).map(|(name, value)| {
        let told = if matches!(value, Value::Secret(_)) && before(name).is_some() { "(changed)".into() } else { value.shown() };
        (name.clone(), before(name).map(Value::shown), Some(told))
    });
    let gone = old.iter().filter(|(name, _)| !new.iter().any(|(other, _)| other == name));
    changed.chain(gone.map(|(name, value)| (name.clone(), Some(value.shown()), None))).collect()
}

/// Fields of tables beside the others, with the name of the table before theirs.
fn flat(fields: &Fields) -> Vec<(Box<str>, &Value)> {
    let mut all = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Table(inner) => all.extend(inner.iter().map(|(key, value)| (format!("{name}.{key}").into(), value))),
            value => all.push((name.clone(), value)),
        }
    }
    all
}

/// Seconds as files have them, in the largest unit that divides them: `90s`, `15m`, `2h`, `1d`.
pub fn duration(seconds: i64) -> Box<str> {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let (name, unit) = units.into_iter().find(|(_, unit)| seconds % unit == 0).unwrap_or(("s", 1));
    format!("{}{name}", seconds / unit).into()
}

/// A moment as files have it: RFC 3339.
fn moment(at: Moment) -> Value {
    let mut text = String::new();
    if at.micros() % 1_000_000 == 0 {
        at.write_seconds(&mut text);
    } else {
        at.write_micros(&mut text);
    }
    Value::Text(text.into())
}

/// Parts that a separator parts; the text itself, if the parts would not give it back.
fn parts(text: &str, separator: &str) -> Value {
    let items: Vec<Box<str>> = text.split(separator).map(Box::from).collect();
    let is_plain = |item: &str| !item.is_empty() && item.trim() == item;
    if items.iter().all(|item| is_plain(item)) { Value::List(items) } else { Value::Text(text.into()) }
}

/// Tags: a list of them, or the text if that would not give it back.
pub fn tags(tags: &Tags) -> Value {
    parts(tags.as_str(), " ")
}

fn keywords(keywords: &Keywords) -> Value {
    parts(keywords.as_str(), ",")
}

/// The fields of a check: `channels` and `parents` are how those that it has are named. Its slug is not among them.
pub fn check(settings: &Settings, mut channels: Vec<Box<str>>, mut parents: Vec<Box<str>>) -> Fields {
    channels.sort();
    parents.sort();
    let mut fields = Fields::new();
    let mut put = |name: &str, value: Value| fields.push((name.into(), value));
    if settings.name.as_str() != settings.slug.as_str() {
        put("name", Value::Text(settings.name.as_str().into()));
    }
    match &settings.schedule {
        Some(schedule) => {
            put("schedule", Value::Text(schedule.text().into()));
            if settings.tz.name() != "UTC" {
                put("tz", Value::Text(settings.tz.name().into()));
            }
        }
        None => put("every", Value::Text(duration(settings.timeout.get()))),
    }
    if settings.grace != Seconds::HOUR {
        put("grace", Value::Text(duration(settings.grace.get())));
    }
    if !settings.tags.as_str().is_empty() {
        put("tags", tags(&settings.tags));
    }
    if !settings.desc.as_str().is_empty() {
        put("desc", Value::Text(settings.desc.as_str().into()));
    }
    if !channels.is_empty() {
        put("channels", Value::List(channels));
    }
    for (name, flag, value) in
        [("manual-resume", settings.manual_resume, Value::Flag(true)), ("methods", settings.post_only, Value::Text("POST".into()))]
    {
        if flag {
            put(name, value);
        }
    }
    let filter = filter(settings);
    if !filter.is_empty() {
        put("filter", Value::Table(filter));
    }
    let mut alert = Fields::new();
    if settings.after != Failures::ONE {
        alert.push(("after".into(), Value::Number(settings.after.get().into())));
    }
    if !parents.is_empty() {
        alert.push(("parents".into(), Value::List(parents)));
    }
    if !alert.is_empty() {
        put("alert", Value::Table(alert));
    }
    fields
}

fn filter(settings: &Settings) -> Fields {
    let on = settings.filters;
    let flags = [("subject", on.subject), ("body", on.body), ("http-body", on.http_body), ("default-fail", on.default_fail)];
    let flags = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| (name.into(), Value::Flag(true)));
    let words = [("start", &settings.start_kw), ("success", &settings.success_kw), ("failure", &settings.failure_kw)];
    let words = words.into_iter().filter(|(_, words)| !words.is_empty()).map(|(name, words)| (name.into(), keywords(words)));
    flags.chain(words).collect()
}

/// The fields of a channel, its kind first. Its name is not among them.
pub fn channel(settings: &ChannelSettings) -> Fields {
    let kind = settings.kind();
    let mut fields: Fields = vec![("kind".into(), Value::Text(kind.name.into()))];
    for (key, value) in settings.pairs() {
        if is_preset(kind, key, value) {
            continue;
        }
        match kind.file_key(key) {
            Some(of) => fields.push((of.into(), Value::Path(value.into()))),
            None if kind.is_secret(key) => fields.push((key.into(), Value::Secret(value.into()))),
            None => fields.push((key.into(), Value::Text(value.into()))),
        }
    }
    fields
}

/// Whether a value is what a key has that was left out.
fn is_preset(kind: &ChannelKind, key: &str, value: &str) -> bool {
    let preset = kind.fields.iter().find(|field| field.key == key);
    preset.is_some_and(|field| matches!(field.need, Need::Default(default) if default == value) && !matches!(field.form, Form::Header))
}

/// The fields of a maintenance window. Its name is not among them.
pub fn window(window_tags: &Tags, times: &WindowTimes) -> Fields {
    let mut fields = Fields::new();
    if !window_tags.as_str().is_empty() {
        fields.push(("tags".into(), tags(window_tags)));
    }
    match times {
        WindowTimes::Once { from, to } => {
            fields.push(("from".into(), moment(*from)));
            fields.push(("to".into(), moment(*to)));
        }
        WindowTimes::Recurring { schedule, tz, minutes } => {
            fields.push(("at".into(), Value::Text(schedule.text().into())));
            if tz.name() != "UTC" {
                fields.push(("tz".into(), Value::Text(tz.name().into())));
            }
            fields.push(("for".into(), Value::Text(duration(i64::from(*minutes) * 60))));
        }
    }
    fields
}

impl Window {
    /// Its fields in a file.
    pub fn fields(&self) -> Fields {
        window(&self.tags, &self.times)
    }
}
