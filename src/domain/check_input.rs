//! Parsers for check fields given by users. An error says which values are allowed.

use std::sync::Arc;

use super::channel::parse_duration;
use super::check_edit::field_value::{CheckFieldType, InvalidValue};
use super::number::{Seconds, SecondsError};
use super::schedule::Schedule;
use super::text::{Name, Slug, Tags};

/// Parses a name.
pub fn parse_name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| CheckFieldType::Text(Name::MAX_CHARS).explain(&error.into()))
}

/// Parses a slug.
pub fn parse_slug(text: &str) -> Result<Slug, String> {
    Slug::parse(text).map_err(|error| CheckFieldType::Slug.explain(&error.into()))
}

/// Parses tags.
pub fn parse_tags(text: &str) -> Result<Tags, String> {
    Tags::parse(text).map_err(|error| CheckFieldType::Tags.explain(&error.into()))
}

/// Parses seconds: a plain number, or a time with a unit, as in `15m`, `2h` or `1d`.
pub fn parse_seconds(text: &str) -> Result<Seconds, String> {
    let number = text
        .parse()
        .ok()
        .or_else(|| parse_duration(text, Seconds::MIN, Seconds::MAX).ok());
    let message = |error| {
        format!(
            "{}, or a time such as 15m, 2h or 1d",
            CheckFieldType::Duration.explain(&InvalidValue::Seconds(error))
        )
    };
    number
        .ok_or(SecondsError::TooSmall)
        .and_then(Seconds::parse)
        .map_err(message)
}

/// Parses a schedule.
pub fn parse_schedule(text: &str) -> Result<Arc<Schedule>, String> {
    Schedule::parse(text)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_numbers_or_durations() {
        for (text, wanted) in [
            ("900", 900),
            ("90s", 90),
            ("15m", 900),
            ("2h", 7200),
            ("1d", 86_400),
            ("365d", 31_536_000),
        ] {
            assert_eq!(parse_seconds(text).map(Seconds::get), Ok(wanted), "{text}");
        }
        for text in [
            "",
            "59",
            "59s",
            "366d",
            "15",
            "15min",
            "m",
            "1.5h",
            "-1h",
            "99999999999999999999d",
        ] {
            let refused = parse_seconds(text).unwrap_err();
            assert!(
                refused.contains("from 60 to 31536000, or a time such as 15m"),
                "{text}: {refused}"
            );
        }
    }
}
