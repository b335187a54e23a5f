//! Setting in the table of a channel kind: its type, whether it is required, and its help.

use std::borrow::Cow;

use super::field_value;
use super::settings::ChannelSettings;

/// Setting of a channel kind.
pub struct SettingField {
    /// Key of the setting. A key that ends in `NAME` is a pattern: any other text may take that
    /// place.
    pub key: &'static str,
    /// Type of the values.
    pub field_type: SettingFieldType,
    /// Rule for leaving out the value.
    pub requirement: Requirement,
    /// Purpose of the setting: half a sentence for people.
    pub help: &'static str,
    /// Checks the format of a new value beyond its type. The error says what is wrong and what to
    /// do.
    validate_format: fn(&str) -> Result<(), &'static str>,
    /// Domain of the service whose values have that format. Channels whose `api` is elsewhere
    /// accept any value.
    format_domain: Option<&'static str>,
}

/// Type of the values of a field.
pub enum SettingFieldType {
    /// Mail addresses separated by commas, at most this many, each without a name or brackets.
    MailAddresses(usize),
    /// International phone number.
    PhoneNumber,
    /// Absolute `http` or `https` URL.
    Url,
    /// URL that is itself a credential for sending: everything but scheme, host and port is secret.
    SecretUrl,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One or more of these words, separated by commas, each once.
    Words(&'static [&'static str]),
    /// `on` or `off`.
    Flag,
    /// Whole number from the first to the second.
    Number(i64, i64),
    /// Such a number, or `off`.
    NumberOrOff(i64, i64),
    /// Duration such as `90s`, `30m`, `4h`, `2d`; minimum and maximum in seconds.
    Duration(i64, i64),
    /// Part of each day, such as `22:00-07:00`.
    TimeRange,
    /// Days of the week, such as `mon-fri` or `sat,sun`.
    Weekdays,
    /// Name of a time zone.
    TimeZone,
    /// SHA-256 of a certificate, as `sha256:` and 64 hexadecimal digits.
    CertificatePin,
    /// Text on one line, at least one character and at most this many bytes.
    Line(usize),
    /// Such a line that must not be shown.
    Secret(usize),
    /// Lines separated by commas, at most this many.
    List(usize),
    /// Text of any characters, at most this many bytes. An empty text counts as left out.
    Text(usize),
    /// Such a text with placeholders such as `$NAME`.
    Template(usize),
    /// Value of the HTTP header that the key names. It is secret. The name is case-insensitive.
    Header,
    /// Value of the label that the key names.
    Label,
}

/// Rule for leaving out the value of a setting.
pub enum Requirement {
    /// Required for every channel.
    Required,
    /// Required to create a channel. Channels that were created before this was required stay, but
    /// cannot deliver.
    RequiredToDeliver,
    /// Optional.
    Optional,
    /// Optional, with this default value.
    Default(&'static str),
    /// Optional, with a default that depends on the other settings.
    Derived {
        /// Computes the value.
        value: fn(&ChannelSettings) -> &'static str,
        /// Description of the value, for people.
        description: &'static str,
    },
}

impl SettingField {
    pub(crate) const fn new(
        key: &'static str,
        field_type: SettingFieldType,
        requirement: Requirement,
        help: &'static str,
    ) -> Self {
        Self {
            key,
            field_type,
            requirement,
            help,
            validate_format: |_| Ok(()),
            format_domain: None,
        }
    }

    /// Restricts new values of the field to this format. Stored values stay valid.
    pub(crate) const fn with_format(
        self,
        validate_format: fn(&str) -> Result<(), &'static str>,
    ) -> Self {
        Self {
            validate_format,
            ..self
        }
    }

    /// Like [`with_format`](Self::with_format), but only if the channel's `api` is in this domain.
    pub(crate) const fn with_format_at(
        self,
        domain: &'static str,
        validate_format: fn(&str) -> Result<(), &'static str>,
    ) -> Self {
        Self {
            validate_format,
            format_domain: Some(domain),
            ..self
        }
    }

    /// Field that must be given.
    pub(crate) const fn required(
        key: &'static str,
        field_type: SettingFieldType,
        help: &'static str,
    ) -> Self {
        Self::new(key, field_type, Requirement::Required, help)
    }

    /// Field that may be left out.
    pub(crate) const fn optional(
        key: &'static str,
        field_type: SettingFieldType,
        help: &'static str,
    ) -> Self {
        Self::new(key, field_type, Requirement::Optional, help)
    }

    /// Field with a default value.
    pub(crate) const fn with_default(
        key: &'static str,
        field_type: SettingFieldType,
        value: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(key, field_type, Requirement::Default(value), help)
    }

    /// True if the values are secret. Lists show a mask in their place.
    pub fn is_secret(&self) -> bool {
        matches!(
            self.field_type,
            SettingFieldType::Header | SettingFieldType::Secret(_) | SettingFieldType::SecretUrl
        )
    }

    /// True if lists may show the values as the destination of alerts. A secret must not be shown,
    /// and a priority or a region is not a destination.
    pub(super) fn may_show_destination(&self) -> bool {
        let is_option = matches!(
            self.field_type,
            SettingFieldType::Number(..) | SettingFieldType::Choice(_)
        );
        !is_option && !self.is_secret()
    }

    /// True if only the operator of the server may set it.
    pub fn is_operator_only(&self) -> bool {
        matches!(self.field_type, SettingFieldType::CertificatePin)
    }

    /// True if the values name the server that requests go to.
    pub fn is_url(&self) -> bool {
        matches!(
            self.field_type,
            SettingFieldType::Url | SettingFieldType::SecretUrl
        )
    }

    /// Placeholder for a value in a help text, as in `to=ADDRESS`.
    pub fn placeholder(&self) -> Cow<'static, str> {
        match self.field_type {
            SettingFieldType::MailAddresses(1) => "ADDRESS".into(),
            SettingFieldType::MailAddresses(_) => "ADDRESS,...".into(),
            SettingFieldType::PhoneNumber => "NUMBER".into(),
            SettingFieldType::Url | SettingFieldType::SecretUrl => "URL".into(),
            SettingFieldType::Choice(words) => words.join("|").into(),
            SettingFieldType::Words(words) => words.join(",").into(),
            SettingFieldType::Flag => "on|off".into(),
            SettingFieldType::Number(min, max) => format!("{min}...{max}").into(),
            SettingFieldType::NumberOrOff(min, max) => format!("{min}...{max}|off").into(),
            SettingFieldType::Duration(..) => "TIME".into(),
            SettingFieldType::TimeRange => "HH:MM-HH:MM".into(),
            SettingFieldType::Weekdays => "DAYS".into(),
            SettingFieldType::TimeZone => "ZONE".into(),
            SettingFieldType::CertificatePin => "sha256:HEX".into(),
            SettingFieldType::List(_) => "TEXT,...".into(),
            SettingFieldType::Line(_)
            | SettingFieldType::Text(_)
            | SettingFieldType::Template(_)
            | SettingFieldType::Header
            | SettingFieldType::Label => "TEXT".into(),
            SettingFieldType::Secret(_) => "SECRET".into(),
        }
    }

    /// Part of the key before `NAME`, if the key is a pattern.
    pub(super) fn key_prefix(&self) -> Option<&'static str> {
        self.key.strip_suffix("NAME")
    }

    /// True if this key belongs to the field.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.key_prefix()
            .map_or(self.key == key, |prefix| key.starts_with(prefix))
    }

    /// True if this key names the file that holds the secret, as in
    /// `token-file=/run/credentials/token`.
    pub(super) fn has_file_key(&self, key: &str) -> bool {
        self.is_secret()
            && self.key_prefix().is_none()
            && key.strip_suffix("-file") == Some(self.key)
    }

    /// Canonical spelling of a key that belongs to the field.
    pub(super) fn canonical_key(&self, key: &str) -> Box<str> {
        if matches!(self.field_type, SettingFieldType::Header) {
            key.to_ascii_lowercase().into()
        } else {
            key.into()
        }
    }

    /// Rejects a new value that its service cannot have issued. The error is like that of
    /// [`validate_value`](Self::validate_value). `api` is the server that the channel uses, if it
    /// can be chosen.
    pub(crate) fn validate_value_format(
        &self,
        key: &str,
        value: &str,
        api: Option<&str>,
    ) -> Result<(), String> {
        if self
            .format_domain
            .is_some_and(|domain| api.is_some_and(|api| !field_value::is_on_domain(api, domain)))
        {
            return Ok(());
        }
        (self.validate_format)(value).map_err(|problem| format!("{key} {problem}"))
    }

    /// True if an empty value counts as left out.
    pub(super) fn ignores_empty(&self) -> bool {
        matches!(
            self.field_type,
            SettingFieldType::Text(_) | SettingFieldType::Template(_)
        )
    }

    /// Rejects a value that the field does not accept. The error says what is wrong and what to do,
    /// without the value.
    pub(super) fn validate_value(&self, key: &str, value: &str) -> Result<(), String> {
        let name_in_key = || {
            self.key_prefix()
                .and_then(|prefix| key.strip_prefix(prefix))
                .unwrap_or_default()
        };
        match self.field_type {
            SettingFieldType::MailAddresses(max) => {
                field_value::validate_mail_addresses(value, max)
            }
            SettingFieldType::PhoneNumber => {
                field_value::validate_phone_number(value).map_err(String::from)
            }
            SettingFieldType::Url | SettingFieldType::SecretUrl => field_value::validate_url(value),
            SettingFieldType::Choice(words) => field_value::validate_choice(value, words),
            SettingFieldType::Words(words) => field_value::validate_words(value, words),
            SettingFieldType::Flag => field_value::validate_choice(value, &["on", "off"]),
            SettingFieldType::Number(min, max) => {
                field_value::parse_number(value, min, max).map(drop)
            }
            SettingFieldType::NumberOrOff(min, max) if value != "off" => {
                field_value::parse_number(value, min, max)
                    .map(drop)
                    .map_err(|problem| format!("{problem}, or off"))
            }
            SettingFieldType::NumberOrOff(..) => Ok(()),
            SettingFieldType::Duration(min, max) => {
                field_value::parse_duration(value, min, max).map(drop)
            }
            SettingFieldType::TimeRange => field_value::parse_time_range(value)
                .map(drop)
                .map_err(String::from),
            SettingFieldType::Weekdays => field_value::parse_weekdays(value)
                .map(drop)
                .map_err(String::from),
            SettingFieldType::TimeZone => field_value::validate_time_zone(value),
            SettingFieldType::CertificatePin => field_value::parse_certificate_pin(value)
                .map(drop)
                .map_err(String::from),
            SettingFieldType::Line(max_bytes) | SettingFieldType::Secret(max_bytes) => {
                field_value::validate_line(value, max_bytes)
            }
            SettingFieldType::List(max) => field_value::validate_list(value, max),
            SettingFieldType::Text(max_bytes) | SettingFieldType::Template(max_bytes) => {
                field_value::validate_text(value, max_bytes)
            }
            SettingFieldType::Header => field_value::validate_header(name_in_key(), value),
            SettingFieldType::Label => field_value::validate_label(name_in_key(), value),
        }
        // A user chose the text in place of `NAME`, so such a key is quoted.
        .map_err(|problem| {
            if self.key_prefix().is_some() {
                format!("{key:?} {problem}")
            } else {
                format!("{key} {problem}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_type_describes_its_valid_values() {
        let refused = |field_type: SettingFieldType, value: &str| {
            SettingField::optional("key", field_type, "")
                .validate_value("key", value)
                .unwrap_err()
        };
        for (field_type, good, bad, message) in [
            (
                SettingFieldType::Number(-3, 2),
                &["-3", "0", "2"][..],
                &["", "3", "+1", "01", "1.5", "9999999999999999999"][..],
                "key is not a whole number in range; give a number from -3 to 2",
            ),
            (
                SettingFieldType::NumberOrOff(1, 9),
                &["off", "9"],
                &["", "0", "on"],
                "give a number from 1 to 9, or off",
            ),
            (
                SettingFieldType::Words(&["down", "up"]),
                &["down", "up,down"],
                &["late", "Up", "up,late", "up,up"],
                "key is not a list of some of down, up; give each at most once",
            ),
            (
                SettingFieldType::Duration(300, 86_400),
                &["300s", "5m", "1h", "1d"],
                &[
                    "",
                    "5",
                    "4m",
                    "2d",
                    "-1h",
                    "1w",
                    "1h30m",
                    "9223372036854775807d",
                ],
                "key is not a duration from 5m to 1d; give one like 30m or 4h",
            ),
            (
                SettingFieldType::TimeRange,
                &["00:00-23:59", "22:00-07:00"],
                &[
                    "",
                    "22-7",
                    "24:00-07:00",
                    "22:60-07:00",
                    "+2:00-07:00",
                    "2:00-07:00",
                    "22:0-07:00",
                    "22:00",
                ],
                "key is not a time range like 22:00-07:00",
            ),
            (
                SettingFieldType::Weekdays,
                &["mon", "mon-fri", "sat,sun", "fri-mon,wed"],
                &["", "Mon", "mon-", "monday", "mon,,tue"],
                "key is not a list of weekdays like mon-fri",
            ),
            (
                SettingFieldType::TimeZone,
                &["Europe/Riga", "UTC"],
                &["", "Riga", "europe/riga"],
                "key is not a time zone",
            ),
            (
                SettingFieldType::CertificatePin,
                &["sha256:000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"],
                &[
                    "",
                    "sha256:00",
                    "sha256:0001z2030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                ],
                "key is not the SHA-256 of a certificate",
            ),
            (
                SettingFieldType::Flag,
                &["on", "off"],
                &["", "yes", "ON"],
                "key is not one of on, off",
            ),
            (
                SettingFieldType::List(2),
                &["a", "a, b"],
                &["a,", ",", ""],
                "key ",
            ),
            (
                SettingFieldType::Line(3),
                &["a b"],
                &["", " ", "a\nb", "abcd", "\0"],
                "key ",
            ),
        ] {
            let field = SettingField::optional("key", field_type, "");
            for value in good {
                assert_eq!(field.validate_value("key", value), Ok(()), "{value}");
            }
            for value in bad {
                let error = field.validate_value("key", value).unwrap_err();
                assert!(
                    error.contains(message) && error.contains([';', ':']),
                    "{value}: {error}"
                );
            }
        }
        assert_eq!(
            refused(SettingFieldType::List(2), "a,b,c"),
            "key has 3 items; give at most 2"
        );
        assert!(
            SettingField::optional("label.NAME", SettingFieldType::Label, "")
                .validate_value("label.0a", "x")
                .unwrap_err()
                .contains("does not name a label")
        );
    }
}
