//! What a channel is set to: keys and values that the table of its kind took, once, when they came in.

mod error;
mod validation;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use error::SettingsError;

use super::field_value;
use super::{ChannelClass, ChannelKind, CommonSettings, FieldType, Requirement, SettingField};
use crate::domain::alert::AlertEvent;

/// What stands in place of a secret wherever settings are shown. Given back, it keeps the secret that is stored.
pub const MASK: &str = "***";

/// Keys that may fit one pattern, such as `header.NAME`: see [limits](crate::docs::limits).
const MAX_KEYS_PER_PATTERN: usize = 64;

/// What a channel of some kind needs to notify. Its kind takes each value, and all of them together. What was left out has its default.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelSettings {
    kind: &'static ChannelKind,
    /// By key, in its one spelling.
    values: BTreeMap<Box<str>, Box<str>>,
    /// What the values of many kinds mean.
    common: Box<CommonSettings>,
}

/// Who gives settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingsAuthor {
    /// Whoever has the server: the command line, the admin door, files.
    Operator,
    /// Whoever has a key of the API or an account.
    Api,
}

impl ChannelSettings {
    /// Settings of a new channel, from keys and values as somebody gave them.
    ///
    /// # Errors
    /// For a key that the kind does not have or that comes twice, a missing one, a value that could not be sent or that its service
    /// cannot have given, and [`MASK`] in place of a secret, since none is stored yet.
    pub fn parse<K, V>(kind: &'static ChannelKind, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let settings = Self::parse_any_format(kind, pairs)?;
        settings.check_formats(None)?;
        Ok(settings)
    }

    /// The same whatever the values look like: for what was made elsewhere, and for files, which may say what is stored.
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse) but for values that their service cannot have given.
    pub fn parse_any_format<K, V>(kind: &'static ChannelKind, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        Self::from_stored(kind, pairs)?.restore_masked(None)
    }

    /// Settings that take the place of these. [`MASK`] as the value of a secret keeps what is stored, but only while every request
    /// goes to the server that it went to before, or to the only one there was.
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse), and when a stored secret would go to another server.
    pub fn replace_with<K, V>(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let settings = Self::from_stored(self.kind, pairs)?.restore_masked(Some(self))?;
        settings.check_formats(Some(self))?;
        // What was made before more was asked may be saved again.
        if settings == *self { Ok(settings) } else { settings.require_complete() }
    }

    /// Settings from what [`pairs`](Self::pairs) gave, as the file keeps it.
    ///
    /// # Errors
    /// For a key that the kind does not have or that comes twice, a missing one, and a value that could not be sent. What is
    /// [needed to deliver](Need::ToDeliver) alone may be missing.
    pub fn from_stored<K, V>(kind: &'static ChannelKind, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let settings = Self::from_incomplete(kind, pairs)?;
        let required = kind.fields.iter().find(|field| matches!(field.requirement, Requirement::Required) && !settings.has_field(field));
        let problem = match required {
            Some(field) => missing_message(field),
            None => match (kind.validate)(&settings) {
                Ok(()) => return Ok(settings),
                Err(problem) => problem.into(),
            },
        };
        Err(SettingsError { kind, problem })
    }

    /// Settings of a channel that was imported without some of what its kind needs, or from what the file keeps of any.
    ///
    /// # Errors
    /// For a key that the kind does not have or that comes twice, and a value that could not be sent. Whatever is missing may be.
    pub fn from_incomplete<K, V>(kind: &'static ChannelKind, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let refused = |problem| SettingsError { kind, problem };
        let mut settings = Self { kind, values: BTreeMap::new(), common: Box::new(CommonSettings::DEFAULTS) };
        for (key, value) in pairs {
            settings.insert(key.as_ref(), value.into()).map_err(refused)?;
        }
        settings.values.retain(|key, value| !value.is_empty() || !kind.find_field(key).is_some_and(|(field, _)| field.ignores_empty()));
        settings.fill_defaults();
        *settings.common = CommonSettings::from_settings(&settings);
        Ok(settings)
    }

    fn insert(&mut self, key: &str, value: Box<str>) -> Result<(), String> {
        let Some((field, file)) = self.kind.find_field(key) else {
            let keys = self.kind.fields.iter().chain(self.kind.common_fields()).map(|field| field.key);
            return Err(format!("there is no setting {key:?}; use {}", keys.collect::<Vec<_>>().join(", ")));
        };
        if file {
            field_value::check_path(&value).map_err(|problem| format!("{key} {problem}"))?;
        } else {
            field.check_value(key, &value)?;
        }
        let spelling = field.canonical_key(key);
        let case = if matches!(field.field_type, FieldType::Header) { ", upper and lower case being the same" } else { "" };
        match self.values.insert(spelling, value) {
            Some(_) => Err(format!("{key:?} is given twice{case}; give it once")),
            // A field without a pattern has one key, which comes once.
            _ if field.key_prefix().is_none() => Ok(()),
            None if self.values.keys().filter(|key| field.has_key(key)).count() > MAX_KEYS_PER_PATTERN => {
                Err(format!("{} is given more than {MAX_KEYS_PER_PATTERN} times; give fewer", field.key))
            }
            None => Ok(()),
        }
    }

    /// Gives what was left out its default, if it has one.
    fn fill_defaults(&mut self) {
        for field in self.kind.fields {
            match field.requirement {
                _ if self.has_field(field) => {}
                Requirement::Default(value) => {
                    self.values.insert(field.key.into(), value.into());
                }
                Requirement::Derived { value, .. } => {
                    self.values.insert(field.key.into(), value(self).into());
                }
                Requirement::Optional | Requirement::Required | Requirement::RequiredToDeliver => {}
            }
        }
    }

    /// Whether the field has a value, or a file that holds it.
    fn has_field(&self, field: &SettingField) -> bool {
        self.values.keys().any(|key| field.has_key(key) || field.has_file_key(key))
    }

    /// Whether a key, or the file that holds its value, was given.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.kind.find_field(key).is_some_and(|(field, _)| self.has_field(field))
    }

    /// What is missing to deliver anything; `None`: nothing. Only channels that were made before more was asked, or imported without all,
    /// lack something.
    pub fn missing_setting(&self) -> Option<String> {
        let is_needed = |field: &&SettingField| matches!(field.requirement, Requirement::Required | Requirement::RequiredToDeliver);
        self.kind.fields.iter().filter(is_needed).find(|field| !self.has_field(field)).map(missing_message)
    }

    /// True if a channel could be made with these settings today.
    pub fn is_complete(&self) -> bool {
        self.missing_setting().is_none() && Self::from_stored(self.kind, self.pairs()).is_ok()
    }

    /// These settings, unless something is missing to deliver anything.
    fn require_complete(self) -> Result<Self, SettingsError> {
        self.missing_setting().map_or(Ok(()), |problem| Err(SettingsError { kind: self.kind, problem }))?;
        Ok(self)
    }

    /// Refuses what not everybody may set: commands, files of the server, and certificates in place of the known authorities.
    ///
    /// # Errors
    /// When the API gives what only the operator may.
    pub fn check_author(&self, maker: SettingsAuthor) -> Result<(), SettingsError> {
        let refused = |problem| Err(SettingsError { kind: self.kind, problem });
        if maker == SettingsAuthor::Operator {
            return Ok(());
        }
        if self.kind.operator_only {
            return refused("only the operator of the server makes such a channel; use overdue channel create".into());
        }
        let is_kept = |key: &&str| self.kind.find_field(key).is_some_and(|(field, file)| file || field.is_operator_only());
        match self.pairs().map(|(key, _)| key).find(is_kept) {
            Some(key) => refused(format!("{key} is set by the operator of the server alone; leave it out, or use overdue channel set")),
            None => Ok(()),
        }
    }

    /// Puts stored secrets where their masks are.
    fn restore_masked(mut self, stored: Option<&Self>) -> Result<Self, SettingsError> {
        let kind = self.kind;
        let refused = |problem| SettingsError { kind, problem };
        let elsewhere = stored.and_then(|stored| self.origins().find(|(key, origin)| !stored.already_sends_to(key, origin)));
        let elsewhere = elsewhere.map(|(key, _)| key.to_owned());
        for (key, value) in &mut self.values {
            let Some((field, false)) = kind.find_field(key) else { continue };
            let Some(mask) = mask_value(field, value).filter(|mask| **mask == **value) else { continue };
            let Some(secret) = stored.and_then(|stored| stored.values.get(key)) else {
                return Err(refused(format!("{key:?} is {mask}, which stands for a stored value, and none is stored; give the value")));
            };
            if let Some(url) = elsewhere {
                return Err(refused(format!("{url} names another server, which gets no stored secret; give {key:?} anew, not {mask}")));
            }
            value.clone_from(secret);
        }
        Ok(self)
    }

    /// The servers that requests go to, with the keys that name them.
    fn origins(&self) -> impl Iterator<Item = (&str, String)> {
        let is_url = |key: &str| matches!(self.kind.find_field(key), Some((field, false)) if field.is_url());
        self.pairs().filter(move |(key, _)| is_url(key)).filter_map(|(key, url)| Some((key, field_value::url_origin(url)?)))
    }

    /// Whether the requests of this key go to that server, or all requests do: then it has been given every secret.
    fn already_sends_to(&self, key: &str, origin: &str) -> bool {
        self.origins().any(|(own, to)| own == key && to == origin)
            || (self.origins().next().is_some() && self.origins().all(|(_, to)| to == origin))
    }

    /// The kind they are for.
    pub fn kind(&self) -> &'static ChannelKind {
        self.kind
    }

    /// The value of a key of the kind; `None` if it was left out.
    pub fn get(&self, key: &str) -> Option<&str> {
        debug_assert!(self.kind.find_field(key).is_some(), "{} has no field {key}", self.kind.name);
        self.value(key)
    }

    /// The value of a key that the kind may or may not have.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|value| &**value)
    }

    /// The parts of a list.
    pub fn items(&self, key: &str) -> impl Iterator<Item = &str> {
        self.get(key).into_iter().flat_map(field_value::split_list)
    }

    /// A number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// Whether a flag is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key) == Some("on")
    }

    /// The settings that many kinds have.
    pub fn common(&self) -> &CommonSettings {
        &self.common
    }

    /// Whether a channel that is set so does something at such an event.
    pub fn handles_event(&self, event: AlertEvent) -> bool {
        let of_class = match event {
            AlertEvent::Down | AlertEvent::Up => self.kind.class != ChannelClass::Group,
            AlertEvent::Closed => self.kind.class == ChannelClass::Incident,
            AlertEvent::StillDown | AlertEvent::Notice => self.kind.class == ChannelClass::People,
            AlertEvent::Test => return self.kind.class != ChannelClass::Group,
        };
        of_class && self.common.allows(event) && !(self.kind.ignores_event)(self, event)
    }

    /// The keys of secrets that lie in files, with the paths of the files.
    pub fn secret_files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.pairs().filter_map(|(key, path)| match self.kind.find_field(key) {
            Some((field, true)) => Some((field.key, path)),
            _ => None,
        })
    }

    /// These settings with another value for one key, such as a secret that was read from its file.
    ///
    /// # Errors
    /// When the kind does not take the value.
    pub fn with_value(&self, key: &str, value: &str) -> Result<Self, SettingsError> {
        let others = self.pairs().filter(|(other, _)| *other != key && other.strip_suffix("-file") != Some(key));
        Self::from_stored(self.kind, others.chain([(key, value)]))
    }

    /// These settings with another list for one key; without the key if the list is empty.
    pub(super) fn with_list(&self, key: &str, items: &[String]) -> Self {
        let mut settings = self.clone();
        match items {
            [] => settings.values.remove(key),
            items => settings.values.insert(key.into(), items.join(",").into()),
        };
        settings
    }

    /// The error for settings of this kind.
    pub(super) fn error(&self, problem: String) -> SettingsError {
        SettingsError { kind: self.kind, problem }
    }

    /// The URLs that requests go to.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.pairs().filter(|(key, _)| matches!(self.kind.find_field(key), Some((field, false)) if field.is_url())).map(|(_, url)| url)
    }

    /// The first setting that says where alerts go, as lists show it: of a URL its origin alone, since the rest may be all that it takes to
    /// send. Those who may not change the channel see nothing else but mail addresses and phone numbers: a topic or a command may hold a
    /// secret.
    pub fn destination(&self, may_write: bool) -> Option<Cow<'_, str>> {
        self.kind.fields.iter().find_map(|field| {
            let value = self.values.get(field.key)?;
            let is_open =
                may_write && !field.is_secret() || matches!(field.field_type, FieldType::MailAddresses(_) | FieldType::PhoneNumber);
            match field.is_url() {
                true => field_value::url_origin(value).map(Cow::Owned),
                false => is_open.then_some(Cow::Borrowed(&**value)),
            }
        })
    }

    /// The values that must be shown to nobody.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.pairs()
            .filter(|(key, _)| matches!(self.kind.find_field(key), Some((field, false)) if field.is_secret()))
            .map(|(_, value)| value)
    }

    /// All keys and values, secrets in the clear.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (&**key, &**value))
    }

    /// All keys and values as they may be shown, with [`MASK`] in place of secrets.
    pub fn masked(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.pairs().map(move |(key, value)| match self.kind.find_field(key) {
            Some((field, false)) => (key, mask_value(field, value).unwrap_or(Cow::Borrowed(value))),
            Some((_, true)) => (key, value.into()),
            None => (key, MASK.into()),
        })
    }
}

/// Settings as somebody gave them, to take the place of all that a channel has then, or of those with the same keys.
#[derive(Clone, PartialEq, Eq)]
pub struct SettingsUpdate {
    pairs: Vec<(String, String)>,
    /// What is not among them stays.
    keeps_others: bool,
}

impl SettingsUpdate {
    /// Keys and values, of whatever kind, in place of all that there are.
    pub fn replace_all(pairs: Vec<(String, String)>) -> Self {
        Self { pairs, keeps_others: false }
    }

    /// Keys and values, of whatever kind, beside those that there are of other keys.
    pub fn merge(pairs: Vec<(String, String)>) -> Self {
        Self { pairs, keeps_others: true }
    }

    /// The settings that come of `from_incomplete`.
    ///
    /// # Errors
    /// As those of [`ChannelSettings::replace_with`]: what stays is as if it had been given again, secrets masked.
    pub fn apply_to(&self, stored: &ChannelSettings) -> Result<ChannelSettings, SettingsError> {
        // A secret and the file that holds it take each other's place.
        let place = |key: &str| match stored.kind.find_field(key) {
            Some((field, true)) => Some(field.key.into()),
            Some((field, false)) => Some(field.canonical_key(key)),
            None => None,
        };
        let given: BTreeSet<_> = self.pairs.iter().filter_map(|(key, _)| place(key)).collect();
        let stays = |key: &str| self.keeps_others && place(key).is_none_or(|place| !given.contains(&place));
        let kept = stored.masked().filter(|(key, _)| stays(key)).map(|(key, value)| (key, value.into_owned()));
        stored.replace_with(kept.chain(self.pairs.iter().map(|(key, value)| (key.as_str(), value.clone()))))
    }

    /// All keys and values, secrets in the clear.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Without the values, some of which are secrets.
impl fmt::Debug for SettingsUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenSettings(..)")
    }
}

/// What is shown in place of a value; `None`: the value itself.
fn mask_value(field: &SettingField, value: &str) -> Option<Cow<'static, str>> {
    match field.field_type {
        FieldType::SecretUrl => Some(field_value::url_origin(value).map_or(MASK.into(), |origin| format!("{origin}/{MASK}").into())),
        _ if field.is_secret() => Some(MASK.into()),
        _ => None,
    }
}

fn missing_message(field: &SettingField) -> String {
    format!("{key} is missing; give {key}={}", field.placeholder(), key = field.key)
}

/// Without the values, some of which are secrets.
impl fmt::Debug for ChannelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelSettings({}, ..)", self.kind.name)
    }
}
