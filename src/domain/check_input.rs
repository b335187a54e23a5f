//! Parsers for check fields given by users. An error says which values are allowed.

use std::sync::Arc;

use super::check_edit::field_value::EditValue;
use super::schedule::Schedule;
use super::text::{Name, Slug, Tags};

fn parse<T: EditValue>(text: &str) -> Result<T, String> {
    T::parse_value(&text.into()).map_err(|error| error.explanation)
}

/// Parses a name.
pub fn parse_name(text: &str) -> Result<Name, String> {
    parse(text)
}

/// Parses a slug.
pub fn parse_slug(text: &str) -> Result<Slug, String> {
    parse(text)
}

/// Parses tags.
pub fn parse_tags(text: &str) -> Result<Tags, String> {
    parse(text)
}

/// Parses a schedule.
pub fn parse_schedule(text: &str) -> Result<Arc<Schedule>, String> {
    parse(text)
}
