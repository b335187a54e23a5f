//! Errors of the admin API: a status, a reason that says what to do, and their JSON form.

use std::fmt;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::config::ConflictRow;
use crate::engine::command::CommandError;
use crate::engine::command::import::ImportStepError;
use crate::operations::OperationError;

/// Reason why a request was refused.
#[derive(Debug, Serialize, Deserialize)]
pub struct AdminError {
    #[serde(skip)]
    status: StatusCode,
    #[serde(rename = "error")]
    reason: String,
    /// Reasons why a configuration cannot be applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<ConflictRow>,
}

impl AdminError {
    /// Error of a path that takes these other methods.
    pub(super) fn other_methods(methods: &str) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("use one of the methods {methods}"),
        )
    }

    /// Error of a body of more than this number of bytes.
    pub(super) fn too_long(max_bytes: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body of this request has at most {max_bytes} bytes"),
        )
    }

    /// Error of an unknown path.
    pub(super) fn no_endpoint() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such endpoint")
    }

    /// Returns the JSON form.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // An error consists of texts only.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            conflicts: Vec::new(),
        }
    }

    /// Error of a request that is invalid in any state.
    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// Error of a request that the current state does not allow.
    pub(super) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    /// Error of a request that may succeed later.
    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }

    /// Error of a configuration that cannot be applied.
    pub(super) fn conflicts(conflicts: Vec<ConflictRow>) -> Self {
        Self {
            conflicts,
            ..Self::conflict("the configuration cannot be applied; nothing was changed")
        }
    }

    /// Reads an error response.
    pub(super) fn from_response(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(error) => Self { status, ..error },
            Err(_) => Self::new(status, format!("the server refused the request: {status}")),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// True if the request is invalid in any state.
    pub fn is_invalid(&self) -> bool {
        matches!(
            self.status,
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE
        )
    }

    /// True if an import was refused because it would replace checks that were pinged or changed
    /// here.
    pub fn is_local_change(&self) -> bool {
        self.status == StatusCode::PRECONDITION_FAILED
    }

    /// Returns the reasons why a configuration cannot be applied. Empty for any other error.
    pub fn into_conflicts(self) -> Vec<ConflictRow> {
        self.conflicts
    }

    /// True if a configuration was refused because of its contents.
    pub fn has_conflicts(&self) -> bool {
        !self.conflicts.is_empty()
    }
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for AdminError {}

impl From<OperationError> for AdminError {
    fn from(error: OperationError) -> Self {
        let status = match &error {
            OperationError::Settings(_) | OperationError::Times(_) => StatusCode::BAD_REQUEST,
            OperationError::UnknownProject { .. }
            | OperationError::UnknownUser { .. }
            | OperationError::UnknownKey(_)
            | OperationError::UnknownChannel(_)
            | OperationError::UnknownWindow(_)
            | OperationError::UnknownCheck(_)
            | OperationError::UnknownDelivery(_)
            | OperationError::Removed => StatusCode::NOT_FOUND,
            OperationError::Store(_) | OperationError::Unavailable(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            OperationError::Command(CommandError::Import(ImportStepError::ChangedLocally {
                ..
            })) => StatusCode::PRECONDITION_FAILED,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}
