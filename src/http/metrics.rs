//! `/metrics`: metrics of the server, for a client that has the token or uses the metrics listener;
//! and metrics of the checks of a project, for its keys.

mod project;

use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Request};
use uuid::Uuid;

use super::ServerState;
use super::api::authenticate;
use crate::domain::project::SecretHash;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::metrics::MetricsSnapshot;
use crate::operations::channel::ChannelStatus;
use project::ProjectMetricsText;

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
        if !is_open {
            let token = server.config.metrics_token.ok_or(HttpError::NotFound)?;
            let presented_key = bearer_token(request.headers()).ok_or(HttpError::MissingKey)?;
            if SecretHash::of(presented_key) != token {
                return Err(HttpError::WrongKey);
            }
        }
        let handle = server.handle.clone();
        let text = server.response_writer.run_blocking(move || {
            let snapshot = MetricsSnapshot {
                channels: ChannelStatus::counts(&handle),
                ..handle.metrics_snapshot()
            };
            handle.metrics().render(&snapshot)
        });
        let text = text.await?;
        server.response_writer.buffer(text.into_bytes()).await
    };
    answer.await.map_or_else(
        |error| error.to_json(),
        |text| reply::with_no_store(reply::content(PROMETHEUS_TEXT, text)),
    )
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
        let mut text = ProjectMetricsText::new(handle, caller.project);
        server
            .response_writer
            .clone()
            .write_chunked(move |out: &mut String| Ok(text.write(out)))
            .await
    };
    answer.await.map_or_else(
        |error| error.to_json(),
        |text| reply::with_no_store(reply::content(PROMETHEUS_TEXT, text)),
    )
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
