//! Ping URLs: makes a typed ping of a request, and one of the few answers that scripts rely on of its outcome.

use hyper::Request;
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderName, HeaderValue, USER_AGENT};
use tracing::Level;

use super::Door;
use crate::domain::ids::hyphenated_uuid;
use crate::domain::ping::{Kind, Method, Origin, kept_ua};
use crate::engine::Handle;
use crate::engine::apply::SEARCHED_BYTES;
use crate::engine::command::{CheckNames, Command, Outcome, PingRequest, Signal, Target};
use crate::log_limit::LogLimit;
use crate::metrics::Refused;
use crate::wire::body::{self, Arriving};
use crate::wire::client::Client;
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::request;
use crate::wire::route::{Action, PingPath};

static REFUSED: LogLimit = LogLimit::new();

const PING_BODY_LIMIT: HeaderName = HeaderName::from_static("ping-body-limit");
/// What a ping URL answers: all but OPTIONS are pings.
const METHODS: &str = "GET, HEAD, POST, PUT, OPTIONS";

/// Carries a ping out: 200 or 201 once it is on disk. A browser asks with OPTIONS before it sends one.
pub(super) async fn answer(door: &Door, to: PingPath, request: Request<Arriving<'_>>, client: Client) -> Reply {
    if request.method() == hyper::Method::OPTIONS {
        return reply::any_origin(reply::no_content(), METHODS);
    }
    let from = client.addr;
    let done = match accept(door, to, request, client).await {
        Ok(Outcome::PingedNew) => reply::created_text("Created"),
        Ok(_) => reply::text("OK"),
        Err(fault) => {
            door.handle.metrics().refused(reason(&fault));
            let refused = fault.plain();
            if tracing::enabled!(Level::DEBUG)
                && let Some(left_out) = REFUSED.admit(door.handle.now())
            {
                tracing::debug!(%from, status = refused.status().as_u16(), "a ping was refused{left_out}");
            }
            return refused;
        }
    };
    let mut done = reply::never_cached(done);
    done.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    done.headers_mut().insert(PING_BODY_LIMIT, HeaderValue::from(door.handle.ping_body_limit()));
    done
}

/// What a refusal is counted as.
fn reason(fault: &Fault) -> Refused {
    match fault {
        Fault::NotFound | Fault::CheckLimit => Refused::NotFound,
        Fault::AmbiguousSlug => Refused::Ambiguous,
        Fault::MethodNotAllowed(_) => Refused::Method,
        Fault::TooLarge(_) => Refused::TooLarge,
        Fault::Timeout => Refused::TooSlow,
        Fault::NoRoom => Refused::NoRoom,
        Fault::Unavailable => Refused::Unavailable,
        _ => Refused::Malformed,
    }
}

async fn accept(door: &Door, to: PingPath, request: Request<Arriving<'_>>, client: Client) -> Result<Outcome, Fault> {
    let handle = &door.handle;
    let method = method_of(&request).ok_or(Fault::MethodNotAllowed(METHODS))?;
    let Parameters { rid, create } = Parameters::of(&request);
    let (mut target, action) = match to {
        PingPath::Uuid(uuid, action) => (Target::Uuid(uuid), action),
        PingPath::Slug(key, slug, action) => (Target::Slug { key, slug, create: None }, action),
        PingPath::BadSlug => return Err(Fault::BadRequest("invalid url format".into())),
    };
    let signal = match action {
        Action::Success => Signal::Http(Kind::Success),
        Action::Start => Signal::Http(Kind::Start),
        Action::Fail => Signal::Http(Kind::Fail),
        Action::Log => Signal::Http(Kind::Log),
        Action::ExitStatus(status) => Signal::Exit(status),
        Action::BadExitStatus => return Err(malformed(handle, &target, create, "invalid url format")),
    };
    let Ok(rid) = rid else { return Err(malformed(handle, &target, create, "invalid uuid format")) };
    if let Target::Slug { create: names, .. } = &mut target
        && create
    {
        *names = Some(CheckNames { uuid: handle.random().uuid(), badge: handle.random().uuid() });
    }
    let ua = user_agent(&request);
    // Keywords are searched in the beginning of the body even where less is stored.
    let keep = handle.ping_body_limit().max(SEARCHED_BYTES);
    let body = body::beginning(request.into_body(), keep, &door.budget).await?;
    let origin = Origin { scheme: client.scheme, method, remote_addr: Some(client.addr), ua };
    let ping = PingRequest { target, signal, origin, rid, body };
    Ok(handle.call(Command::Ping(Box::new(ping))).await??)
}

/// The fault of a malformed request. An unknown check comes before it. Such a request creates nothing.
fn malformed(handle: &Handle, target: &Target, create: bool, message: &'static str) -> Fault {
    match handle.with_state(|state| state.addressee(target)) {
        Ok(Some(_)) => Fault::BadRequest(message.into()),
        Ok(None) if create => Fault::BadRequest(message.into()),
        Ok(None) => Fault::NotFound,
        Err(refusal) => Fault::from(refusal),
    }
}

struct Parameters {
    rid: Result<Option<uuid::Uuid>, ()>,
    create: bool,
}

impl Parameters {
    /// Reads `rid` and `create`. Of several parameters of one name the last counts.
    fn of<B>(request: &Request<B>) -> Self {
        let mut parameters = Self { rid: Ok(None), create: false };
        for (name, value) in request::query(request.uri()) {
            match name.as_deref() {
                Some("rid") => parameters.rid = value.as_deref().and_then(hyphenated_uuid).map(Some).ok_or(()),
                Some("create") => parameters.create = value.as_deref() == Some("1"),
                _ => {}
            }
        }
        parameters
    }
}

fn method_of<B>(request: &Request<B>) -> Option<Method> {
    use hyper::Method as Http;
    Some(match *request.method() {
        Http::GET => Method::Get,
        Http::HEAD => Method::Head,
        Http::POST => Method::Post,
        Http::PUT => Method::Put,
        _ => return None,
    })
}

fn user_agent<B>(request: &Request<B>) -> Box<str> {
    let Some(value) = request.headers().get(USER_AGENT) else { return Box::default() };
    kept_ua(&String::from_utf8_lossy(value.as_bytes()))
}
