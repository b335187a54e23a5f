//! Values of the fields of a check: as requests, files and flags carry them, and as an edit holds
//! them.

use std::borrow::Cow;
use std::sync::Arc;

use super::ChannelSelection;
use crate::domain::number::{Seconds, SecondsError};
use crate::domain::schedule::{Schedule, ScheduleError};
use crate::domain::text::{Description, Keywords, Name, Slug, Tags, TextError};
use crate::domain::timezone::{Timezone, UnknownTimezone};

/// Value of a field, as text, JSON and files carry it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CheckFieldValue<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Whole number.
    Number(i64),
    /// `true` or `false`.
    Flag(bool),
}

impl<'a> From<&'a str> for CheckFieldValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for CheckFieldValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// Type of the values of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckFieldType {
    /// Text of at most this number of characters.
    Text(usize),
    /// Slug of a check.
    Slug,
    /// Tags, separated by spaces.
    Tags,
    /// Keywords, separated by commas.
    Keywords,
    /// Number of seconds in the range of [`Seconds`].
    Duration,
    /// Expression of cron or OnCalendar.
    Schedule,
    /// Name of a time zone.
    Timezone,
    /// `POST`, or an empty text for any method.
    Methods,
    /// `true` or `false`.
    Flag,
    /// Channels, as [`ChannelSelection`] reads them.
    Channels,
}

/// Reason for which a field does not accept a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidValue {
    /// The text is too long, or has a character that is not allowed.
    Text(TextError),
    /// The number of seconds is out of range.
    Seconds(SecondsError),
    /// The text is not a schedule.
    Schedule(ScheduleError),
    /// The text is not a time zone.
    Timezone(UnknownTimezone),
    /// The value is of another type, or is not one of the words that the field accepts.
    Unexpected,
}

impl From<TextError> for InvalidValue {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

impl CheckFieldType {
    /// Maximum number of characters of a text. `None` if the type has no limit that a stored value
    /// may exceed.
    pub fn max_chars(self) -> Option<usize> {
        match self {
            Self::Text(most) => Some(most),
            Self::Slug => Some(Slug::MAX_CHARS),
            Self::Tags => Some(Tags::MAX_CHARS),
            Self::Keywords => Some(Keywords::MAX_CHARS),
            _ => None,
        }
    }

    /// Says which values are allowed.
    pub fn explain(self, error: &InvalidValue) -> String {
        let most = self.max_chars().unwrap_or_default();
        match error {
            InvalidValue::Text(TextError::TooLong) if self == Self::Tags => {
                let most_tags = Tags::MAX_TAGS;
                format!("give at most {most} characters and at most {most_tags} tags")
            }
            InvalidValue::Text(TextError::TooLong) => format!("give at most {most} characters"),
            InvalidValue::Text(TextError::InvalidCharacter) => {
                "use only a to z, 0 to 9, hyphens and underscores".into()
            }
            InvalidValue::Seconds(_) => {
                let [least, most] = [Seconds::MIN, Seconds::MAX];
                format!("give a whole number of seconds from {least} to {most}")
            }
            InvalidValue::Schedule(error) => error.to_string(),
            InvalidValue::Timezone(error) => error.to_string(),
            InvalidValue::Unexpected => match self {
                Self::Flag => "give true or false".into(),
                Self::Duration => "give a whole number of seconds".into(),
                Self::Methods => "give POST or an empty text".into(),
                _ => "give text".into(),
            },
        }
    }
}

/// Value that an edit holds.
pub(super) trait EditValue: Sized {
    /// Parses a value from outside.
    fn parse(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue>;

    /// Reads a stored text, which may be over the present limit. `None` if the type has no limit.
    fn from_stored(_: &str) -> Option<Self> {
        None
    }

    /// Returns the value that [`parse`](Self::parse) reads.
    fn value(&self) -> CheckFieldValue<'_>;
}

fn text_of<'a>(value: &'a CheckFieldValue<'_>) -> Result<&'a str, InvalidValue> {
    match value {
        CheckFieldValue::Text(text) => Ok(text),
        CheckFieldValue::Number(_) | CheckFieldValue::Flag(_) => Err(InvalidValue::Unexpected),
    }
}

macro_rules! text_values {
    ($($name:ident),*) => {$(
        impl EditValue for $name {
            fn parse(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
                Ok(Self::parse(text_of(value)?)?)
            }

            fn from_stored(text: &str) -> Option<Self> {
                Some(Self::from_stored(text))
            }

            fn value(&self) -> CheckFieldValue<'_> {
                self.as_str().into()
            }
        }
    )*};
}

text_values!(Name, Slug, Tags, Description, Keywords);

impl EditValue for Seconds {
    fn parse(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        match value {
            CheckFieldValue::Number(number) => Self::parse(*number).map_err(InvalidValue::Seconds),
            CheckFieldValue::Text(_) | CheckFieldValue::Flag(_) => Err(InvalidValue::Unexpected),
        }
    }

    fn value(&self) -> CheckFieldValue<'_> {
        CheckFieldValue::Number(self.get())
    }
}

impl EditValue for Arc<Schedule> {
    fn parse(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        Schedule::parse(text_of(value)?)
            .map(Self::new)
            .map_err(InvalidValue::Schedule)
    }

    fn value(&self) -> CheckFieldValue<'_> {
        self.text().into()
    }
}

impl EditValue for Timezone {
    fn parse(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        Self::parse(text_of(value)?).map_err(InvalidValue::Timezone)
    }

    fn value(&self) -> CheckFieldValue<'_> {
        self.name().into()
    }
}

impl EditValue for bool {
    fn parse(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        match value {
            CheckFieldValue::Flag(flag) => Ok(*flag),
            CheckFieldValue::Text(_) | CheckFieldValue::Number(_) => Err(InvalidValue::Unexpected),
        }
    }

    fn value(&self) -> CheckFieldValue<'_> {
        CheckFieldValue::Flag(*self)
    }
}

impl EditValue for ChannelSelection {
    fn parse(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        text_of(value).map(Self::parse)
    }

    fn value(&self) -> CheckFieldValue<'_> {
        CheckFieldValue::Text(self.to_text().into())
    }
}

/// Returns the value of the field `methods` for the setting `post_only`.
pub(super) fn methods_value(post_only: bool) -> CheckFieldValue<'static> {
    if post_only { "POST" } else { "" }.into()
}

/// Parses a value of the field `methods`.
pub(super) fn parse_methods(value: &CheckFieldValue<'_>) -> Result<bool, InvalidValue> {
    match text_of(value)? {
        "" => Ok(false),
        "POST" => Ok(true),
        _ => Err(InvalidValue::Unexpected),
    }
}
