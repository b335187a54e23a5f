//! One row of a kind's table: a setting, what values it takes, whether it must be given, and what it is for.

use std::borrow::Cow;

use super::settings::ChannelSettings;
use super::value;

/// A setting that a kind of channel has.
pub struct Field {
    /// Its key. One that ends in `NAME` stands for all keys that have something else in that place.
    pub key: &'static str,
    /// What values it takes.
    pub form: Form,
    /// Whether it must be given.
    pub need: Need,
    /// What it is for: half a sentence for people.
    pub help: &'static str,
}

/// What values a field takes.
pub enum Form {
    /// One mail address, without a name or brackets.
    MailAddress,
    /// An international phone number.
    Phone,
    /// An absolute `http` or `https` URL.
    Url,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text of any characters, at most this many bytes. An empty one is the same as none.
    Text(usize),
    /// The value of the HTTP header that the key names. It is a secret, and upper and lower case of the name are the same.
    Header,
}

/// Whether a field must be given.
pub enum Need {
    /// Without it there is no such channel.
    Required,
    /// It may be left out.
    Optional,
    /// What is left out gets a value.
    Default {
        /// The value, which may depend on what was given.
        value: fn(&ChannelSettings) -> &'static str,
        /// The value in words, for people.
        words: &'static str,
    },
}

impl Field {
    /// Whether its values are secret: lists show a mask in their place.
    pub fn is_secret(&self) -> bool {
        matches!(self.form, Form::Header)
    }

    /// What stands for a value in a help text, as in `to=ADDRESS`.
    pub fn placeholder(&self) -> Cow<'static, str> {
        match self.form {
            Form::MailAddress => "ADDRESS".into(),
            Form::Phone => "NUMBER".into(),
            Form::Url => "URL".into(),
            Form::Choice(words) => words.join("|").into(),
            Form::Text(_) | Form::Header => "TEXT".into(),
        }
    }

    /// The part of the key before `NAME`, if the key is a pattern.
    fn prefix(&self) -> Option<&'static str> {
        self.key.strip_suffix("NAME")
    }

    /// Whether this key belongs to the field.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.prefix().map_or(self.key == key, |prefix| key.starts_with(prefix))
    }

    /// The one spelling of a key that belongs to the field.
    pub(super) fn spelling(&self, key: &str) -> Box<str> {
        if matches!(self.form, Form::Header) { key.to_ascii_lowercase().into() } else { key.into() }
    }

    /// Whether an empty value is the same as none.
    pub(super) fn drops_empty(&self) -> bool {
        matches!(self.form, Form::Text(_))
    }

    /// Refuses a value that the field does not take; the error says what is wrong and what to do, without the value.
    pub(super) fn check(&self, key: &str, value: &str) -> Result<(), String> {
        match self.form {
            Form::MailAddress => value::mail_address(value).map_err(String::from),
            Form::Phone => value::phone(value).map_err(String::from),
            Form::Url => value::url(value),
            Form::Choice(words) => value::choice(value, words),
            Form::Text(longest) => value::text(value, longest),
            Form::Header => value::header(self.prefix().and_then(|prefix| key.strip_prefix(prefix)).unwrap_or_default(), value),
        }
        // What stands in place of `NAME` was made up by somebody, so such a key is quoted.
        .map_err(|problem| if self.prefix().is_some() { format!("{key:?} {problem}") } else { format!("{key} {problem}") })
    }
}
