//! Requests about checks on the socket, and the rows of their lists. Fields have the names of the
//! API.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::check_edit::{ChannelSelection, CheckEdit, UniqueField};
use crate::domain::check_input::check_seconds;
pub use crate::domain::check_input::{
    parse_description, parse_keywords, parse_name, parse_schedule, parse_seconds, parse_slug,
    parse_tags,
};
use crate::domain::text::{FailureThreshold, Keywords, Seconds};
use crate::domain::timezone::Timezone;

/// A check in a list.
#[derive(Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of a check in the API")]
pub struct CheckRow {
    pub uuid: Uuid,
    /// Name of its project.
    pub project: String,
    pub name: String,
    pub slug: String,
    pub tags: String,
    pub desc: String,
    pub status: String,
    pub started: bool,
    pub n_pings: u64,
    pub last_ping: Option<String>,
    pub next_ping: Option<String>,
    /// Duration in whole seconds.
    pub last_duration: Option<i64>,
    /// Timeout in seconds, for a check without a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    pub grace: i64,
    pub manual_resume: bool,
    pub methods: String,
    pub start_kw: String,
    pub success_kw: String,
    pub failure_kw: String,
    pub filter_subject: bool,
    pub filter_body: bool,
    pub filter_http_body: bool,
    pub filter_default_fail: bool,
    /// UUIDs of its channels, separated by commas.
    pub channels: String,
    /// Ping URL, omitted from lists. Only the path if no server runs, because the server knows the
    /// address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_url: Option<String>,
}

/// A ping in a list.
#[derive(Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of a ping in the API")]
pub struct PingRow {
    pub n: u64,
    #[serde(rename = "type")]
    pub kind: String,
    pub date: String,
    pub scheme: String,
    pub method: String,
    pub remote_addr: Option<IpAddr>,
    pub ua: String,
    pub rid: Option<Uuid>,
    /// Duration in seconds.
    pub duration: Option<f64>,
    /// Exit status that was reported.
    pub exit: Option<u8>,
    /// Bytes of the stored body.
    pub body_bytes: u32,
}

/// A flip in a list: any change of the status, including changes that the API does not show.
#[derive(Serialize, Deserialize)]
pub struct FlipRow {
    /// Time, RFC 3339.
    pub timestamp: String,
    /// Status before.
    pub from: String,
    /// Status after.
    pub to: String,
}

/// Alert settings and alert state of a check.
#[derive(Serialize, Deserialize)]
pub struct AlertingRow {
    /// Number of consecutive failures before an alert is sent.
    pub after: u8,
    /// UUIDs of the checks that it depends on, separated by commas.
    pub parents: String,
    /// Current number of consecutive failures.
    pub failures: u16,
    /// State of the alert. `quiet`: nothing to send; `due`: the check is down and the alert is not
    /// sent yet; `told`: sent; `unheard`: sent, but no channel accepted it.
    pub telling: String,
    /// Time at which the decision to alert is made again, RFC 3339.
    pub until: Option<String>,
    /// Reason why the alert is held back, in words.
    pub why: Option<String>,
    /// Reason why no alert of the check reaches a recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnotified: Option<Box<str>>,
}

impl AlertingRow {
    /// Returns the row as a table shows it.
    pub fn with_labels(mut self) -> Self {
        if let Some(unnotified) = self.unnotified.take() {
            self.telling = format!("nobody is notified: {unnotified}");
        }
        self
    }
}

/// JSON form of a [`CheckEdit`]; missing fields stay as they are.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CheckEditRow {
    name: Option<String>,
    slug: Option<String>,
    tags: Option<String>,
    desc: Option<String>,
    timeout: Option<i64>,
    grace: Option<i64>,
    schedule: Option<String>,
    tz: Option<String>,
    manual_resume: Option<bool>,
    post_only: Option<bool>,
    start_kw: Option<String>,
    success_kw: Option<String>,
    failure_kw: Option<String>,
    filter_subject: Option<bool>,
    filter_body: Option<bool>,
    filter_http_body: Option<bool>,
    filter_default_fail: Option<bool>,
    channels: Option<String>,
}

impl From<&CheckEdit> for CheckEditRow {
    fn from(edit: &CheckEdit) -> Self {
        let keywords = |keywords: &Option<Keywords>| {
            keywords.as_ref().map(|keywords| keywords.as_str().into())
        };
        Self {
            name: edit.name.as_ref().map(|name| name.as_str().into()),
            slug: edit.slug.as_ref().map(|slug| slug.as_str().into()),
            tags: edit.tags.as_ref().map(|tags| tags.as_str().into()),
            desc: edit.desc.as_ref().map(|desc| desc.as_str().into()),
            timeout: edit.timeout.map(Seconds::get),
            grace: edit.grace.map(Seconds::get),
            schedule: edit
                .schedule
                .as_ref()
                .map(|schedule| schedule.text().into()),
            tz: edit.tz.as_ref().map(|tz| tz.name().into()),
            manual_resume: edit.manual_resume,
            post_only: edit.post_only,
            start_kw: keywords(&edit.start_kw),
            success_kw: keywords(&edit.success_kw),
            failure_kw: keywords(&edit.failure_kw),
            filter_subject: edit.filter_subject,
            filter_body: edit.filter_body,
            filter_http_body: edit.filter_http_body,
            filter_default_fail: edit.filter_default_fail,
            channels: edit.channels.as_ref().map(ChannelSelection::to_text),
        }
    }
}

impl TryFrom<CheckEditRow> for CheckEdit {
    type Error = String;

    fn try_from(fields: CheckEditRow) -> Result<Self, String> {
        let keywords = |text| parse_optional(text, parse_keywords);
        Ok(Self {
            name: parse_optional(fields.name, parse_name)?,
            slug: parse_optional(fields.slug, parse_slug)?,
            tags: parse_optional(fields.tags, parse_tags)?,
            desc: parse_optional(fields.desc, parse_description)?,
            timeout: fields.timeout.map(check_seconds).transpose()?,
            grace: fields.grace.map(check_seconds).transpose()?,
            schedule: parse_optional(fields.schedule, parse_schedule)?,
            tz: parse_optional(fields.tz, |text| {
                Timezone::parse(text).map_err(|error| error.to_string())
            })?,
            manual_resume: fields.manual_resume,
            post_only: fields.post_only,
            start_kw: keywords(fields.start_kw)?,
            success_kw: keywords(fields.success_kw)?,
            failure_kw: keywords(fields.failure_kw)?,
            filter_subject: fields.filter_subject,
            filter_body: fields.filter_body,
            filter_http_body: fields.filter_http_body,
            filter_default_fail: fields.filter_default_fail,
            channels: fields.channels.map(|text| ChannelSelection::parse(&text)),
            // Older names of the same fields, which only the API takes.
            subject: None,
            subject_fail: None,
        })
    }
}

fn parse_optional<T>(
    text: Option<String>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    text.map(|text| parse(&text)).transpose()
}

/// JSON form of an edit.
pub(super) mod edit {
    use super::{CheckEdit, CheckEditRow, Deserialize, Serialize};

    pub(crate) fn serialize<S: serde::Serializer>(
        edit: &CheckEdit,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        CheckEditRow::from(edit).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Box<CheckEdit>, D::Error> {
        CheckEditRow::deserialize(from)?
            .try_into()
            .map(Box::new)
            .map_err(serde::de::Error::custom)
    }
}

/// JSON form of a failure threshold.
pub(super) mod failures {
    use super::{Deserialize, FailureThreshold, Serialize};

    pub(crate) fn serialize<S: serde::Serializer>(
        after: &Option<FailureThreshold>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        after.map(FailureThreshold::get).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Option<FailureThreshold>, D::Error> {
        Option::deserialize(from)?
            .map(FailureThreshold::parse)
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}

/// JSON form of the fields by which a check is matched.
pub(super) mod unique {
    use super::{Deserialize, Serialize, UniqueField};

    pub(crate) fn serialize<S: serde::Serializer>(
        fields: &[UniqueField],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        fields
            .iter()
            .map(|field| field.name())
            .collect::<Vec<_>>()
            .serialize(to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<UniqueField>, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        let fields: Option<_> = names.iter().map(|name| UniqueField::parse(name)).collect();
        fields.ok_or_else(|| serde::de::Error::custom("unknown field to search by"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_read_back_unchanged() {
        let whole = CheckEdit {
            name: Some(parse_name("a b").unwrap()),
            slug: Some(parse_slug("a-b").unwrap()),
            tags: Some(parse_tags("x y").unwrap()),
            desc: Some(parse_description("").unwrap()),
            timeout: Some(Seconds::DAY),
            grace: Some(Seconds::HOUR),
            schedule: Some(parse_schedule("0 3 * * *").unwrap()),
            tz: Some(Timezone::parse("Europe/Riga").unwrap()),
            manual_resume: Some(true),
            post_only: Some(false),
            start_kw: Some(parse_keywords("s").unwrap()),
            success_kw: Some(parse_keywords("").unwrap()),
            failure_kw: Some(parse_keywords("f, g").unwrap()),
            filter_subject: Some(true),
            filter_body: Some(false),
            filter_http_body: Some(true),
            filter_default_fail: Some(false),
            channels: Some(ChannelSelection::Listed(vec!["a".into(), "b".into()])),
            subject: None,
            subject_fail: None,
        };
        for edit in [
            CheckEdit::default(),
            CheckEdit {
                channels: Some(ChannelSelection::All),
                ..CheckEdit::default()
            },
            whole,
        ] {
            let json = serde_json::to_vec(&CheckEditRow::from(&edit)).unwrap();
            assert_eq!(
                edit::deserialize(&mut serde_json::Deserializer::from_slice(&json)).unwrap(),
                Box::new(edit)
            );
        }
    }

    #[test]
    fn invalid_settings_are_rejected_with_the_valid_ones() {
        for (json, part) in [
            (r#"{"name":1}"#.to_owned(), "invalid type"),
            (
                format!(r#"{{"name":"{}"}}"#, "x".repeat(101)),
                "at most 100 characters",
            ),
            (r#"{"slug":"A"}"#.into(), "a to z, 0 to 9"),
            (
                format!(r#"{{"tags":"{}"}}"#, "x ".repeat(65)),
                "at most 64 tags",
            ),
            (r#"{"timeout":59}"#.into(), "from 60 to 31536000"),
            (r#"{"schedule":"* * *"}"#.into(), "3 fields: cron has five"),
            (r#"{"tz":"Mars"}"#.into(), "Mars"),
            (r#"{"nmae":"x"}"#.into(), "unknown field"),
        ] {
            let error = edit::deserialize(&mut serde_json::Deserializer::from_str(&json))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(part) || part == "Mars" && error.contains("zone"),
                "{json}: {error}"
            );
        }
        assert!(
            parse_seconds("x")
                .unwrap_err()
                .contains("from 60 to 31536000")
        );
    }
}
