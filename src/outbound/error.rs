//! Why something could not be sent, in words that can be shown: the kind of trouble and the host, nothing that may be a secret.

use std::fmt;

/// What was under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendStage {
    /// What is to be sent makes no sense as it is: a URL, a header, an address. Nothing has been tried.
    Request,
    /// The server is not set up for it: no mail server, no commands. Nothing has been tried.
    Setup,
    /// The name was asked for.
    Resolve,
    /// The guard refused every address.
    Refused,
    /// The connection was made.
    Connect,
    /// The proxy was asked for a connection.
    Proxy,
    /// TLS was agreed on.
    Tls,
    /// The request, or what stands for it, was exchanged for an answer.
    Exchange,
    /// No answer came in time.
    Timeout,
}

/// Why something could not be sent. Shown, it is a sentence without a full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendError {
    /// What was under way.
    pub stage: SendStage,
    /// It had gone out whole: the other side may have taken it, although it did not say so.
    pub may_have_arrived: bool,
    /// No later try helps until somebody has changed something.
    pub is_permanent: bool,
    text: String,
}

impl SendError {
    pub(super) fn new(stage: SendStage, text: impl Into<String>) -> Self {
        Self { stage, may_have_arrived: false, is_permanent: stage == SendStage::Setup, text: text.into() }
    }

    pub(super) fn with_may_have_arrived(self, doubtful: bool) -> Self {
        Self { may_have_arrived: doubtful, ..self }
    }

    pub(super) fn with_is_permanent(self, lasting: bool) -> Self {
        Self { is_permanent: lasting, ..self }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SendError {}
