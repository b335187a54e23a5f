//! Ping URLs: parses a request into a typed ping, and converts the result to one of the few
//! responses that scripts rely on.

use hyper::Request;
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderName, HeaderValue, USER_AGENT};
use tracing::Level;

use super::ServerState;
use crate::domain::check::CheckSettings;
use crate::domain::check_edit::CheckEdit;
use crate::domain::check_edit::fields::{self, CheckField};
use crate::domain::ids::parse_hyphenated_uuid;
use crate::domain::ping::{PingKind, PingMethod, PingOrigin, truncate_user_agent};
use crate::engine::Handle;
use crate::engine::apply::KEYWORD_SEARCH_BYTES;
use crate::engine::command::{
    CheckCreation, CheckUuids, Command, CommandOutcome, PingRequest, PingSignal, PingTarget,
};
use crate::http::common::client_address::Client;
use crate::http::common::ping_path::{PingAction, PingPath};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request;
use crate::http::common::request_body::{self, IncomingBody};
use crate::http::common::work_owner::WorkOwner;
use crate::metrics::PingRejection;
use crate::util::log_limit::LogLimit;

static REFUSAL_LOG_LIMIT: LogLimit = LogLimit::new();

const PING_BODY_LIMIT: HeaderName = HeaderName::from_static("ping-body-limit");
/// Methods of ping URLs. All but OPTIONS are pings.
const METHODS: &str = "GET, HEAD, POST, PUT, OPTIONS";

/// Handles a ping: responds with 200 or 201 once it is on disk. A browser sends OPTIONS before a
/// ping.
pub(super) async fn respond(
    server: &ServerState,
    to: PingPath,
    request: Request<IncomingBody<'_>>,
    client: Client,
) -> HttpReply {
    if request.method() == hyper::Method::OPTIONS {
        return reply::with_any_origin(reply::no_content(), METHODS);
    }
    let from = client.addr;
    let done = match submit_ping(server, to, request, client).await {
        Ok(CommandOutcome::PingedNewCheck) => reply::created_text("Created"),
        Ok(_) => reply::text("OK"),
        Err(error) => {
            server
                .handle
                .metrics()
                .record_rejected_ping(refusal_reason(&error));
            let refused = error.to_text();
            if tracing::enabled!(Level::DEBUG)
                && let Some(suppressed) = REFUSAL_LOG_LIMIT.admit(server.handle.now())
            {
                let status = refused.status().as_u16();
                tracing::debug!(%from, status, "a ping was rejected{suppressed}");
            }
            return refused;
        }
    };
    let mut done = reply::with_no_store(done);
    done.headers_mut()
        .insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    done.headers_mut().insert(
        PING_BODY_LIMIT,
        HeaderValue::from(server.handle.ping_body_limit()),
    );
    done
}

/// Returns the reason under which the metrics count a refusal.
fn refusal_reason(error: &HttpError) -> PingRejection {
    match error {
        HttpError::NotFound | HttpError::CheckLimit => PingRejection::NotFound,
        HttpError::AmbiguousSlug => PingRejection::Ambiguous,
        HttpError::MethodNotAllowed(_) => PingRejection::Method,
        HttpError::BodyTooLarge(_) => PingRejection::TooLarge,
        HttpError::BodyTimeout => PingRejection::TooSlow,
        HttpError::BodyBudgetExhausted => PingRejection::BodyBudgetExhausted,
        HttpError::Unavailable => PingRejection::Unavailable,
        _ => PingRejection::Malformed,
    }
}

async fn submit_ping(
    server: &ServerState,
    to: PingPath,
    request: Request<IncomingBody<'_>>,
    client: Client,
) -> Result<CommandOutcome, HttpError> {
    let handle = &server.handle;
    let method = ping_method(&request).ok_or(HttpError::MethodNotAllowed(METHODS))?;
    let PingParameters {
        rid,
        create,
        settings,
    } = PingParameters::from_request(&request);
    let (mut target, action) = match to {
        PingPath::Uuid(uuid, action) => (PingTarget::Uuid(uuid), action),
        PingPath::Slug(key, slug, action) => (
            PingTarget::Slug {
                key,
                slug,
                create: None,
            },
            action,
        ),
        PingPath::BadSlug => return Err(HttpError::BadRequest("invalid url format".into())),
    };
    let signal = match action {
        PingAction::Success => PingSignal::Http(PingKind::Success),
        PingAction::Start => PingSignal::Http(PingKind::Start),
        PingAction::Fail => PingSignal::Http(PingKind::Fail),
        PingAction::Log => PingSignal::Http(PingKind::Log),
        PingAction::ExitStatus(status) => PingSignal::Exit(status),
        PingAction::BadExitStatus => {
            return Err(malformed_error(
                handle,
                &target,
                create,
                "invalid url format",
            ));
        }
    };
    let Ok(rid) = rid else {
        return Err(malformed_error(
            handle,
            &target,
            create,
            "invalid uuid format",
        ));
    };
    if create {
        let edit = requested_settings(handle, &target, settings)?;
        if let PingTarget::Slug { create, .. } = &mut target {
            let uuids = CheckUuids {
                uuid: handle.random().uuid(),
                badge: handle.random().uuid(),
            };
            *create = Some(CheckCreation { uuids, edit });
        }
    }
    let ua = user_agent(&request);
    // Keywords are searched in the beginning of the body even if less is stored.
    let keep = handle.ping_body_limit().max(KEYWORD_SEARCH_BYTES);
    let body = request.into_body();
    let owner = match body.may_be_long() {
        true => handle
            .with_state(|state| state.project_of_target(&target))
            .into(),
        false => WorkOwner::Other,
    };
    let body = request_body::read_prefix(body, keep, server.body_budget.of(owner)).await?;
    let origin = PingOrigin {
        scheme: client.scheme,
        method,
        remote_addr: Some(client.addr),
        user_agent: ua,
    };
    let ping = PingRequest {
        target,
        signal,
        origin,
        rid,
        body,
    };
    Ok(handle.call(Command::Ping(Box::new(ping))).await??)
}

/// Returns the error for a malformed request. An unknown check takes precedence. Such a request
/// creates no check.
fn malformed_error(
    handle: &Handle,
    target: &PingTarget,
    create: bool,
    message: &'static str,
) -> HttpError {
    match handle.with_state(|state| state.find_ping_target(target)) {
        Ok(Some(_)) => HttpError::BadRequest(message.into()),
        Ok(None) if create => HttpError::BadRequest(message.into()),
        Ok(None) => HttpError::NotFound,
        Err(refusal) => HttpError::from(refusal),
    }
}

/// Settings that the URL of a ping may give to a check that it creates.
static SETTING_PARAMETERS: [&CheckField; 6] = [
    &fields::TIMEOUT,
    &fields::GRACE,
    &fields::SCHEDULE,
    &fields::TZ,
    &fields::TAGS,
    &fields::CHANNELS,
];

/// A setting in a URL: its field, and its text unless that is not UTF-8.
type SettingParameter = (&'static CheckField, Option<String>);

/// Returns the settings of a check that a ping creates. `None` if there are none, the check exists,
/// or its project does not allow them: then the parameters have no meaning, and the ping counts.
fn requested_settings(
    handle: &Handle,
    target: &PingTarget,
    parameters: Vec<SettingParameter>,
) -> Result<Option<Box<CheckEdit>>, HttpError> {
    let PingTarget::Slug { key, .. } = target else {
        return Ok(None);
    };
    let is_used = !parameters.is_empty()
        && handle.with_state(|state| {
            let project = state
                .project_by_ping_key(key)
                .and_then(|id| state.project(id));
            project.is_some_and(|found| found.project.allows_ping_settings)
                && matches!(state.find_ping_target(target), Ok(None))
        });
    if !is_used {
        return Ok(None);
    }
    let mut edit = Box::<CheckEdit>::default();
    for (field, text) in parameters {
        let invalid =
            |reason: &str| HttpError::BadRequest(format!("{}: {reason}", field.name).into());
        let text = text.ok_or_else(|| invalid("it is not UTF-8 text"))?;
        field
            .field_type
            .parse_text(&text)
            .and_then(|value| field.set(&mut edit, &value, None))
            .map_err(|error| invalid(&error.explanation))?;
    }
    match edit.first_overlong_field(&CheckSettings::default()) {
        Some(field) => Err(HttpError::BadRequest(format!("{field} is too long").into())),
        None => Ok(Some(edit)),
    }
}

struct PingParameters {
    rid: Result<Option<uuid::Uuid>, ()>,
    create: bool,
    /// Settings in the URL, in its order.
    settings: Vec<SettingParameter>,
}

impl PingParameters {
    /// Reads the parameters. If a parameter is repeated, the last one counts.
    fn from_request<B>(request: &Request<B>) -> Self {
        let mut parameters = Self {
            rid: Ok(None),
            create: false,
            settings: Vec::new(),
        };
        for (name, value) in request::query(request.uri()) {
            match name.as_deref() {
                Some("rid") => {
                    parameters.rid = value
                        .as_deref()
                        .and_then(parse_hyphenated_uuid)
                        .map(Some)
                        .ok_or(());
                }
                Some("create") => parameters.create = value.as_deref() == Some("1"),
                Some(name) => {
                    let field = SETTING_PARAMETERS.iter().find(|field| field.name == name);
                    parameters
                        .settings
                        .extend(field.map(|field| (*field, value)));
                }
                None => {}
            }
        }
        parameters
    }
}

fn ping_method<B>(request: &Request<B>) -> Option<PingMethod> {
    use hyper::Method as Http;
    Some(match *request.method() {
        Http::GET => PingMethod::Get,
        Http::HEAD => PingMethod::Head,
        Http::POST => PingMethod::Post,
        Http::PUT => PingMethod::Put,
        _ => return None,
    })
}

fn user_agent<B>(request: &Request<B>) -> Box<str> {
    let Some(value) = request.headers().get(USER_AGENT) else {
        return Box::default();
    };
    truncate_user_agent(&String::from_utf8_lossy(value.as_bytes()))
}
