//! HTTP client: reuses connections, follows redirects as far as the request allows, and reads
//! responses up to a limit.

use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::{Method, Request, Response};
use tokio::time::{sleep, timeout};

use super::address_guard::Trust;
use super::connection_pool::{PoolKey, PooledConnection};
use super::error::{SendError, SendStage};
use super::send_limits::SendPermit;
use super::tls::CertificatePin;
use super::url::Url;
use super::{Outbound, OutboundInner};

/// Default limit for the body of a response, in bytes.
pub(super) const MAX_BODY_BYTES: usize = 64 * 1024;
/// Maximum number of redirects to follow.
const MAX_REDIRECTS: usize = 3;
/// Maximum time that a request waits for a permit.
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);
/// Headers that another origin may see. They describe the request, never its sender.
const CROSS_ORIGIN_HEADERS: [&str; 7] = [
    "content-type",
    "user-agent",
    "idempotency-key",
    "webhook-id",
    "webhook-timestamp",
    "overdue-attempt",
    "overdue-possible-duplicate",
];

/// HTTP request. It has no `Debug`: any part of it may be a secret.
#[derive(Clone)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// `http` or `https` URL. A user and password in it become an `Authorization` header.
    pub url: String,
    /// Names and values. Characters up to U+00FF are sent as Latin-1; others are invalid.
    pub headers: Vec<(String, String)>,
    /// Body; empty: none.
    pub body: Bytes,
    /// Redirects to follow.
    pub redirects: RedirectPolicy,
    /// Certificate that is trusted in place of the roots.
    pub pin: Option<CertificatePin>,
    /// Maximum time including redirects, from when the request has a permit.
    pub timeout: Duration,
}

/// Redirects to follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedirectPolicy {
    /// Up to three, none from https to http, for hosts that the user runs. 303 becomes GET; others
    /// keep method and body. Another origin receives no possible secrets, only a few headers that
    /// describe the kind of request. It must be reachable for channels created through the API,
    /// even if an operator created this channel.
    Follow,
    /// None: the redirect is the response.
    None,
}

/// HTTP response. Its status is valid even if its body is incomplete.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Body up to the limit: 64 kB unless the caller set another one.
    pub body: Vec<u8>,
    /// True if `body` is the whole body: within the limit, not interrupted, and in time.
    pub is_complete: bool,
}

impl HttpResponse {
    /// First header with this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HttpResponse({}, {} bytes)",
            self.status,
            self.body.len()
        )
    }
}

/// Sends a request. `reserved_permit`: permit for its destination, if the caller has one.
pub(super) async fn send(
    outbound: &Outbound,
    reserved_permit: Option<SendPermit>,
    request: HttpRequest,
    mut trust: Trust,
    max_body_bytes: usize,
) -> Result<HttpResponse, SendError> {
    let inner = &*outbound.inner;
    let mut url = Url::parse(&request.url)?;
    let mut parts = RequestParts::new(&request, &url)?;
    let mut permit = match reserved_permit {
        Some(reserved_permit) => reserved_permit,
        None => wait_for_permit(outbound, &url).await?,
    };
    let mut end = pin!(sleep(request.timeout));
    let mut redirects_left = if request.redirects == RedirectPolicy::Follow {
        MAX_REDIRECTS
    } else {
        0
    };
    loop {
        let sent = SentFlag::default();
        let response = tokio::select! {
            response = exchange(inner, &url, &parts, request.pin, trust, &sent) => response?,
            () = &mut end => {
                let text = format!(
                    "{} did not answer within {} seconds",
                    url.host_port.host,
                    request.timeout.as_secs()
                );
                let error = SendError::new(SendStage::Timeout, text);
                return Err(error.with_may_have_arrived(sent.is_set()));
            }
        };
        let Some(next) = redirect_target(&response.0, &url).filter(|_| redirects_left > 0) else {
            return Ok(read_body(inner, response, max_body_bytes, &mut end).await);
        };
        redirects_left -= 1;
        if response.0.status() == 303 {
            parts.change_to_get();
        }
        if next.origin() != url.origin() {
            parts.drop_secrets();
            // The operator chose the first origin. That origin's owner chose the redirect.
            trust = Trust::Api;
        }
        url = next;
        drop(permit);
        permit = wait_for_permit(outbound, &url).await?;
    }
}

/// Waits for a permit for the destination of this URL.
pub(super) async fn wait_for_permit(
    outbound: &Outbound,
    url: &Url,
) -> Result<SendPermit, SendError> {
    let queue_error = |_| {
        SendError::new(
            SendStage::Timeout,
            format!("too many requests to {} are waiting", url.host_port.host),
        )
    };
    timeout(
        QUEUE_TIMEOUT,
        outbound
            .inner
            .limits
            .acquire(&url.host_port, outbound.project),
    )
    .await
    .map_err(queue_error)
}

/// Method, headers and body for the next hop.
struct RequestParts {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl RequestParts {
    fn new(request: &HttpRequest, url: &Url) -> Result<Self, SendError> {
        let method = Method::from_bytes(request.method.as_bytes())
            .ok()
            .filter(|method| *method != Method::CONNECT);
        let method = method.ok_or_else(|| {
            SendError::new(SendStage::Request, "the method of the request is not valid")
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("overdue/", env!("CARGO_PKG_VERSION"))),
        );
        for (name, value) in &request.headers {
            let wrong = || {
                SendError::new(
                    SendStage::Request,
                    "a header of the request has invalid characters",
                )
            };
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let latin: Option<Vec<u8>> = value
                .chars()
                .map(|c| u8::try_from(u32::from(c)).ok())
                .collect();
            headers.insert(
                name,
                latin
                    .and_then(|bytes| HeaderValue::from_bytes(&bytes).ok())
                    .ok_or_else(wrong)?,
            );
        }
        // These follow from the connection and the body.
        for name in [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "upgrade",
            "proxy-authorization",
        ] {
            headers.remove(name);
        }
        let user = url
            .authorization
            .as_deref()
            .and_then(|user| HeaderValue::from_str(user).ok());
        if let Some(user) = user.filter(|_| !headers.contains_key(AUTHORIZATION)) {
            headers.insert(AUTHORIZATION, user);
        }
        Ok(Self {
            method,
            headers,
            body: request.body.clone(),
        })
    }

    fn change_to_get(&mut self) {
        self.method = Method::GET;
        self.body = Bytes::new();
        self.headers.remove("content-type");
    }

    fn drop_secrets(&mut self) {
        let headers = std::mem::take(&mut self.headers);
        self.headers = headers
            .into_iter()
            .filter_map(|(name, value)| {
                name.filter(|name| CROSS_ORIGIN_HEADERS.contains(&name.as_str()))
                    .zip(Some(value))
            })
            .collect();
    }

    /// Request to this URL. Through a forwarding proxy its target is the whole URL.
    fn request(
        &self,
        url: &Url,
        sender: &PooledConnection,
        sent: &SentFlag,
    ) -> Option<Request<TrackedBody>> {
        let forward_proxy = sender.forward_proxy.as_ref();
        let target = if forward_proxy.is_some() {
            format!("{}{}", url.origin(), url.path)
        } else {
            url.path.clone()
        };
        let body = TrackedBody {
            bytes: Some(self.body.clone()).filter(|body| !body.is_empty()),
            sent: sent.clone(),
        };
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(target)
            .body(body)
            .ok()?;
        *request.headers_mut() = self.headers.clone();
        request
            .headers_mut()
            .insert(HOST, HeaderValue::from_str(&url.authority()).ok()?);
        if !self.body.is_empty()
            || matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
        {
            request
                .headers_mut()
                .insert(CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        }
        if let Some(authorization) =
            forward_proxy.and_then(|forward_proxy| forward_proxy.authorization.clone())
        {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, authorization);
        }
        Some(request)
    }
}

/// Sends the request and waits for the head of the response.
async fn exchange(
    inner: &OutboundInner,
    url: &Url,
    parts: &RequestParts,
    pin: Option<CertificatePin>,
    trust: Trust,
    sent: &SentFlag,
) -> Result<(Response<Incoming>, PooledConnection), SendError> {
    let key = PoolKey {
        is_https: url.is_https,
        host_port: url.host_port.clone(),
        trust,
        pin,
    };
    loop {
        let kept = inner.pool.take(&key).await;
        let is_kept = kept.is_some();
        let mut sender = match kept {
            Some(sender) => sender,
            None => {
                PooledConnection::handshake(inner.dialer.open(url, trust, pin).await?, key.clone())
                    .await?
            }
        };
        let Some(request) = parts.request(url, &sender, sent) else {
            return Err(SendError::new(SendStage::Request, "the URL is not valid"));
        };
        sent.0.store(parts.body.is_empty(), Ordering::Relaxed);
        match sender.requests.try_send_request(request).await {
            Ok(response) => return Ok((response, sender)),
            Err(mut error) => {
                if error.take_message().is_some() {
                    sent.0.store(false, Ordering::Relaxed);
                    // The other side closed an idle connection before anything was sent on it.
                    if is_kept {
                        continue;
                    }
                }
                let host = &url.host_port.host;
                let text = match error.into_error() {
                    error if error.is_parse() => {
                        format!("{host} sent a response that is not HTTP")
                    }
                    error if error.is_incomplete_message() => {
                        format!("{host} closed the connection without a response")
                    }
                    _ => format!("the connection to {host} broke before the response arrived"),
                };
                return Err(
                    SendError::new(SendStage::Exchange, text).with_may_have_arrived(sent.is_set())
                );
            }
        }
    }
}

/// Target of a redirect, if it may be followed.
fn redirect_target(response: &Response<Incoming>, url: &Url) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let next = url.join(response.headers().get(LOCATION)?.to_str().ok()?)?;
    (next.is_https || !url.is_https).then_some(next)
}

/// Reads the body as far as it arrives, up to the limit. Keeps the connection if the response was
/// read to the end.
async fn read_body(
    inner: &OutboundInner,
    (response, sender): (Response<Incoming>, PooledConnection),
    max_body_bytes: usize,
    end: &mut Pin<&mut tokio::time::Sleep>,
) -> HttpResponse {
    let (head, mut incoming) = response.into_parts();
    let headers = head.headers.iter().map(|(name, value)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let mut answer = HttpResponse {
        status: head.status.as_u16(),
        headers: headers.collect(),
        body: Vec::new(),
        is_complete: false,
    };
    loop {
        let frame = tokio::select! {
            frame = incoming.frame() => frame,
            () = &mut *end => return answer,
        };
        match frame {
            None => break,
            Some(Err(_)) => return answer,
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                let room = max_body_bytes - answer.body.len();
                answer.body.extend(data.iter().take(room));
                if data.len() > room {
                    return answer;
                }
            }
        }
    }
    answer.is_complete = true;
    inner.pool.put(sender);
    answer
}

/// Set when the connection has taken the whole request.
#[derive(Clone, Default)]
struct SentFlag(Arc<AtomicBool>);

impl SentFlag {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Body that sets a flag when it has been taken.
pub(super) struct TrackedBody {
    bytes: Option<Bytes>,
    sent: SentFlag,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let taken = self.bytes.take();
        self.sent.0.store(true, Ordering::Relaxed);
        Poll::Ready(taken.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
