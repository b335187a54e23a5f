//! Changes to a check in a create or update request. Fields that the request does not name stay.

pub mod field_value;
pub mod fields;

use std::collections::HashSet;

use super::check::CheckSettings;
use super::ids::ChannelId;
use super::text::Seconds;
pub use fields::CheckEdit;

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

/// Value of a [`UniqueField`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the two kinds of fields")]
pub enum UniqueValue<'a> {
    Text(&'a str),
    Seconds(Seconds),
}

impl UniqueField {
    /// Returns the field with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "name" => Self::Name,
            "slug" => Self::Slug,
            "tags" => Self::Tags,
            "timeout" => Self::Timeout,
            "grace" => Self::Grace,
            _ => return None,
        })
    }

    /// Name of the field in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Slug => "slug",
            Self::Tags => "tags",
            Self::Timeout => "timeout",
            Self::Grace => "grace",
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
        fields
            .iter()
            .all(|field| self.unique_value(*field) == Some(settings.unique_value(*field)))
    }

    /// Value of a field in the request.
    pub fn unique_value(&self, field: UniqueField) -> Option<UniqueValue<'_>> {
        match field {
            UniqueField::Name => self
                .name
                .as_ref()
                .map(|name| UniqueValue::Text(name.as_str())),
            UniqueField::Slug => self
                .slug
                .as_ref()
                .map(|slug| UniqueValue::Text(slug.as_str())),
            UniqueField::Tags => self
                .tags
                .as_ref()
                .map(|tags| UniqueValue::Text(tags.as_str())),
            UniqueField::Timeout => self.timeout.map(UniqueValue::Seconds),
            UniqueField::Grace => self.grace.map(UniqueValue::Seconds),
        }
    }
}

impl CheckSettings {
    /// Value of a field of the check.
    pub fn unique_value(&self, field: UniqueField) -> UniqueValue<'_> {
        match field {
            UniqueField::Name => UniqueValue::Text(self.name.as_str()),
            UniqueField::Slug => UniqueValue::Text(self.slug.as_str()),
            UniqueField::Tags => UniqueValue::Text(self.tags.as_str()),
            UniqueField::Timeout => UniqueValue::Seconds(self.timeout),
            UniqueField::Grace => UniqueValue::Seconds(self.grace),
        }
    }
}
