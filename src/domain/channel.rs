//! The kinds of notification channel and what each is set to, as tables: parsing, masking, help and forms all read the same rows.

mod field;
mod kinds;
mod settings;
mod value;

use std::fmt;

use super::alert::Event;

pub use field::{Field, Form, Need};
pub use settings::{ChannelSettings, GivenSettings, MASK, SettingsError};

/// A kind of channel. There is one of each, in a file of its own below `kinds`.
pub struct ChannelKind {
    /// The `kind` of the API, and the word of the command line. No two kinds share one.
    pub name: &'static str,
    /// What can be set, in the order in which people are asked.
    pub fields: &'static [Field],
    /// What holds between fields that are each sound. The error says what is wrong and what to do.
    rule: fn(&ChannelSettings) -> Result<(), &'static str>,
    /// Whether a channel with these settings is told of an event.
    takes: fn(&ChannelSettings, Event) -> bool,
}

impl ChannelKind {
    /// Every kind there is, by name.
    pub const ALL: [&'static Self; 3] = [&kinds::email::EMAIL, &kinds::sms::SMS, &kinds::webhook::WEBHOOK];

    /// The kind of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|kind| kind.name == name)
    }

    /// The field that a key belongs to.
    fn field(&self, key: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.has_key(key))
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
