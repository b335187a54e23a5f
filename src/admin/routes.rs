//! Table of the endpoints.

use std::pin::Pin;
use std::time::Duration;

use hyper::Method;

use super::context::AdminContext;
use super::encoding::{self, EncodedRequest};
use super::error::AdminError;
use super::reply::{AdminReply as _, ReplyBody};
use super::request::AdminRequest;
use super::{
    audit, backup, channels, checks, config, deliveries, imports, keys, projects, status, users,
    windows,
};

type RunFuture<'c> = Pin<Box<dyn Future<Output = Result<ReplyBody, AdminError>> + Send + 'c>>;

/// An endpoint.
pub(super) struct AdminRoute {
    method: Method,
    path: &'static str,
    /// Maximum bytes of the body of a request.
    pub(super) max_bytes: usize,
    /// Time in which a client must take a part of the reply.
    pub(super) client_timeout: Duration,
    /// True if the instance key gives access to it over HTTP.
    takes_instance_key: bool,
    /// Reads a request and carries it out.
    pub(super) run: for<'c> fn(&'c AdminContext, EncodedRequest) -> RunFuture<'c>,
}

const fn route<R: AdminRequest>() -> AdminRoute {
    new_route::<R>(false)
}

/// Endpoint that the instance key gives access to. None reads or writes files of the machine, or
/// starts programs.
const fn instance_route<R: AdminRequest>() -> AdminRoute {
    new_route::<R>(true)
}

const fn new_route<R: AdminRequest>(takes_instance_key: bool) -> AdminRoute {
    AdminRoute {
        method: R::METHOD,
        path: R::PATH,
        max_bytes: R::MAX_BYTES,
        client_timeout: R::CLIENT_TIMEOUT,
        takes_instance_key,
        run: run::<R>,
    }
}

fn run<R: AdminRequest>(context: &AdminContext, request: EncodedRequest) -> RunFuture<'_> {
    Box::pin(async move {
        let request = encoding::decode::<R>(request)?;
        let reply = request.run(context).await?;
        reply.into_body().map_err(|error| {
            AdminError::unavailable(format!("the reply has no JSON form: {error}"))
        })
    })
}

static ROUTES: &[AdminRoute] = &[
    route::<status::ShowStatus>(),
    instance_route::<projects::ListProjects>(),
    instance_route::<projects::CreateProject>(),
    instance_route::<projects::UpdateProject>(),
    instance_route::<projects::DeleteProject>(),
    instance_route::<projects::ReleaseProject>(),
    instance_route::<keys::ListKeys>(),
    instance_route::<keys::CreateKey>(),
    instance_route::<keys::RevokeKey>(),
    route::<channels::ListChannels>(),
    route::<channels::CreateChannel>(),
    route::<channels::UpdateChannel>(),
    route::<channels::DeleteChannel>(),
    route::<channels::TestChannel>(),
    route::<channels::EnableChannel>(),
    route::<channels::DisableChannel>(),
    route::<channels::AssignChecks>(),
    route::<channels::UnassignChecks>(),
    route::<checks::ListChecks>(),
    route::<checks::CreateCheck>(),
    route::<checks::ShowCheck>(),
    route::<checks::UpdateCheck>(),
    route::<checks::DeleteCheck>(),
    route::<checks::PauseCheck>(),
    route::<checks::ResumeCheck>(),
    route::<checks::ListPings>(),
    route::<checks::ListFlips>(),
    route::<checks::ShowAlerting>(),
    route::<checks::UpdateAlerting>(),
    route::<deliveries::ListDeliveries>(),
    route::<deliveries::RetryDelivery>(),
    route::<audit::ListAudit>(),
    route::<windows::ListWindows>(),
    route::<windows::CreateWindow>(),
    route::<windows::DeleteWindow>(),
    instance_route::<users::ListUsers>(),
    instance_route::<users::CreateUser>(),
    instance_route::<users::UpdateUser>(),
    instance_route::<users::DeleteUser>(),
    route::<users::SetPassword>(),
    route::<users::RemoveSecondFactor>(),
    route::<users::RemovePasskeys>(),
    route::<users::RemoveIdentity>(),
    instance_route::<users::EndSessions>(),
    instance_route::<users::CreateLink>(),
    route::<users::CreateSetupLink>(),
    route::<config::ExportConfig>(),
    route::<config::ApplyConfig>(),
    route::<imports::ListImports>(),
    route::<imports::BeginImport>(),
    route::<imports::AddLogEntries>(),
    route::<imports::AddLongPing>(),
    route::<imports::AddObjects>(),
    route::<imports::FinishImport>(),
    route::<imports::AbandonImport>(),
    route::<backup::Backup>(),
    route::<backup::ExportLines>(),
];

/// Returns the methods and paths of all endpoints.
pub fn endpoints() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTES
        .iter()
        .map(|route| (route.method.as_str(), route.path))
}

/// Returns the methods and paths of the endpoints that the instance key gives access to.
pub fn instance_endpoints() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTES
        .iter()
        .filter(|route| route.takes_instance_key)
        .map(|route| (route.method.as_str(), route.path))
}

/// Result of the search for the endpoint of a request.
pub(super) enum RouteMatch {
    /// The endpoint, with the fields in the path.
    Found(&'static AdminRoute, Vec<(&'static str, String)>),
    /// The path exists with these methods only.
    OtherMethods(String),
    /// No endpoint has the path.
    None,
}

/// Source of requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AdminSource {
    /// The socket in the data directory, or a command without a server.
    Socket,
    /// HTTP with the instance key.
    InstanceKey,
}

/// Finds the endpoint of a request. `path`: below the path of the API.
pub(super) fn find(source: AdminSource, method: &Method, path: &str) -> RouteMatch {
    let mut methods = Vec::new();
    let routes = ROUTES
        .iter()
        .filter(|route| route.takes_instance_key || source == AdminSource::Socket);
    for route in routes {
        if let Some(parameters) = encoding::match_path(route.path, path) {
            if route.method == *method {
                return RouteMatch::Found(route, parameters);
            }
            methods.push(route.method.as_str());
        }
    }
    if methods.is_empty() {
        RouteMatch::None
    } else {
        RouteMatch::OtherMethods(methods.join(", "))
    }
}
