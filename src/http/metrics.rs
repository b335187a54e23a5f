//! `/metrics` and `/metrics/checks`: metrics of the server and of all checks, for a client that has
//! the token or uses the metrics listener; and metrics of the checks of a project, for its keys.

mod checks;

use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Request};
use uuid::Uuid;

use super::ServerState;
use super::api::authenticate;
use crate::domain::project::SecretHash;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::response_body::ResponseBody;
use crate::http::common::work_owner::WorkOwner;
use crate::metrics::MetricsSnapshot;
use crate::operations::channel::ChannelStatus;
use checks::{CheckMetricsText, MetricsScope};

/// Methods of both endpoints.
const METHODS: &str = "GET, HEAD";
/// Text format of Prometheus, in the version that every scraper supports.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Responds with the metrics of the server. `is_open`: the request came to the listener for metrics
/// only.
pub(super) async fn server_metrics<B>(
    server: &ServerState,
    request: &Request<B>,
    is_open: bool,
) -> HttpReply {
    let answer = async {
        require_read(request)?;
        require_token(server, request.headers(), is_open)?;
        let handle = server.handle.clone();
        let writer = server.response_writer.for_owner(WorkOwner::Server);
        let text = writer.run_blocking(move || {
            let snapshot = MetricsSnapshot {
                channels: ChannelStatus::counts(&handle),
                ..handle.metrics_snapshot()
            };
            handle.metrics().render(&snapshot)
        });
        let text = text.await?;
        writer.buffer(text.into_bytes()).await
    };
    metrics_reply(answer.await)
}

/// Responds with the metrics of the checks of all projects. `is_open`: as for the server.
pub(super) async fn all_checks_metrics<B>(
    server: &ServerState,
    request: &Request<B>,
    is_open: bool,
) -> HttpReply {
    let answer = async {
        require_read(request)?;
        require_token(server, request.headers(), is_open)?;
        write_checks(server, MetricsScope::AllProjects).await
    };
    metrics_reply(answer.await)
}

/// Responds with the metrics of the checks of a project. A key in the path must be read-only;
/// otherwise the key is in the header.
pub(super) async fn project_metrics<B>(
    server: &ServerState,
    project: Uuid,
    key: Option<Box<str>>,
    request: &Request<B>,
    peer: Peer,
) -> HttpReply {
    let answer = async {
        require_read(request)?;
        let headers = request.headers();
        let presented_key = key
            .as_deref()
            .map(str::as_bytes)
            .or_else(|| bearer_token(headers))
            .unwrap_or_default();
        let caller = authenticate(server, presented_key, || {
            Client::from_headers(headers, peer, &server.config.trusted_proxies).addr
        })?;
        // Proxies log paths.
        if key.is_some() && !caller.is_read_only {
            return Err(HttpError::WrongKey);
        }
        let handle = server.handle.clone();
        if handle.with_state(|published| {
            published
                .project(caller.project)
                .is_none_or(|state| state.project.uuid != project)
        }) {
            return Err(HttpError::Forbidden);
        }
        write_checks(server, MetricsScope::Project(caller.project)).await
    };
    metrics_reply(answer.await)
}

/// Writes the metrics of checks in parts.
async fn write_checks(
    server: &ServerState,
    scope: MetricsScope,
) -> Result<ResponseBody, HttpError> {
    let owner = match scope {
        MetricsScope::AllProjects => WorkOwner::Server,
        MetricsScope::Project(project) => WorkOwner::Project(project),
    };
    let mut text = CheckMetricsText::new(server.handle.clone(), scope);
    server
        .response_writer
        .for_owner(owner)
        .write_chunked(move |out: &mut String| Ok(text.write(out)))
        .await
}

fn metrics_reply(text: Result<ResponseBody, HttpError>) -> HttpReply {
    text.map_or_else(
        |error| error.to_json(),
        |text| reply::with_no_store(reply::content(PROMETHEUS_TEXT, text)),
    )
}

/// Refuses a request without the token of metrics. `is_open`: none is needed.
fn require_token(
    server: &ServerState,
    headers: &HeaderMap,
    is_open: bool,
) -> Result<(), HttpError> {
    if is_open {
        return Ok(());
    }
    let token = server.config.metrics_token.ok_or(HttpError::NotFound)?;
    let presented_key = bearer_token(headers).ok_or(HttpError::MissingKey)?;
    if SecretHash::of(presented_key) == token {
        Ok(())
    } else {
        Err(HttpError::WrongKey)
    }
}

fn require_read<B>(request: &Request<B>) -> Result<(), HttpError> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        Ok(())
    } else {
        Err(HttpError::MethodNotAllowed(METHODS))
    }
}

/// Returns the token of `Authorization: Bearer` (RFC 6750, section 2.1).
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}
