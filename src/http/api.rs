//! Management API: common steps of every request, before and after its resource is handled.

mod auth;
mod badges;
mod channels;
mod check_fields;
mod checks;
mod etag;
mod extensions;
mod flips;
mod json;
mod list_limit;
mod openapi;
mod pings;
mod status;
mod unique_keys;
mod view;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};
use uuid::Uuid;

use super::{ApiRate, HttpConfig, ServerState};
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{KeyId, UniqueKey};
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request::BaseUrl;
use crate::http::common::request_body::{self, IncomingBody};
use crate::http::common::route::{ApiResource, ApiVersion, Endpoint, ExtensionResource, Route};
use crate::store::StoreError;
use crate::util::token_bucket::{KeyedTokenBuckets, TokenRate};
use auth::ApiCaller;
pub(super) use auth::authenticate;
use check_fields::{CheckFields, FieldError, RequestDocument};
use etag::tagged_reply;
use view::{ApiView, CheckMembers};

/// Maximum bytes of a request body; longer ones are answered with 413.
const MAX_BODY_BYTES: usize = 1 << 20;

/// State of the API beside the engine.
pub(crate) struct ApiState {
    /// Requests of each key. `None`: unlimited.
    rate_limit: Option<KeyedTokenBuckets<KeyId>>,
    unique_keys: Arc<unique_keys::UniqueKeyCache>,
    list_limit: list_limit::ListLimit,
    /// OpenAPI description of the API.
    pub(crate) openapi: Bytes,
}

impl ApiState {
    pub(super) fn new(config: &HttpConfig) -> Self {
        Self {
            rate_limit: key_rate(config.api_rate).map(KeyedTokenBuckets::new),
            unique_keys: Arc::default(),
            list_limit: list_limit::ListLimit::new(),
            openapi: openapi::description(&config.base_url).into(),
        }
    }
}

/// Rate of the token bucket of a key. `None`: no limit.
fn key_rate(rate: ApiRate) -> Option<TokenRate> {
    let interval = Duration::from_secs(60).checked_div(rate.per_minute)?;
    Some(TokenRate {
        burst: rate.burst,
        interval,
    })
}

/// Responds to a request to the API. Browsers may call it from any site, because only the key
/// authorizes.
pub(super) async fn respond(
    server: &ServerState,
    endpoint: Endpoint,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> HttpReply {
    let Endpoint {
        version,
        resource,
        is_slash_missing: slash_missing,
    } = endpoint;
    if slash_missing
        && request.method() != Method::OPTIONS
        && Verb::from_method(request.method()) != Some(Verb::Get)
    {
        let redirect =
            reply::moved_permanently(&redirect_location(server, version, resource, request.uri()));
        return reply::with_any_origin(redirect, resource.allowed_methods());
    }
    let body = match resource {
        ApiResource::Pause(_) | ApiResource::Resume(_) => RequestDocument::parse_lenient,
        _ => RequestDocument::parse,
    };
    let takes = EndpointRules {
        methods: resource.allowed_methods(),
        parse_body: body,
        allows_read_only: resource.allows_read_only(),
    };
    run_call(server, takes, endpoint, request, peer, dispatch).await
}

/// Responds to a request below `/api/overdue/v1`: keys, limits and errors are the same as in the
/// API.
pub(super) async fn respond_extension(
    server: &ServerState,
    resource: ExtensionResource,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> HttpReply {
    let body = match resource {
        ExtensionResource::Test(_) | ExtensionResource::Enable(_) => RequestDocument::parse_lenient,
        _ => RequestDocument::parse,
    };
    let takes = EndpointRules {
        methods: resource.allowed_methods(),
        parse_body: body,
        allows_read_only: false,
    };
    run_call(server, takes, resource, request, peer, extensions::dispatch).await
}

/// Rules of an endpoint.
struct EndpointRules {
    /// Methods, in the format of `Allow`.
    methods: &'static str,
    /// Parser of the body.
    parse_body: fn(&[u8]) -> Result<RequestDocument, FieldError>,
    /// True if a read-only key may read there.
    allows_read_only: bool,
}

async fn run_call<A>(
    server: &ServerState,
    takes: EndpointRules,
    address: A,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
    dispatch: impl AsyncFnOnce(ApiCall<'_, A>, Verb) -> Result<HttpReply, HttpError>,
) -> HttpReply {
    let methods = takes.methods;
    let (head, body) = request.into_parts();
    let answer = if head.method == Method::OPTIONS {
        Ok(reply::no_content())
    } else {
        match authorize_call(server, takes, address, &head, body, peer).await {
            Ok((call, verb)) => dispatch(call, verb).await,
            Err(fault) => Err(fault),
        }
    };
    reply::with_any_origin(answer.unwrap_or_else(|fault| fault.to_json()), methods)
}

/// Checks the method, the body and the key, in this order: clients may rely on it.
async fn authorize_call<'a, A>(
    server: &'a ServerState,
    takes: EndpointRules,
    address: A,
    head: &'a Parts,
    body: IncomingBody<'_>,
    peer: Peer,
) -> Result<(ApiCall<'a, A>, Verb), HttpError> {
    let EndpointRules {
        methods,
        parse_body: parse,
        allows_read_only: read_only,
    } = takes;
    let is_allowed = methods
        .split(", ")
        .any(|method| method == head.method.as_str());
    let verb = Verb::from_method(&head.method)
        .filter(|_| is_allowed)
        .ok_or(HttpError::MethodNotAllowed(methods))?;
    let identify = |key: &[u8]| {
        auth::authenticate(server, key, || {
            Client::from_headers(&head.headers, peer, &server.config.trusted_proxies).addr
        })
    };
    let by_header = auth::header_key(&head.headers).map(identify);
    if let Some(Err(fault @ HttpError::TooManyRequests(_))) = by_header {
        return Err(fault);
    }
    let body = match verb {
        Verb::Post | Verb::Put => {
            request_body::read_whole(body, MAX_BODY_BYTES, &server.body_budget).await?
        }
        // The body has no meaning here. It is read because the next request follows it.
        Verb::Get | Verb::Delete => request_body::read_prefix(body, 0, &server.body_budget)
            .await
            .unwrap_or_default(),
    };
    let length = body.len();
    let document = server.run_sized(length, move || parse(&body)).await??;
    let by_body = || identify(document.api_key().unwrap_or_default().as_bytes());
    let caller = by_header.unwrap_or_else(by_body)?;
    if caller.read_only && !(verb == Verb::Get && read_only) {
        return Err(HttpError::WrongKey);
    }
    Ok((
        ApiCall {
            server,
            endpoint: address,
            caller,
            now: server.handle.now(),
            parts: head,
            body_length: length,
            document,
        },
        verb,
    ))
}

/// Verb of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    /// GET or HEAD; hyper sends the response to HEAD without its body.
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    fn from_method(method: &Method) -> Option<Self> {
        match *method {
            Method::GET | Method::HEAD => Some(Self::Get),
            Method::POST => Some(Self::Post),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Dispatches a request. Every pair of a resource and a verb is listed.
async fn dispatch(call: ApiCall<'_>, verb: Verb) -> Result<HttpReply, HttpError> {
    match (call.endpoint.resource, verb) {
        (ApiResource::Checks, Verb::Get) => tagged_reply(&call, checks::list(&call)).await,
        (ApiResource::Checks, Verb::Post) => checks::create(call).await,
        (ApiResource::Check(uuid), Verb::Get) => checks::get(&call, CheckRef::Uuid(uuid)).await,
        (ApiResource::Check(uuid), Verb::Post) => checks::update(call, uuid).await,
        (ApiResource::Check(uuid), Verb::Delete) => checks::delete(call, uuid).await,
        (ApiResource::UniqueCheck(key), Verb::Get) => {
            checks::get(&call, CheckRef::Unique(key)).await
        }
        (ApiResource::Pause(uuid), Verb::Post) => checks::pause(call, uuid).await,
        (ApiResource::Resume(uuid), Verb::Post) => checks::resume(call, uuid).await,
        (ApiResource::Pings(uuid), Verb::Get) => {
            // Access is checked before any entity tag.
            let check = call.find_check(CheckRef::Uuid(uuid)).await?;
            tagged_reply(&call, pings::list(&call, check)).await
        }
        (ApiResource::PingBody(uuid, n), Verb::Get) => pings::body(&call, uuid, n).await,
        (ApiResource::Flips(uuid), Verb::Get) => flips::list(&call, CheckRef::Uuid(uuid)).await,
        (ApiResource::UniqueFlips(key), Verb::Get) => {
            flips::list(&call, CheckRef::Unique(key)).await
        }
        (ApiResource::Channels, Verb::Get) => tagged_reply(&call, channels::list(&call)).await,
        (ApiResource::Badges, Verb::Get) => tagged_reply(&call, badges::list(&call)).await,
        (ApiResource::Status, Verb::Get) => status::probe(&call).await,
        // `authorize_call` has refused these before it read the body.
        (resource, Verb::Put)
        | (resource @ ApiResource::Checks, Verb::Delete)
        | (resource @ (ApiResource::Pause(_) | ApiResource::Resume(_)), Verb::Get | Verb::Delete)
        | (
            resource @ (ApiResource::UniqueCheck(_) | ApiResource::UniqueFlips(_)),
            Verb::Post | Verb::Delete,
        )
        | (
            resource @ (ApiResource::Pings(_) | ApiResource::PingBody(..) | ApiResource::Flips(_)),
            Verb::Post | Verb::Delete,
        )
        | (
            resource @ (ApiResource::Channels | ApiResource::Badges | ApiResource::Status),
            Verb::Post | Verb::Delete,
        ) => Err(HttpError::MethodNotAllowed(resource.allowed_methods())),
    }
}

/// Returns the path of a resource with the query of the request, relative to the host.
fn redirect_location(
    server: &ServerState,
    version: ApiVersion,
    resource: ApiResource,
    uri: &Uri,
) -> String {
    let mut location = server.config.base_url.path().to_owned();
    Route::Api(Endpoint::new(version, resource)).write(&mut location);
    if let Some(query) = uri.query() {
        location.extend(["?", query]);
    }
    location
}

/// An authorized request.
pub(crate) struct ApiCall<'a, A = Endpoint> {
    server: &'a ServerState,
    /// Endpoint of the request.
    endpoint: A,
    caller: ApiCaller,
    /// Time at which the request arrived.
    now: Timestamp,
    parts: &'a Parts,
    /// Length of the body in bytes.
    body_length: usize,
    /// Body of a POST or PUT; otherwise empty.
    document: RequestDocument,
}

/// Reference to a check in a path.
#[derive(Clone, Copy)]
pub(crate) enum CheckRef {
    Uuid(Uuid),
    Unique(UniqueKey),
}

impl<A> ApiCall<'_, A> {
    fn handle(&self) -> &Handle {
        &self.server.handle
    }

    /// Returns the check of this UUID in the caller's project. A check of another project is
    /// denied.
    fn own_check(&self, uuid: Uuid) -> Result<Check, HttpError> {
        let check = self.handle().with_state(|state| {
            state
                .check_by_uuid(uuid)
                .cloned()
                .ok_or(HttpError::NotFound)
        })?;
        if check.project == self.caller.project {
            Ok(check)
        } else {
            Err(HttpError::Forbidden)
        }
    }
}

impl ApiCall<'_> {
    fn view(&self) -> ApiView {
        ApiView {
            base_url: self.server.config.base_url.clone(),
            version: self.endpoint.version,
            read_only: self.caller.read_only,
        }
    }

    /// Returns the check in the caller's project. A UUID of another project is denied. A unique key
    /// of another project is unknown.
    async fn find_check(&self, check: CheckRef) -> Result<Check, HttpError> {
        let handle = self.handle();
        let project = self.caller.project;
        let uuid = match check {
            CheckRef::Uuid(uuid) => uuid,
            CheckRef::Unique(key) => match self.server.api.unique_keys.get(handle, project, key) {
                Some(uuid) => uuid,
                None => {
                    let handle = handle.clone();
                    let unique = Arc::clone(&self.server.api.unique_keys);
                    self.server
                        .response_writer
                        .run_blocking(move || unique.search(&handle, project, key))
                        .await?
                        .ok_or(HttpError::NotFound)?
                }
            },
        };
        self.own_check(uuid)
    }

    /// Parses the fields of a create or update request: for a check with these settings, or for a
    /// new one.
    async fn parse_fields(
        &mut self,
        stored: Option<Arc<CheckSettings>>,
    ) -> Result<CheckFields, HttpError> {
        let document = std::mem::take(&mut self.document);
        let version = self.endpoint.version;
        let parse = move || match stored {
            Some(stored) => CheckFields::parse(&document, version, &stored),
            None => CheckFields::parse_new(&document, version),
        };
        Ok(self.server.run_sized(self.body_length, parse).await??)
    }
}

impl From<StoreError> for HttpError {
    fn from(error: StoreError) -> Self {
        // Damage was reported when it was found first.
        if !matches!(error, StoreError::Damaged { .. }) {
            tracing::warn!("the database could not be read: {error}");
        }
        Self::Unavailable
    }
}

impl From<FieldError> for HttpError {
    fn from(error: FieldError) -> Self {
        Self::BadRequest(error.to_string().into())
    }
}

/// Returns a function that renders a check as a read-write key sees it.
pub fn check_renderer(base_url: BaseUrl, handle: Handle) -> Box<dyn Fn(&Check) -> String + Send> {
    let view = ApiView {
        base_url,
        version: ApiVersion::V3,
        read_only: false,
    };
    Box::new(move |check| {
        let channels = handle.with_state(|state| {
            state
                .project(check.project)
                .map(|project_state| project_state.channels.clone())
                .unwrap_or_default()
        });
        let mut out = String::new();
        view.write_check(&mut out, check, CheckMembers::Read, &channels, handle.now());
        out
    })
}
