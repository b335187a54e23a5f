//! What a server is told: the URL of a ping, and its body.

use bytes::Bytes;
use uuid::Uuid;

use crate::outbound::place_of;

/// A ping URL of Healthchecks or of a server like it, with a UUID, or with a ping key and a slug. It has no `Debug`: it is a secret.
#[derive(Clone)]
pub struct PingUrl {
    /// Everything before the query.
    path: String,
    /// What follows the `?`; empty: nothing.
    query: String,
}

/// What a ping says, as the last part of its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The job has begun.
    Start,
    /// It has failed.
    Fail,
    /// Something for the log that changes nothing.
    Log,
    /// It ended with this exit status.
    Exit(u8),
}

impl Action {
    /// Reads `start`, `fail`, `log` or an exit status.
    ///
    /// # Errors
    /// What is taken.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "start" => Ok(Self::Start),
            "fail" => Ok(Self::Fail),
            "log" => Ok(Self::Log),
            number => number.parse().map(Self::Exit).map_err(|_| "give start, fail, log or an exit status from 0 to 255"),
        }
    }
}

impl PingUrl {
    /// Reads the URL.
    ///
    /// # Errors
    /// When it is no `http` or `https` URL.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.split('#').next().unwrap_or_default();
        let plain = !text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ');
        if !plain || place_of(text).is_err() {
            return Err("give a ping URL, as in https://example.org/ping/UUID");
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        Ok(Self { path: path.into(), query: query.into() })
    }

    /// The URL of a ping that says this, of this run.
    pub fn with(&self, action: Option<Action>, run: Option<Uuid>) -> String {
        let mut url = self.path.clone();
        if let Some(action) = action {
            url.truncate(url.trim_end_matches('/').len());
            match action {
                Action::Start => url.push_str("/start"),
                Action::Fail => url.push_str("/fail"),
                Action::Log => url.push_str("/log"),
                Action::Exit(status) => url.push_str(&format!("/{status}")),
            }
        }
        let run = run.map(|run| format!("rid={run}"));
        let query: Vec<_> = [Some(self.query.clone()).filter(|query| !query.is_empty()), run].into_iter().flatten().collect();
        if !query.is_empty() {
            url.push('?');
            url.push_str(&query.join("&"));
        }
        url
    }
}

/// A ping that is to be sent. It has no `Debug`: its URL is a secret.
#[derive(Clone)]
pub(super) struct Report {
    pub(super) url: String,
    pub(super) body: Bytes,
}

impl Report {
    pub(super) fn new(url: String, body: Vec<u8>) -> Self {
        Self { url, body: body.into() }
    }

    /// Adds a line to the end of the body.
    pub(super) fn add_line(&mut self, line: &str) {
        let mut body = self.body.to_vec();
        if body.last().is_some_and(|last| *last != b'\n') {
            body.push(b'\n');
        }
        body.extend(line.bytes());
        body.push(b'\n');
        self.body = body.into();
    }

    /// Keeps so many bytes of the end of the body.
    pub(super) fn keep_last(&mut self, most: usize) {
        let mut cut = self.body.len().saturating_sub(most);
        if cut > 0 {
            // A character that would be cut in two goes whole. None has more than three bytes that go on.
            cut += self.body.iter().skip(cut).take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        }
        self.body = self.body.split_off(cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_ping_says_goes_before_the_query() {
        let run = Uuid::from_u128(1);
        for (url, action, has_run, wanted) in [
            ("http://a/ping/u", Some(Action::Start), true, "http://a/ping/u/start?rid=00000000-0000-0000-0000-000000000001"),
            ("http://a/k/s/?create=1", Some(Action::Exit(3)), false, "http://a/k/s/3?create=1"),
            ("http://a/k/s?create=1#x", Some(Action::Fail), true, "http://a/k/s/fail?create=1&rid=00000000-0000-0000-0000-000000000001"),
            ("https://a:1/x/", None, false, "https://a:1/x/"),
            ("http://a", Some(Action::Log), false, "http://a/log"),
        ] {
            let made = PingUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).with(action, has_run.then_some(run));
            assert_eq!(made, wanted);
        }
        for wrong in ["", "a/b", "ftp://a/b", "http://", "http://a/\nb", "http://a/ b"] {
            assert!(PingUrl::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_end_of_a_body_is_kept_and_no_character_is_cut() {
        for (body, most, wanted) in [("abc", 3, "abc"), ("abc", 2, "bc"), ("aéb", 2, "b"), ("a☎b", 3, "b"), ("abc", 0, "")] {
            let mut report = Report::new(String::new(), body.into());
            report.keep_last(most);
            assert_eq!(report.body, wanted, "{body} {most}");
        }
    }
}
