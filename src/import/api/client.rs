//! Client of another server's API. It limits its request rate to what the server accepts and
//! handles refusals.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value as Json;
use tokio::time::sleep;

use super::ApiSource;
use crate::domain::project::KeySecret;
use crate::outbound::{HttpRequest, HttpResponse, Outbound, RedirectPolicy, Trust, host_port_of};
use crate::util::clock::Clock;
use crate::util::sync::{Mutex, lock};
use crate::util::token_bucket::{TokenBucket, TokenRate};

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
    let host_port = host_port_of(url).ok()?;
    let (host, _) = host_port.rsplit_once(':')?;
    let (name, limit) = HOSTED_RATE_LIMIT;
    (host
        .strip_suffix(name)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    .then_some(limit)
}

/// Client of the API of another server. It has no `Debug`, because the key is a secret.
pub(super) struct SourceApiClient {
    outbound: Outbound,
    /// Prefix of the URLs of the API.
    base_url: String,
    key: String,
    clock: Clock,
    /// Rate of the requests. `None`: unlimited.
    rate: Option<TokenRate>,
    next_requests: Mutex<TokenBucket>,
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
                "--api: give only the address of the server; the key belongs in the file given \
                 with --key-file"
                    .into(),
            );
        }
        for (key, flag) in [
            (Some(&api.key), "--key-file"),
            (api.read_only_key.as_ref(), "--read-only-key-file"),
        ] {
            let is_key = |key: &String| {
                key.len() == KeySecret::KEY_LENGTH
                    && key
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() && byte != b'.')
            };
            if key.is_some_and(|key| !is_key(key)) {
                return Err(format!(
                    "{flag}: an API key has {} characters",
                    KeySecret::KEY_LENGTH
                ));
            }
        }
        // Requests are spaced evenly.
        let rate = requests_per_minute(url).map(|per_minute| TokenRate {
            burst: 1,
            interval: Duration::from_secs(60) / per_minute,
        });
        Ok(Self {
            outbound,
            base_url: format!("{url}/api/v3/"),
            key: api.key.clone(),
            clock,
            rate,
            next_requests: Mutex::default(),
        })
    }

    /// Returns the JSON at this path in the newest version of the API that the server supports.
    /// Later requests use that version.
    pub(super) async fn get_newest_version(&mut self, path: &str) -> Result<Json, String> {
        let newest = self.base_url.clone();
        for version in API_VERSIONS {
            self.base_url = format!("{}{version}/", newest.trim_end_matches("v3/"));
            if let Some(response) = self.get_optional_json(path).await? {
                return Ok(response);
            }
        }
        Err(format!("{newest}{path}: not found (404)"))
    }

    /// Returns the JSON at this path below that of the API.
    pub(super) async fn get_json(&self, path: &str) -> Result<Json, String> {
        self.get_optional_json(path)
            .await?
            .ok_or_else(|| format!("{}{path}: not found (404)", self.base_url))
    }

    /// Returns the JSON at this path below that of the API; `None` if it does not exist.
    pub(super) async fn get_optional_json(&self, path: &str) -> Result<Option<Json>, String> {
        self.get_with_retries(path, MAX_LIST_BYTES, |response| {
            serde_json::from_slice(&response.body)
                .map(Some)
                .map_err(|error| format!("the response is not JSON: {error}"))
        })
        .await
    }

    /// Returns the body of a ping; `None` if it no longer exists.
    pub(super) async fn get_ping_body(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        self.get_with_retries(path, MAX_BODY_BYTES, |response| Ok(Some(response.body)))
            .await
    }

    async fn get_with_retries<T>(
        &self,
        path: &str,
        max_bytes: usize,
        read: impl Fn(HttpResponse) -> Result<Option<T>, String>,
    ) -> Result<Option<T>, String> {
        let mut tries = 1;
        let mut waits = 0;
        let mut pause = INITIAL_RETRY_DELAY;
        let with_url = |problem: String| format!("{}{path}: {problem}", self.base_url);
        loop {
            match self
                .get_once(path, max_bytes, &read)
                .await
                .map_err(with_url)?
            {
                ApiAttempt::Response(response) => return Ok(response),
                ApiAttempt::RateLimited(_) if waits == MAX_WAITS => {
                    return Err(with_url(
                        "the server still limits requests (429); try again later".into(),
                    ));
                }
                ApiAttempt::Retry(problem) if tries == MAX_ATTEMPTS => {
                    return Err(with_url(problem));
                }
                ApiAttempt::RateLimited(delay) => {
                    waits += 1;
                    sleep(delay).await;
                }
                ApiAttempt::Retry(_) => {
                    tries += 1;
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }

    /// Reserves the next request and returns its delay.
    fn reserve_request(&self) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| {
            let mut next_requests = lock(&self.next_requests);
            let delay = next_requests.wait(rate, self.clock.uptime());
            next_requests.take(rate);
            delay
        })
    }

    async fn get_once<T>(
        &self,
        path: &str,
        max_bytes: usize,
        read: impl Fn(HttpResponse) -> Result<Option<T>, String>,
    ) -> Result<ApiAttempt<Option<T>>, String> {
        sleep(self.reserve_request()).await;
        let request = HttpRequest {
            method: "GET".into(),
            url: format!("{}{path}", self.base_url),
            headers: vec![("X-Api-Key".into(), self.key.clone())],
            body: Bytes::new(),
            redirects: RedirectPolicy::None,
            pin: None,
            timeout: RESPONSE_TIMEOUT,
        };
        let response = match self
            .outbound
            .send_http_limited(max_bytes, request, Trust::Operator)
            .await
        {
            Ok(response) => response,
            Err(error) => return Ok(ApiAttempt::Retry(error.to_string())),
        };
        match response.status {
            200 if response.is_complete => read(response).map(ApiAttempt::Response),
            200 if response.body.len() >= max_bytes => Err(format!(
                "the response is larger than {} MiB",
                max_bytes >> 20
            )),
            200 => Ok(ApiAttempt::Retry("the response is incomplete".into())),
            404 => Ok(ApiAttempt::Response(None)),
            429 => {
                let seconds = response
                    .header("retry-after")
                    .and_then(|seconds| seconds.trim().parse().ok())
                    .unwrap_or(60);
                Ok(ApiAttempt::RateLimited(Duration::from_secs(
                    seconds.min(MAX_WAIT_SECS),
                )))
            }
            401 | 403 => Err(format!(
                "the server rejected the key ({}); give a read-write key",
                response.status
            )),
            status @ 300..=399 => Err(format!(
                "the server redirects to another address ({status}); give that address"
            )),
            status @ 500.. => Ok(ApiAttempt::Retry(format!(
                "the server responded with status {status}"
            ))),
            status => Err(format!("the server responded with status {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosted_service_has_a_known_rate_limit() {
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
}
