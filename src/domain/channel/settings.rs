//! Settings of a channel: keys and values that were validated against the table of its kind.

mod error;
mod validation;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use error::SettingsError;

use super::field_value;
use super::{
    ChannelClass, ChannelKind, CommonSettings, Requirement, SettingField, SettingFieldType,
};
use crate::domain::alert::AlertEvent;

/// Mask shown in place of a secret. If a client sends it back, the stored secret is kept.
pub const MASK: &str = "***";

/// Maximum number of keys for one pattern, such as `header.NAME`: see
/// [limits](crate::docs::limits).
const MAX_KEYS_PER_PATTERN: usize = 64;

/// Settings of a channel of some kind. Each value and all of them together are valid for the kind.
/// Values that were left out have their defaults.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelSettings {
    kind: &'static ChannelKind,
    /// Values by canonical key.
    values: BTreeMap<Box<str>, Box<str>>,
    /// Parsed values of settings that many kinds share.
    common: Box<CommonSettings>,
}

/// Author of settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingsAuthor {
    /// Operator of the server: the command line, the admin socket, configuration files.
    Operator,
    /// Client with an API key, or user of the dashboard.
    Api,
}

impl ChannelSettings {
    /// Parses the settings of a new channel from keys and values.
    ///
    /// # Errors
    /// For an unknown, duplicate or missing key; for a value that could not be sent or that its
    /// service cannot have issued; and for [`MASK`] in place of a secret, since none is stored yet.
    pub fn parse<K, V>(
        kind: &'static ChannelKind,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let settings = Self::parse_any_format(kind, pairs)?;
        settings.validate_formats(None)?;
        Ok(settings)
    }

    /// Parses settings without the format checks: for settings of another server, and for files,
    /// which may contain stored values.
    ///
    /// # Errors
    /// Like [`parse`](Self::parse), except for values that their service cannot have issued.
    pub fn parse_any_format<K, V>(
        kind: &'static ChannelKind,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        Self::from_stored(kind, pairs)?.restore_masked(None)
    }

    /// Parses settings that replace these. [`MASK`] as the value of a secret keeps the stored
    /// value, but only if each request still goes to the same server as before, or to the only
    /// server there was.
    ///
    /// # Errors
    /// Like [`parse`](Self::parse), and if a stored secret would go to another server.
    pub fn replace_with<K, V>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let settings = Self::from_stored(self.kind, pairs)?.restore_masked(Some(self))?;
        settings.validate_formats(Some(self))?;
        // A channel that was created before more settings were required may be saved unchanged.
        if settings == *self {
            Ok(settings)
        } else {
            settings.require_complete()
        }
    }

    /// Reads settings from the output of [`pairs`](Self::pairs), as the file stores it.
    ///
    /// # Errors
    /// For an unknown, duplicate or missing key, and for a value that could not be sent. Settings
    /// that are only [required to deliver](Requirement::RequiredToDeliver) may be missing.
    pub fn from_stored<K, V>(
        kind: &'static ChannelKind,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let settings = Self::from_incomplete(kind, pairs)?;
        let required = kind.fields.iter().find(|field| {
            matches!(field.requirement, Requirement::Required) && !settings.has_field(field)
        });
        let problem = match required {
            Some(field) => missing_message(field),
            None => match (kind.validate)(&settings) {
                Ok(()) => return Ok(settings),
                Err(problem) => problem.into(),
            },
        };
        Err(SettingsError { kind, problem })
    }

    /// Reads settings of an imported channel that may lack some that its kind needs, or stored
    /// settings of any channel.
    ///
    /// # Errors
    /// For an unknown or duplicate key, and for a value that could not be sent. Missing settings
    /// are no error.
    pub fn from_incomplete<K, V>(
        kind: &'static ChannelKind,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError>
    where
        K: AsRef<str>,
        V: Into<Box<str>>,
    {
        let refused = |problem| SettingsError { kind, problem };
        let mut settings = Self {
            kind,
            values: BTreeMap::new(),
            common: Box::new(CommonSettings::DEFAULTS),
        };
        for (key, value) in pairs {
            settings
                .insert(key.as_ref(), value.into())
                .map_err(refused)?;
        }
        settings.values.retain(|key, value| {
            !value.is_empty()
                || !kind
                    .find_field(key)
                    .is_some_and(|(field, _)| field.ignores_empty())
        });
        settings.fill_defaults();
        *settings.common = CommonSettings::from_settings(&settings);
        Ok(settings)
    }

    fn insert(&mut self, key: &str, value: Box<str>) -> Result<(), String> {
        let Some((field, file)) = self.kind.find_field(key) else {
            let keys = self
                .kind
                .fields
                .iter()
                .chain(self.kind.common_fields())
                .map(|field| field.key);
            return Err(format!(
                "there is no setting {key:?}; use {}",
                keys.collect::<Vec<_>>().join(", ")
            ));
        };
        if file {
            field_value::validate_path(&value).map_err(|problem| format!("{key} {problem}"))?;
        } else {
            field.validate_value(key, &value)?;
        }
        let spelling = field.canonical_key(key);
        let case = if matches!(field.field_type, SettingFieldType::Header) {
            ", since case is ignored"
        } else {
            ""
        };
        match self.values.insert(spelling, value) {
            Some(_) => Err(format!("{key:?} is given twice{case}; give it once")),
            // A field without a pattern has one key, which occurs once.
            _ if field.key_prefix().is_none() => Ok(()),
            None if self.values.keys().filter(|key| field.has_key(key)).count()
                > MAX_KEYS_PER_PATTERN =>
            {
                Err(format!(
                    "{} is given more than {MAX_KEYS_PER_PATTERN} times; give fewer",
                    field.key
                ))
            }
            None => Ok(()),
        }
    }

    /// Sets the defaults of settings that were left out.
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

    /// True if the field has a value, or a file that holds it.
    fn has_field(&self, field: &SettingField) -> bool {
        self.values
            .keys()
            .any(|key| field.has_key(key) || field.has_file_key(key))
    }

    /// True if the key, or the file that holds its value, was given.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.kind
            .find_field(key)
            .is_some_and(|(field, _)| self.has_field(field))
    }

    /// Error message for a missing setting that delivery needs; `None` if it has all. Only channels
    /// that were created before it was required, or imported without it, lack one.
    pub fn missing_setting(&self) -> Option<String> {
        let is_needed = |field: &&SettingField| {
            matches!(
                field.requirement,
                Requirement::Required | Requirement::RequiredToDeliver
            )
        };
        self.kind
            .fields
            .iter()
            .filter(is_needed)
            .find(|field| !self.has_field(field))
            .map(missing_message)
    }

    /// True if a channel could be created with these settings today.
    pub fn is_complete(&self) -> bool {
        self.missing_setting().is_none() && Self::from_stored(self.kind, self.pairs()).is_ok()
    }

    /// Returns the settings, or an error if a setting that delivery needs is missing.
    fn require_complete(self) -> Result<Self, SettingsError> {
        self.missing_setting().map_or(Ok(()), |problem| {
            Err(SettingsError {
                kind: self.kind,
                problem,
            })
        })?;
        Ok(self)
    }

    /// Rejects settings that only the operator may give: commands, files of the server, and
    /// certificates in place of the known authorities.
    ///
    /// # Errors
    /// If the author is the API and such a setting is given.
    pub fn validate_author(&self, author: SettingsAuthor) -> Result<(), SettingsError> {
        let refused = |problem| {
            Err(SettingsError {
                kind: self.kind,
                problem,
            })
        };
        if author == SettingsAuthor::Operator {
            return Ok(());
        }
        if self.kind.operator_only {
            return refused(
                "only the operator of the server may create such a channel; use overdue channel \
                 create"
                    .into(),
            );
        }
        let mut keys = self.pairs().map(|(key, _)| key);
        match keys.find(|key| self.kind.is_operator_key(key)) {
            Some(key) => refused(format!(
                "{key} may be set only by the operator of the server; leave it out, or use overdue \
                 channel set"
            )),
            None => Ok(()),
        }
    }

    /// Replaces masks by the stored secrets.
    fn restore_masked(mut self, stored: Option<&Self>) -> Result<Self, SettingsError> {
        let kind = self.kind;
        let rejected = |problem| SettingsError { kind, problem };
        let other_server = stored.and_then(|stored| {
            self.origins()
                .find(|(key, origin)| !stored.already_sends_to(key, origin))
        });
        let other_server = other_server.map(|(key, _)| key.to_owned());
        for (key, value) in &mut self.values {
            let Some((field, false)) = kind.find_field(key) else {
                continue;
            };
            let Some(mask) = mask_value(field, value).filter(|mask| **mask == **value) else {
                continue;
            };
            let Some(secret) = stored.and_then(|stored| stored.values.get(key)) else {
                return Err(rejected(format!(
                    "{key:?} is {mask}, which stands for a stored value, but none is stored; give \
                     the value"
                )));
            };
            if let Some(url) = other_server {
                return Err(rejected(format!(
                    "{url} names another server, which must not receive stored secrets; give the \
                     value of {key:?} instead of {mask}"
                )));
            }
            value.clone_from(secret);
        }
        Ok(self)
    }

    /// Servers that requests go to, with the keys that name them.
    fn origins(&self) -> impl Iterator<Item = (&str, String)> {
        let is_url =
            |key: &str| matches!(self.kind.find_field(key), Some((field, false)) if field.is_url());
        self.pairs()
            .filter(move |(key, _)| is_url(key))
            .filter_map(|(key, url)| Some((key, field_value::url_origin(url)?)))
    }

    /// True if the requests of this key already go to that server, or all requests do. Then the
    /// server has received every secret.
    fn already_sends_to(&self, key: &str, origin: &str) -> bool {
        self.origins().any(|(own, to)| own == key && to == origin)
            || (self.origins().next().is_some() && self.origins().all(|(_, to)| to == origin))
    }

    /// Kind of the channel.
    pub fn kind(&self) -> &'static ChannelKind {
        self.kind
    }

    /// Value of a key of the kind; `None` if it was left out.
    pub fn get(&self, key: &str) -> Option<&str> {
        debug_assert!(
            self.kind.find_field(key).is_some(),
            "{} has no field {key}",
            self.kind.name
        );
        self.value(key)
    }

    /// Value of a key that the kind need not have.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|value| &**value)
    }

    /// Items of a list.
    pub fn items(&self, key: &str) -> impl Iterator<Item = &str> {
        self.get(key).into_iter().flat_map(field_value::split_list)
    }

    /// Value as a number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// True if a flag is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key) == Some("on")
    }

    /// Settings that many kinds share.
    pub fn common(&self) -> &CommonSettings {
        &self.common
    }

    /// True if a channel with these settings reacts to such an event.
    pub fn handles_event(&self, event: AlertEvent) -> bool {
        let of_class = match event {
            AlertEvent::Down | AlertEvent::Up => self.kind.class != ChannelClass::Group,
            AlertEvent::Closed => self.kind.class == ChannelClass::Incident,
            AlertEvent::StillDown | AlertEvent::Notice => self.kind.class == ChannelClass::People,
            AlertEvent::Test => return self.kind.class != ChannelClass::Group,
            AlertEvent::Warning(_) => true,
        };
        of_class && self.common.allows(event) && !(self.kind.ignores_event)(self, event)
    }

    /// Keys of secrets that are stored in files, with the paths of the files.
    pub fn secret_files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.pairs()
            .filter_map(|(key, path)| match self.kind.find_field(key) {
                Some((field, true)) => Some((field.key, path)),
                _ => None,
            })
    }

    /// Returns the settings with another value for one key, such as a secret read from its file.
    ///
    /// # Errors
    /// If the kind does not accept the value.
    pub fn with_value(&self, key: &str, value: &str) -> Result<Self, SettingsError> {
        let others = self
            .pairs()
            .filter(|(other, _)| *other != key && other.strip_suffix("-file") != Some(key));
        Self::from_stored(self.kind, others.chain([(key, value)]))
    }

    /// Returns the settings with another list for one key, or without the key if the list is empty.
    pub(super) fn with_list(&self, key: &str, items: &[String]) -> Self {
        let mut settings = self.clone();
        match items {
            [] => settings.values.remove(key),
            items => settings.values.insert(key.into(), items.join(",").into()),
        };
        settings
    }

    /// Creates an error about settings of this kind.
    pub(super) fn error(&self, problem: String) -> SettingsError {
        SettingsError {
            kind: self.kind,
            problem,
        }
    }

    /// URLs that requests go to.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.values_where(SettingField::is_url)
    }

    /// First setting that shows where alerts go, for lists. Of a URL only the origin is shown,
    /// since the rest may be a credential. Users who may not change the channel see only origins,
    /// mail addresses and phone numbers: a topic or a command may hold a secret.
    pub fn destination(&self, may_write: bool) -> Option<Cow<'_, str>> {
        self.kind.fields.iter().find_map(|field| {
            let value = self.values.get(field.key)?;
            let may_be_shown = may_write && field.may_show_destination()
                || matches!(
                    field.field_type,
                    SettingFieldType::MailAddresses(_) | SettingFieldType::PhoneNumber
                );
            match field.is_url() {
                true => field_value::url_origin(value).map(Cow::Owned),
                false => may_be_shown.then_some(Cow::Borrowed(&**value)),
            }
        })
    }

    /// Values that must not be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.values_where(SettingField::is_secret)
    }

    /// Values of the fields for which `is_chosen` is true. Names of files that hold values are not
    /// among them.
    fn values_where(&self, is_chosen: fn(&SettingField) -> bool) -> impl Iterator<Item = &str> {
        self.pairs()
            .filter(move |(key, _)| {
                let field = self.kind.find_field(key);
                field.is_some_and(|(field, is_file)| !is_file && is_chosen(field))
            })
            .map(|(_, value)| value)
    }

    /// All keys and values, secrets in the clear.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (&**key, &**value))
    }

    /// All keys and values as they may be shown, with [`MASK`] in place of secrets.
    pub fn masked(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.pairs()
            .map(move |(key, value)| match self.kind.find_field(key) {
                Some((field, false)) => (
                    key,
                    mask_value(field, value).unwrap_or(Cow::Borrowed(value)),
                ),
                Some((_, true)) => (key, value.into()),
                None => (key, MASK.into()),
            })
    }
}

/// Settings in a request, which replace all settings of a channel or only those with the same keys.
#[derive(Clone, PartialEq, Eq)]
pub struct SettingsUpdate {
    pairs: Vec<(String, String)>,
    /// True if settings that are not in the request stay.
    keeps_others: bool,
}

impl SettingsUpdate {
    /// Creates an update that replaces all settings. The keys may be of any kind of channel.
    pub fn replace_all(pairs: Vec<(String, String)>) -> Self {
        Self {
            pairs,
            keeps_others: false,
        }
    }

    /// Creates an update that keeps settings with other keys. The keys may be of any kind of
    /// channel.
    pub fn merge(pairs: Vec<(String, String)>) -> Self {
        Self {
            pairs,
            keeps_others: true,
        }
    }

    /// Applies the update to stored settings.
    ///
    /// # Errors
    /// Like [`ChannelSettings::replace_with`]. Settings that stay count as given again, with
    /// secrets masked.
    pub fn apply_to(&self, stored: &ChannelSettings) -> Result<ChannelSettings, SettingsError> {
        // A secret and the file that holds it replace each other.
        let updated_key = |key: &str| match stored.kind.find_field(key) {
            Some((field, true)) => Some(field.key.into()),
            Some((field, false)) => Some(field.canonical_key(key)),
            None => None,
        };
        let updated_keys: BTreeSet<_> = self
            .pairs
            .iter()
            .filter_map(|(key, _)| updated_key(key))
            .collect();
        let stays = |key: &str| {
            self.keeps_others
                && updated_key(key).is_none_or(|updated_key| !updated_keys.contains(&updated_key))
        };
        let kept = stored
            .masked()
            .filter(|(key, _)| stays(key))
            .map(|(key, value)| (key, value.into_owned()));
        stored.replace_with(
            kept.chain(
                self.pairs
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.clone())),
            ),
        )
    }

    /// All keys and values, secrets in the clear.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Omits the values, some of them secrets.
impl fmt::Debug for SettingsUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SettingsUpdate(..)")
    }
}

/// Returns the text shown in place of a value; `None` if the value itself is shown.
fn mask_value(field: &SettingField, value: &str) -> Option<Cow<'static, str>> {
    match field.field_type {
        SettingFieldType::SecretUrl => Some(
            field_value::url_origin(value)
                .map_or(MASK.into(), |origin| format!("{origin}/{MASK}").into()),
        ),
        _ if field.is_secret() => Some(MASK.into()),
        _ => None,
    }
}

fn missing_message(field: &SettingField) -> String {
    format!(
        "{key} is missing; give {key}={}",
        field.placeholder(),
        key = field.key
    )
}

/// Omits the values, some of them secrets.
impl fmt::Debug for ChannelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelSettings({}, ..)", self.kind.name)
    }
}
