//! The kinds of notification channel and what each is set to, as tables: parsing, masking, help and forms all read the same rows.

mod common_settings;
mod field_value;
mod kinds;
mod members;
mod setting_field;
mod settings;
mod shell_lint;
mod transport;
mod value_format;

use std::fmt;

use super::alert::AlertEvent;

pub use common_settings::{CommonSettings, QuietHours};
pub use field_value::parse_duration as seconds_of;
pub use members::is_usable_member_name;
pub use setting_field::{FieldType, Requirement, SettingField};
pub use settings::{ChannelSettings, MASK, SettingsAuthor, SettingsError, SettingsUpdate};
pub use transport::Transports;

/// A kind of channel. There is one of each, in a file of its own below `kinds`.
pub struct ChannelKind {
    /// The `kind` of the API, and the word of the command line. No two kinds share one.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// Other words that the command line takes for it.
    pub aliases: &'static [&'static str],
    /// Who is at the other end.
    pub class: ChannelClass,
    /// What can be set, in the order in which people are asked. What many kinds have is in [`common_fields`](Self::common_fields).
    pub fields: &'static [SettingField],
    /// Whether only whoever has the server may make one.
    pub operator_only: bool,
    /// Where to get the values, and what else to know before making one: sentences for people.
    pub guide: &'static str,
    /// Settings that make a channel, with made-up values.
    pub example: &'static [(&'static str, &'static str)],
    /// What holds between fields that are each sound. The error says what is wrong and what to do.
    validate: fn(&ChannelSettings) -> Result<(), &'static str>,
    /// Whether a channel that is set so does nothing at such an event.
    ignores_event: fn(&ChannelSettings, AlertEvent) -> bool,
    /// Sentences about settings that are accepted but probably not what was meant.
    warnings: fn(&ChannelSettings) -> Vec<String>,
}

/// Who is at the other end of a channel, which decides what happens when there is much to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelClass {
    /// People: what they did not read yet is told together, and many checks in one message.
    People,
    /// Programs: every event is sent, in order for each check.
    Machine,
    /// A service that keeps incidents: each check has one, which opens and closes.
    Incident,
    /// Other channels, which are told in its place.
    Group,
}

impl ChannelKind {
    /// Every kind there is, by name.
    pub const ALL: [&'static Self; 30] = [
        &kinds::alertmanager::ALERTMANAGER,
        &kinds::apprise::APPRISE,
        &kinds::call::CALL,
        &kinds::discord::DISCORD,
        &kinds::email::EMAIL,
        &kinds::github::GITHUB,
        &kinds::googlechat::GOOGLECHAT,
        &kinds::gotify::GOTIFY,
        &kinds::group::GROUP,
        &kinds::matrix::MATRIX,
        &kinds::mattermost::MATTERMOST,
        &kinds::msteamsw::MSTEAMSW,
        &kinds::ntfy::NTFY,
        &kinds::opsgenie::OPSGENIE,
        &kinds::pagertree::PAGERTREE,
        &kinds::pd::PD,
        &kinds::po::PO,
        &kinds::pushbullet::PUSHBULLET,
        &kinds::rocketchat::ROCKETCHAT,
        &kinds::shell::SHELL,
        &kinds::signal::SIGNAL,
        &kinds::slack::SLACK,
        &kinds::sms::SMS,
        &kinds::spike::SPIKE,
        &kinds::telegram::TELEGRAM,
        &kinds::trello::TRELLO,
        &kinds::victorops::VICTOROPS,
        &kinds::webhook::WEBHOOK,
        &kinds::whatsapp::WHATSAPP,
        &kinds::zulip::ZULIP,
    ];

    /// What many kinds have, with a word for which.
    pub const SHARED_FIELDS: [(&'static str, &'static [SettingField]); 4] = [
        ("(any)", common_settings::ANY_KIND_FIELDS),
        ("(any)", common_settings::NON_GROUP_FIELDS),
        ("(people)", common_settings::PEOPLE_FIELDS),
        ("(url)", common_settings::URL_FIELDS),
    ];

    /// What the tables of kinds begin with.
    const DEFAULTS: Self = Self {
        name: "",
        title: "",
        aliases: &[],
        class: ChannelClass::People,
        fields: &[],
        operator_only: false,
        guide: "",
        example: &[],
        validate: |_| Ok(()),
        ignores_event: |_, _| false,
        warnings: |_| Vec::new(),
    };

    /// The kind of that name, or of that other word for it.
    pub fn from_name(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|kind| kind.name == name || kind.aliases.contains(&name))
    }

    /// What can be set as for many other kinds.
    pub fn common_fields(&self) -> impl Iterator<Item = &'static SettingField> {
        let (people, single) = (self.class == ChannelClass::People, self.class != ChannelClass::Group);
        let has_url = self.fields.iter().any(SettingField::is_url);
        let all = common_settings::ANY_KIND_FIELDS.iter();
        all.chain(common_settings::NON_GROUP_FIELDS.iter().filter(move |_| single))
            .chain(common_settings::PEOPLE_FIELDS.iter().filter(move |_| people))
            .chain(common_settings::URL_FIELDS.iter().filter(move |_| has_url))
    }

    /// The command that makes a channel of [its example](Self::example).
    pub fn example_command(&self) -> String {
        let set = |(key, value): &(&str, &str)| {
            let plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+:,./@%=".contains(&byte));
            if plain { format!(" --set {key}={value}") } else { format!(" --set '{key}={value}'") }
        };
        let settings: String = self.example.iter().map(set).collect();
        format!("overdue channel create --project default --kind {0} --name {0}{settings}", self.name)
    }

    /// Whether it has a secret that a file can hold.
    pub fn has_secret_files(&self) -> bool {
        self.fields.iter().any(|field| field.is_secret() && field.key_prefix().is_none())
    }

    /// Whether the value of a key is shown to nobody.
    pub fn is_secret(&self, key: &str) -> bool {
        self.find_field(key).is_none_or(|(field, file)| !file && field.is_secret())
    }

    /// Whether a key can be set, and its value is shown to nobody.
    pub fn is_known_secret(&self, key: &str) -> bool {
        self.find_field(key).is_some_and(|(field, file)| !file && field.is_secret())
    }

    /// The key whose value lies in a file, if this key gives that file.
    pub fn secret_key_of_file(&self, key: &str) -> Option<&'static str> {
        self.find_field(key).filter(|(_, file)| *file).map(|(field, _)| field.key)
    }

    /// Whether a key can be set, or begins keys that can, like `header` does `header.NAME`.
    pub fn is_key_prefix(&self, key: &str) -> bool {
        let begins = |field: &SettingField| field.key_prefix().and_then(|prefix| prefix.strip_suffix('.')) == Some(key);
        self.fields.iter().chain(self.common_fields()).any(begins)
    }

    /// True if this is the pattern of keys such as `header.NAME`, which cannot be set as it stands.
    pub fn is_key_pattern(&self, key: &str) -> bool {
        self.fields.iter().chain(self.common_fields()).any(|field| field.key == key && field.key_prefix().is_some())
    }

    /// Whether a key is one of its own fields.
    fn has_own_field(&self, key: &str) -> bool {
        self.fields.iter().any(|field| field.key == key)
    }

    /// The field that a key belongs to, and whether the key gives a file that holds the value.
    fn find_field(&self, key: &str) -> Option<(&'static SettingField, bool)> {
        let all = || self.fields.iter().chain(self.common_fields());
        let named = all().find(|field| field.has_key(key)).map(|field| (field, false));
        named.or_else(|| all().find(|field| field.has_file_key(key)).map(|field| (field, true)))
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

#[cfg(test)]
mod tests;
