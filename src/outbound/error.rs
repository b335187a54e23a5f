//! Errors of sending. Their text is safe to show: it names the kind of error and the host, and no
//! secret.

use std::fmt;

/// Stage at which sending failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendStage {
    /// The request itself is invalid: a URL, a header, an address. Nothing was attempted.
    Request,
    /// The server is not configured for it: no mail server, no commands. Nothing was attempted.
    Setup,
    /// Name resolution.
    Resolve,
    /// The guard refused every address.
    Refused,
    /// Connecting.
    Connect,
    /// Handshake with the proxy.
    Proxy,
    /// TLS handshake.
    Tls,
    /// Exchange of request and response.
    Exchange,
    /// No response arrived in time.
    Timeout,
}

/// Error of sending. Displays as a sentence without a full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendError {
    /// Stage that failed.
    pub stage: SendStage,
    /// True if the whole request was sent: the other side may have accepted it without a
    /// confirmation.
    pub may_have_arrived: bool,
    /// True if no later attempt can succeed without a change of configuration.
    pub is_permanent: bool,
    text: String,
}

impl SendError {
    pub(crate) fn new(stage: SendStage, text: impl Into<String>) -> Self {
        Self {
            stage,
            may_have_arrived: false,
            is_permanent: stage == SendStage::Setup,
            text: text.into(),
        }
    }

    pub(super) fn with_may_have_arrived(self, may_have_arrived: bool) -> Self {
        Self {
            may_have_arrived,
            ..self
        }
    }

    pub(super) fn with_is_permanent(self, is_permanent: bool) -> Self {
        Self {
            is_permanent,
            ..self
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SendError {}
