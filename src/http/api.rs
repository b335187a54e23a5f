//! Management API: common steps of every request, before and after its resource is handled.

mod auth;
mod badges;
mod channels;
mod check_fields;
mod checks;
mod endpoints;
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
use crate::domain::audit::{Actor, ActorKind};
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{KeyId, UniqueKey};
use crate::domain::project::KeyAccess;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request::BaseUrl;
use crate::http::common::request_body::{self, IncomingBody};
use crate::http::common::response_body::ResponseWriter;
use crate::http::common::work_owner::WorkOwner;
use crate::store::StoreError;
use crate::util::token_bucket::{KeyedTokenBuckets, TokenRate};
use auth::ApiCaller;
pub(super) use auth::{authenticate, header_key};
use check_fields::{CheckFields, FieldError, RequestDocument};
pub use endpoints::{ApiVersion, ENDPOINTS, EndpointRow, Verb, VerbRules};
pub(super) use endpoints::{Endpoint, is_fixed_segment};
pub use openapi::OpenApiParts;
use view::{ApiView, CheckMembers};

/// Maximum bytes of a request body; longer ones are answered with 413.
const MAX_BODY_BYTES: usize = 1 << 20;

/// State of the API outside the engine.
pub(crate) struct ApiState {
    /// Rate limit of each key. `None`: no limit.
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
            openapi: openapi::description(config).into(),
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
    let row = endpoint.resource.row();
    let (parts, body) = request.into_parts();
    let verb = Verb::from_method(&parts.method);
    let answer = if parts.method == Method::OPTIONS {
        Ok(reply::no_content())
    } else if endpoint.is_slash_missing && verb != Some(Verb::Get) {
        let location = request_path(server, &endpoint, &parts.uri);
        Ok(reply::moved_permanently(&location))
    } else {
        match verb.and_then(|verb| row.rules(verb)) {
            None => Err(HttpError::MethodNotAllowed(row.allow)),
            Some(rules) => {
                match authorize_call(server, rules, endpoint, &parts, body, peer).await {
                    Ok(mut call) => endpoints::call_handler(&mut call, rules.verb).await,
                    Err(error) => Err(error),
                }
            }
        }
    };
    reply::with_any_origin(answer.unwrap_or_else(|error| error.to_json()), row.allow)
}

/// Checks the body and the key, in this order: clients may rely on it.
async fn authorize_call<'a>(
    server: &'a ServerState,
    rules: &VerbRules,
    endpoint: Endpoint,
    parts: &'a Parts,
    body: IncomingBody<'_>,
    peer: Peer,
) -> Result<ApiCall<'a>, HttpError> {
    let client_address =
        || Client::from_headers(&parts.headers, peer, &server.config.trusted_proxies).addr;
    let identify = |key: &[u8]| auth::authenticate(server, key, client_address);
    let by_header = auth::header_key(&parts.headers).map(identify);
    if let Some(Err(error @ HttpError::TooManyRequests(_))) = by_header {
        return Err(error);
    }
    let owner = WorkOwner::from(match &by_header {
        Some(Ok(caller)) => Some(caller.project),
        _ => None,
    });
    let quota = server.body_budget.of(owner);
    let body = match rules.verb {
        Verb::Post | Verb::Put => request_body::read_whole(body, MAX_BODY_BYTES, quota).await?,
        // The body has no meaning here. It is read because the next request follows it.
        Verb::Get | Verb::Delete => request_body::read_prefix(body, 0, quota)
            .await
            .unwrap_or_default(),
    };
    let body_length = body.len();
    let parse = rules.parse_body;
    let document = server
        .run_sized(body_length, owner, move || parse(&body))
        .await??;
    let by_body = || identify(document.api_key().unwrap_or_default().as_bytes());
    let caller = by_header.unwrap_or_else(by_body)?;
    if caller.is_read_only && rules.access == KeyAccess::ReadWrite {
        return Err(HttpError::WrongKey);
    }
    let handle = match rules.verb {
        Verb::Get => server.handle.clone(),
        Verb::Post | Verb::Put | Verb::Delete => server.handle.with_actor(Actor {
            kind: ActorKind::ApiKey,
            name: server.handle.with_state(|state| {
                state
                    .key(caller.key)
                    .map(|key| key.display_name())
                    .unwrap_or_default()
            }),
            address: Some(client_address()),
        }),
    };
    Ok(ApiCall {
        server,
        handle,
        endpoint,
        caller,
        now: server.handle.now(),
        parts,
        body_length,
        document,
    })
}

/// Returns the path of a request with its query, relative to the host. A missing slash is added.
fn request_path(server: &ServerState, endpoint: &Endpoint, uri: &Uri) -> String {
    let mut path = server.config.base_url.path().to_owned();
    Endpoint::new(endpoint.version, endpoint.resource).write(&mut path);
    if let Some(query) = uri.query() {
        path.extend(["?", query]);
    }
    path
}

/// An authorized request.
pub(crate) struct ApiCall<'a> {
    server: &'a ServerState,
    /// Handle of the engine. A request that changes something has its key as the actor.
    handle: Handle,
    endpoint: Endpoint,
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

impl From<Uuid> for CheckRef {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

impl From<UniqueKey> for CheckRef {
    fn from(key: UniqueKey) -> Self {
        Self::Unique(key)
    }
}

impl ApiCall<'_> {
    fn handle(&self) -> &Handle {
        &self.handle
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

    /// Owner of the work for this request.
    fn owner(&self) -> WorkOwner {
        WorkOwner::Project(self.caller.project)
    }

    /// Returns a writer of responses whose work counts as that of the caller's project.
    fn response_writer(&self) -> ResponseWriter {
        self.server.response_writer.for_owner(self.owner())
    }

    fn view(&self) -> ApiView {
        ApiView {
            base_url: self.server.config.base_url.clone(),
            version: self.endpoint.version,
            is_read_only: self.caller.is_read_only,
        }
    }

    /// Returns the check in the caller's project. A UUID of another project is denied. A unique key
    /// of another project is unknown.
    async fn find_check(&self, check: impl Into<CheckRef>) -> Result<Check, HttpError> {
        let handle = self.handle();
        let project = self.caller.project;
        let uuid = match check.into() {
            CheckRef::Uuid(uuid) => uuid,
            CheckRef::Unique(key) => match self.server.api.unique_keys.get(handle, project, key) {
                Some(uuid) => uuid,
                None => {
                    let handle = handle.clone();
                    let unique = Arc::clone(&self.server.api.unique_keys);
                    self.response_writer()
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
        Ok(self
            .server
            .run_sized(self.body_length, self.owner(), parse)
            .await??)
    }
}

impl From<StoreError> for HttpError {
    fn from(error: StoreError) -> Self {
        // Damage to the file was already logged when it was found.
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
        is_read_only: false,
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
