//! Authentication of API requests: keys, their permissions, and their rate limit.

use std::net::IpAddr;

use hyper::header::{HeaderMap, HeaderName};
use tracing::Level;

use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::project::{KeyAccess, KeySecret};
use crate::http::ServerState;
use crate::http::common::reply::HttpError;
use crate::util::log_limit::LogLimit;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

static WRONG_KEY_LOG_LIMIT: LogLimit = LogLimit::new();

/// The holder of an API key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ApiCaller {
    pub(crate) key: KeyId,
    pub(crate) project: ProjectId,
    /// True if the caller may not write, and sees nothing by which a check could be pinged or
    /// changed.
    pub(crate) is_read_only: bool,
}

/// Returns the key in the header. If it is present, even empty, no other key counts.
pub(in crate::http) fn header_key(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(API_KEY).map(|value| value.as_bytes())
}

/// Finds the holder of a key, records its use from this address, and counts the request.
pub(in crate::http) fn authenticate(
    server: &ServerState,
    key: &[u8],
    from: impl FnOnce() -> IpAddr,
) -> Result<ApiCaller, HttpError> {
    if String::from_utf8_lossy(key).chars().count() != KeySecret::KEY_LENGTH {
        return Err(HttpError::MissingKey);
    }
    let Some(key) = server.handle.find_api_key(key) else {
        if tracing::enabled!(Level::DEBUG)
            && let Some(suppressed) = WRONG_KEY_LOG_LIMIT.admit(server.handle.now())
        {
            tracing::debug!(from = %from(), "an unknown API key was rejected{suppressed}");
        }
        return Err(HttpError::WrongKey);
    };
    server.handle.record_key_use(&key, from);
    let caller = ApiCaller {
        key: key.id,
        project: key.project,
        is_read_only: key.secret.access() != KeyAccess::ReadWrite,
    };
    if let Some(limit) = &server.api.rate_limit {
        limit
            .try_take(caller.key, server.handle.clock().uptime())
            .map_err(HttpError::too_many_requests)?;
    }
    Ok(caller)
}
