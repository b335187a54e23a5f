//! Asks another server's API one thing after the other, no faster than it wants, and understands its refusals.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value as Json;
use tokio::time::sleep;

use super::Api;
use crate::clock::Clock;
use crate::domain::project::KeyHash;
use crate::outbound::{HttpAnswer, HttpRequest, Outbound, Redirects, Trust, place_of};

/// Bytes of a list: see [limits](crate::docs::limits).
const LONGEST_LIST: usize = 64 << 20;
/// Bytes of a body: see [limits](crate::docs::limits).
const LONGEST_BODY: usize = 16 << 20;
/// How long one answer may take.
const WITHIN: Duration = Duration::from_secs(60);
/// How often something is asked for again when the server is away or in trouble, and the pause before that, doubled each time.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Versions of the API, the newest first. Releases before 2024 have no version 3, and the first had version 1 alone.
const VERSIONS: [&str; 3] = ["v3", "v2", "v1"];
/// How often a server may ask to wait in a row, and for how many seconds at the most: see [limits](crate::docs::limits).
const MOST_WAITS: u32 = 20;
const LONGEST_WAIT: u64 = 600;
/// What the hosted service asks of its clients is 100; others have their own limits.
const HOSTED: (&str, u32) = ("healthchecks.io", 90);

/// Requests that this server wants in a minute at the most, as far as that is known.
pub(super) fn per_minute(url: &str) -> Option<u32> {
    let place = place_of(url).ok()?;
    let (host, _) = place.rsplit_once(':')?;
    let (name, most) = HOSTED;
    (host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))).then_some(most)
}

/// When the next request may be sent.
#[derive(Default)]
struct Pace {
    /// How long after the one before it, at the least.
    apart: Duration,
    next: Duration,
}

impl Pace {
    /// How long the next one waits, seen from `now`.
    fn turn(&mut self, now: Duration) -> Duration {
        let at = self.next.max(now);
        self.next = at + self.apart;
        at - now
    }
}

/// See the module. It has no `Debug`: the key is a secret.
pub(super) struct Asking {
    outbound: Outbound,
    /// Addresses of the API begin with this.
    base: String,
    key: String,
    clock: Clock,
    pace: Mutex<Pace>,
}

/// What is done about an answer.
enum Next<T> {
    Answer(T),
    /// Ask again after this.
    Wait(Duration),
    /// The server is away or in trouble, for this reason: ask again.
    Again(String),
}

impl Asking {
    /// # Errors
    /// When the address is none, holds a password, or the key is none.
    pub(super) fn new(api: &Api, outbound: Outbound, clock: Clock) -> Result<Self, String> {
        let url = api.url.trim_end_matches('/');
        place_of(url).map_err(|error| format!("--api: {error}"))?;
        if url.contains(['@', '?', '#']) {
            return Err("--api: give the address of the server alone; its key stands in the file that --key-file names".into());
        }
        for (key, flag) in [(Some(&api.key), "--key-file"), (api.read_only_key.as_ref(), "--read-only-key-file")] {
            let is_key = |key: &String| key.len() == KeyHash::KEY_LENGTH && key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.');
            if key.is_some_and(|key| !is_key(key)) {
                return Err(format!("{flag}: an API key has {} characters", KeyHash::KEY_LENGTH));
            }
        }
        let apart = per_minute(url).map_or(Duration::ZERO, |most| Duration::from_secs(60) / most);
        let pace = Mutex::new(Pace { apart, next: Duration::ZERO });
        Ok(Self { outbound, base: format!("{url}/api/v3/"), key: api.key.clone(), clock, pace })
    }

    /// Returns what is at this path in the newest version of the API that the server has. Later requests use that version.
    pub(super) async fn newest(&mut self, path: &str) -> Result<Json, String> {
        let newest = self.base.clone();
        for version in VERSIONS {
            self.base = format!("{}{version}/", newest.trim_end_matches("v3/"));
            if let Some(answer) = self.optional(path).await? {
                return Ok(answer);
            }
        }
        Err(format!("{newest}{path}: it is not there: 404"))
    }

    /// Returns what is at this path below that of the API.
    pub(super) async fn json(&self, path: &str) -> Result<Json, String> {
        self.optional(path).await?.ok_or_else(|| format!("{}{path}: it is not there: 404", self.base))
    }

    /// Returns what is at this path below that of the API; `None`: nothing is.
    pub(super) async fn optional(&self, path: &str) -> Result<Option<Json>, String> {
        self.ask(path, LONGEST_LIST, |answer| {
            serde_json::from_slice(&answer.body).map(Some).map_err(|error| format!("the answer is not JSON: {error}"))
        })
        .await
    }

    /// The body of a ping; `None`: it is gone meanwhile.
    pub(super) async fn body(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        self.ask(path, LONGEST_BODY, |answer| Ok(Some(answer.body))).await
    }

    async fn ask<T>(&self, path: &str, most: usize, read: impl Fn(HttpAnswer) -> Result<Option<T>, String>) -> Result<Option<T>, String> {
        let (mut tries, mut waits, mut pause) = (1, 0, FIRST_PAUSE);
        let told = |problem: String| format!("{}{path}: {problem}", self.base);
        loop {
            match self.once(path, most, &read).await.map_err(told)? {
                Next::Answer(answer) => return Ok(answer),
                Next::Wait(_) if waits == MOST_WAITS => return Err(told("the server goes on asking to wait: 429".into())),
                Next::Again(problem) if tries == TRIES => return Err(told(problem)),
                Next::Wait(asked) => {
                    waits += 1;
                    sleep(asked).await;
                }
                Next::Again(_) => {
                    tries += 1;
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }

    async fn once<T>(
        &self,
        path: &str,
        most: usize,
        read: impl Fn(HttpAnswer) -> Result<Option<T>, String>,
    ) -> Result<Next<Option<T>>, String> {
        let turn = self.pace.lock().unwrap_or_else(PoisonError::into_inner).turn(self.clock.uptime());
        sleep(turn).await;
        let request = HttpRequest {
            method: "GET".into(),
            url: format!("{}{path}", self.base),
            headers: vec![("X-Api-Key".into(), self.key.clone())],
            body: Bytes::new(),
            redirects: Redirects::None,
            pin: None,
            within: WITHIN,
        };
        let answer = match self.outbound.http_up_to(most, request, Trust::Operator).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Next::Again(error.to_string())),
        };
        match answer.status {
            200 if answer.whole => read(answer).map(Next::Answer),
            200 if answer.body.len() >= most => Err(format!("the answer has more than {} MiB", most >> 20)),
            200 => Ok(Next::Again("the answer broke off".into())),
            404 => Ok(Next::Answer(None)),
            429 => {
                let asked = answer.header("retry-after").and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(60);
                Ok(Next::Wait(Duration::from_secs(asked.min(LONGEST_WAIT))))
            }
            401 | 403 => Err(format!("the server refuses the key: {}; it takes one that may write", answer.status)),
            status @ 300..=399 => Err(format!("the server answers {status}, as if it were elsewhere: give the address where it is")),
            status @ 500.. => Ok(Next::Again(format!("the server answers {status}"))),
            status => Err(format!("the server answers {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosted_service_has_a_pace_that_is_known() {
        for (url, most) in [
            ("https://healthchecks.io", Some(90)),
            ("https://eu.healthchecks.io/x", Some(90)),
            ("https://nothealthchecks.io", None),
            ("https://healthchecks.io.example.org", None),
            ("http://127.0.0.1:8000", None),
            ("nothing", None),
        ] {
            assert_eq!(per_minute(url), most, "{url}");
        }
    }

    #[test]
    fn requests_are_so_far_apart_but_never_made_up_for() {
        let (second, mut pace) = (Duration::from_secs(1), Pace { apart: Duration::from_secs(2), next: Duration::ZERO });
        assert_eq!([0, 0, 1, 9, 9].map(|now| pace.turn(second * now)), [0, 2, 3, 0, 2].map(|wait| second * wait));
        let mut free = Pace::default();
        assert_eq!([5, 5].map(|now| free.turn(second * now)), [Duration::ZERO; 2]);
    }
}
