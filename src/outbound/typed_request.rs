//! Requests and responses in the types of the crate `http`, for libraries that leave sending to
//! their caller.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;

use super::http::MAX_BODY_BYTES;
use super::{HttpRequest, Outbound, RedirectPolicy, SendError, SendStage, Trust};

/// Limits of a request and its response.
#[derive(Clone, Copy)]
pub(crate) struct TypedLimits {
    /// Maximum time, from when the request has a permit.
    pub(crate) timeout: Duration,
    /// Maximum bytes of the body of the response.
    pub(crate) max_body_bytes: usize,
}

impl From<Duration> for TypedLimits {
    /// Limits with this maximum time and the usual maximum of the body.
    fn from(timeout: Duration) -> Self {
        Self {
            timeout,
            max_body_bytes: MAX_BODY_BYTES,
        }
    }
}

impl Outbound {
    /// Sends a request with a streamed body like [`send_typed`](Self::send_typed).
    ///
    /// # Errors
    /// If there is no response, or no complete one.
    pub(crate) async fn send_streamed<B: Body<Data = Bytes>>(
        &self,
        request: http::Request<B>,
        limits: impl Into<TypedLimits>,
    ) -> Result<http::Response<Bytes>, SendError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| {
            SendError::new(SendStage::Request, "the request has no body".to_owned())
        })?;
        let request = http::Request::from_parts(head, body.to_bytes());
        self.send_typed(request, limits).await
    }

    /// Sends a request of a library to a server that the operator chose, and reads the response.
    /// Follows no redirect.
    ///
    /// # Errors
    /// If there is no response, or no complete one.
    pub(crate) async fn send_typed(
        &self,
        request: http::Request<Bytes>,
        limits: impl Into<TypedLimits>,
    ) -> Result<http::Response<Bytes>, SendError> {
        let TypedLimits {
            timeout,
            max_body_bytes,
        } = limits.into();
        let invalid = |text: String| SendError::new(SendStage::Request, text);
        let (head, body) = request.into_parts();
        let headers = head.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), value)
        });
        let request = HttpRequest {
            method: head.method.to_string(),
            url: head.uri.to_string(),
            headers: headers.collect(),
            body,
            redirects: RedirectPolicy::None,
            pin: None,
            timeout,
        };
        let answer = self
            .send_http_limited(max_body_bytes, request, Trust::Operator)
            .await?;
        if !answer.is_complete {
            return Err(invalid("the answer was cut short or is too long".into()));
        }
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        response
            .body(answer.body.into())
            .map_err(|error| invalid(error.to_string()))
    }
}

/// Describes an error of such a library with its causes, on one line. A cause that the text already
/// contains is left out.
pub(crate) fn describe_error(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text.replace(char::is_control, " ")
}
