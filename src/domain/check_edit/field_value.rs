//! Values of the fields of a check, as requests, files, flags and forms carry them.
//!
//! A value has one of a few forms, each a [`CheckFieldType`]. The code that reads and writes a
//! format (JSON, files, flags, pages) depends on the form alone. A type of values implements
//! `EditValue`, which names its form.

use std::borrow::Cow;

use crate::domain::channel::parse_duration;

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

impl CheckFieldValue<'_> {
    /// Returns the text that [`CheckFieldType::parse_text`] reads.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text.into_owned(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}

/// Rules for a text that schemas show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextRules {
    /// Maximum number of characters. `None` if there is none that a stored value may exceed.
    pub max_chars: Option<usize>,
    /// Regular expression that the text matches.
    pub pattern: Option<&'static str>,
}

impl TextRules {
    /// Rules that any text meets.
    pub const ANY: Self = Self {
        max_chars: None,
        pattern: None,
    };

    /// Returns the rules of a text with at most this number of characters.
    pub const fn limited(max_chars: usize) -> Self {
        Self {
            max_chars: Some(max_chars),
            pattern: None,
        }
    }
}

/// Form of the values of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckFieldType {
    /// Text.
    Text(TextRules),
    /// Words with a separator between them. A file may list them.
    Words {
        /// Text between two words.
        separator: &'static str,
        /// Maximum number of characters of all words.
        max_chars: usize,
    },
    /// Number of seconds. Files, flags and forms accept a time with a unit, such as `15m`. If the
    /// minimum is 0, it means none, and an empty text is 0.
    Duration {
        /// Minimum.
        min: i64,
        /// Maximum.
        max: i64,
    },
    /// One of these words.
    Choice {
        /// The words. A form has a box for two, which is ticked for the second.
        words: &'static [&'static str],
        /// Name of the empty word at the command line.
        empty_word: &'static str,
    },
    /// `true` or `false`.
    Flag,
    /// `*`, or names and UUIDs of channels separated by commas. A file may list them.
    Channels,
}

/// Reason for which a field does not accept a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidValue {
    /// Kind of the problem.
    pub problem: ValueProblem,
    /// Allowed values, for people: `give at most 100 characters`.
    pub explanation: String,
}

/// Problem of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueProblem {
    /// The text has too many characters.
    TooLong,
    /// The text has a character that is not allowed.
    InvalidCharacter,
    /// The number is below the minimum.
    TooSmall,
    /// The number is above the maximum.
    TooLarge,
    /// The text is not a schedule.
    Schedule,
    /// The text is not a time zone.
    Timezone,
    /// The value has another form, or is not one of the words that the field accepts.
    Unexpected,
}

impl InvalidValue {
    /// Creates the reason.
    pub fn new(problem: ValueProblem, explanation: impl Into<String>) -> Self {
        Self {
            problem,
            explanation: explanation.into(),
        }
    }
}

impl CheckFieldType {
    /// Maximum number of characters of a text. `None` if the form has no limit that a stored value
    /// may exceed.
    pub fn max_chars(self) -> Option<usize> {
        match self {
            Self::Text(rules) => rules.max_chars,
            Self::Words { max_chars, .. } => Some(max_chars),
            Self::Duration { .. } | Self::Choice { .. } | Self::Flag | Self::Channels => None,
        }
    }

    /// Parses a text that a person entered, as the argument of a flag or in a form.
    ///
    /// # Errors
    /// If the text has another form. A text of the form may still be refused by the field.
    pub fn parse_text(self, text: &str) -> Result<CheckFieldValue<'static>, InvalidValue> {
        Ok(match self {
            Self::Text(_) | Self::Words { .. } | Self::Choice { .. } | Self::Channels => {
                text.to_owned().into()
            }
            Self::Flag => CheckFieldValue::Flag(text.parse().map_err(|_| self.unexpected())?),
            Self::Duration { min: 0, .. } if text.is_empty() => CheckFieldValue::Number(0),
            Self::Duration { min, max } => {
                let seconds = text.parse().ok();
                seconds
                    .filter(|seconds| (min..=max).contains(seconds))
                    .or_else(|| parse_duration(text, min, max).ok())
                    .map(CheckFieldValue::Number)
                    .ok_or_else(|| {
                        let explanation = format!(
                            "give a whole number of seconds from {min} to {max}, or a time such \
                             as 15m, 2h or 1d"
                        );
                        InvalidValue::new(ValueProblem::Unexpected, explanation)
                    })?
            }
        })
    }

    /// Values for a box in a form that is not ticked, and for one that is. `None` if the form has
    /// an input for the field.
    pub fn box_values(self) -> Option<[CheckFieldValue<'static>; 2]> {
        match self {
            Self::Flag => Some([false, true].map(CheckFieldValue::Flag)),
            Self::Choice {
                words: [off, on], ..
            } => Some([(*off).into(), (*on).into()]),
            _ => None,
        }
    }

    /// Returns the error for a value of another form.
    pub(in crate::domain) fn unexpected(self) -> InvalidValue {
        let explanation = match self {
            Self::Flag => "give true or false".into(),
            Self::Duration { .. } => "give a whole number of seconds".into(),
            Self::Choice { words, .. } => {
                let words = words.iter().map(|word| match *word {
                    "" => "an empty text",
                    word => word,
                });
                let words: Vec<_> = words.rev().collect();
                format!("give {}", words.join(" or "))
            }
            Self::Text(_) | Self::Words { .. } | Self::Channels => "give text".into(),
        };
        InvalidValue::new(ValueProblem::Unexpected, explanation)
    }
}

/// Value of a field of a check. Each type implements it where it is defined.
pub(in crate::domain) trait EditValue: Sized {
    /// Form of the values.
    const FORM: CheckFieldType;

    /// Parses a value from outside.
    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue>;

    /// Reads a stored text, which may be over the present limit. `None` if the type has no limit.
    fn from_stored(_: &str) -> Option<Self> {
        None
    }

    /// Returns the value that [`parse_value`](Self::parse_value) reads.
    fn value(&self) -> CheckFieldValue<'_>;

    /// Returns the text of a value, for types whose form is a text.
    fn text_of<'a>(value: &'a CheckFieldValue<'_>) -> Result<&'a str, InvalidValue> {
        match value {
            CheckFieldValue::Text(text) => Ok(text),
            CheckFieldValue::Number(_) | CheckFieldValue::Flag(_) => Err(Self::FORM.unexpected()),
        }
    }
}

impl EditValue for bool {
    const FORM: CheckFieldType = CheckFieldType::Flag;

    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        match value {
            CheckFieldValue::Flag(flag) => Ok(*flag),
            CheckFieldValue::Text(_) | CheckFieldValue::Number(_) => Err(Self::FORM.unexpected()),
        }
    }

    fn value(&self) -> CheckFieldValue<'_> {
        CheckFieldValue::Flag(*self)
    }
}

/// Value of the field `methods`: true if only POST requests are pings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PostOnly(pub(super) bool);

impl PostOnly {
    /// Word of the value.
    pub(super) fn word(self) -> &'static str {
        if self.0 { "POST" } else { "" }
    }
}

impl EditValue for PostOnly {
    const FORM: CheckFieldType = CheckFieldType::Choice {
        words: &["", "POST"],
        empty_word: "any",
    };

    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        match Self::text_of(value)? {
            "" => Ok(Self(false)),
            "POST" => Ok(Self(true)),
            _ => Err(Self::FORM.unexpected()),
        }
    }

    fn value(&self) -> CheckFieldValue<'_> {
        self.word().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::number::Seconds;

    #[test]
    fn seconds_are_numbers_or_durations() {
        let parse = |text| Seconds::FORM.parse_text(text);
        for (text, wanted) in [
            ("900", 900),
            ("90s", 90),
            ("15m", 900),
            ("2h", 7200),
            ("1d", 86_400),
            ("365d", 31_536_000),
        ] {
            assert_eq!(parse(text), Ok(CheckFieldValue::Number(wanted)), "{text}");
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
            let refused = parse(text).unwrap_err().explanation;
            assert!(
                refused.contains("from 60 to 31536000, or a time such as 15m"),
                "{text}: {refused}"
            );
        }
    }

    #[test]
    fn a_value_is_parsed_from_its_text() {
        for (form, value) in [
            (bool::FORM, CheckFieldValue::Flag(true)),
            (Seconds::FORM, CheckFieldValue::Number(90)),
            (PostOnly::FORM, "POST".into()),
        ] {
            assert_eq!(form.parse_text(&value.clone().into_text()), Ok(value));
        }
    }
}
