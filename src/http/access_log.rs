//! Access log: a line for each request, without any secret of its path.

use std::net::IpAddr;
use std::time::Duration;

use hyper::{Method, Request};

use super::ServerState;
use super::routes::is_fixed_segment;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::reply::HttpReply;

/// Segments that precede a secret. The segment after one of them is masked in any case, even if it
/// equals a fixed segment.
const SECRET_PARENTS: [&str; 4] = ["ping", "badge", "metrics", "status"];

/// A request as the log shows it.
pub(super) struct AccessLogEntry {
    method: Method,
    path: String,
    client: IpAddr,
    started: Duration,
}

impl AccessLogEntry {
    pub(super) fn from_request<B>(request: &Request<B>, server: &ServerState, peer: Peer) -> Self {
        Self {
            method: request.method().clone(),
            path: mask_path(server.config.base_url.strip_base_path(request.uri().path())),
            client: Client::from_headers(request.headers(), peer, &server.config.trusted_proxies)
                .addr,
            started: server.handle.clock().uptime(),
        }
    }

    /// Logs the response, once its head is known.
    pub(super) fn log(self, reply: &HttpReply, server: &ServerState) {
        // JSON writes a wider number as text.
        let micros = u64::try_from(
            server
                .handle
                .clock()
                .uptime()
                .saturating_sub(self.started)
                .as_micros(),
        )
        .unwrap_or(u64::MAX);
        let Self {
            method,
            path,
            client: from,
            ..
        } = self;
        let status = reply.status().as_u16();
        tracing::info!(%method, %path, status, %from, micros, "{method} {path}");
    }
}

/// Returns a path without its secrets. A segment that is not fixed may be one: the UUID of a check,
/// a ping key, a badge key, a token.
fn mask_path(path: &str) -> String {
    let first = path.split('/').nth(1).unwrap_or_default();
    let mut before = "";
    let parts = path.split('/').map(|part| {
        // Exit statuses, numbers of pings, and the number of states of a badge.
        let is_number = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_shown =
            !SECRET_PARENTS.contains(&before) && (is_number || is_fixed_segment(first, part));
        before = part;
        if is_shown || part.is_empty() {
            part
        } else {
            "***"
        }
    });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_secrets_are_masked() {
        let uuid = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
        for (path, wanted) in [
            ("/", "/"),
            ("/healthz", "/healthz"),
            (&format!("/ping/{uuid}"), "/ping/***"),
            (&format!("/ping/{uuid}/start"), "/ping/***/start"),
            (&format!("/ping/{uuid}/137"), "/ping/***/137"),
            ("/ping/checks/start", "/ping/***/start"),
            ("/ping/1/nightly/fail", "/ping/***/***/fail"),
            (&format!("/{uuid}"), "/***"),
            (
                &format!("/api/v3/checks/{uuid}/pings/12/body"),
                "/api/v3/checks/***/pings/12/body",
            ),
            ("/badge/badges/tag/x.svg", "/badge/***/***/***"),
            (&format!("/b/2/{uuid}.svg"), "/b/2/***"),
            (
                &format!("/projects/{uuid}/metrics/status"),
                "/projects/***/metrics/***",
            ),
            ("/api/v3/checks/?x", "/api/v3/checks/***"),
            (
                &format!("/api/overdue/v1/channels/{uuid}/enable"),
                "/api/overdue/v1/channels/***/enable",
            ),
            ("/ping/1/settings", "/ping/***/***"),
            (
                &format!("/projects/{uuid}/settings/keys/12/"),
                "/projects/***/settings/keys/12/",
            ),
            ("/setup/abcdefgh", "/setup/***"),
        ] {
            assert_eq!(mask_path(path), wanted);
        }
    }
}
