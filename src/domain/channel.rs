//! Settings of notification channels, by the table of their kind. Parsing, masking, help and forms
//! all read the same rows.

mod common_settings;
pub(crate) mod field_value;
mod members;
mod purpose;
mod setting_field;
mod settings;
mod transport;

use std::fmt;

use super::alert::AlertEvent;

pub use common_settings::{CommonSettings, QuietHours};
pub use field_value::parse_duration;
pub use members::is_usable_member_name;
pub use purpose::ChannelPurpose;
pub use setting_field::{Requirement, SettingField, SettingFieldType};
pub use settings::{ChannelSettings, MASK, SettingsAuthor, SettingsError, SettingsUpdate};
pub use transport::{Transport, Transports};

/// Kind of channel. Each is defined in a file of its own below `channels::kinds`.
pub struct ChannelKind {
    /// `kind` of the API and word of the command line. Unique.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Other words that the command line accepts for it.
    pub aliases: &'static [&'static str],
    /// Use of the kind, by which pages group the kinds.
    pub purpose: ChannelPurpose,
    /// Type of receiver.
    pub class: ChannelClass,
    /// Feature of the server that delivers.
    pub transport: Transport,
    /// Settings of the kind, in the order in which forms show them. Settings that many kinds share
    /// are in [`common_fields`](Self::common_fields).
    pub fields: &'static [SettingField],
    /// True if only the operator of the server may create a channel of this kind.
    pub operator_only: bool,
    /// Steps that lead to the values, each without its number and its full stop.
    pub steps: &'static [&'static str],
    /// Other advice: sentences for people. May be empty if there are steps.
    pub guide: &'static str,
    /// Example settings with made-up values.
    pub example: &'static [(&'static str, &'static str)],
    /// Validates rules between fields whose values are valid by themselves. The error says what is
    /// wrong and what to do.
    pub(crate) validate: fn(&ChannelSettings) -> Result<(), &'static str>,
    /// True if a channel with these settings does nothing at such an event.
    pub(crate) ignores_event: fn(&ChannelSettings, AlertEvent) -> bool,
    /// Returns sentences about settings that are accepted but probably wrong.
    pub(crate) warnings: fn(&ChannelSettings) -> Vec<String>,
}

/// Type of receiver. It decides how several alerts at once are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelClass {
    /// People: unread alerts are combined, and one message covers many checks.
    People,
    /// Programs: every event is sent, in order for each check.
    Machine,
    /// Service that keeps incidents: each check has one, which is opened and closed.
    Incident,
    /// Group of other channels, which are notified in its place.
    Group,
}

impl ChannelKind {
    /// Steps with their numbers, and other advice, as one text.
    pub fn instructions(&self) -> String {
        let steps = (1..).zip(self.steps);
        let steps = steps.map(|(number, step)| format!("{number}. {step}."));
        let guide = Some(self.guide.to_owned()).filter(|guide| !guide.is_empty());
        steps.chain(guide).collect::<Vec<_>>().join(" ")
    }

    /// Settings that many kinds share, with a word for the kinds that have them.
    pub const COMMON_FIELDS: [(&'static str, &'static [SettingField]); 5] = [
        ("(any)", common_settings::ANY_KIND_FIELDS),
        ("(any)", common_settings::NON_GROUP_FIELDS),
        ("(incidents)", common_settings::INCIDENT_FIELDS),
        ("(people)", common_settings::PEOPLE_FIELDS),
        ("(url)", common_settings::URL_FIELDS),
    ];

    /// Default values of a kind.
    pub(crate) const DEFAULTS: Self = Self {
        name: "",
        title: "",
        aliases: &[],
        purpose: ChannelPurpose::Other,
        class: ChannelClass::People,
        transport: Transport::Http,
        fields: &[],
        operator_only: false,
        steps: &[],
        guide: "",
        example: &[],
        validate: |_| Ok(()),
        ignores_event: |_, _| false,
        warnings: |_| Vec::new(),
    };

    /// Settings that this kind shares with others.
    pub fn common_fields(&self) -> impl Iterator<Item = &'static SettingField> {
        let people = self.class == ChannelClass::People;
        let events = match self.class {
            ChannelClass::Group => &[],
            ChannelClass::Incident => common_settings::INCIDENT_FIELDS,
            ChannelClass::People | ChannelClass::Machine => common_settings::NON_GROUP_FIELDS,
        };
        let has_url = self.fields.iter().any(SettingField::is_url);
        let all = common_settings::ANY_KIND_FIELDS.iter();
        all.chain(events)
            .chain(
                common_settings::PEOPLE_FIELDS
                    .iter()
                    .filter(move |_| people),
            )
            .chain(common_settings::URL_FIELDS.iter().filter(move |_| has_url))
    }

    /// Command that creates a channel from [the example](Self::example).
    pub fn example_command(&self) -> String {
        let set = |(key, value): &(&str, &str)| {
            let plain = value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-+:,./@%=".contains(&byte));
            if plain {
                format!(" --set {key}={value}")
            } else {
                format!(" --set '{key}={value}'")
            }
        };
        let settings: String = self.example.iter().map(set).collect();
        format!(
            "overdue channel create --project default --kind {0} --name {0}{settings}",
            self.name
        )
    }

    /// True if the kind has a secret that can be stored in a file.
    pub fn has_secret_files(&self) -> bool {
        self.fields
            .iter()
            .any(|field| field.is_secret() && field.key_prefix().is_none())
    }

    /// True if the value of the key must not be shown. Unknown keys count as secret.
    pub fn is_secret(&self, key: &str) -> bool {
        self.find_field(key)
            .is_none_or(|(field, file)| !file && field.is_secret())
    }

    /// True if the key can be set and its value must not be shown.
    pub fn is_known_secret(&self, key: &str) -> bool {
        self.find_field(key)
            .is_some_and(|(field, file)| !file && field.is_secret())
    }

    /// Returns the key whose value is stored in a file, if this key names that file.
    pub fn secret_key_of_file(&self, key: &str) -> Option<&'static str> {
        self.find_field(key)
            .filter(|(_, file)| *file)
            .map(|(field, _)| field.key)
    }

    /// True if this is the part before the dot of keys that can be set, as `header` is of
    /// `header.NAME`.
    pub fn is_key_prefix(&self, key: &str) -> bool {
        let begins = |field: &SettingField| {
            field
                .key_prefix()
                .and_then(|prefix| prefix.strip_suffix('.'))
                == Some(key)
        };
        self.fields.iter().chain(self.common_fields()).any(begins)
    }

    /// True if this is the pattern of keys such as `header.NAME`, which cannot itself be set.
    pub fn is_key_pattern(&self, key: &str) -> bool {
        self.fields
            .iter()
            .chain(self.common_fields())
            .any(|field| field.key == key && field.key_prefix().is_some())
    }

    /// True if the key is one of the kind's own fields.
    fn has_own_field(&self, key: &str) -> bool {
        self.fields.iter().any(|field| field.key == key)
    }

    /// True if only the operator of the server may give the setting with this key.
    pub fn is_operator_key(&self, key: &str) -> bool {
        self.find_field(key)
            .is_some_and(|(field, is_file)| is_file || field.is_operator_only())
    }

    /// Returns the field of a key. The flag is true if the key names a file that holds the value.
    fn find_field(&self, key: &str) -> Option<(&'static SettingField, bool)> {
        let all = || self.fields.iter().chain(self.common_fields());
        let named = all()
            .find(|field| field.has_key(key))
            .map(|field| (field, false));
        named.or_else(|| {
            all()
                .find(|field| field.has_file_key(key))
                .map(|field| (field, true))
        })
    }
}

impl PartialEq for ChannelKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ChannelKind {}

impl fmt::Debug for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
