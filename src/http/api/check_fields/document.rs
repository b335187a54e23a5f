//! A request body as one JSON object. It keeps the members that are fields, each as the JSON text
//! that was sent, and parses a member when it is read.
//!
//! Numbers stay text because a float would hide how they were written (`60.0`, `6e1`), and an
//! integer type their size.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{FieldError, FieldProblem};
use crate::domain::check_edit::field_value::{CheckFieldType, CheckFieldValue};
use crate::domain::check_edit::fields::{CHECK_FIELDS, CheckField};

/// Members that are kept besides the fields of a check. All others are skipped, whatever their
/// value.
const OTHER_MEMBERS: [&str; 11] = [
    "after", "api_key", "event", "from", "kind", "minutes", "parents", "settings", "to", "unique",
    "until",
];

/// Returns the name of a member as it is kept. `None` if members with this name are skipped.
fn kept_name(name: &str) -> Option<&'static str> {
    let fields = CHECK_FIELDS.iter().map(|field| field.name);
    fields.chain(OTHER_MEMBERS).find(|kept| *kept == name)
}

/// Maximum bytes of a name in an object of strings: errors repeat it.
const MAX_KEY_BYTES: usize = 200;

/// Maximum nesting depth of arrays and objects.
const MAX_DEPTH: usize = 128;

/// A request body that is a JSON object, or empty. If a member is repeated, the last one counts.
#[derive(Default)]
pub(crate) struct RequestDocument(Vec<(&'static str, Box<RawValue>)>);

impl RequestDocument {
    /// Parses a body. An empty one is an empty object.
    ///
    /// # Errors
    /// If it is not one UTF-8 JSON text, is nested too deep, or its value is not an object.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, FieldError> {
        let text = std::str::from_utf8(body).map_err(|_| FieldError::Syntax)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        if is_too_deep(text) {
            return Err(FieldError::Syntax);
        }
        let document: &RawValue = serde_json::from_str(text).map_err(|_| FieldError::Syntax)?;
        if !document.get().starts_with('{') {
            return Err(FieldError::NotAnObject);
        }
        serde_json::from_str(document.get()).map_err(|_| FieldError::Syntax)
    }

    /// Like [`parse`](Self::parse), but `null` and `[]` are empty objects too: clients send them to
    /// pause and resume.
    pub(crate) fn parse_lenient(body: &[u8]) -> Result<Self, FieldError> {
        if serde_json::from_slice::<Option<[(); 0]>>(body).is_ok() {
            Ok(Self::default())
        } else {
            Self::parse(body)
        }
    }

    fn member(&self, name: &str) -> Option<&str> {
        debug_assert!(
            kept_name(name).is_some(),
            "{name} is not among the members that are kept"
        );
        let mut members = self.0.iter();
        members
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value.get())
    }

    /// Returns the member `api_key`: a string, or a number as it was written. Any other value is no
    /// key.
    pub(crate) fn api_key(&self) -> Option<String> {
        let text = self.member("api_key")?;
        if is_number(text) {
            Some(text.to_owned())
        } else {
            serde_json::from_str(text).ok()
        }
    }

    /// Returns a member that must be a string.
    pub(crate) fn string(&self, name: &'static str) -> Result<Option<String>, FieldError> {
        match self.member(name) {
            // An unpaired surrogate is valid JSON, but no text.
            Some(text) if text.starts_with('"') => serde_json::from_str(text)
                .map(Some)
                .map_err(|_| FieldError::Syntax),
            Some(_) => Err(FieldError::Field(name, FieldProblem::NotAString)),
            None => Ok(None),
        }
    }

    /// Returns a member that must be a string that `parse` accepts.
    pub(crate) fn parsed_string<T, E: Into<FieldProblem>>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, FieldError> {
        let text = self.string(name)?;
        text.map(|text| parse(&text).map_err(|error| FieldError::Field(name, error.into())))
            .transpose()
    }

    /// Returns a member that must be `true` or `false`.
    fn boolean(&self, name: &'static str) -> Result<Option<bool>, FieldError> {
        match self.member(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(FieldError::Field(name, FieldProblem::NotABoolean)),
        }
    }

    /// Returns a field of a check, by its form.
    pub(super) fn field_value(
        &self,
        field: &CheckField,
    ) -> Result<Option<CheckFieldValue<'static>>, FieldError> {
        let text = |text: String| CheckFieldValue::Text(text.into());
        let name = field.name;
        Ok(match field.field_type {
            CheckFieldType::Flag => self.boolean(name)?.map(CheckFieldValue::Flag),
            CheckFieldType::Duration { .. } => self.number(name)?.map(CheckFieldValue::Number),
            CheckFieldType::Choice { .. } => {
                self.choice(name, |text| Some(text.to_owned()))?.map(text)
            }
            CheckFieldType::Text(_) | CheckFieldType::Words { .. } | CheckFieldType::Channels => {
                self.string(name)?.map(text)
            }
        })
    }

    /// Returns a member that must be a whole number, written without fraction and exponent.
    fn number(&self, name: &'static str) -> Result<Option<i64>, FieldError> {
        let Some(text) = self.member(name) else {
            return Ok(None);
        };
        let number = match text.parse() {
            _ if !is_number(text) || text.contains(['.', 'e', 'E']) => {
                Err(FieldProblem::NotANumber)
            }
            Ok(number) => Ok(Some(number)),
            // The number does not fit 64 bits.
            Err(_) if text.starts_with('-') => Err(FieldProblem::TooSmall),
            Err(_) => Err(FieldProblem::TooLarge),
        };
        number.map_err(|problem| FieldError::Field(name, problem))
    }

    /// Returns a member that must be a whole number without sign, fraction and exponent.
    pub(crate) fn unsigned(&self, name: &'static str) -> Result<Option<u64>, FieldError> {
        let Some(text) = self.member(name) else {
            return Ok(None);
        };
        match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text
                .parse()
                .map(Some)
                .map_err(|_| FieldError::Field(name, FieldProblem::TooLarge)),
            false => Err(FieldError::Field(name, FieldProblem::NotANumber)),
        }
    }

    /// Returns a member that must be an object of strings. If a name is repeated, the last value
    /// counts.
    pub(crate) fn string_map(
        &self,
        name: &'static str,
    ) -> Result<Option<Vec<(String, String)>>, FieldError> {
        let Some(text) = self.member(name) else {
            return Ok(None);
        };
        if !text.starts_with('{') {
            return Err(FieldError::Field(name, FieldProblem::NotAnObject));
        }
        let values: BTreeMap<String, &RawValue> =
            serde_json::from_str(text).map_err(|_| FieldError::Syntax)?;
        if values.keys().any(|key| key.len() > MAX_KEY_BYTES) {
            return Err(FieldError::Field(name, FieldProblem::KeyTooLong));
        }
        let strings = values
            .into_iter()
            .map(|(key, value)| match value.get().starts_with('"') {
                true => Ok((
                    key,
                    serde_json::from_str(value.get()).map_err(|_| FieldError::Syntax)?,
                )),
                false => Err(FieldError::Field(name, FieldProblem::NonStringValues)),
            });
        strings.collect::<Result<_, _>>().map(Some)
    }

    /// Returns a member that must be one of a few strings. Any other value, of any type, is
    /// unexpected.
    pub(crate) fn choice<T>(
        &self,
        name: &'static str,
        choose: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, FieldError> {
        let Some(text) = self.member(name) else {
            return Ok(None);
        };
        let chosen = serde_json::from_str::<String>(text)
            .ok()
            .and_then(|text| choose(&text));
        chosen
            .map(Some)
            .ok_or(FieldError::Field(name, FieldProblem::Unexpected))
    }

    /// Returns a member that must be an array of strings.
    pub(crate) fn string_list(
        &self,
        name: &'static str,
    ) -> Result<Option<Vec<String>>, FieldError> {
        match self.member(name) {
            None => Ok(None),
            Some(text) if text.starts_with('[') => serde_json::from_str(text)
                .map(Some)
                .map_err(|_| FieldError::Item(name)),
            Some(_) => Err(FieldError::Field(name, FieldProblem::NotAnArray)),
        }
    }

    /// Returns a member that must be an array of strings out of a few. Repeated strings count once.
    pub(super) fn choices<T: PartialEq>(
        &self,
        name: &'static str,
        choose: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, FieldError> {
        let Some(text) = self.member(name) else {
            return Ok(Vec::new());
        };
        let items: Vec<&RawValue> = match text.starts_with('[') {
            true => serde_json::from_str(text).map_err(|_| FieldError::Syntax)?,
            false => return Err(FieldError::Field(name, FieldProblem::NotAnArray)),
        };
        let mut chosen = Vec::new();
        for item in items {
            let item = serde_json::from_str::<String>(item.get())
                .ok()
                .and_then(|text| choose(&text));
            let item = item.ok_or(FieldError::Item(name))?;
            if !chosen.contains(&item) {
                chosen.push(item);
            }
        }
        Ok(chosen)
    }
}

/// True if arrays and objects of a JSON text are nested more than [`MAX_DEPTH`] deep.
fn is_too_deep(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    text.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_DEPTH
    })
}

/// True if a JSON value is a number.
fn is_number(json: &str) -> bool {
    json.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

impl<'de> Deserialize<'de> for RequestDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DocumentVisitor;
        impl<'de> Visitor<'de> for DocumentVisitor {
            type Value = RequestDocument;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut document = RequestDocument::default();
                while let Some(MemberName(name)) = map.next_key()? {
                    let Some(name) = name else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    let value = map.next_value()?;
                    document.0.retain(|(earlier, _)| *earlier != name);
                    document.0.push((name, value));
                }
                Ok(document)
            }
        }
        deserializer.deserialize_map(DocumentVisitor)
    }
}

/// Name of a member that is kept; `None` for any other name.
struct MemberName(Option<&'static str>);

impl<'de> Deserialize<'de> for MemberName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberNameVisitor;
        impl Visitor<'_> for MemberNameVisitor {
            type Value = MemberName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<MemberName, E> {
                Ok(MemberName(kept_name(name)))
            }
        }
        deserializer.deserialize_identifier(MemberNameVisitor)
    }
}
