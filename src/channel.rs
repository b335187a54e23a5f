//! The kinds of notification channel, one file each, so that no other room knows what a kind needs.

mod email;
mod sms;
mod webhook;

use std::collections::BTreeMap;
use std::fmt;

use crate::domain::project::ChannelSettings;
pub use email::Email;
pub use sms::Sms;
pub use webhook::Webhook;

/// A kind of channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A mail.
    Email,
    /// A text message to a phone.
    Sms,
    /// An HTTP request.
    Webhook,
}

impl Kind {
    /// Every kind there is.
    pub const ALL: [Self; 3] = [Self::Email, Self::Sms, Self::Webhook];

    /// The `kind` of the contract, and the word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Sms => "sms",
            Self::Webhook => "webhook",
        }
    }

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }

    /// The keys of its settings; one that ends in `NAME` stands for all that have something else in its place.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Email => Email::KEYS,
            Self::Sms => Sms::KEYS,
            Self::Webhook => Webhook::KEYS,
        }
    }
}

/// What a channel of some kind needs to notify.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "a variant for each kind, named like it")]
pub enum Settings {
    Email(Email),
    Sms(Sms),
    Webhook(Webhook),
}

/// Most settings that are looked at; no kind has use for as many.
const MOST_SETTINGS: usize = 64;

/// Settings by their keys, from which a kind takes what it knows.
type Given = BTreeMap<Box<str>, Box<str>>;

impl Settings {
    /// Settings from keys and values, as the command line gives them or as [`pairs`](Self::pairs) wrote them.
    ///
    /// Refuses a key that the kind does not have or that comes twice, a missing one, and a value that could not be sent.
    pub fn parse<K, V>(kind: Kind, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError>
    where
        K: Into<Box<str>>,
        V: Into<Box<str>>,
    {
        let refused = |problem| SettingsError { kind, problem };
        let mut given = Given::new();
        for (key, value) in pairs {
            let key = key.into();
            let known = |pattern: &&str| pattern.strip_suffix("NAME").map_or(**pattern == *key, |prefix| key.starts_with(prefix));
            if !kind.keys().iter().any(known) {
                return Err(refused(format!("there is no setting {key:?}; use {}", kind.keys().join(", "))));
            }
            if given.contains_key(&key) {
                return Err(refused(format!("{key:?} is given twice; give it once")));
            }
            if given.len() == MOST_SETTINGS {
                return Err(refused(format!("more than {MOST_SETTINGS} settings; give fewer")));
            }
            given.insert(key, value.into());
        }
        match kind {
            Kind::Email => Email::parse(given).map(Self::Email),
            Kind::Sms => Sms::parse(given).map(Self::Sms),
            Kind::Webhook => Webhook::parse(given).map(Self::Webhook),
        }
        .map_err(refused)
    }

    /// The kind they are for.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Email(_) => Kind::Email,
            Self::Sms(_) => Kind::Sms,
            Self::Webhook(_) => Kind::Webhook,
        }
    }

    /// The keys and values from which [`parse`](Self::parse) makes the same settings.
    pub fn pairs(&self) -> ChannelSettings {
        let given = match self {
            Self::Email(email) => email.given(),
            Self::Sms(sms) => sms.given(),
            Self::Webhook(webhook) => webhook.given(),
        };
        given.into_iter().collect()
    }
}

/// Why settings were refused and what to do. Values are not repeated, since they may be secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError {
    kind: Kind,
    problem: String,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings of kind {}: {}", self.kind.name(), self.problem)
    }
}

impl std::error::Error for SettingsError {}

/// Whether a text is a host name (RFC 1123, section 2.1), underscores allowed since names inside networks have them.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests;
