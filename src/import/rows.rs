//! A row of another program's table, whichever source it was read from, so that what it means is decided once for all sources.

use std::fmt;
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use uuid::Uuid;

use crate::domain::moment::{MICROS, Moment};

/// Bytes of a row, in any source: see [limits](crate::docs::limits).
pub(super) const LONGEST_ROW: usize = 64 << 20;

/// The tables that are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Table {
    User,
    Profile,
    Project,
    Member,
    Check,
    Channel,
    /// Which channels are assigned to which checks.
    Assignment,
    /// Of people who are signed in, which the secret of the server has signed.
    Session,
    Flip,
    Ping,
}

impl Table {
    /// Those of which everything is kept in memory.
    pub(super) const OBJECTS: [Self; 8] =
        [Self::User, Self::Profile, Self::Project, Self::Member, Self::Check, Self::Channel, Self::Assignment, Self::Session];

    /// The logs.
    pub(super) const LOGS: [Self; 2] = [Self::Flip, Self::Ping];

    /// Its name in a database.
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

    /// The table of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::OBJECTS.into_iter().chain(Self::LOGS).find(|table| table.name() == name)
    }
}

/// What stands in a column. What a text means depends on what is asked for.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Null,
    Flag(bool),
    Integer(i64),
    Text(String),
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "dumps have texts for them"))]
    Bytes(Vec<u8>),
    /// Something that none of the columns has that are read.
    Other,
}

/// A row.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    /// The table that it stands in.
    pub(super) table: Table,
    columns: Rc<[Box<str>]>,
    values: Vec<Value>,
}

/// What is wrong with a row, and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    table: Table,
    pk: String,
    /// What people call the thing.
    name: Option<String>,
    what: String,
}

impl Complaint {
    /// The same of something that people call so.
    pub(super) fn of(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The same of a check, with the way out unless it names one.
    pub(super) fn or_skip(mut self) -> Self {
        if !self.what.contains("--skip") {
            self.what += "; change the check there, or leave it behind with --skip";
        }
        self
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table.name(), self.pk)?;
        if let Some(name) = &self.name {
            write!(f, " ({name:?})")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What is read of a column: nothing if there is none of that name, or NULL in it.
type Read<T> = Result<Option<T>, Complaint>;

impl Row {
    /// A row with a value for each column.
    pub(super) fn new(table: Table, columns: Rc<[Box<str>]>, values: Vec<Value>) -> Self {
        Self { table, columns, values }
    }

    /// Something that is wrong with it.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Complaint {
        let pk = match self.get("id") {
            Some(Value::Integer(pk)) => pk.to_string(),
            Some(Value::Text(pk)) => pk.chars().take(40).collect(),
            _ => "without id".into(),
        };
        Complaint { table: self.table, pk, name: None, what: what.into() }
    }

    /// Whether there is such a column, whatever stands in it.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| **name == *column)
    }

    fn get(&self, column: &str) -> Option<&Value> {
        let place = self.columns.iter().position(|name| **name == *column)?;
        self.values.get(place).filter(|value| **value != Value::Null)
    }

    fn read<T>(&self, column: &str, what: &str, read: impl FnOnce(&Value) -> Option<T>) -> Read<T> {
        let Some(value) = self.get(column) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(format!("{column} is not {what}")))
    }

    /// What must be there.
    pub(super) fn need<T>(&self, column: &str, read: Read<T>) -> Result<T, Complaint> {
        read?.ok_or_else(|| self.wrong(format!("{column} is missing")))
    }

    /// A text; an empty one if there is none.
    pub(super) fn text(&self, column: &str) -> Result<&str, Complaint> {
        match self.get(column) {
            None => Ok(""),
            Some(Value::Text(text)) => Ok(text),
            Some(_) => Err(self.wrong(format!("{column} is not a text"))),
        }
    }

    /// A whole number.
    pub(super) fn integer(&self, column: &str) -> Read<i64> {
        self.read(column, "a whole number", |value| match value {
            Value::Integer(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        })
    }

    /// The number of a row.
    pub(super) fn id(&self, column: &str) -> Result<i64, Complaint> {
        self.need(column, self.integer(column))
    }

    /// True or false.
    pub(super) fn flag(&self, column: &str) -> Read<bool> {
        self.read(column, "true or false", |value| match value {
            Value::Flag(flag) => Some(*flag),
            Value::Integer(number @ (0 | 1)) => Some(*number == 1),
            Value::Text(text) => match text.as_str() {
                "t" => Some(true),
                "f" => Some(false),
                _ => None,
            },
            _ => None,
        })
    }

    /// A UUID, with hyphens or without.
    pub(super) fn uuid(&self, column: &str) -> Read<Uuid> {
        self.read(column, "a UUID", |value| match value {
            Value::Text(text) if matches!(text.len(), 32 | 36) => Uuid::try_parse(text).ok(),
            _ => None,
        })
    }

    /// A moment: with its offset, or in UTC.
    pub(super) fn moment(&self, column: &str) -> Read<Moment> {
        self.read(column, "a time", |value| match value {
            Value::Text(text) => moment(text),
            _ => None,
        })
    }

    /// A length of time in microseconds.
    pub(super) fn micros(&self, column: &str) -> Read<i64> {
        self.read(column, "a length of time", |value| match value {
            Value::Integer(micros) => Some(*micros),
            Value::Text(text) => micros(text),
            _ => None,
        })
    }

    /// Bytes: as they are, in hexadecimal after `\x`, or in base64.
    pub(super) fn bytes(&self, column: &str) -> Read<Vec<u8>> {
        self.read(column, "bytes", |value| match value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Text(text) => match text.strip_prefix("\\x") {
                Some(digits) => unhex(digits),
                None => BASE64_STANDARD.decode(text).ok(),
            },
            _ => None,
        })
    }
}

/// Reads `2026-08-30 12:34:56.123456` in UTC, or the same with `T` and an offset (`Z`, `+00`, `+05:30`).
pub(super) fn moment(text: &str) -> Option<Moment> {
    let stamp = text.parse::<Timestamp>().ok();
    let stamp = stamp.or_else(|| Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()));
    stamp.map(|stamp| Moment::from_micros(stamp.as_microsecond()))
}

/// Reads `1 day 00:00:05`, `1 00:00:05`, `2 days`, `-00:00:01.5`.
fn micros(text: &str) -> Option<i64> {
    const DAY: i64 = 86_400 * MICROS;
    let (mut total, mut words) = (0_i64, text.split(' ').peekable());
    let mut any = false;
    while let Some(word) = words.next() {
        let part = match word.contains(':') {
            true => clock(word)?,
            false => {
                let days = word.parse::<i64>().ok()?.checked_mul(DAY)?;
                if words.peek().is_some_and(|unit| matches!(*unit, "day" | "days")) {
                    words.next();
                } else {
                    // A bare number is one of days, and a time of day follows.
                    words.peek().filter(|next| next.contains(':'))?;
                }
                days
            }
        };
        total = total.checked_add(part)?;
        any = true;
    }
    any.then_some(total)
}

/// Reads `[-]HH:MM:SS[.ffffff]`.
fn clock(text: &str) -> Option<i64> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok()).flatten();
    let (time, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = time.split(':');
    let (hours, minutes, seconds) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some() || minutes > 59 || seconds > 59 || fraction.len() > 6 {
        return None;
    }
    let fraction = number(&format!("{fraction:0<6}"))?;
    let seconds = hours.checked_mul(3_600)?.checked_add(minutes * 60 + seconds)?;
    seconds.checked_mul(MICROS)?.checked_add(fraction)?.checked_mul(sign)
}

/// The bytes of hexadecimal digits.
pub(super) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Value) -> Row {
        Row::new(Table::Check, Rc::from([Box::from("id"), Box::from("c")]), vec![Value::Integer(7), value])
    }

    fn text(text: &str) -> Row {
        row(Value::Text(text.into()))
    }

    #[test]
    fn times_are_read_in_the_form_of_each_source() {
        let at = |micros| Ok(Some(Moment::from_micros(micros)));
        for (form, micros) in [
            ("2026-08-30 12:34:56.123456", 1_788_093_296_123_456),
            ("2026-08-30 12:34:56", 1_788_093_296_000_000),
            ("2026-08-30 12:34:56.123456+00", 1_788_093_296_123_456),
            ("2026-08-30 15:34:56.1+03", 1_788_093_296_100_000),
            ("2026-08-30 18:04:56+05:30", 1_788_093_296_000_000),
            ("2026-08-30T12:34:56.123Z", 1_788_093_296_123_000),
            ("1969-12-31 23:59:59.999999", -1),
        ] {
            assert_eq!(text(form).moment("c"), at(micros), "{form}");
        }
        for bad in ["", "infinity", "2026-13-01 00:00:00", "12:00", "0044-03-15 00:00:00+00 BC", "99999-01-01 00:00:00"] {
            let read = text(bad).moment("c");
            assert!(read.is_err(), "{bad}: {read:?}");
        }
        assert_eq!(row(Value::Null).moment("c"), Ok(None));
        assert_eq!(text("").moment("d"), Ok(None));
    }

    #[test]
    fn lengths_of_time_are_read_in_the_form_of_each_source() {
        const DAY: i64 = 86_400 * MICROS;
        for (form, wanted) in [
            ("1 day 00:00:05", Some(DAY + 5 * MICROS)),
            ("1 00:00:05", Some(DAY + 5 * MICROS)),
            ("00:05:00", Some(300 * MICROS)),
            ("00:00:05.25", Some(5_250_000)),
            ("365 days", Some(365 * DAY)),
            ("-1 days +23:59:59.5", Some(-500_000)),
            ("-00:00:01", Some(-MICROS)),
            ("100:00:00", Some(360_000 * MICROS)),
            ("5", None),
            ("1 mon", None),
            ("", None),
            ("00:60:00", None),
            ("1:2", None),
            ("9223372036854775807 days", None),
            ("00:00:00.1234567", None),
            ("00:00:0\u{b2}", None),
        ] {
            assert_eq!(text(form).micros("c").ok().flatten(), wanted, "{form}");
        }
        assert_eq!(row(Value::Integer(5)).micros("c"), Ok(Some(5)));
    }

    #[test]
    fn bytes_uuids_and_flags_are_read_in_the_form_of_each_source() {
        for value in [Value::Bytes(b"a\xffb".to_vec()), Value::Text("\\x61fF62".into()), Value::Text("Yf9i".into())] {
            assert_eq!(row(value).bytes("c"), Ok(Some(b"a\xffb".to_vec())));
        }
        for bad in ["\\x6", "\\x6g", "Yf9", "ž"] {
            assert_eq!(text(bad).bytes("c").unwrap_err().to_string(), "api_check 7: c is not bytes", "{bad}");
        }
        let uuid = Uuid::from_u128(0x6f3a_0f6e_0c9b_4f0e_9b1b_0a1b_2c3d_4e5f);
        for form in ["6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f", "6f3a0f6e0c9b4f0e9b1b0a1b2c3d4e5f"] {
            assert_eq!(text(form).uuid("c"), Ok(Some(uuid)));
        }
        assert!(text("6f3a").uuid("c").is_err() && row(Value::Integer(1)).uuid("c").is_err());
        for (value, flag) in [
            (Value::Flag(true), Some(true)),
            (Value::Integer(0), Some(false)),
            (Value::Text("t".into()), Some(true)),
            (Value::Text("f".into()), Some(false)),
            (Value::Integer(2), None),
            (Value::Text("true".into()), None),
        ] {
            assert_eq!(row(value.clone()).flag("c").ok().flatten(), flag, "{value:?}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_said_with_its_place() {
        let row = row(Value::Other);
        assert_eq!(row.need("d", row.uuid("d")).unwrap_err().to_string(), "api_check 7: d is missing");
        assert_eq!(row.text("c").unwrap_err().of("b\"").to_string(), "api_check 7 (\"b\\\"\"): c is not a text");
        assert_eq!((row.text("d"), row.has("c"), row.has("d")), (Ok(""), true, false));
    }
}
