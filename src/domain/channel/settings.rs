//! What a channel is set to: keys and values that the table of its kind took, once, when they came in.

use std::collections::BTreeMap;
use std::fmt;

use super::super::alert::Event;
use super::value;
use super::{ChannelKind, Form, Need};

/// What stands in place of a secret wherever settings are shown. Given back, it keeps the secret that is stored.
pub const MASK: &str = "***";

/// Keys that may fit one pattern, such as `header.NAME`: see [limits](crate::docs::limits).
const MOST_OF_A_PATTERN: usize = 64;

/// What a channel of some kind needs to notify. Its kind takes each value, and all of them together. What was left out has its default.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelSettings {
    kind: &'static ChannelKind,
    /// By key, in its one spelling.
    values: BTreeMap<Box<str>, Box<str>>,
}

impl ChannelSettings {
    /// Settings of a new channel, from keys and values as somebody gave them.
    ///
    /// # Errors
    /// For a key that the kind does not have or that comes twice, a missing one, a value that could not be sent, and [`MASK`] in
    /// place of a secret, since none is stored yet.
    pub fn parse<K, V>(kind: &'static ChannelKind, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        Self::read(kind, pairs)?.unmasked(None)
    }

    /// Settings that take the place of these. [`MASK`] as the value of a secret keeps what is stored, but only while every request
    /// goes to a server that has been given that secret before.
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse), and when a stored secret would go to another server.
    pub fn replaced<K, V>(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        Self::read(self.kind, pairs)?.unmasked(Some(self))
    }

    /// Settings from what [`pairs`](Self::pairs) gave, as the file keeps it.
    ///
    /// # Errors
    /// For a key that the kind does not have or that comes twice, a missing one, and a value that could not be sent.
    pub fn read<K, V>(kind: &'static ChannelKind, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let refused = |problem| SettingsError { kind, problem };
        let mut settings = Self { kind, values: BTreeMap::new() };
        for (key, value) in pairs {
            settings.insert(key.as_ref(), value.into()).map_err(refused)?;
        }
        settings.values.retain(|key, value| !value.is_empty() || !kind.field(key).is_some_and(|field| field.drops_empty()));
        settings.complete().map_err(refused)?;
        (kind.rule)(&settings).map_err(|problem| refused(problem.into()))?;
        Ok(settings)
    }

    fn insert(&mut self, key: &str, value: Box<str>) -> Result<(), String> {
        let Some(field) = self.kind.field(key) else {
            let keys: Vec<_> = self.kind.fields.iter().map(|field| field.key).collect();
            return Err(format!("there is no setting {key:?}; use {}", keys.join(", ")));
        };
        field.check(key, &value)?;
        let spelling = field.spelling(key);
        let case = if matches!(field.form, Form::Header) { ", upper and lower case being the same" } else { "" };
        match self.values.insert(spelling, value) {
            Some(_) => Err(format!("{key:?} is given twice{case}; give it once")),
            // A field without a pattern has one key, which comes once.
            None if self.values.keys().filter(|key| field.has_key(key)).count() > MOST_OF_A_PATTERN => {
                Err(format!("{} is given more than {MOST_OF_A_PATTERN} times; give fewer", field.key))
            }
            None => Ok(()),
        }
    }

    /// Gives what was left out its default, or refuses to do without it.
    fn complete(&mut self) -> Result<(), String> {
        for field in self.kind.fields {
            match field.need {
                _ if self.values.contains_key(field.key) => {}
                Need::Required => return Err(format!("{key} is missing; give {key}={}", field.placeholder(), key = field.key)),
                Need::Default { value, .. } => {
                    self.values.insert(field.key.into(), value(self).into());
                }
                Need::Optional => {}
            }
        }
        Ok(())
    }

    /// Puts stored secrets where their masks are.
    fn unmasked(mut self, stored: Option<&Self>) -> Result<Self, SettingsError> {
        let kind = self.kind;
        let refused = |problem| SettingsError { kind, problem };
        let elsewhere = stored.and_then(|stored| self.origins().find(|(_, origin)| !stored.origins().any(|(_, old)| old == *origin)));
        let elsewhere = elsewhere.map(|(key, _)| key.to_owned());
        for (key, value) in &mut self.values {
            if **value != *MASK || !kind.field(key).is_some_and(|field| field.is_secret()) {
                continue;
            }
            let Some(secret) = stored.and_then(|stored| stored.values.get(key)) else {
                return Err(refused(format!("{key:?} is {MASK}, which stands for a stored value, and none is stored; give the value")));
            };
            if let Some(url) = elsewhere {
                return Err(refused(format!("{url} names another server, which gets no stored secret; give {key:?} anew, not {MASK}")));
            }
            value.clone_from(secret);
        }
        Ok(self)
    }

    /// The servers that requests go to, with the keys that name them.
    fn origins(&self) -> impl Iterator<Item = (&str, String)> {
        let is_url = |key: &str| self.kind.field(key).is_some_and(|field| matches!(field.form, Form::Url));
        self.pairs().filter(move |(key, _)| is_url(key)).filter_map(|(key, url)| Some((key, value::origin(url)?)))
    }

    /// Whether a channel with these settings is told of an event.
    pub fn takes(&self, event: Event) -> bool {
        (self.kind.takes)(self, event)
    }

    /// The kind they are for.
    pub fn kind(&self) -> &'static ChannelKind {
        self.kind
    }

    /// The value of a key of the kind; `None` if it was left out.
    pub fn get(&self, key: &str) -> Option<&str> {
        debug_assert!(self.kind.field(key).is_some(), "{} has no field {key}", self.kind.name);
        self.values.get(key).map(|value| &**value)
    }

    /// All keys and values, secrets in the clear.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (&**key, &**value))
    }

    /// All keys and values as they may be shown, with [`MASK`] in place of secrets.
    pub fn masked(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_secret = |key: &str| self.kind.field(key).is_none_or(|field| field.is_secret());
        self.pairs().map(move |(key, value)| (key, if is_secret(key) { MASK } else { value }))
    }
}

/// Settings as somebody gave them, to take the place of those that a channel has then: see [`ChannelSettings::replaced`].
#[derive(Clone, PartialEq, Eq)]
pub struct GivenSettings(Vec<(String, String)>);

impl GivenSettings {
    /// Keys and values, of whatever kind.
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// All keys and values, secrets in the clear.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Without the values, some of which are secrets.
impl fmt::Debug for GivenSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenSettings(..)")
    }
}

/// Without the values, some of which are secrets.
impl fmt::Debug for ChannelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelSettings({}, ..)", self.kind.name)
    }
}

/// Why settings were refused and what to do. Values are not repeated, since they may be secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError {
    kind: &'static ChannelKind,
    problem: String,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings of kind {}: {}", self.kind.name, self.problem)
    }
}

impl std::error::Error for SettingsError {}
