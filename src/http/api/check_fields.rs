//! Bodies of create and update requests become [`Edit`]s here, or the one message that says what is wrong with them.

mod document;

use std::fmt;
use std::sync::Arc;

pub(crate) use document::Document;

use crate::domain::check::Settings;
use crate::domain::edit::{ChannelChoice, Edit, UniqueField};
use crate::domain::schedule::{Schedule, ScheduleError};
use crate::domain::text::{Description, Keywords, Name, SecondsError, Slug, Tags, TextError};
use crate::domain::timezone::{Timezone, UnknownTimezone};
use crate::wire::route::Version;

/// Why a body is refused. Its text is what the client is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldError {
    /// It is not one UTF-8 JSON text.
    Syntax,
    /// It is JSON, but no object.
    NotAnObject,
    /// A field is wrong.
    Field(&'static str, Problem),
    /// An element of a field that is an array is wrong.
    Item(&'static str),
}

/// What is wrong with a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Problem {
    NotAString,
    NotANumber,
    NotABoolean,
    NotAnArray,
    NotAnObject,
    NotStrings,
    LongKey,
    Missing,
    TooLong,
    TooSmall,
    TooLarge,
    Pattern,
    Unexpected,
    Schedule,
    Timezone,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("could not parse request body"),
            Self::NotAnObject => f.write_str("json validation error: value is not an object"),
            Self::Field(name, problem) => write!(f, "json validation error: {name} {}", problem.text()),
            Self::Item(name) => write!(f, "json validation error: an item in '{name}' has unexpected value"),
        }
    }
}

impl Problem {
    fn text(self) -> &'static str {
        match self {
            Self::NotAString => "is not a string",
            Self::NotANumber => "is not a number",
            Self::NotABoolean => "is not a boolean",
            Self::NotAnArray => "is not an array",
            Self::NotAnObject => "is not an object",
            Self::NotStrings => "has a value that is not a string",
            Self::LongKey => "has a name that is too long",
            Self::Missing => "is missing",
            Self::TooLong => "is too long",
            Self::TooSmall => "is too small",
            Self::TooLarge => "is too large",
            Self::Pattern => "does not match pattern",
            Self::Unexpected => "has unexpected value",
            Self::Schedule => "is not a valid cron or OnCalendar expression",
            Self::Timezone => "is not a valid timezone",
        }
    }
}

impl From<TextError> for Problem {
    fn from(error: TextError) -> Self {
        match error {
            TextError::TooLong => Self::TooLong,
            TextError::Pattern => Self::Pattern,
        }
    }
}

impl From<SecondsError> for Problem {
    fn from(error: SecondsError) -> Self {
        match error {
            SecondsError::TooSmall => Self::TooSmall,
            SecondsError::TooLarge => Self::TooLarge,
        }
    }
}

impl From<ScheduleError> for Problem {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::TooLong => Self::TooLong,
            ScheduleError::Invalid { .. } => Self::Schedule,
        }
    }
}

impl From<UnknownTimezone> for Problem {
    fn from(UnknownTimezone: UnknownTimezone) -> Self {
        Self::Timezone
    }
}

/// What a create or update request asks for.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CheckFields {
    /// The fields it names.
    pub(crate) edit: Edit,
    /// On which of them an existing check has to agree to be updated in place of a creation.
    pub(crate) unique: Vec<UniqueField>,
}

impl CheckFields {
    /// Reads all fields. If several are wrong, the error names the first in the order below.
    ///
    /// `stored` has the settings of the check, or those of a new one. Texts that are over their limits may be sent again as they are
    /// stored.
    pub(crate) fn parse(document: &Document, version: Version, stored: &Settings) -> Result<Self, FieldError> {
        Self::read(document, version, Some(stored))
    }

    /// Reads all fields of a request that makes a check. With `unique` it may change one instead, and only the writer knows which: it
    /// refuses texts over their limits if that check has others. See [`Edit::too_long`].
    pub(crate) fn parse_new(document: &Document, version: Version) -> Result<Self, FieldError> {
        let fields = Self::parse(document, version, &Settings::default());
        match fields {
            Err(FieldError::Field(_, Problem::TooLong)) => {
                let of_any_length = Self::read(document, version, None).ok();
                of_any_length.filter(|fields| !fields.unique.is_empty()).map_or(fields, Ok)
            }
            fields => fields,
        }
    }

    /// Without settings, texts may be of any length.
    fn read(document: &Document, version: Version, stored: Option<&Settings>) -> Result<Self, FieldError> {
        let desc = |text: &str| match stored {
            Some(stored) if text != stored.desc.as_str() => Description::parse(text),
            _ => Ok(Description::stored(text)),
        };
        let tags = |text: &str| match stored {
            Some(stored) if text != stored.tags.as_str() => Tags::parse(text),
            _ => Ok(Tags::stored(text)),
        };
        let check_name = |text: &str| match stored {
            Some(stored) if text != stored.name.as_str() => Name::parse(text),
            _ => Ok(Name::stored(text)),
        };
        let slug = |text: &str| match (stored, Slug::parse(text)) {
            (Some(stored), Err(_)) if text == stored.slug.as_str() => Ok(Slug::stored(text)),
            (None, Err(TextError::TooLong)) => Ok(Slug::stored(text)),
            (_, parsed) => parsed,
        };
        // Of the two names that a list of keywords has in the API.
        let keywords = |name, list: fn(&Settings) -> &Keywords| {
            document.text(name, |text: &str| match stored {
                Some(stored) if text != list(stored).as_str() => Keywords::parse(text),
                _ => Ok(Keywords::stored(text)),
            })
        };
        // Fields are read in the order in which they stand here: that of the errors.
        let mut edit = Edit {
            channels: document.string("channels")?.map(|list| ChannelChoice::parse(&list)),
            desc: document.text("desc", desc)?,
            failure_kw: keywords("failure_kw", |settings| &settings.failure_kw)?,
            filter_subject: document.boolean("filter_subject")?,
            filter_body: document.boolean("filter_body")?,
            filter_http_body: document.boolean("filter_http_body")?,
            filter_default_fail: document.boolean("filter_default_fail")?,
            grace: document.seconds("grace")?,
            manual_resume: document.boolean("manual_resume")?,
            post_only: document.choice("methods", post_only)?,
            name: document.text("name", check_name)?,
            schedule: document.text("schedule", |text| Schedule::parse(text).map(Arc::new))?,
            slug: document.text("slug", slug)?,
            start_kw: keywords("start_kw", |settings| &settings.start_kw)?,
            subject: keywords("subject", |settings| &settings.success_kw)?,
            subject_fail: keywords("subject_fail", |settings| &settings.failure_kw)?,
            success_kw: keywords("success_kw", |settings| &settings.success_kw)?,
            tags: document.text("tags", tags)?,
            timeout: document.seconds("timeout")?,
            tz: document.text("tz", Timezone::parse)?,
        };
        let mut unique = document.choices("unique", UniqueField::parse)?;
        if version < Version::V3 && edit.slug.is_none() {
            edit.slug = edit.name.as_ref().map(Slug::derived);
            // What was not sent matches no check.
            if unique.contains(&UniqueField::Slug) {
                unique.clear();
            }
        }
        Ok(Self { edit, unique })
    }
}

fn post_only(methods: &str) -> Option<bool> {
    match methods {
        "" => Some(false),
        "POST" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
