//! Outgoing pings: the URL and the body.

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::ids::parse_hyphenated_uuid;
use crate::outbound::host_port_of;

/// Maximum number of characters of a slug that a message names.
const MAX_SHOWN_SLUG_CHARS: usize = 100;

/// Ping URL of Healthchecks or of a compatible server, with a UUID, or with a ping key and a slug.
/// It has no `Debug`, because it is a secret.
#[derive(Clone)]
pub struct PingUrl {
    /// Everything before the query.
    path: String,
    /// Text after the `?`; may be empty.
    query: String,
}

/// Event of a ping, as the last part of its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEvent {
    /// The job has begun.
    Start,
    /// The job has failed.
    Fail,
    /// An entry for the log that changes no status.
    Log,
    /// The job ended with this exit status.
    Exit(u8),
}

impl JobEvent {
    /// Parses `start`, `fail`, `log` or an exit status.
    ///
    /// # Errors
    /// A text with the valid values.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "start" => Ok(Self::Start),
            "fail" => Ok(Self::Fail),
            "log" => Ok(Self::Log),
            number => number
                .parse()
                .map(Self::Exit)
                .map_err(|_| "give start, fail, log or an exit status from 0 to 255"),
        }
    }
}

impl PingUrl {
    /// Parses the URL.
    ///
    /// # Errors
    /// If it is no `http` or `https` URL.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.split('#').next().unwrap_or_default();
        let plain = !text
            .bytes()
            .any(|byte| byte.is_ascii_control() || byte == b' ');
        if !plain || host_port_of(text).is_err() {
            return Err("give a ping URL, as in https://example.org/ping/UUID");
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        Ok(Self {
            path: path.into(),
            query: query.into(),
        })
    }

    /// Returns the URL of a ping with this event and this run.
    pub fn url_for(&self, event: Option<JobEvent>, run: Option<Uuid>) -> String {
        let mut url = self.path.clone();
        if let Some(event) = event {
            url.truncate(url.trim_end_matches('/').len());
            match event {
                JobEvent::Start => url.push_str("/start"),
                JobEvent::Fail => url.push_str("/fail"),
                JobEvent::Log => url.push_str("/log"),
                JobEvent::Exit(status) => url.push_str(&format!("/{status}")),
            }
        }
        let run = run.map(|run| format!("rid={run}"));
        let query: Vec<_> = [
            Some(self.query.clone()).filter(|query| !query.is_empty()),
            run,
        ]
        .into_iter()
        .flatten()
        .collect();
        if !query.is_empty() {
            url.push('?');
            url.push_str(&query.join("&"));
        }
        url
    }
}

/// Returns advice for a ping URL whose check the server does not know. The URL may end with an
/// event. The advice does not contain the ping key.
pub(super) fn unknown_check_advice(url: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let parts: Vec<_> = path.trim_end_matches('/').rsplit('/').collect();
    let is_event = |part: &str| JobEvent::parse(part).is_ok();
    let is_unknown_uuid = match parts.as_slice() {
        [event, named, ..] if is_event(event) => parse_hyphenated_uuid(named).is_some(),
        [named, ..] => parse_hyphenated_uuid(named).is_some(),
        [] => false,
    };
    if is_unknown_uuid {
        return "no check has the UUID of this URL: `overdue check show NAME`, or the page of the \
                check, shows its ping URL"
            .into();
    }
    // The key follows `ping` or, as on the hosted service, the host; a slug may look like an
    // event.
    let named = match parts.as_slice() {
        [slug, _key, "ping", ..] | [slug, _key, _, "", _] => slug,
        [event, slug, ..] if is_event(event) => slug,
        [slug, ..] => slug,
        [] => &"",
    };
    let slug: String = named
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .take(MAX_SHOWN_SLUG_CHARS)
        .collect();
    if query.split('&').any(|parameter| parameter == "create=1") {
        format!(
            "no check has the slug \"{slug}\", and none was created: the ping key is wrong, or the \
             project has reached its check limit"
        )
    } else {
        format!(
            "no check has the slug \"{slug}\": create it, add ?create=1 to the URL, or correct the \
             ping key"
        )
    }
}

/// A ping to send. It has no `Debug`, because its URL is a secret.
#[derive(Clone)]
pub(super) struct OutgoingPing {
    pub(super) url: String,
    pub(super) body: Bytes,
}

impl OutgoingPing {
    pub(super) fn new(url: String, body: Vec<u8>) -> Self {
        Self {
            url,
            body: body.into(),
        }
    }

    /// Appends a line to the body.
    pub(super) fn append_line(&mut self, line: &str) {
        let mut body = self.body.to_vec();
        if body.last().is_some_and(|last| *last != b'\n') {
            body.push(b'\n');
        }
        body.extend(line.bytes());
        body.push(b'\n');
        self.body = body.into();
    }

    /// Truncates the body to its last `max_bytes` bytes.
    pub(super) fn truncate_to_tail(&mut self, max_bytes: usize) {
        let mut cut = self.body.len().saturating_sub(max_bytes);
        if cut > 0 {
            // A character that would be cut is removed whole. It has at most three continuation
            // bytes.
            cut += self
                .body
                .iter()
                .skip(cut)
                .take(3)
                .take_while(|byte| **byte & 0xc0 == 0x80)
                .count();
        }
        self.body = self.body.split_off(cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_of_a_ping_precedes_the_query() {
        let run = Uuid::from_u128(1);
        for (url, action, has_run, expected) in [
            (
                "http://a/ping/u",
                Some(JobEvent::Start),
                true,
                "http://a/ping/u/start?rid=00000000-0000-0000-0000-000000000001",
            ),
            (
                "http://a/k/s/?create=1",
                Some(JobEvent::Exit(3)),
                false,
                "http://a/k/s/3?create=1",
            ),
            (
                "http://a/k/s?create=1#x",
                Some(JobEvent::Fail),
                true,
                "http://a/k/s/fail?create=1&rid=00000000-0000-0000-0000-000000000001",
            ),
            ("https://a:1/x/", None, false, "https://a:1/x/"),
            ("http://a", Some(JobEvent::Log), false, "http://a/log"),
        ] {
            let ping_url = PingUrl::parse(url)
                .unwrap_or_else(|error| panic!("{url}: {error}"))
                .url_for(action, has_run.then_some(run));
            assert_eq!(ping_url, expected);
        }
        for invalid in [
            "",
            "a/b",
            "ftp://a/b",
            "http://",
            "http://a/\nb",
            "http://a/ b",
        ] {
            assert!(PingUrl::parse(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn advice_on_an_unknown_check_names_the_slug_but_not_the_key() {
        for (url, start) in [
            (
                "http://a/ping/kkkkkkkkkkkkkkkkkkkkkk/backup/start?rid=1",
                r#"no check has the slug "backup": create it, add ?create=1"#,
            ),
            (
                "https://hc.example.org/kkkkkkkkkkkkkkkkkkkkkk/backup",
                r#"no check has the slug "backup": create it, add ?create=1"#,
            ),
            (
                "http://a/ping/kkkkkkkkkkkkkkkkkkkkkk/backup/0?create=1&rid=1",
                r#"no check has the slug "backup", and none was created"#,
            ),
            (
                "http://a/ping/kkkkkkkkkkkkkkkkkkkkkk/42",
                "no check has the slug \"42\": create it",
            ),
            (
                "https://hc.example.org/kkkkkkkkkkkkkkkkkkkkkk/fail",
                r#"no check has the slug "fail": create it"#,
            ),
            (
                "http://a/ping/6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f/3",
                "no check has the UUID of this URL",
            ),
        ] {
            let advice = unknown_check_advice(url);
            assert!(
                advice.starts_with(start) && !advice.contains("kkk"),
                "{url}: {advice}"
            );
        }
    }

    #[test]
    fn truncation_keeps_the_end_of_a_body_and_whole_characters() {
        for (body, limit, expected) in [
            ("abc", 3, "abc"),
            ("abc", 2, "bc"),
            ("aéb", 2, "b"),
            ("a☎b", 3, "b"),
            ("abc", 0, ""),
        ] {
            let mut report = OutgoingPing::new(String::new(), body.into());
            report.truncate_to_tail(limit);
            assert_eq!(report.body, expected, "{body} {limit}");
        }
    }
}
