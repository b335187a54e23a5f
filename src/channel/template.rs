//! Templates of webhooks: placeholders are looked up in the template alone, and what a value contains is never filled in. Commands get the
//! same values as variables of their environment: see [`Values::variables`].

use serde_json::{Value, json};

use crate::channel::alert::{Alert, Attempt, PingFacts, Subject};
use crate::channel::outgoing::{encoded, latin1};
use crate::channel::render::{Dialect, Limit, OUTPUT_CHARS, Show, Unit, text};
use crate::domain::check::Settings;
use crate::domain::flip::Cause;
use crate::domain::moment::{MICROS, Moment};
use crate::domain::why;

/// Bytes of `$TEXT` at most.
const TEXT_LIMIT: Limit = Limit(8_000, Unit::Bytes);

/// Maximum number of bytes of a URL or header with its placeholders filled in.
const MOST_LINE: usize = 8 << 10;
/// Maximum number of bytes of a body with its placeholders filled in.
const MOST_BODY: usize = 1 << 20;

/// Where a template stands, which decides how values are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In a URL: values are percent-encoded.
    Url,
    /// In the value of a header.
    Header,
    /// In a body: values stay as they are.
    Body,
}

impl Place {
    /// Maximum number of bytes of a template once its placeholders are filled in.
    fn most(self) -> usize {
        match self {
            Self::Url | Self::Header => MOST_LINE,
            Self::Body => MOST_BODY,
        }
    }
}

/// A template that is too long once its placeholders are filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong {
    /// Maximum number of bytes in such a place.
    pub(super) most: usize,
}

/// What the placeholders of one alert stand for.
pub(super) struct Values<'a> {
    alert: &'a Alert,
    attempt: &'a Attempt,
    subject: &'a Subject,
}

impl<'a> Values<'a> {
    /// The values of an alert; `None`: it is about no check.
    pub(super) fn of(alert: &'a Alert, attempt: &'a Attempt) -> Option<Self> {
        alert.check.as_ref().map(|subject| Self { alert, attempt, subject })
    }

    /// Fills in a template for a header.
    ///
    /// # Errors
    /// When the value has more bytes than a header may have.
    pub(super) fn header(&self, template: &str) -> Result<String, TooLong> {
        let (value, most) = (latin1(&self.fill(template, Place::Header)?), Place::Header.most());
        // Every character is one byte on the wire.
        if value.chars().count() > most { Err(TooLong { most }) } else { Ok(value) }
    }

    /// Fills in the placeholders of a template. Text that is no placeholder stays. Stops as soon as the result is too long, so that no
    /// template takes more memory than its limit and one value.
    ///
    /// # Errors
    /// When the result has more bytes than such a place allows.
    pub(super) fn fill(&self, template: &str, place: Place) -> Result<String, TooLong> {
        let most = place.most();
        let within = |filled: String| if filled.len() > most { Err(TooLong { most }) } else { Ok(filled) };
        let mut filled = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            match self.placeholder(after, place) {
                Some((length, value)) => {
                    filled.push_str(&value);
                    rest = after.get(length..).unwrap_or_default();
                }
                None => {
                    filled.push('$');
                    rest = after;
                }
            }
            filled = within(filled)?;
        }
        filled.push_str(rest);
        within(filled)
    }

    /// The values that a command finds in its environment, by the names of the placeholders. Without NUL characters, which no environment
    /// holds, and each short enough for the limits of Linux (128 KiB a variable) and macOS (1 MiB in all).
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let named = COMMAND.into_iter().filter_map(|name| Some((name.to_owned(), variable(&self.value(name)?))));
        let body = self.value("BODY").unwrap_or_default();
        let start = body.ceil_char_boundary(body.len().saturating_sub(MOST_VARIABLE_BODY));
        let body = body.get(start..).unwrap_or_default().replace('\0', "");
        let tags = variable(self.settings().tags.as_str());
        let tags: Vec<_> = tags.split_whitespace().enumerate().map(|(place, tag)| (format!("TAG{}", place + 1), tag.to_owned())).collect();
        named.chain([("BODY".to_owned(), body)]).chain(tags)
    }

    /// The placeholder that a text begins with: the length of the longest name that there is, and its value as it is written there.
    fn placeholder(&self, text: &str, place: Place) -> Option<(usize, String)> {
        if let Some(number) = text.strip_prefix("TAG").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            let digits = number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number = number.get(..digits).filter(|digits| !digits.starts_with('0'))?.parse::<usize>().ok()?;
            let tag = self.settings().tags.iter().nth(number - 1)?;
            return Some((3 + digits, written(tag.to_owned(), place, false)));
        }
        let name = ALL.iter().filter(|name| text.starts_with(**name)).max_by_key(|name| name.len())?;
        if name.starts_with("BODY") && place != Place::Body {
            return None;
        }
        let plain = matches!(*name, "CODE" | "STATUS" | "SLUG" | "EXITSTATUS");
        Some((name.len(), written(self.value(name)?, place, plain)))
    }

    fn settings(&self) -> &Settings {
        &self.subject.facts.settings
    }

    fn last_ping(&self) -> Option<&PingFacts> {
        self.subject.facts.last_ping.as_ref()
    }

    fn value(&self, name: &str) -> Option<String> {
        let facts = &self.subject.facts;
        if let Some(name) = name.strip_suffix("_JSON").filter(|name| *name != "EVENT") {
            return self.value(name).map(|value| ascii_json(&value));
        }
        Some(match name {
            "CODE" => facts.uuid.to_string(),
            "STATUS" => self.alert.status().to_owned(),
            "NOW" => stamp(self.alert.at),
            "NAME" => self.settings().name.as_str().to_owned(),
            "SLUG" => self.settings().slug.as_str().to_owned(),
            "TAGS" => self.settings().tags.as_str().to_owned(),
            "JSON" => facts.json.clone()?,
            "BODY" => self.last_ping().map_or_else(String::new, |ping| String::from_utf8_lossy(&ping.body).into_owned()),
            "EXITSTATUS" => self.last_ping().and_then(|ping| ping.exit).map_or_else(|| "-1".into(), |exit| exit.to_string()),
            "PROJECT" => facts.project.clone(),
            "REASON" => self.alert.reason.clone(),
            "DOWNTIME" => self.downtime_seconds().to_string(),
            "TITLE" => self.alert.title.clone(),
            "TEXT" => {
                let show = Show { output: OUTPUT_CHARS, ..Show::BELOW_TITLE };
                text(self.alert, self.attempt, Dialect::Plain, show, TEXT_LIMIT)
            }
            "LINK" => self.alert.link.clone().unwrap_or_default(),
            "EVENT_JSON" => self.event_json().to_string(),
            _ => return None,
        })
    }

    /// Seconds that the check was or has been down.
    pub(super) fn downtime_seconds(&self) -> i64 {
        let seconds = |(from, until): (Moment, Option<Moment>)| until.unwrap_or(self.attempt.at).micros_since(from) / MICROS;
        self.subject.downtime.map_or(0, seconds).max(0)
    }

    /// All that there is to know, for programs: nothing by which the check could be pinged.
    pub(super) fn event_json(&self) -> Value {
        let (facts, settings) = (&self.subject.facts, self.settings());
        let last_ping = self.last_ping().map(|ping| {
            json!({
                "at": stamp(ping.at),
                "kind": ping.kind.name(),
                "scheme": ping.scheme.name(),
                "exit_status": ping.exit,
                "duration": ping.took.map(|took| took / MICROS),
                "remote_addr": ping.from.map(|from| from.to_string()),
            })
        });
        let exit_status = match self.subject.cause {
            Cause::Exit(status) => Some(status.get()),
            _ => None,
        };
        let seconds = self.downtime_seconds();
        let downtime =
            self.subject.downtime.map(|(from, until)| json!({ "from": stamp(from), "until": until.map(stamp), "seconds": seconds }));
        json!({
            "id": self.attempt.id,
            "event": self.alert.event.name(),
            "status": self.alert.status(),
            "at": stamp(self.alert.at),
            "title": self.alert.title,
            "text": self.alert.lead,
            "cause": why::word(self.subject.cause),
            "reason": self.alert.reason,
            "exit_status": exit_status,
            "possible_duplicate": self.attempt.doubtful,
            "project": facts.project,
            "check": {
                "name": settings.name.as_str(),
                "slug": settings.slug.as_str(),
                "unique_key": facts.unique_key.to_string(),
                "tags": settings.tags.iter().collect::<Vec<_>>(),
                "desc": settings.desc.as_str(),
                "expected": settings.in_words(),
                "grace": settings.grace.get(),
                "n_pings": facts.n_pings,
                "failures": facts.failures,
            },
            "last_ping": last_ping,
            "last_success": facts.last_success.map(stamp),
            "downtime": downtime,
            "link": self.alert.link,
        })
    }
}

/// The names of placeholders, beside those of single tags.
const ALL: [&str; 24] = [
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

/// Placeholders that are variables of commands, beside `BODY` and those of single tags.
const COMMAND: [&str; 5] = ["CODE", "STATUS", "NOW", "NAME", "TAGS"];

/// Maximum number of bytes of a variable of a command.
const MOST_VARIABLE: usize = 16 << 10;
/// Maximum number of bytes of `BODY`; its end is kept.
const MOST_VARIABLE_BODY: usize = 100 << 10;

/// A value as a variable of an environment: without NUL characters, and cut to its beginning.
pub(super) fn variable(value: &str) -> String {
    value.get(..value.floor_char_boundary(MOST_VARIABLE)).unwrap_or_default().replace('\0', "")
}

/// A value as it is written in a place. A plain one holds nothing that would have to be encoded.
fn written(value: String, place: Place, plain: bool) -> String {
    match place {
        Place::Url if !plain => encoded(&value, "/"),
        Place::Url | Place::Header | Place::Body => value,
    }
}

/// A moment as the API writes it.
pub(super) fn stamp(moment: Moment) -> String {
    let mut text = String::new();
    moment.write_seconds(&mut text);
    text
}

/// A text as a JSON string of ASCII, quotation marks included.
fn ascii_json(text: &str) -> String {
    let mut ascii = String::new();
    for c in Value::from(text).to_string().chars() {
        if c.is_ascii() && c != '\u{7f}' {
            ascii.push(c);
        } else {
            let mut units = [0; 2];
            ascii.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    ascii
}
