//! The Management API: what every request to it goes through before and after its resource answers.

mod auth;
mod badges;
mod channels;
mod check_fields;
mod checks;
mod etag;
mod flips;
mod json;
mod listed;
mod openapi;
mod own;
mod pings;
mod rate;
mod status;
mod unique;
mod view;

use std::sync::Arc;

use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};
use uuid::Uuid;

use super::{Config, Door};
use crate::domain::check::{Check, Settings};
use crate::domain::ids::UniqueKey;
use crate::domain::moment::Moment;
use crate::engine::Handle;
use crate::store::StoreError;
use crate::wire::body::{self, Arriving};
use crate::wire::client::{Client, Peer};
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::request::BaseUrl;
use crate::wire::route::{Endpoint, OwnResource, Resource, Route, Version};
use auth::Caller;
pub(super) use auth::identify;
use check_fields::{CheckFields, Document, FieldError};
use etag::tagged;
use view::{Members, View};

/// Bytes of a request body; more are answered 413.
const BODY_BYTES: usize = 1 << 20;

/// What the API keeps beside the engine.
pub(crate) struct Api {
    limiter: rate::Limiter,
    unique: Arc<unique::Found>,
    listed: listed::Listed,
    /// The OpenAPI description of all this.
    pub(crate) description: Bytes,
}

impl Api {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            limiter: rate::Limiter::new(config.api_rate),
            unique: Arc::default(),
            listed: listed::Listed::new(),
            description: openapi::description(&config.base_url).into(),
        }
    }
}

/// Answers a request to an address of the API. Browsers may call from any site: nothing but the key counts.
pub(super) async fn answer(door: &Door, endpoint: Endpoint, request: Request<Arriving<'_>>, peer: Peer) -> Reply {
    let Endpoint { version, resource, slash_missing } = endpoint;
    if slash_missing && request.method() != Method::OPTIONS && Verb::of(request.method()) != Some(Verb::Get) {
        let moved = reply::moved(&location(door, version, resource, request.uri()));
        return reply::any_origin(moved, resource.methods());
    }
    let body = match resource {
        Resource::Pause(_) | Resource::Resume(_) => Document::parse_or_nothing,
        _ => Document::parse,
    };
    let takes = Takes { methods: resource.methods(), body, read_only: resource.shows_read_only() };
    answered(door, takes, endpoint, request, peer, dispatch).await
}

/// Answers a request to an address below `/api/overdue/v1`: keys, limits and errors are those of the API.
pub(super) async fn answer_own(door: &Door, resource: OwnResource, request: Request<Arriving<'_>>, peer: Peer) -> Reply {
    let body = match resource {
        OwnResource::Test(_) | OwnResource::Enable(_) => Document::parse_or_nothing,
        _ => Document::parse,
    };
    let takes = Takes { methods: resource.methods(), body, read_only: false };
    answered(door, takes, resource, request, peer, own::dispatch).await
}

/// What an address takes.
struct Takes {
    /// As `Allow` lists them.
    methods: &'static str,
    /// How a body is read.
    body: fn(&[u8]) -> Result<Document, FieldError>,
    /// Whether a read-only key may read there.
    read_only: bool,
}

async fn answered<A>(
    door: &Door,
    takes: Takes,
    address: A,
    request: Request<Arriving<'_>>,
    peer: Peer,
    dispatch: impl AsyncFnOnce(Call<'_, A>, Verb) -> Result<Reply, Fault>,
) -> Reply {
    let methods = takes.methods;
    let (head, body) = request.into_parts();
    let answer = if head.method == Method::OPTIONS {
        Ok(reply::no_content())
    } else {
        match admit(door, takes, address, &head, body, peer).await {
            Ok((call, verb)) => dispatch(call, verb).await,
            Err(fault) => Err(fault),
        }
    };
    reply::any_origin(answer.unwrap_or_else(|fault| fault.json()), methods)
}

/// Checks the method, the body and the key, in this order: clients may rely on it.
async fn admit<'a, A>(
    door: &'a Door,
    takes: Takes,
    address: A,
    head: &'a Parts,
    body: Arriving<'_>,
    peer: Peer,
) -> Result<(Call<'a, A>, Verb), Fault> {
    let Takes { methods, body: parse, read_only } = takes;
    let taken = methods.split(", ").any(|method| method == head.method.as_str());
    let verb = Verb::of(&head.method).filter(|_| taken).ok_or(Fault::MethodNotAllowed(methods))?;
    let identify = |key: &[u8]| auth::identify(door, key, || Client::of(&head.headers, peer, &door.config.trusted_proxies).addr);
    let by_header = auth::header_key(&head.headers).map(identify);
    if let Some(Err(fault @ Fault::TooManyRequests(_))) = by_header {
        return Err(fault);
    }
    let body = match verb {
        Verb::Post | Verb::Put => body::whole(body, BODY_BYTES, &door.budget).await?,
        // It means nothing here. It is read because the next request comes after it.
        Verb::Get | Verb::Delete => body::beginning(body, 0, &door.budget).await.unwrap_or_default(),
    };
    let length = body.len();
    let document = door.work_on(length, move || parse(&body)).await??;
    let by_body = || identify(document.api_key().unwrap_or_default().as_bytes());
    let caller = by_header.unwrap_or_else(by_body)?;
    if caller.read_only && !(verb == Verb::Get && read_only) {
        return Err(Fault::WrongKey);
    }
    Ok((Call { door, address, caller, now: door.handle.now(), head, length, document }, verb))
}

/// What a request wants of its resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    /// GET, or HEAD: hyper sends the answer to HEAD without its body.
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    fn of(method: &Method) -> Option<Self> {
        match *method {
            Method::GET | Method::HEAD => Some(Self::Get),
            Method::POST => Some(Self::Post),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Which function answers which request. Every pair of a resource and a verb stands here.
async fn dispatch(call: Call<'_>, verb: Verb) -> Result<Reply, Fault> {
    match (call.address.resource, verb) {
        (Resource::Checks, Verb::Get) => tagged(&call, checks::list(&call)).await,
        (Resource::Checks, Verb::Post) => checks::create(call).await,
        (Resource::Check(uuid), Verb::Get) => checks::get(&call, CheckRef::Uuid(uuid)).await,
        (Resource::Check(uuid), Verb::Post) => checks::update(call, uuid).await,
        (Resource::Check(uuid), Verb::Delete) => checks::delete(call, uuid).await,
        (Resource::UniqueCheck(key), Verb::Get) => checks::get(&call, CheckRef::Unique(key)).await,
        (Resource::Pause(uuid), Verb::Post) => checks::pause(call, uuid).await,
        (Resource::Resume(uuid), Verb::Post) => checks::resume(call, uuid).await,
        (Resource::Pings(uuid), Verb::Get) => {
            // Access comes before any tag.
            let check = call.check(CheckRef::Uuid(uuid)).await?;
            tagged(&call, pings::list(&call, check)).await
        }
        (Resource::PingBody(uuid, n), Verb::Get) => pings::body(&call, uuid, n).await,
        (Resource::Flips(uuid), Verb::Get) => flips::list(&call, CheckRef::Uuid(uuid)).await,
        (Resource::UniqueFlips(key), Verb::Get) => flips::list(&call, CheckRef::Unique(key)).await,
        (Resource::Channels, Verb::Get) => tagged(&call, channels::list(&call)).await,
        (Resource::Badges, Verb::Get) => tagged(&call, badges::list(&call)).await,
        (Resource::Status, Verb::Get) => status::probe(&call).await,
        // `admit` has refused these before it read the body.
        (resource, Verb::Put)
        | (resource @ Resource::Checks, Verb::Delete)
        | (resource @ (Resource::Pause(_) | Resource::Resume(_)), Verb::Get | Verb::Delete)
        | (resource @ (Resource::UniqueCheck(_) | Resource::UniqueFlips(_)), Verb::Post | Verb::Delete)
        | (resource @ (Resource::Pings(_) | Resource::PingBody(..) | Resource::Flips(_)), Verb::Post | Verb::Delete)
        | (resource @ (Resource::Channels | Resource::Badges | Resource::Status), Verb::Post | Verb::Delete) => {
            Err(Fault::MethodNotAllowed(resource.methods()))
        }
    }
}

/// The address of a resource with the query of the request, relative to the host.
fn location(door: &Door, version: Version, resource: Resource, uri: &Uri) -> String {
    let mut location = door.config.base_url.path().to_owned();
    Route::Api(Endpoint::new(version, resource)).write(&mut location);
    if let Some(query) = uri.query() {
        location.extend(["?", query]);
    }
    location
}

/// A request that its resource may carry out.
pub(crate) struct Call<'a, A = Endpoint> {
    door: &'a Door,
    /// What it is sent to.
    address: A,
    caller: Caller,
    /// When it came.
    now: Moment,
    head: &'a Parts,
    /// Bytes of the body.
    length: usize,
    /// The body of a POST or PUT; otherwise empty.
    document: Document,
}

/// How a path names a check.
#[derive(Clone, Copy)]
pub(crate) enum CheckRef {
    Uuid(Uuid),
    Unique(UniqueKey),
}

impl<A> Call<'_, A> {
    fn handle(&self) -> &Handle {
        &self.door.handle
    }

    /// The check of this UUID in the caller's project. One of another project is denied.
    fn check_of(&self, uuid: Uuid) -> Result<Check, Fault> {
        let check = self.handle().with_state(|state| state.check_by_uuid(uuid).cloned().ok_or(Fault::NotFound))?;
        if check.project == self.caller.project { Ok(check) } else { Err(Fault::Forbidden) }
    }
}

impl Call<'_> {
    fn view(&self) -> View {
        View { base_url: self.door.config.base_url.clone(), version: self.address.version, read_only: self.caller.read_only }
    }

    /// The check in the caller's project. A UUID of another project is denied. A unique key of another project is unknown.
    async fn check(&self, check: CheckRef) -> Result<Check, Fault> {
        let (handle, project) = (self.handle(), self.caller.project);
        let uuid = match check {
            CheckRef::Uuid(uuid) => uuid,
            CheckRef::Unique(key) => match self.door.api.unique.get(handle, project, key) {
                Some(uuid) => uuid,
                None => {
                    let (handle, unique) = (handle.clone(), Arc::clone(&self.door.api.unique));
                    self.door.outgoing.run(move || unique.search(&handle, project, key)).await?.ok_or(Fault::NotFound)?
                }
            },
        };
        self.check_of(uuid)
    }

    /// What a create or update request asks for: of a check with these settings, or of a new one.
    async fn fields(&mut self, stored: Option<Arc<Settings>>) -> Result<CheckFields, Fault> {
        let (document, version) = (std::mem::take(&mut self.document), self.address.version);
        let parse = move || match stored {
            Some(stored) => CheckFields::parse(&document, version, &stored),
            None => CheckFields::parse_new(&document, version),
        };
        Ok(self.door.work_on(self.length, parse).await??)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        // What is damaged was told when it was met first.
        if !matches!(error, StoreError::Damaged { .. }) {
            tracing::warn!("the database could not be read: {error}");
        }
        Self::Unavailable
    }
}

impl From<FieldError> for Fault {
    fn from(error: FieldError) -> Self {
        Self::BadRequest(error.to_string().into())
    }
}

/// Shows checks as a key that may read and write sees them.
pub fn shown_checks(base_url: BaseUrl, handle: Handle) -> Box<dyn Fn(&Check) -> String + Send> {
    let view = View { base_url, version: Version::V3, read_only: false };
    Box::new(move |check| {
        let channels =
            handle.with_state(|state| state.project(check.project).map(|project_state| project_state.channels.clone()).unwrap_or_default());
        let mut out = String::new();
        view.write_check(&mut out, check, Members::Read, &channels, handle.now());
        out
    })
}
