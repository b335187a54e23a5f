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
    /// Reads a request and carries it out.
    pub(super) run: for<'c> fn(&'c AdminContext, EncodedRequest) -> RunFuture<'c>,
}

const fn route<R: AdminRequest>() -> AdminRoute {
    AdminRoute {
        method: R::METHOD,
        path: R::PATH,
        max_bytes: R::MAX_BYTES,
        client_timeout: R::CLIENT_TIMEOUT,
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
    route::<projects::ListProjects>(),
    route::<projects::CreateProject>(),
    route::<projects::UpdateProject>(),
    route::<projects::DeleteProject>(),
    route::<projects::ReleaseProject>(),
    route::<keys::ListKeys>(),
    route::<keys::CreateKey>(),
    route::<keys::RevokeKey>(),
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
    route::<users::ListUsers>(),
    route::<users::CreateUser>(),
    route::<users::UpdateUser>(),
    route::<users::DeleteUser>(),
    route::<users::SetPassword>(),
    route::<users::RemoveSecondFactor>(),
    route::<users::RemovePasskeys>(),
    route::<users::RemoveIdentity>(),
    route::<users::EndSessions>(),
    route::<users::CreateLink>(),
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

/// Result of the search for the endpoint of a request.
pub(super) enum RouteMatch {
    /// The endpoint, with the fields in the path.
    Found(&'static AdminRoute, Vec<(&'static str, String)>),
    /// The path exists with these methods only.
    OtherMethods(String),
    /// No endpoint has the path.
    None,
}

/// Finds the endpoint of a request.
pub(super) fn find(method: &Method, path: &str) -> RouteMatch {
    let mut methods = Vec::new();
    for route in ROUTES {
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
