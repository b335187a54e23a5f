//! Row of another program's table, independent of the format of the source, so that rows are
//! interpreted in one place.

use std::fmt;
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use uuid::Uuid;

use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// Maximum size of a row in bytes, in any source: see [limits](crate::docs::limits).
pub(super) const MAX_ROW_BYTES: usize = 64 << 20;

/// Tables that are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum SourceTable {
    User,
    Profile,
    Project,
    Member,
    Check,
    Channel,
    /// Assignments of channels to checks.
    Assignment,
    /// Sessions of signed-in users, signed with the secret of the server.
    Session,
    Flip,
    Ping,
}

impl SourceTable {
    /// Tables that are kept in memory completely.
    pub(super) const OBJECTS: [Self; 8] = [
        Self::User,
        Self::Profile,
        Self::Project,
        Self::Member,
        Self::Check,
        Self::Channel,
        Self::Assignment,
        Self::Session,
    ];

    /// Tables of logs.
    pub(super) const LOGS: [Self; 2] = [Self::Flip, Self::Ping];

    /// Name of the table in a database.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::User => "auth_user",
            Self::Profile => "accounts_profile",
            Self::Project => "accounts_project",
            Self::Member => "accounts_member",
            Self::Check => "api_check",
            Self::Channel => "api_channel",
            Self::Assignment => "api_channel_checks",
            Self::Session => "django_session",
            Self::Flip => "api_flip",
            Self::Ping => "api_ping",
        }
    }

    /// Returns the table of this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::OBJECTS
            .into_iter()
            .chain(Self::LOGS)
            .find(|table| table.name() == name)
    }
}

/// Value of a column. The meaning of a text depends on the requested type.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum SourceValue {
    Null,
    Bool(bool),
    Integer(i64),
    Text(String),
    #[cfg_attr(
        not(feature = "sqlite"),
        allow(dead_code, reason = "dumps have texts for them")
    )]
    Bytes(Vec<u8>),
    /// A value of a type that no needed column has.
    Other,
}

/// A row of a source.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SourceRow {
    /// Table of the row.
    pub(super) table: SourceTable,
    columns: Rc<[Box<str>]>,
    values: Vec<SourceValue>,
}

/// Error of a row, with its location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowError {
    table: SourceTable,
    primary_key: String,
    /// Display name of the object.
    name: Option<String>,
    message: String,
}

impl RowError {
    /// Adds the display name of the object.
    pub(super) fn with_name(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// Adds a hint about `--skip` for a check, unless the message has one.
    pub(super) fn with_skip_hint(mut self) -> Self {
        if !self.message.contains("--skip") {
            self.message += "; change the check on the old server, or skip it with --skip";
        }
        self
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table.name(), self.primary_key)?;
        if let Some(name) = &self.name {
            write!(f, " ({name:?})")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Result of reading a column: `None` if the column does not exist or is NULL.
type ColumnResult<T> = Result<Option<T>, RowError>;

impl SourceRow {
    /// Creates a row with a value for each column.
    pub(super) fn new(
        table: SourceTable,
        columns: Rc<[Box<str>]>,
        values: Vec<SourceValue>,
    ) -> Self {
        Self {
            table,
            columns,
            values,
        }
    }

    /// Returns an error about this row.
    pub(super) fn error(&self, message: impl Into<String>) -> RowError {
        let pk = match self.get("id") {
            Some(SourceValue::Integer(pk)) => pk.to_string(),
            Some(SourceValue::Text(pk)) => pk.chars().take(40).collect(),
            _ => "without ID".into(),
        };
        RowError {
            table: self.table,
            primary_key: pk,
            name: None,
            message: message.into(),
        }
    }

    /// True if the column exists, whatever its value is.
    pub(super) fn has_column(&self, column: &str) -> bool {
        self.columns.iter().any(|name| **name == *column)
    }

    fn get(&self, column: &str) -> Option<&SourceValue> {
        let index = self.columns.iter().position(|name| **name == *column)?;
        self.values
            .get(index)
            .filter(|value| **value != SourceValue::Null)
    }

    fn read_column<T>(
        &self,
        column: &str,
        type_name: &str,
        read: impl FnOnce(&SourceValue) -> Option<T>,
    ) -> ColumnResult<T> {
        let Some(value) = self.get(column) else {
            return Ok(None);
        };
        read(value)
            .map(Some)
            .ok_or_else(|| self.error(format!("{column} is not {type_name}")))
    }

    /// Requires a value: `None` becomes an error.
    pub(super) fn require<T>(&self, column: &str, read: ColumnResult<T>) -> Result<T, RowError> {
        read?.ok_or_else(|| self.error(format!("{column} is missing")))
    }

    /// Returns a text, which is empty if there is none.
    pub(super) fn text(&self, column: &str) -> Result<&str, RowError> {
        match self.get(column) {
            None => Ok(""),
            Some(SourceValue::Text(text)) => Ok(text),
            Some(_) => Err(self.error(format!("{column} is not text"))),
        }
    }

    /// Returns an integer.
    pub(super) fn integer(&self, column: &str) -> ColumnResult<i64> {
        self.read_column(column, "a whole number", |value| match value {
            SourceValue::Integer(number) => Some(*number),
            SourceValue::Text(text) => text.parse().ok(),
            _ => None,
        })
    }

    /// Returns the number of a row.
    pub(super) fn id(&self, column: &str) -> Result<i64, RowError> {
        self.require(column, self.integer(column))
    }

    /// Returns a boolean.
    pub(super) fn boolean(&self, column: &str) -> ColumnResult<bool> {
        self.read_column(column, "true or false", |value| match value {
            SourceValue::Bool(flag) => Some(*flag),
            SourceValue::Integer(number @ (0 | 1)) => Some(*number == 1),
            SourceValue::Text(text) => match text.as_str() {
                "t" => Some(true),
                "f" => Some(false),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns a UUID, with or without hyphens.
    pub(super) fn uuid(&self, column: &str) -> ColumnResult<Uuid> {
        self.read_column(column, "a UUID", |value| match value {
            SourceValue::Text(text) if matches!(text.len(), 32 | 36) => Uuid::try_parse(text).ok(),
            _ => None,
        })
    }

    /// Returns a timestamp, with its offset or in UTC.
    pub(super) fn timestamp(&self, column: &str) -> ColumnResult<Timestamp> {
        self.read_column(column, "a time", |value| match value {
            SourceValue::Text(text) => parse_timestamp(text),
            _ => None,
        })
    }

    /// Returns a duration in microseconds.
    pub(super) fn duration_micros(&self, column: &str) -> ColumnResult<i64> {
        self.read_column(column, "a duration", |value| match value {
            SourceValue::Integer(micros) => Some(*micros),
            SourceValue::Text(text) => parse_duration_micros(text),
            _ => None,
        })
    }

    /// Returns bytes: raw, in hexadecimal after `\x`, or in base64.
    pub(super) fn bytes(&self, column: &str) -> ColumnResult<Vec<u8>> {
        self.read_column(column, "bytes", |value| match value {
            SourceValue::Bytes(bytes) => Some(bytes.clone()),
            SourceValue::Text(text) => match text.strip_prefix("\\x") {
                Some(digits) => decode_hex(digits),
                None => BASE64_STANDARD.decode(text).ok(),
            },
            _ => None,
        })
    }
}

/// Parses `2026-08-30 12:34:56.123456` in UTC, or the same with `T` and an offset (`Z`, `+00`,
/// `+05:30`).
pub(super) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let stamp = text.parse::<jiff::Timestamp>().ok();
    let stamp = stamp.or_else(|| {
        Some(
            text.parse::<DateTime>()
                .ok()?
                .to_zoned(TimeZone::UTC)
                .ok()?
                .timestamp(),
        )
    });
    stamp.map(|stamp| Timestamp::from_micros(stamp.as_microsecond()))
}

/// Parses `1 day 00:00:05`, `1 00:00:05`, `2 days`, `-00:00:01.5`.
fn parse_duration_micros(text: &str) -> Option<i64> {
    const DAY: i64 = 86_400 * MICROS_PER_SEC;
    let mut total = 0_i64;
    let mut words = text.split(' ').peekable();
    let mut has_parts = false;
    while let Some(word) = words.next() {
        let part = match word.contains(':') {
            true => parse_clock_micros(word)?,
            false => {
                let days = word.parse::<i64>().ok()?.checked_mul(DAY)?;
                if words
                    .peek()
                    .is_some_and(|unit| matches!(*unit, "day" | "days"))
                {
                    words.next();
                } else {
                    // A number without a unit is a number of days, and a time of day must follow.
                    words.peek().filter(|next| next.contains(':'))?;
                }
                days
            }
        };
        total = total.checked_add(part)?;
        has_parts = true;
    }
    has_parts.then_some(total)
}

/// Parses `[-]HH:MM:SS[.ffffff]`.
fn parse_clock_micros(text: &str) -> Option<i64> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let number = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse::<i64>().ok())
            .flatten()
    };
    let (time, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = time.split(':');
    let hours = number(parts.next()?)?;
    let minutes = number(parts.next()?)?;
    let seconds = number(parts.next()?)?;
    if parts.next().is_some() || minutes > 59 || seconds > 59 || fraction.len() > 6 {
        return None;
    }
    let fraction = number(&format!("{fraction:0<6}"))?;
    let seconds = hours
        .checked_mul(3_600)?
        .checked_add(minutes * 60 + seconds)?;
    seconds
        .checked_mul(MICROS_PER_SEC)?
        .checked_add(fraction)?
        .checked_mul(sign)
}

/// Decodes hexadecimal digits.
pub(super) fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: SourceValue) -> SourceRow {
        SourceRow::new(
            SourceTable::Check,
            Rc::from([Box::from("id"), Box::from("c")]),
            vec![SourceValue::Integer(7), value],
        )
    }

    fn text(text: &str) -> SourceRow {
        row(SourceValue::Text(text.into()))
    }

    #[test]
    fn times_are_parsed_in_the_form_of_each_source() {
        let at = |micros| Ok(Some(Timestamp::from_micros(micros)));
        for (form, micros) in [
            ("2026-08-30 12:34:56.123456", 1_788_093_296_123_456),
            ("2026-08-30 12:34:56", 1_788_093_296_000_000),
            ("2026-08-30 12:34:56.123456+00", 1_788_093_296_123_456),
            ("2026-08-30 15:34:56.1+03", 1_788_093_296_100_000),
            ("2026-08-30 18:04:56+05:30", 1_788_093_296_000_000),
            ("2026-08-30T12:34:56.123Z", 1_788_093_296_123_000),
            ("1969-12-31 23:59:59.999999", -1),
        ] {
            assert_eq!(text(form).timestamp("c"), at(micros), "{form}");
        }
        for bad in [
            "",
            "infinity",
            "2026-13-01 00:00:00",
            "12:00",
            "0044-03-15 00:00:00+00 BC",
            "99999-01-01 00:00:00",
        ] {
            let read = text(bad).timestamp("c");
            assert!(read.is_err(), "{bad}: {read:?}");
        }
        assert_eq!(row(SourceValue::Null).timestamp("c"), Ok(None));
        assert_eq!(text("").timestamp("d"), Ok(None));
    }

    #[test]
    fn durations_are_parsed_in_the_form_of_each_source() {
        const DAY: i64 = 86_400 * MICROS_PER_SEC;
        for (form, wanted) in [
            ("1 day 00:00:05", Some(DAY + 5 * MICROS_PER_SEC)),
            ("1 00:00:05", Some(DAY + 5 * MICROS_PER_SEC)),
            ("00:05:00", Some(300 * MICROS_PER_SEC)),
            ("00:00:05.25", Some(5_250_000)),
            ("365 days", Some(365 * DAY)),
            ("-1 days +23:59:59.5", Some(-500_000)),
            ("-00:00:01", Some(-MICROS_PER_SEC)),
            ("100:00:00", Some(360_000 * MICROS_PER_SEC)),
            ("5", None),
            ("1 mon", None),
            ("", None),
            ("00:60:00", None),
            ("1:2", None),
            ("9223372036854775807 days", None),
            ("00:00:00.1234567", None),
            ("00:00:0\u{b2}", None),
        ] {
            assert_eq!(
                text(form).duration_micros("c").ok().flatten(),
                wanted,
                "{form}"
            );
        }
        assert_eq!(
            row(SourceValue::Integer(5)).duration_micros("c"),
            Ok(Some(5))
        );
    }

    #[test]
    fn bytes_uuids_and_flags_are_parsed_in_the_form_of_each_source() {
        for value in [
            SourceValue::Bytes(b"a\xffb".to_vec()),
            SourceValue::Text("\\x61fF62".into()),
            SourceValue::Text("Yf9i".into()),
        ] {
            assert_eq!(row(value).bytes("c"), Ok(Some(b"a\xffb".to_vec())));
        }
        for bad in ["\\x6", "\\x6g", "Yf9", "ž"] {
            assert_eq!(
                text(bad).bytes("c").unwrap_err().to_string(),
                "api_check 7: c is not bytes",
                "{bad}"
            );
        }
        let uuid = Uuid::from_u128(0x6f3a_0f6e_0c9b_4f0e_9b1b_0a1b_2c3d_4e5f);
        for form in [
            "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f",
            "6f3a0f6e0c9b4f0e9b1b0a1b2c3d4e5f",
        ] {
            assert_eq!(text(form).uuid("c"), Ok(Some(uuid)));
        }
        assert!(text("6f3a").uuid("c").is_err() && row(SourceValue::Integer(1)).uuid("c").is_err());
        for (value, flag) in [
            (SourceValue::Bool(true), Some(true)),
            (SourceValue::Integer(0), Some(false)),
            (SourceValue::Text("t".into()), Some(true)),
            (SourceValue::Text("f".into()), Some(false)),
            (SourceValue::Integer(2), None),
            (SourceValue::Text("true".into()), None),
        ] {
            assert_eq!(
                row(value.clone()).boolean("c").ok().flatten(),
                flag,
                "{value:?}"
            );
        }
    }

    #[test]
    fn missing_and_invalid_values_are_reported_with_their_location() {
        let row = row(SourceValue::Other);
        assert_eq!(
            row.require("d", row.uuid("d")).unwrap_err().to_string(),
            "api_check 7: d is missing"
        );
        assert_eq!(
            row.text("c").unwrap_err().with_name("b\"").to_string(),
            "api_check 7 (\"b\\\"\"): c is not text"
        );
        assert_eq!(
            (row.text("d"), row.has_column("c"), row.has_column("d")),
            (Ok(""), true, false)
        );
    }
}
