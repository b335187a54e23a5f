//! Changes to a check in a create or update request. Fields that the request does not name stay.

use std::collections::HashSet;
use std::sync::Arc;

use super::check::CheckSettings;
use super::ids::ChannelId;
use super::schedule::Schedule;
use super::text::{Description, Keywords, Name, Seconds, Slug, Tags};
use super::timezone::Timezone;

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

/// Fields that a request names. The others stay, or have their defaults on create.
#[derive(Clone, PartialEq, Debug, Default)]
#[allow(missing_docs, reason = "the fields of `Settings`")]
pub struct CheckEdit {
    pub name: Option<Name>,
    pub slug: Option<Slug>,
    pub tags: Option<Tags>,
    pub desc: Option<Description>,
    /// Period as sent, even if a schedule takes precedence.
    pub timeout: Option<Seconds>,
    pub grace: Option<Seconds>,
    pub schedule: Option<Arc<Schedule>>,
    pub tz: Option<Timezone>,
    pub manual_resume: Option<bool>,
    pub post_only: Option<bool>,
    pub start_kw: Option<Keywords>,
    pub success_kw: Option<Keywords>,
    pub failure_kw: Option<Keywords>,
    /// Older name of `success_kw`, which takes precedence. Like `subject_fail` it turns the search
    /// of subjects on, or off if both lists are then empty; `filter_subject` takes precedence over
    /// that.
    pub subject: Option<Keywords>,
    /// Older name of `failure_kw`, which takes precedence.
    pub subject_fail: Option<Keywords>,
    pub filter_subject: Option<bool>,
    pub filter_body: Option<bool>,
    pub filter_http_body: Option<bool>,
    pub filter_default_fail: Option<bool>,
    pub channels: Option<ChannelSelection>,
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
    /// Returns `settings` with the named fields replaced, and with `channels` (already resolved)
    /// assigned if given.
    pub fn apply_to(
        self,
        settings: &CheckSettings,
        channels: Option<Box<[ChannelId]>>,
    ) -> CheckSettings {
        let old = settings.clone();
        let mut filters = old.filters;
        let old_names = self.subject.is_some() || self.subject_fail.is_some();
        let success_kw = self.subject.unwrap_or(old.success_kw);
        let failure_kw = self.subject_fail.unwrap_or(old.failure_kw);
        if old_names {
            filters.subject = !success_kw.is_empty() || !failure_kw.is_empty();
        }
        for (named, filter) in [
            (self.filter_subject, &mut filters.subject),
            (self.filter_body, &mut filters.body),
            (self.filter_http_body, &mut filters.http_body),
            (self.filter_default_fail, &mut filters.default_fail),
        ] {
            *filter = named.unwrap_or(*filter);
        }
        // The schedule takes precedence: a timeout beside it is not stored and does not make the
        // check Simple.
        let (timeout, schedule) = match (self.schedule, self.timeout) {
            (Some(schedule), _) => (old.timeout, Some(schedule)),
            (None, Some(timeout)) => (timeout, None),
            (None, None) => (old.timeout, old.schedule),
        };
        CheckSettings {
            name: self.name.unwrap_or(old.name),
            slug: self.slug.unwrap_or(old.slug),
            tags: self.tags.unwrap_or(old.tags),
            desc: self.desc.unwrap_or(old.desc),
            timeout,
            grace: self.grace.unwrap_or(old.grace),
            schedule,
            tz: self.tz.unwrap_or(old.tz),
            manual_resume: self.manual_resume.unwrap_or(old.manual_resume),
            post_only: self.post_only.unwrap_or(old.post_only),
            start_kw: self.start_kw.unwrap_or(old.start_kw),
            success_kw: self.success_kw.unwrap_or(success_kw),
            failure_kw: self.failure_kw.unwrap_or(failure_kw),
            filters,
            channels: channels.unwrap_or(old.channels),
            failure_threshold: old.failure_threshold,
            parents: old.parents.clone(),
        }
    }

    /// Name of the first text field that is over its limit and differs from the stored text.
    pub fn first_overlong_field(&self, stored: &CheckSettings) -> Option<&'static str> {
        let is_long = |fits: bool, kept: bool| !fits && !kept;
        match self {
            Self {
                desc: Some(desc), ..
            } if is_long(desc.is_within_limit(), *desc == stored.desc) => Some("desc"),
            Self {
                tags: Some(tags), ..
            } if is_long(tags.is_within_limit(), *tags == stored.tags) => Some("tags"),
            Self {
                name: Some(name), ..
            } if is_long(name.is_within_limit(), *name == stored.name) => Some("name"),
            Self {
                slug: Some(slug), ..
            } if is_long(slug.is_within_limit(), *slug == stored.slug) => Some("slug"),
            _ => {
                let keywords = [
                    ("start_kw", &self.start_kw, &stored.start_kw),
                    ("success_kw", &self.success_kw, &stored.success_kw),
                    ("failure_kw", &self.failure_kw, &stored.failure_kw),
                    ("subject", &self.subject, &stored.success_kw),
                    ("subject_fail", &self.subject_fail, &stored.failure_kw),
                ];
                let is_wrong = |sent: &Option<Keywords>, stored: &Keywords| {
                    sent.as_ref()
                        .is_some_and(|sent| is_long(sent.is_within_limit(), sent == stored))
                };
                keywords
                    .into_iter()
                    .find(|(_, sent, stored)| is_wrong(sent, stored))
                    .map(|(field, ..)| field)
            }
        }
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
