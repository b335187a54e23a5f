//! Endpoints for the whole server, which the instance key gives access to: projects, keys and
//! users. Another module carries the requests out.

use std::fmt;
use std::sync::Arc;

use hyper::header::ALLOW;
use hyper::{Method, Request};

use super::ServerState;
use super::api::{ApiVersion, header_key};
use crate::domain::project::SecretHash;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request_body::{self, IncomingBody};
use crate::http::common::work_owner::WorkOwner;
use crate::operations::instance::{InstanceApi, InstanceReply, InstanceRequest, MAX_BODY_BYTES};

/// First segments of the paths below that of the API.
const RESOURCES: [&str; 3] = ["projects", "keys", "users"];

/// Access to the endpoints.
#[derive(Clone)]
pub struct InstanceAccess {
    /// Hash of the instance key.
    pub key: SecretHash,
    /// Module that carries requests out.
    pub api: Arc<dyn InstanceApi>,
    /// Members of `paths` in the description of the API.
    pub described_paths: String,
}

impl fmt::Debug for InstanceAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstanceAccess(..)")
    }
}

/// True for the segments of the path of an endpoint, without the first one.
pub(super) fn is_path(segments: &[&str]) -> bool {
    matches!(segments, ["overdue", "v1", resource, ..] if RESOURCES.contains(resource))
}

/// True for a segment that no name of a client takes the place of.
pub(super) fn is_fixed_segment(segment: &str) -> bool {
    RESOURCES.contains(&segment)
}

/// Responds to a request. Without an instance key the endpoints do not exist.
pub(super) async fn respond(
    server: &ServerState,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> HttpReply {
    match authorized_reply(server, request, peer).await {
        Ok(found) => reply::with_no_store(found),
        Err(error) => error.to_json(),
    }
}

async fn authorized_reply(
    server: &ServerState,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> Result<HttpReply, HttpError> {
    let access = server.config.instance.as_ref().ok_or(HttpError::NotFound)?;
    let (parts, body) = request.into_parts();
    let key = header_key(&parts.headers).ok_or(HttpError::MissingKey)?;
    if SecretHash::of(key) != access.key {
        return Err(HttpError::WrongKey);
    }
    let quota = server.body_budget.of(WorkOwner::Server);
    let body = request_body::read_whole(body, MAX_BODY_BYTES, quota).await?;
    let path = server.config.base_url.strip_base_path(parts.uri.path());
    let path = path
        .strip_prefix(ApiVersion::OverdueV1.path())
        .unwrap_or_default();
    let request = InstanceRequest {
        // Clients that write a slash at the end of all paths of the API write it here, too.
        path: path.strip_suffix('/').unwrap_or(path).to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body,
        address: Client::from_headers(&parts.headers, peer, &server.config.trusted_proxies).addr,
        // hyper sends the reply to HEAD without its body.
        method: match parts.method {
            Method::HEAD => Method::GET,
            method => method,
        },
    };
    let InstanceReply {
        status,
        body,
        allow,
    } = access.api.respond(request).await;
    let body = server
        .response_writer
        .for_owner(WorkOwner::Server)
        .buffer(body)
        .await?;
    let mut found = reply::json_with_status(status, body);
    if let Some(methods) = allow {
        reply::set_header(&mut found, ALLOW, &methods);
    }
    Ok(found)
}
