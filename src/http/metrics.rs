//! `/metrics`: what the server counts, for whoever has the token, or reaches the address that is for it alone. And what the checks of a
//! project are like, for its keys.

mod project;

use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Request};
use uuid::Uuid;

use super::Door;
use super::api::identify;
use crate::domain::project::KeyHash;
use crate::manage::channel::ChannelStatus;
use crate::metrics::Readings;
use crate::wire::client::{Client, Peer};
use crate::wire::reply::{self, Fault, Reply};
use project::ProjectText;

/// What both answer.
const METHODS: &str = "GET, HEAD";
/// The text format of Prometheus, in the version that every scraper reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the server counts. `is_open`: the request came to the address that is for this alone.
pub(super) async fn of_server<B>(door: &Door, request: &Request<B>, is_open: bool) -> Reply {
    let answer = async {
        read_only(request)?;
        if !is_open {
            let token = door.config.metrics_token.ok_or(Fault::NotFound)?;
            let given = bearer(request.headers()).ok_or(Fault::MissingKey)?;
            if KeyHash::of(given) != token {
                return Err(Fault::WrongKey);
            }
        }
        let handle = door.handle.clone();
        let text = door.outgoing.run(move || {
            let readings = Readings { channels: ChannelStatus::counts(&handle), ..handle.readings() };
            handle.metrics().text(&readings)
        });
        let text = text.await?;
        door.outgoing.made(text.into_bytes()).await
    };
    answer.await.map_or_else(|fault| fault.json(), |text| reply::never_cached(reply::content(TEXT, text)))
}

/// What the checks of a project are like. The key is that of the path, where it may only read; else it is in the header.
pub(super) async fn of_project<B>(door: &Door, project: Uuid, key: Option<Box<str>>, request: &Request<B>, peer: Peer) -> Reply {
    let answer = async {
        read_only(request)?;
        let headers = request.headers();
        let given = key.as_deref().map(str::as_bytes).or_else(|| bearer(headers)).unwrap_or_default();
        let caller = identify(door, given, || Client::of(headers, peer, &door.config.trusted_proxies).addr)?;
        // Paths are logged on their way.
        if key.is_some() && !caller.read_only {
            return Err(Fault::WrongKey);
        }
        let handle = door.handle.clone();
        if handle.with_state(|published| published.project(caller.project).is_none_or(|state| state.project.uuid != project)) {
            return Err(Fault::Forbidden);
        }
        let mut text = ProjectText::new(handle, caller.project);
        door.outgoing.clone().pieces(move |out: &mut String| Ok(text.write(out))).await
    };
    answer.await.map_or_else(|fault| fault.json(), |text| reply::never_cached(reply::content(TEXT, text)))
}

fn read_only<B>(request: &Request<B>) -> Result<(), Fault> {
    if matches!(*request.method(), Method::GET | Method::HEAD) { Ok(()) } else { Err(Fault::MethodNotAllowed(METHODS)) }
}

/// The token of `Authorization: Bearer` (RFC 6750, section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}
