//! Templates of webhooks. Placeholders are only searched for in the template, never in values.
//! Commands get the same values as environment variables: see
//! [`TemplateValues::environment_variables`].

use serde_json::{Value, json};

use crate::channels::alert::{Alert, AlertedCheck, PingFacts, SendAttempt};
use crate::channels::render::{
    Dialect, LengthLimit, LengthUnit, MAX_OUTPUT_CHARS, TextSections, render_text,
};
use crate::channels::send_step::{encode_latin1, percent_encode};
use crate::domain::alert::AlertEvent;
use crate::domain::check::CheckSettings;
use crate::domain::flip::FlipCause;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// Maximum length of `$TEXT`.
const TEXT_LIMIT: LengthLimit = LengthLimit(8_000, LengthUnit::Bytes);

/// Maximum number of bytes of a URL or header with its placeholders filled in.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Maximum number of bytes of a body with its placeholders filled in.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Position of a template, which decides how values are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TemplateTarget {
    /// URL: values are percent-encoded.
    Url,
    /// Value of a header.
    Header,
    /// Body: values stay unchanged.
    Body,
}

impl TemplateTarget {
    /// Maximum number of bytes of a template with its placeholders filled in.
    fn max_bytes(self) -> usize {
        match self {
            Self::Url | Self::Header => MAX_LINE_BYTES,
            Self::Body => MAX_BODY_BYTES,
        }
    }
}

/// A template is too long with its placeholders filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TemplateTooLong {
    /// Maximum number of bytes at this position.
    pub(super) max_bytes: usize,
}

/// Values of the placeholders for one alert.
pub(super) struct TemplateValues<'a> {
    alert: &'a Alert,
    attempt: &'a SendAttempt,
    alerted_check: &'a AlertedCheck,
}

impl<'a> TemplateValues<'a> {
    /// Values for an alert. `None`: it is about no check.
    pub(super) fn for_alert(alert: &'a Alert, attempt: &'a SendAttempt) -> Option<Self> {
        alert.check.as_ref().map(|alerted_check| Self {
            alert,
            attempt,
            alerted_check,
        })
    }

    /// Fills in a template for a header.
    ///
    /// # Errors
    /// If the value is longer than a header may be.
    pub(super) fn fill_header(&self, template: &str) -> Result<String, TemplateTooLong> {
        let value = encode_latin1(&self.fill(template, TemplateTarget::Header)?);
        let max_bytes = TemplateTarget::Header.max_bytes();
        // Every character is one byte in the request.
        if value.chars().count() > max_bytes {
            Err(TemplateTooLong { max_bytes })
        } else {
            Ok(value)
        }
    }

    /// Fills in the placeholders of a template. Other text stays unchanged. Stops when the result
    /// is too long, so that no template takes more memory than its limit and one value.
    ///
    /// # Errors
    /// If the result is longer than its position allows.
    pub(super) fn fill(
        &self,
        template: &str,
        target: TemplateTarget,
    ) -> Result<String, TemplateTooLong> {
        let max_bytes = target.max_bytes();
        let check_length = |filled: String| {
            if filled.len() > max_bytes {
                Err(TemplateTooLong { max_bytes })
            } else {
                Ok(filled)
            }
        };
        let mut filled = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            match self.match_placeholder(after, target) {
                Some((length, value)) => {
                    filled.push_str(&value);
                    rest = after.get(length..).unwrap_or_default();
                }
                None => {
                    filled.push('$');
                    rest = after;
                }
            }
            filled = check_length(filled)?;
        }
        filled.push_str(rest);
        check_length(filled)
    }

    /// Environment variables for a command, named like the placeholders. Values contain no NUL
    /// characters, which are invalid there. Each is short enough for the limits of Linux (128 KiB
    /// per variable) and macOS (1 MiB in all).
    pub(super) fn environment_variables(&self) -> impl Iterator<Item = (String, String)> {
        let variables = COMMAND_VARIABLES.into_iter().filter_map(|name| {
            Some((
                name.to_owned(),
                environment_value(&self.placeholder_value(name)?),
            ))
        });
        let body = self.placeholder_value("BODY").unwrap_or_default();
        let start = body.ceil_char_boundary(body.len().saturating_sub(MAX_BODY_VARIABLE_BYTES));
        let body = body.get(start..).unwrap_or_default().replace('\0', "");
        let tags = environment_value(self.settings().tags.as_str());
        let tags: Vec<_> = tags
            .split_whitespace()
            .enumerate()
            .map(|(index, tag)| (format!("TAG{}", index + 1), tag.to_owned()))
            .collect();
        variables.chain([("BODY".to_owned(), body)]).chain(tags)
    }

    /// Returns the placeholder at the beginning of a text: the length of the longest matching name,
    /// and its encoded value.
    fn match_placeholder(&self, text: &str, target: TemplateTarget) -> Option<(usize, String)> {
        if let Some(number) = text
            .strip_prefix("TAG")
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            let digits = number.len()
                - number
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .len();
            let number = number
                .get(..digits)
                .filter(|digits| !digits.starts_with('0'))?
                .parse::<usize>()
                .ok()?;
            let tag = self.settings().tags.iter().nth(number - 1)?;
            return Some((3 + digits, encode_value(tag.to_owned(), target, false)));
        }
        let name = PLACEHOLDERS
            .iter()
            .filter(|name| text.starts_with(**name))
            .max_by_key(|name| name.len())?;
        if name.starts_with("BODY") && target != TemplateTarget::Body {
            return None;
        }
        let plain = matches!(*name, "CODE" | "STATUS" | "SLUG" | "EXITSTATUS");
        Some((
            name.len(),
            encode_value(self.placeholder_value(name)?, target, plain),
        ))
    }

    fn settings(&self) -> &CheckSettings {
        &self.alerted_check.facts.settings
    }

    fn last_ping(&self) -> Option<&PingFacts> {
        self.alerted_check.facts.last_ping.as_ref()
    }

    fn placeholder_value(&self, name: &str) -> Option<String> {
        let facts = &self.alerted_check.facts;
        if let Some(name) = name.strip_suffix("_JSON").filter(|name| *name != "EVENT") {
            return self.placeholder_value(name).map(|value| ascii_json(&value));
        }
        Some(match name {
            "CODE" => facts.uuid.to_string(),
            "STATUS" => self.alert.status().to_owned(),
            "NOW" => format_timestamp(self.alert.at),
            "NAME" => self.settings().name.as_str().to_owned(),
            "SLUG" => self.settings().slug.as_str().to_owned(),
            "TAGS" => self.settings().tags.as_str().to_owned(),
            "JSON" => facts.json.clone()?,
            "BODY" => self.last_ping().map_or_else(String::new, |ping| {
                String::from_utf8_lossy(&ping.body).into_owned()
            }),
            "EXITSTATUS" => self
                .last_ping()
                .and_then(|ping| ping.exit_status)
                .map_or_else(|| "-1".into(), |exit| exit.to_string()),
            "PROJECT" => facts.project.clone(),
            "REASON" => self.alert.reason.clone(),
            "DOWNTIME" => self.downtime_seconds().to_string(),
            "TITLE" => self.alert.title.clone(),
            "TEXT" => {
                let show = TextSections {
                    output: MAX_OUTPUT_CHARS,
                    ..TextSections::BELOW_TITLE
                };
                render_text(self.alert, self.attempt, Dialect::Plain, show, TEXT_LIMIT)
            }
            "LINK" => self.alert.link.clone().unwrap_or_default(),
            "EVENT_JSON" => self.event_json().to_string(),
            _ => return None,
        })
    }

    /// Length of the downtime so far, in seconds.
    pub(super) fn downtime_seconds(&self) -> i64 {
        let seconds = |(from, until): (Timestamp, Option<Timestamp>)| {
            until.unwrap_or(self.attempt.at).micros_since(from) / MICROS_PER_SEC
        };
        self.alerted_check.downtime.map_or(0, seconds).max(0)
    }

    /// All facts for programs, without anything that could ping the check.
    pub(super) fn event_json(&self) -> Value {
        let facts = &self.alerted_check.facts;
        let settings = self.settings();
        let last_ping = self.last_ping().map(|ping| {
            json!({
                "at": format_timestamp(ping.at),
                "kind": ping.kind.name(),
                "scheme": ping.scheme.name(),
                "exit_status": ping.exit_status,
                "duration": ping.run_duration.map(|took| took / MICROS_PER_SEC),
                "remote_addr": ping.from.map(|from| from.to_string()),
            })
        });
        let exit_status = match self.alerted_check.cause {
            FlipCause::ExitStatus(status) => Some(status.get()),
            _ => None,
        };
        let seconds = self.downtime_seconds();
        let downtime = self.alerted_check.downtime.map(|(from, until)| {
            json!({
                "from": format_timestamp(from),
                "until": until.map(format_timestamp),
                "seconds": seconds,
            })
        });
        json!({
            "id": self.attempt.id,
            "event": self.alert.event.name(),
            "status": self.alert.status(),
            "at": format_timestamp(self.alert.at),
            "title": self.alert.title,
            "text": self.alert.summary,
            "cause": match self.alert.event {
                AlertEvent::Warning(kind) => kind.name(),
                _ => self.alerted_check.cause.name(),
            },
            "reason": self.alert.reason,
            "exit_status": exit_status,
            "possible_duplicate": self.attempt.may_be_duplicate,
            "project": facts.project,
            "check": {
                "name": settings.name.as_str(),
                "slug": settings.slug.as_str(),
                "unique_key": facts.unique_key.to_string(),
                "tags": settings.tags.iter().collect::<Vec<_>>(),
                "desc": settings.desc.as_str(),
                "expected": settings.describe_schedule(),
                "grace": settings.grace.get(),
                "n_pings": facts.n_pings,
                "failures": facts.failures,
            },
            "last_ping": last_ping,
            "last_success": facts.last_success.map(format_timestamp),
            "downtime": downtime,
            "link": self.alert.link,
        })
    }
}

/// Names of placeholders, except for single tags.
const PLACEHOLDERS: [&str; 24] = [
    "CODE",
    "STATUS",
    "NOW",
    "NAME",
    "NAME_JSON",
    "SLUG",
    "TAGS",
    "TAGS_JSON",
    "JSON",
    "BODY",
    "BODY_JSON",
    "EXITSTATUS",
    "PROJECT",
    "PROJECT_JSON",
    "REASON",
    "REASON_JSON",
    "DOWNTIME",
    "TITLE",
    "TITLE_JSON",
    "TEXT",
    "TEXT_JSON",
    "LINK",
    "LINK_JSON",
    "EVENT_JSON",
];

/// Placeholders that are environment variables of commands, except for `BODY` and single tags.
const COMMAND_VARIABLES: [&str; 5] = ["CODE", "STATUS", "NOW", "NAME", "TAGS"];

/// Maximum number of bytes of an environment variable.
const MAX_VARIABLE_BYTES: usize = 16 << 10;
/// Maximum number of bytes of `BODY`; its end is kept.
const MAX_BODY_VARIABLE_BYTES: usize = 100 << 10;

/// Prepares a value for an environment variable: removes NUL characters and cuts the end.
pub(super) fn environment_value(value: &str) -> String {
    value
        .get(..value.floor_char_boundary(MAX_VARIABLE_BYTES))
        .unwrap_or_default()
        .replace('\0', "")
}

/// Encodes a value for its position. A plain value needs no encoding.
fn encode_value(value: String, target: TemplateTarget, plain: bool) -> String {
    match target {
        TemplateTarget::Url if !plain => percent_encode(&value, "/"),
        TemplateTarget::Url | TemplateTarget::Header | TemplateTarget::Body => value,
    }
}

/// Time in the format of the API.
pub(super) fn format_timestamp(moment: Timestamp) -> String {
    let mut text = String::new();
    moment.write_rfc3339_secs(&mut text);
    text
}

/// Text as a JSON string in ASCII, with quotation marks.
fn ascii_json(text: &str) -> String {
    let mut ascii = String::new();
    for c in Value::from(text).to_string().chars() {
        if c.is_ascii() && c != '\u{7f}' {
            ascii.push(c);
        } else {
            let mut units = [0; 2];
            ascii.extend(
                c.encode_utf16(&mut units)
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}")),
            );
        }
    }
    ascii
}
