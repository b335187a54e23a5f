//! Client of another server's API. It limits its request rate to what the server accepts and
//! handles refusals.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value as Json;
use tokio::time::sleep;

use super::ApiSource;
use crate::clock::Clock;
use crate::domain::project::KeyHash;
use crate::outbound::{HttpRequest, HttpResponse, Outbound, RedirectPolicy, Trust, host_port_of};

/// Maximum size of a list in bytes: see [limits](crate::docs::limits).
const MAX_LIST_BYTES: usize = 64 << 20;
/// Maximum size of a body in bytes: see [limits](crate::docs::limits).
const MAX_BODY_BYTES: usize = 16 << 20;
/// Time limit for one response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of attempts while the server is unavailable or fails. The delay before the next
/// attempt doubles each time.
const MAX_ATTEMPTS: u32 = 4;
const INITIAL_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Versions of the API, newest first. Releases before 2024 have no version 3; the first releases
/// had only version 1.
const API_VERSIONS: [&str; 3] = ["v3", "v2", "v1"];
/// Maximum number of consecutive waits that a server may request, and the maximum length of each in
/// seconds: see [limits](crate::docs::limits).
const MAX_WAITS: u32 = 20;
const MAX_WAIT_SECS: u64 = 600;
/// Host of the hosted service, and the request rate for it per minute, below its limit of 100.
/// Other servers have their own limits.
const HOSTED_RATE_LIMIT: (&str, u32) = ("healthchecks.io", 90);

/// Returns the maximum number of requests per minute for this server, if known.
pub(super) fn requests_per_minute(url: &str) -> Option<u32> {
    let place = host_port_of(url).ok()?;
    let (host, _) = place.rsplit_once(':')?;
    let (name, most) = HOSTED_RATE_LIMIT;
    (host
        .strip_suffix(name)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    .then_some(most)
}

/// Schedule of requests.
#[derive(Default)]
struct RequestPacer {
    /// Minimum interval between two requests.
    min_interval: Duration,
    next_request: Duration,
}

impl RequestPacer {
    /// Reserves the next request and returns its delay from `now`.
    fn reserve_delay(&mut self, now: Duration) -> Duration {
        let at = self.next_request.max(now);
        self.next_request = at + self.min_interval;
        at - now
    }
}

/// Client of the API of another server. It has no `Debug`, because the key is a secret.
pub(super) struct SourceApiClient {
    outbound: Outbound,
    /// Prefix of the URLs of the API.
    base_url: String,
    key: String,
    clock: Clock,
    pacer: Mutex<RequestPacer>,
}

/// Result of one attempt.
enum ApiAttempt<T> {
    Response(T),
    /// Retry after this delay.
    RateLimited(Duration),
    /// The server is unavailable or fails, for this reason: retry.
    Retry(String),
}

impl SourceApiClient {
    /// Creates a client.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or contains a password, or if a key is invalid.
    pub(super) fn new(api: &ApiSource, outbound: Outbound, clock: Clock) -> Result<Self, String> {
        let url = api.url.trim_end_matches('/');
        host_port_of(url).map_err(|error| format!("--api: {error}"))?;
        if url.contains(['@', '?', '#']) {
            return Err(
                "--api: give the address of the server alone; its key stands in the file that \
                 --key-file names"
                    .into(),
            );
        }
        for (key, flag) in [
            (Some(&api.key), "--key-file"),
            (api.read_only_key.as_ref(), "--read-only-key-file"),
        ] {
            let is_key = |key: &String| {
                key.len() == KeyHash::KEY_LENGTH
                    && key
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() && byte != b'.')
            };
            if key.is_some_and(|key| !is_key(key)) {
                return Err(format!(
                    "{flag}: an API key has {} characters",
                    KeyHash::KEY_LENGTH
                ));
            }
        }
        let apart =
            requests_per_minute(url).map_or(Duration::ZERO, |most| Duration::from_secs(60) / most);
        let pace = Mutex::new(RequestPacer {
            min_interval: apart,
            next_request: Duration::ZERO,
        });
        Ok(Self {
            outbound,
            base_url: format!("{url}/api/v3/"),
            key: api.key.clone(),
            clock,
            pacer: pace,
        })
    }

    /// Returns the JSON at this path in the newest version of the API that the server supports.
    /// Later requests use that version.
    pub(super) async fn get_newest_version(&mut self, path: &str) -> Result<Json, String> {
        let newest = self.base_url.clone();
        for version in API_VERSIONS {
            self.base_url = format!("{}{version}/", newest.trim_end_matches("v3/"));
            if let Some(answer) = self.get_optional_json(path).await? {
                return Ok(answer);
            }
        }
        Err(format!("{newest}{path}: it is not there: 404"))
    }

    /// Returns the JSON at this path below that of the API.
    pub(super) async fn get_json(&self, path: &str) -> Result<Json, String> {
        self.get_optional_json(path)
            .await?
            .ok_or_else(|| format!("{}{path}: it is not there: 404", self.base_url))
    }

    /// Returns the JSON at this path below that of the API; `None` if it does not exist.
    pub(super) async fn get_optional_json(&self, path: &str) -> Result<Option<Json>, String> {
        self.get_with_retries(path, MAX_LIST_BYTES, |answer| {
            serde_json::from_slice(&answer.body)
                .map(Some)
                .map_err(|error| format!("the answer is not JSON: {error}"))
        })
        .await
    }

    /// Returns the body of a ping; `None` if it no longer exists.
    pub(super) async fn get_ping_body(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        self.get_with_retries(path, MAX_BODY_BYTES, |answer| Ok(Some(answer.body)))
            .await
    }

    async fn get_with_retries<T>(
        &self,
        path: &str,
        most: usize,
        read: impl Fn(HttpResponse) -> Result<Option<T>, String>,
    ) -> Result<Option<T>, String> {
        let mut tries = 1;
        let mut waits = 0;
        let mut pause = INITIAL_RETRY_DELAY;
        let told = |problem: String| format!("{}{path}: {problem}", self.base_url);
        loop {
            match self.get_once(path, most, &read).await.map_err(told)? {
                ApiAttempt::Response(answer) => return Ok(answer),
                ApiAttempt::RateLimited(_) if waits == MAX_WAITS => {
                    return Err(told("the server goes on asking to wait: 429".into()));
                }
                ApiAttempt::Retry(problem) if tries == MAX_ATTEMPTS => return Err(told(problem)),
                ApiAttempt::RateLimited(asked) => {
                    waits += 1;
                    sleep(asked).await;
                }
                ApiAttempt::Retry(_) => {
                    tries += 1;
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }

    async fn get_once<T>(
        &self,
        path: &str,
        most: usize,
        read: impl Fn(HttpResponse) -> Result<Option<T>, String>,
    ) -> Result<ApiAttempt<Option<T>>, String> {
        let turn = self
            .pacer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .reserve_delay(self.clock.uptime());
        sleep(turn).await;
        let request = HttpRequest {
            method: "GET".into(),
            url: format!("{}{path}", self.base_url),
            headers: vec![("X-Api-Key".into(), self.key.clone())],
            body: Bytes::new(),
            redirects: RedirectPolicy::None,
            pin: None,
            timeout: RESPONSE_TIMEOUT,
        };
        let answer = match self
            .outbound
            .send_http_limited(most, request, Trust::Operator)
            .await
        {
            Ok(answer) => answer,
            Err(error) => return Ok(ApiAttempt::Retry(error.to_string())),
        };
        match answer.status {
            200 if answer.is_complete => read(answer).map(ApiAttempt::Response),
            200 if answer.body.len() >= most => {
                Err(format!("the answer has more than {} MiB", most >> 20))
            }
            200 => Ok(ApiAttempt::Retry("the answer broke off".into())),
            404 => Ok(ApiAttempt::Response(None)),
            429 => {
                let asked = answer
                    .header("retry-after")
                    .and_then(|seconds| seconds.trim().parse().ok())
                    .unwrap_or(60);
                Ok(ApiAttempt::RateLimited(Duration::from_secs(
                    asked.min(MAX_WAIT_SECS),
                )))
            }
            401 | 403 => Err(format!(
                "the server refuses the key: {}; it takes one that may write",
                answer.status
            )),
            status @ 300..=399 => Err(format!(
                "the server answers {status}, as if it were elsewhere: give the address where it \
                 is"
            )),
            status @ 500.. => Ok(ApiAttempt::Retry(format!("the server answers {status}"))),
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
            assert_eq!(requests_per_minute(url), most, "{url}");
        }
    }

    #[test]
    fn requests_are_so_far_apart_but_never_made_up_for() {
        let second = Duration::from_secs(1);
        let mut pace = RequestPacer {
            min_interval: Duration::from_secs(2),
            next_request: Duration::ZERO,
        };
        assert_eq!(
            [0, 0, 1, 9, 9].map(|now| pace.reserve_delay(second * now)),
            [0, 2, 3, 0, 2].map(|wait| second * wait)
        );
        let mut free = RequestPacer::default();
        assert_eq!(
            [5, 5].map(|now| free.reserve_delay(second * now)),
            [Duration::ZERO; 2]
        );
    }
}
