//! Changes to a check in a create or update request. Fields that the request does not name stay.

pub mod field_value;
pub mod fields;

use std::collections::HashSet;

use super::check::CheckSettings;
use super::ids::ChannelId;
use field_value::{CheckFieldType, CheckFieldValue, EditValue, InvalidValue};
pub use fields::CheckEdit;
use fields::CheckField;

/// Channels in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelSelection {
    /// `*`: all channels of the project at that time.
    All,
    /// UUIDs or names, as sent; empty: none.
    Listed(Vec<Box<str>>),
}

impl ChannelSelection {
    /// Reads `*`, or identifiers separated by commas; white space is significant. Duplicates count
    /// once.
    pub fn parse(text: &str) -> Self {
        let mut seen = HashSet::new();
        match text {
            "*" => Self::All,
            "" => Self::Listed(Vec::new()),
            list => Self::Listed(
                list.split(',')
                    .filter(|item| seen.insert(*item))
                    .map(Box::from)
                    .collect(),
            ),
        }
    }

    /// Returns the text that [`parse`](Self::parse) reads.
    pub fn to_text(&self) -> String {
        match self {
            Self::All => "*".into(),
            Self::Listed(items) => items.join(","),
        }
    }
}

impl EditValue for ChannelSelection {
    const FORM: CheckFieldType = CheckFieldType::Channels;

    fn parse_value(value: &CheckFieldValue<'_>) -> Result<Self, InvalidValue> {
        Self::text_of(value).map(Self::parse)
    }

    fn value(&self) -> CheckFieldValue<'_> {
        self.to_text().into()
    }
}

/// Field by which an existing check is searched before one is created: see `unique` in
/// [protocol](crate::docs::protocol).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the five fields of the API")]
pub enum UniqueField {
    Name,
    Slug,
    Tags,
    Timeout,
    Grace,
}

impl UniqueField {
    /// Every field, in the order of the help.
    pub const ALL: [Self; 5] = [
        Self::Name,
        Self::Slug,
        Self::Tags,
        Self::Timeout,
        Self::Grace,
    ];

    /// Returns the field with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == text)
    }

    /// Name of the field in the API.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Row of the field in the table.
    pub fn row(self) -> &'static CheckField {
        match self {
            Self::Name => &fields::NAME,
            Self::Slug => &fields::SLUG,
            Self::Tags => &fields::TAGS,
            Self::Timeout => &fields::TIMEOUT,
            Self::Grace => &fields::GRACE,
        }
    }
}

impl CheckEdit {
    /// Returns an edit that gives all fields but channels the values of `settings`.
    pub fn from_settings(settings: &CheckSettings) -> Self {
        let mut edit = Self::default();
        for field in fields::FLAG_FIELDS {
            if let Some(value) = field.value(settings) {
                // Every field accepts a stored value.
                let _ = field.set(&mut edit, &value, Some(settings));
            }
        }
        edit
    }

    /// Returns `settings` with the named fields replaced, and with `channels` (already resolved)
    /// assigned if given.
    pub fn apply_to(
        mut self,
        settings: &CheckSettings,
        channels: Option<Box<[ChannelId]>>,
    ) -> CheckSettings {
        let mut new = settings.clone();
        if self.subject.is_some() || self.subject_fail.is_some() {
            fields::SUBJECT.apply(&mut self, &mut new);
            fields::SUBJECT_FAIL.apply(&mut self, &mut new);
            new.filters.subject = !new.success_kw.is_empty() || !new.failure_kw.is_empty();
        }
        // The schedule takes precedence: a timeout beside it is not stored and does not make the
        // check Simple.
        if self.schedule.is_some() {
            self.timeout = None;
        } else if self.timeout.is_some() {
            new.schedule = None;
        }
        for field in fields::CHECK_FIELDS {
            field.apply(&mut self, &mut new);
        }
        new.channels = channels.unwrap_or(new.channels);
        new
    }

    /// Name of the first text field that is over its limit and differs from the stored text.
    pub fn first_overlong_field(&self, stored: &CheckSettings) -> Option<&'static str> {
        fields::CHECK_FIELDS
            .into_iter()
            .find(|field| field.is_overlong(self, stored))
            .map(|field| field.name)
    }

    /// True if `settings` equal the request on all of `fields`. A field that the request does not
    /// name never matches.
    pub fn matches_unique(&self, settings: &CheckSettings, fields: &[UniqueField]) -> bool {
        fields.iter().all(|field| {
            let sent = field.row().edited_value(self);
            sent.is_some() && sent == field.row().value(settings)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::text::{Name, Tags};

    #[test]
    fn a_check_equals_a_request_only_in_fields_that_the_request_names() {
        use UniqueField::{Name as ByName, Tags as ByTags};
        let named = |name: &str| CheckEdit {
            name: Some(Name::parse(name).unwrap()),
            ..CheckEdit::default()
        };
        let settings = CheckSettings {
            name: Name::parse("backup").unwrap(),
            tags: Tags::parse("home").unwrap(),
            ..CheckSettings::default()
        };
        for (edit, fields, is_equal) in [
            (named("backup"), &[ByName][..], true),
            (named("mail"), &[ByName], false),
            (named("backup"), &[ByName, ByTags], false),
            (CheckEdit::default(), &[ByTags], false),
            (CheckEdit::from_settings(&settings), &[ByName, ByTags], true),
        ] {
            assert_eq!(
                edit.matches_unique(&settings, fields),
                is_equal,
                "{fields:?}"
            );
        }
    }
}
