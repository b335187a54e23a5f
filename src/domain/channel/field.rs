//! One row of a kind's table: a setting, what values it takes, whether it must be given, and what it is for.

use std::borrow::Cow;

use super::settings::ChannelSettings;
use super::{shape, value};

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
    /// What a new value has to look like beyond its form; the error says what is wrong and what to do.
    shape: fn(&str) -> Result<(), &'static str>,
    /// The domain of the one service whose values have that shape; channels whose `api` is elsewhere take any.
    shape_of: Option<&'static str>,
}

/// What values a field takes.
pub enum Form {
    /// Mail addresses between commas, at most so many, each without a name or brackets.
    MailAddresses(usize),
    /// An international phone number.
    Phone,
    /// An absolute `http` or `https` URL.
    Url,
    /// Such a URL that lets whoever knows it send: all of it but scheme, host and port is secret.
    SecretUrl,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `on` or `off`.
    Flag,
    /// A whole number from the first to the second.
    Number(i64, i64),
    /// Such a number, or `off`.
    NumberOrOff(i64, i64),
    /// A length of time, such as `90s`, `30m`, `4h`, `2d`; the least and the most in seconds.
    Duration(i64, i64),
    /// A part of each day, such as `22:00-07:00`.
    Hours,
    /// Days of the week, such as `mon-fri` or `sat,sun`.
    Days,
    /// The name of a time zone.
    Zone,
    /// The SHA-256 of a certificate, as `sha256:` and 64 hexadecimal digits.
    Pin,
    /// Text on one line, at least one character and at most this many bytes.
    Line(usize),
    /// Such a line that is shown to nobody.
    Secret(usize),
    /// Lines between commas, at most so many.
    List(usize),
    /// Text of any characters, at most this many bytes. An empty one is the same as none.
    Text(usize),
    /// Such a text in which placeholders such as `$NAME` are filled in.
    Template(usize),
    /// The value of the HTTP header that the key names. It is a secret, and upper and lower case of the name are the same.
    Header,
    /// The value of the label that the key names.
    Label,
}

/// Whether a field must be given.
pub enum Need {
    /// Without it there is no such channel.
    Required,
    /// Without it no channel is made, but one that was made before this was asked stays. It cannot deliver.
    ToDeliver,
    /// It may be left out.
    Optional,
    /// What is left out gets this value.
    Default(&'static str),
    /// What is left out gets a value that depends on what was given.
    Derived {
        /// The value.
        value: fn(&ChannelSettings) -> &'static str,
        /// The value in words, for people.
        words: &'static str,
    },
}

impl Field {
    pub(super) const fn new(key: &'static str, form: Form, need: Need, help: &'static str) -> Self {
        Self { key, form, need, help, shape: |_| Ok(()), shape_of: None }
    }

    /// The same field for new values of this shape alone. Stored values stay.
    pub(super) const fn shaped(self, shape: fn(&str) -> Result<(), &'static str>) -> Self {
        Self { shape, ..self }
    }

    /// The same as [`shaped`](Self::shaped), where the channel's `api` is of this domain.
    pub(super) const fn shaped_at(self, domain: &'static str, shape: fn(&str) -> Result<(), &'static str>) -> Self {
        Self { shape, shape_of: Some(domain), ..self }
    }

    /// One that must be given.
    pub(super) const fn required(key: &'static str, form: Form, help: &'static str) -> Self {
        Self::new(key, form, Need::Required, help)
    }

    /// One that may be left out.
    pub(super) const fn optional(key: &'static str, form: Form, help: &'static str) -> Self {
        Self::new(key, form, Need::Optional, help)
    }

    /// One that has a value when it is left out.
    pub(super) const fn preset(key: &'static str, form: Form, value: &'static str, help: &'static str) -> Self {
        Self::new(key, form, Need::Default(value), help)
    }

    /// Whether its values are secret: lists show a mask in their place.
    pub fn is_secret(&self) -> bool {
        matches!(self.form, Form::Header | Form::Secret(_) | Form::SecretUrl)
    }

    /// Whether only whoever has the server sets it.
    pub fn is_operators(&self) -> bool {
        matches!(self.form, Form::Pin)
    }

    /// Whether its values name the server that requests go to.
    pub fn is_url(&self) -> bool {
        matches!(self.form, Form::Url | Form::SecretUrl)
    }

    /// What stands for a value in a help text, as in `to=ADDRESS`.
    pub fn placeholder(&self) -> Cow<'static, str> {
        match self.form {
            Form::MailAddresses(1) => "ADDRESS".into(),
            Form::MailAddresses(_) => "ADDRESS,...".into(),
            Form::Phone => "NUMBER".into(),
            Form::Url | Form::SecretUrl => "URL".into(),
            Form::Choice(words) => words.join("|").into(),
            Form::Flag => "on|off".into(),
            Form::Number(least, most) => format!("{least}...{most}").into(),
            Form::NumberOrOff(least, most) => format!("{least}...{most}|off").into(),
            Form::Duration(..) => "TIME".into(),
            Form::Hours => "HH:MM-HH:MM".into(),
            Form::Days => "DAYS".into(),
            Form::Zone => "ZONE".into(),
            Form::Pin => "sha256:HEX".into(),
            Form::List(_) => "TEXT,...".into(),
            Form::Line(_) | Form::Text(_) | Form::Template(_) | Form::Header | Form::Label => "TEXT".into(),
            Form::Secret(_) => "SECRET".into(),
        }
    }

    /// The part of the key before `NAME`, if the key is a pattern.
    pub(super) fn prefix(&self) -> Option<&'static str> {
        self.key.strip_suffix("NAME")
    }

    /// Whether this key belongs to the field.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.prefix().map_or(self.key == key, |prefix| key.starts_with(prefix))
    }

    /// Whether this key gives the file that holds the secret, as in `token-file=/run/credentials/token`.
    pub(super) fn has_file_key(&self, key: &str) -> bool {
        self.is_secret() && self.prefix().is_none() && key.strip_suffix("-file") == Some(self.key)
    }

    /// The one spelling of a key that belongs to the field.
    pub(super) fn spelling(&self, key: &str) -> Box<str> {
        if matches!(self.form, Form::Header) { key.to_ascii_lowercase().into() } else { key.into() }
    }

    /// Refuses a new value that its service cannot have given; the error is as that of [`check`](Self::check).
    /// `api`: the server that the channel uses, where it can be chosen.
    pub(super) fn check_shape(&self, key: &str, value: &str, api: Option<&str>) -> Result<(), String> {
        if self.shape_of.is_some_and(|domain| api.is_some_and(|api| !shape::is_of(api, domain))) {
            return Ok(());
        }
        (self.shape)(value).map_err(|problem| format!("{key} {problem}"))
    }

    /// Whether an empty value is the same as none.
    pub(super) fn drops_empty(&self) -> bool {
        matches!(self.form, Form::Text(_) | Form::Template(_))
    }

    /// Refuses a value that the field does not take; the error says what is wrong and what to do, without the value.
    pub(super) fn check(&self, key: &str, value: &str) -> Result<(), String> {
        let named = || self.prefix().and_then(|prefix| key.strip_prefix(prefix)).unwrap_or_default();
        match self.form {
            Form::MailAddresses(most) => value::mail_addresses(value, most),
            Form::Phone => value::phone(value).map_err(String::from),
            Form::Url | Form::SecretUrl => value::url(value),
            Form::Choice(words) => value::choice(value, words),
            Form::Flag => value::choice(value, &["on", "off"]),
            Form::Number(least, most) => value::number(value, least, most).map(drop),
            Form::NumberOrOff(least, most) if value != "off" => {
                value::number(value, least, most).map(drop).map_err(|problem| format!("{problem}, or off"))
            }
            Form::NumberOrOff(..) => Ok(()),
            Form::Duration(least, most) => value::duration(value, least, most).map(drop),
            Form::Hours => value::hours(value).map(drop).map_err(String::from),
            Form::Days => value::days(value).map(drop).map_err(String::from),
            Form::Zone => value::zone(value),
            Form::Pin => value::pin(value).map(drop).map_err(String::from),
            Form::Line(longest) | Form::Secret(longest) => value::line(value, longest),
            Form::List(most) => value::list(value, most),
            Form::Text(longest) | Form::Template(longest) => value::text(value, longest),
            Form::Header => value::header(named(), value),
            Form::Label => value::label(named(), value),
        }
        // What stands in place of `NAME` was made up by somebody, so such a key is quoted.
        .map_err(|problem| if self.prefix().is_some() { format!("{key:?} {problem}") } else { format!("{key} {problem}") })
    }
}
