//! One row of a kind's table: a setting, what values it takes, whether it must be given, and what it is for.

use std::borrow::Cow;

use super::settings::ChannelSettings;
use super::{field_value, value_format};

/// A setting that a kind of channel has.
pub struct SettingField {
    /// Its key. One that ends in `NAME` stands for all keys that have something else in that place.
    pub key: &'static str,
    /// What values it takes.
    pub field_type: FieldType,
    /// Whether it must be given.
    pub requirement: Requirement,
    /// What it is for: half a sentence for people.
    pub help: &'static str,
    /// What a new value has to look like beyond its form; the error says what is wrong and what to do.
    check_format: fn(&str) -> Result<(), &'static str>,
    /// The domain of the one service whose values have that shape; channels whose `api` is elsewhere take any.
    format_domain: Option<&'static str>,
}

/// What values a field takes.
pub enum FieldType {
    /// Mail addresses between commas, at most so many, each without a name or brackets.
    MailAddresses(usize),
    /// An international phone number.
    PhoneNumber,
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
    TimeRange,
    /// Days of the week, such as `mon-fri` or `sat,sun`.
    Weekdays,
    /// The name of a time zone.
    TimeZone,
    /// The SHA-256 of a certificate, as `sha256:` and 64 hexadecimal digits.
    CertificatePin,
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
pub enum Requirement {
    /// Without it there is no such channel.
    Required,
    /// Without it no channel is made, but one that was made before this was asked stays. It cannot deliver.
    RequiredToDeliver,
    /// It may be left out.
    Optional,
    /// What is left out gets this value.
    Default(&'static str),
    /// What is left out gets a value that depends on what was given.
    Derived {
        /// The value.
        value: fn(&ChannelSettings) -> &'static str,
        /// The value in words, for people.
        description: &'static str,
    },
}

impl SettingField {
    pub(super) const fn new(key: &'static str, form: FieldType, need: Requirement, help: &'static str) -> Self {
        Self { key, field_type: form, requirement: need, help, check_format: |_| Ok(()), format_domain: None }
    }

    /// The same field for new values of this shape alone. Stored values stay.
    pub(super) const fn with_format(self, shape: fn(&str) -> Result<(), &'static str>) -> Self {
        Self { check_format: shape, ..self }
    }

    /// The same as [`with_format`](Self::shaped), where the channel's `api` is of this domain.
    pub(super) const fn with_format_at(self, domain: &'static str, shape: fn(&str) -> Result<(), &'static str>) -> Self {
        Self { check_format: shape, format_domain: Some(domain), ..self }
    }

    /// One that must be given.
    pub(super) const fn required(key: &'static str, form: FieldType, help: &'static str) -> Self {
        Self::new(key, form, Requirement::Required, help)
    }

    /// One that may be left out.
    pub(super) const fn optional(key: &'static str, form: FieldType, help: &'static str) -> Self {
        Self::new(key, form, Requirement::Optional, help)
    }

    /// One that has a value when it is left out.
    pub(super) const fn with_default(key: &'static str, form: FieldType, value: &'static str, help: &'static str) -> Self {
        Self::new(key, form, Requirement::Default(value), help)
    }

    /// Whether its values are secret: lists show a mask in their place.
    pub fn is_secret(&self) -> bool {
        matches!(self.field_type, FieldType::Header | FieldType::Secret(_) | FieldType::SecretUrl)
    }

    /// Whether only whoever has the server sets it.
    pub fn is_operator_only(&self) -> bool {
        matches!(self.field_type, FieldType::CertificatePin)
    }

    /// Whether its values name the server that requests go to.
    pub fn is_url(&self) -> bool {
        matches!(self.field_type, FieldType::Url | FieldType::SecretUrl)
    }

    /// What stands for a value in a help text, as in `to=ADDRESS`.
    pub fn placeholder(&self) -> Cow<'static, str> {
        match self.field_type {
            FieldType::MailAddresses(1) => "ADDRESS".into(),
            FieldType::MailAddresses(_) => "ADDRESS,...".into(),
            FieldType::PhoneNumber => "NUMBER".into(),
            FieldType::Url | FieldType::SecretUrl => "URL".into(),
            FieldType::Choice(words) => words.join("|").into(),
            FieldType::Flag => "on|off".into(),
            FieldType::Number(least, most) => format!("{least}...{most}").into(),
            FieldType::NumberOrOff(least, most) => format!("{least}...{most}|off").into(),
            FieldType::Duration(..) => "TIME".into(),
            FieldType::TimeRange => "HH:MM-HH:MM".into(),
            FieldType::Weekdays => "DAYS".into(),
            FieldType::TimeZone => "ZONE".into(),
            FieldType::CertificatePin => "sha256:HEX".into(),
            FieldType::List(_) => "TEXT,...".into(),
            FieldType::Line(_) | FieldType::Text(_) | FieldType::Template(_) | FieldType::Header | FieldType::Label => "TEXT".into(),
            FieldType::Secret(_) => "SECRET".into(),
        }
    }

    /// The part of the key before `NAME`, if the key is a pattern.
    pub(super) fn key_prefix(&self) -> Option<&'static str> {
        self.key.strip_suffix("NAME")
    }

    /// Whether this key belongs to the field.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.key_prefix().map_or(self.key == key, |prefix| key.starts_with(prefix))
    }

    /// Whether this key gives the file that holds the secret, as in `token-file=/run/credentials/token`.
    pub(super) fn has_file_key(&self, key: &str) -> bool {
        self.is_secret() && self.key_prefix().is_none() && key.strip_suffix("-file") == Some(self.key)
    }

    /// The one spelling of a key that belongs to the field.
    pub(super) fn canonical_key(&self, key: &str) -> Box<str> {
        if matches!(self.field_type, FieldType::Header) { key.to_ascii_lowercase().into() } else { key.into() }
    }

    /// Refuses a new value that its service cannot have given; the error is as that of [`check_value`](Self::check).
    /// `api`: the server that the channel uses, where it can be chosen.
    pub(super) fn check_value_format(&self, key: &str, value: &str, api: Option<&str>) -> Result<(), String> {
        if self.format_domain.is_some_and(|domain| api.is_some_and(|api| !value_format::is_on_domain(api, domain))) {
            return Ok(());
        }
        (self.check_format)(value).map_err(|problem| format!("{key} {problem}"))
    }

    /// Whether an empty value is the same as none.
    pub(super) fn ignores_empty(&self) -> bool {
        matches!(self.field_type, FieldType::Text(_) | FieldType::Template(_))
    }

    /// Refuses a value that the field does not take; the error says what is wrong and what to do, without the value.
    pub(super) fn check_value(&self, key: &str, value: &str) -> Result<(), String> {
        let named = || self.key_prefix().and_then(|prefix| key.strip_prefix(prefix)).unwrap_or_default();
        match self.field_type {
            FieldType::MailAddresses(most) => field_value::check_mail_addresses(value, most),
            FieldType::PhoneNumber => field_value::check_phone_number(value).map_err(String::from),
            FieldType::Url | FieldType::SecretUrl => field_value::check_url(value),
            FieldType::Choice(words) => field_value::check_choice(value, words),
            FieldType::Flag => field_value::check_choice(value, &["on", "off"]),
            FieldType::Number(least, most) => field_value::parse_number(value, least, most).map(drop),
            FieldType::NumberOrOff(least, most) if value != "off" => {
                field_value::parse_number(value, least, most).map(drop).map_err(|problem| format!("{problem}, or off"))
            }
            FieldType::NumberOrOff(..) => Ok(()),
            FieldType::Duration(least, most) => field_value::parse_duration(value, least, most).map(drop),
            FieldType::TimeRange => field_value::parse_time_range(value).map(drop).map_err(String::from),
            FieldType::Weekdays => field_value::parse_weekdays(value).map(drop).map_err(String::from),
            FieldType::TimeZone => field_value::check_time_zone(value),
            FieldType::CertificatePin => field_value::parse_certificate_pin(value).map(drop).map_err(String::from),
            FieldType::Line(longest) | FieldType::Secret(longest) => field_value::check_line(value, longest),
            FieldType::List(most) => field_value::check_list(value, most),
            FieldType::Text(longest) | FieldType::Template(longest) => field_value::check_text(value, longest),
            FieldType::Header => field_value::check_header(named(), value),
            FieldType::Label => field_value::check_label(named(), value),
        }
        // What stands in place of `NAME` was made up by somebody, so such a key is quoted.
        .map_err(|problem| if self.key_prefix().is_some() { format!("{key:?} {problem}") } else { format!("{key} {problem}") })
    }
}
