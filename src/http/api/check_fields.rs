//! Parses bodies of create and update requests into [`CheckEdit`]s, or into one error message.

mod document;

use std::fmt;

pub(crate) use document::RequestDocument;

use crate::domain::check::CheckSettings;
use crate::domain::check_edit::field_value::{InvalidValue, ValueProblem};
use crate::domain::check_edit::{CheckEdit, UniqueField, fields};
use crate::domain::text::{Slug, TextError};
use crate::http::api::ApiVersion;

/// Reason why a body is refused. Its text is the error in the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldError {
    /// The body is not one UTF-8 JSON text.
    Syntax,
    /// The body is JSON, but not an object.
    NotAnObject,
    /// A field is invalid.
    Field(&'static str, FieldProblem),
    /// An element of an array field is invalid.
    Item(&'static str),
}

/// Problem with a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldProblem {
    NotAString,
    NotANumber,
    NotABoolean,
    NotAnArray,
    NotAnObject,
    NonStringValues,
    KeyTooLong,
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
            Self::Field(name, problem) => {
                write!(f, "json validation error: {name} {}", problem.message())
            }
            Self::Item(name) => write!(
                f,
                "json validation error: an item in '{name}' has unexpected value"
            ),
        }
    }
}

impl FieldProblem {
    fn message(self) -> &'static str {
        match self {
            Self::NotAString => "is not a string",
            Self::NotANumber => "is not a number",
            Self::NotABoolean => "is not a boolean",
            Self::NotAnArray => "is not an array",
            Self::NotAnObject => "is not an object",
            Self::NonStringValues => "has a value that is not a string",
            Self::KeyTooLong => "has a name that is too long",
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

impl From<TextError> for FieldProblem {
    fn from(error: TextError) -> Self {
        match error {
            TextError::TooLong => Self::TooLong,
            TextError::InvalidCharacter => Self::Pattern,
        }
    }
}

impl From<InvalidValue> for FieldProblem {
    fn from(error: InvalidValue) -> Self {
        match error.problem {
            ValueProblem::TooLong => Self::TooLong,
            ValueProblem::InvalidCharacter => Self::Pattern,
            ValueProblem::TooSmall => Self::TooSmall,
            ValueProblem::TooLarge => Self::TooLarge,
            ValueProblem::Schedule => Self::Schedule,
            ValueProblem::Timezone => Self::Timezone,
            ValueProblem::Unexpected => Self::Unexpected,
        }
    }
}

/// Parsed fields of a create or update request.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CheckFields {
    /// Fields that the request sets.
    pub(crate) edit: CheckEdit,
    /// Fields on which an existing check must match to be updated in place of a creation.
    pub(crate) unique_on: Vec<UniqueField>,
}

impl CheckFields {
    /// Parses all fields. If several are invalid, the error names the first in the order of the
    /// table of fields.
    ///
    /// `stored` holds the settings of the check, or of a new one. Texts over their limits may be
    /// sent again if they are the stored ones.
    pub(crate) fn parse(
        document: &RequestDocument,
        version: ApiVersion,
        stored: &CheckSettings,
    ) -> Result<Self, FieldError> {
        Self::read(document, version, Some(stored))
    }

    /// Parses all fields of a request that creates a check. With `unique_on` it may change one
    /// instead, and only the writer knows which check. The writer then refuses texts over their
    /// limits that differ from the stored ones. See [`CheckEdit::first_overlong_field`].
    pub(crate) fn parse_new(
        document: &RequestDocument,
        version: ApiVersion,
    ) -> Result<Self, FieldError> {
        let fields = Self::parse(document, version, &CheckSettings::default());
        match fields {
            Err(FieldError::Field(_, FieldProblem::TooLong)) => {
                let of_any_length = Self::read(document, version, None).ok();
                of_any_length
                    .filter(|fields| !fields.unique_on.is_empty())
                    .map_or(fields, Ok)
            }
            fields => fields,
        }
    }

    /// Parses the fields. Without settings, texts may be of any length.
    fn read(
        document: &RequestDocument,
        version: ApiVersion,
        stored: Option<&CheckSettings>,
    ) -> Result<Self, FieldError> {
        let mut edit = CheckEdit::default();
        for field in fields::CHECK_FIELDS {
            if let Some(value) = document.field_value(field)? {
                field
                    .set(&mut edit, &value, stored)
                    .map_err(|error| FieldError::Field(field.name, error.into()))?;
            }
        }
        let mut unique = document.choices("unique", UniqueField::parse)?;
        if version < ApiVersion::V3 && edit.slug.is_none() {
            edit.slug = edit.name.as_ref().map(Slug::from_name);
            // A field that was not sent matches no check.
            if unique.contains(&UniqueField::Slug) {
                unique.clear();
            }
        }
        Ok(Self {
            edit,
            unique_on: unique,
        })
    }
}

#[cfg(test)]
mod tests;
