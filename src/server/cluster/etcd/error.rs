//! Errors of calls, and the meaning of gRPC status codes.

use std::error::Error as _;
use std::fmt;

use tonic::{Code, Status};

use super::url::EtcdEndpoint;
use crate::outbound::SendError;

/// Error of a call. Displays as a sentence without a full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EtcdError {
    /// No endpoint could be reached. The request was not executed.
    Unreachable(String),
    /// No reply: the request may or may not have been executed.
    Unknown(String),
    /// etcd answered that it did not execute the request.
    Refused(Refusal),
}

/// Answer of etcd that it did not execute a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Kind of the reason.
    pub kind: RefusalKind,
    /// Endpoint and reason, as etcd states it.
    pub message: String,
}

/// Kind of a reason to refuse a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalKind {
    /// The database has reached its quota.
    NoSpace,
    /// The request is larger than etcd allows.
    TooLarge,
    /// User and password are wrong or missing.
    Unauthenticated,
    /// The user may not access a key.
    PermissionDenied,
    /// The revision has been compacted.
    Compacted,
    /// Any other reason.
    Other,
}

impl RefusalKind {
    /// Remedy for the operator, as the end of a sentence; empty: none is known.
    fn remedy(self) -> &'static str {
        match self {
            Self::NoSpace => {
                "; compact and defragment the database or raise --quota-backend-bytes of etcd, \
                 then run `etcdctl alarm disarm`"
            }
            Self::TooLarge => "; raise --max-request-bytes of etcd",
            Self::Unauthenticated => "; give a user of etcd and its password",
            Self::PermissionDenied => "; grant the user a role that may read and write the prefix",
            Self::Compacted | Self::Other => "",
        }
    }
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => write!(f, "etcd cannot be reached: {reason}"),
            Self::Unknown(reason) => {
                write!(f, "it is unknown if etcd executed the request: {reason}")
            }
            Self::Refused(refusal) => {
                let remedy = refusal.kind.remedy();
                write!(f, "etcd refused the request: {}{remedy}", refusal.message)
            }
        }
    }
}

impl std::error::Error for EtcdError {}

impl EtcdError {
    /// True if etcd refuses changes because its quota is used up.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::NoSpace)
    }

    /// True if another user name, password or token may be accepted.
    pub(super) fn is_unauthenticated(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::Unauthenticated)
    }

    /// Error of a call to an endpoint that was sent.
    pub(super) fn from_status(endpoint: &EtcdEndpoint, status: &Status) -> Self {
        let message = format!("{endpoint}: {}", describe(status));
        match refusal_kind(status) {
            Some(kind) => Self::Refused(Refusal { kind, message }),
            None => Self::Unknown(message),
        }
    }
}

/// Text of a status.
fn describe(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}

/// Error of the connection that caused a status; `None` if etcd sent it.
pub(super) fn broken_connection(status: &Status) -> Option<&SendError> {
    status.source()?.downcast_ref()
}

/// Kind of a refusal. `None`: the status does not exclude that the request was executed.
fn refusal_kind(status: &Status) -> Option<RefusalKind> {
    let text = status.message();
    let kind = match status.code() {
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => return None,
        // A reply that is too long for this client also has this code.
        Code::OutOfRange if !text.starts_with("etcdserver: ") => return None,
        Code::OutOfRange if text.contains("has been compacted") => RefusalKind::Compacted,
        Code::ResourceExhausted if text.contains("database space exceeded") => RefusalKind::NoSpace,
        Code::ResourceExhausted if text.contains("larger than max") => RefusalKind::TooLarge,
        Code::InvalidArgument if text.contains("request is too large") => RefusalKind::TooLarge,
        Code::Unauthenticated => RefusalKind::Unauthenticated,
        Code::InvalidArgument
            if [
                "user name is empty",
                "authentication failed",
                "revision of auth store is old",
            ]
            .iter()
            .any(|known| text.contains(known)) =>
        {
            RefusalKind::Unauthenticated
        }
        Code::PermissionDenied => RefusalKind::PermissionDenied,
        _ => RefusalKind::Other,
    };
    Some(kind)
}
