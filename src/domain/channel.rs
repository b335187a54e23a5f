//! The kinds of notification channel and what each is set to, as tables: parsing, masking, help and forms all read the same rows.

mod common;
mod field;
mod kinds;
mod members;
mod settings;
mod shape;
mod shell_text;
mod transport;
mod value;

use std::fmt;

use super::alert::Event;

pub use common::{Common, Quiet};
pub use field::{Field, Form, Need};
pub use members::can_name_member;
pub use settings::{ChannelSettings, GivenSettings, MASK, Maker, SettingsError};
pub use transport::Transports;
pub use value::duration as seconds_of;

/// A kind of channel. There is one of each, in a file of its own below `kinds`.
pub struct ChannelKind {
    /// The `kind` of the API, and the word of the command line. No two kinds share one.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// Other words that the command line takes for it.
    pub aliases: &'static [&'static str],
    /// Who is at the other end.
    pub class: Class,
    /// What can be set, in the order in which people are asked. What many kinds have is in [`common_fields`](Self::common_fields).
    pub fields: &'static [Field],
    /// Whether only whoever has the server may make one.
    pub operators_only: bool,
    /// Where to get the values, and what else to know before making one: sentences for people.
    pub guide: &'static str,
    /// Settings that make a channel, with made-up values.
    pub example: &'static [(&'static str, &'static str)],
    /// What holds between fields that are each sound. The error says what is wrong and what to do.
    rule: fn(&ChannelSettings) -> Result<(), &'static str>,
    /// Whether a channel that is set so does nothing at such an event.
    off: fn(&ChannelSettings, Event) -> bool,
    /// Sentences about settings that are accepted but probably not what was meant.
    warnings: fn(&ChannelSettings) -> Vec<String>,
}

/// Who is at the other end of a channel, which decides what happens when there is much to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
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
    pub const SHARED: [(&'static str, &'static [Field]); 4] =
        [("(any)", common::EVERY), ("(any)", common::SINGLE), ("(people)", common::PEOPLE), ("(url)", common::URLS)];

    /// What the tables of kinds begin with.
    const BASE: Self = Self {
        name: "",
        title: "",
        aliases: &[],
        class: Class::People,
        fields: &[],
        operators_only: false,
        guide: "",
        example: &[],
        rule: |_| Ok(()),
        off: |_, _| false,
        warnings: |_| Vec::new(),
    };

    /// The kind of that name, or of that other word for it.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|kind| kind.name == name || kind.aliases.contains(&name))
    }

    /// What can be set as for many other kinds.
    pub fn common_fields(&self) -> impl Iterator<Item = &'static Field> {
        let (people, single) = (self.class == Class::People, self.class != Class::Group);
        let has_url = self.fields.iter().any(Field::is_url);
        let all = common::EVERY.iter();
        all.chain(common::SINGLE.iter().filter(move |_| single))
            .chain(common::PEOPLE.iter().filter(move |_| people))
            .chain(common::URLS.iter().filter(move |_| has_url))
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
        self.fields.iter().any(|field| field.is_secret() && field.prefix().is_none())
    }

    /// Whether the value of a key is shown to nobody.
    pub fn is_secret(&self, key: &str) -> bool {
        self.field(key).is_none_or(|(field, file)| !file && field.is_secret())
    }

    /// Whether a key can be set, and its value is shown to nobody.
    pub fn has_secret(&self, key: &str) -> bool {
        self.field(key).is_some_and(|(field, file)| !file && field.is_secret())
    }

    /// The key whose value lies in a file, if this key gives that file.
    pub fn file_key(&self, key: &str) -> Option<&'static str> {
        self.field(key).filter(|(_, file)| *file).map(|(field, _)| field.key)
    }

    /// Whether a key can be set, or begins keys that can, like `header` does `header.NAME`.
    pub fn begins_keys(&self, key: &str) -> bool {
        let begins = |field: &Field| field.prefix().and_then(|prefix| prefix.strip_suffix('.')) == Some(key);
        self.fields.iter().chain(self.common_fields()).any(begins)
    }

    /// True if this is the pattern of keys such as `header.NAME`, which cannot be set as it stands.
    pub fn is_pattern(&self, key: &str) -> bool {
        self.fields.iter().chain(self.common_fields()).any(|field| field.key == key && field.prefix().is_some())
    }

    /// Whether a key is one of its own fields.
    fn has_own(&self, key: &str) -> bool {
        self.fields.iter().any(|field| field.key == key)
    }

    /// The field that a key belongs to, and whether the key gives a file that holds the value.
    fn field(&self, key: &str) -> Option<(&'static Field, bool)> {
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
