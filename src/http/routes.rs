//! URLs of the server and their handlers. The dashboard has a table of its own.

use hyper::{Method, Request};
use uuid::Uuid;

use super::api::{self, Endpoint};
use super::dashboard::{self, DashboardTarget, Page};
use super::{
    AllowedRoutes, ConnectionInfo, HttpServer, ServerState, badge, instance, metrics, ping,
    unsubscribe,
};
use crate::domain::ids::parse_path_uuid;
use crate::http::common::badge_path::BadgePath;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::ping_path::{PingAction, PingPath};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request::{self, BaseUrl};
use crate::http::common::request_body::IncomingBody;
use crate::http::common::unsubscribe_link::UnsubscribePath;
use crate::http::common::work_owner::WorkOwner;

/// Resource of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// `/ping/…`
    Ping(PingPath),
    /// `/api/v1/…` to `/api/v3/…`, and `/api/overdue/v1/…`
    Api(Endpoint),
    /// `/api/overdue/v1/projects` and others for the instance key
    Instance,
    /// `/login/provider/<number>/logout`
    ProviderLogout(u64),
    /// `/api/v3/openapi.json`
    OpenApi,
    /// `/badge/…` and `/b/…`
    Badge(BadgePath),
    /// `/unsubscribe/…`
    Unsubscribe(UnsubscribePath),
    /// `/healthz`
    Health,
    /// `/metrics`
    Metrics,
    /// `/metrics/checks`
    AllChecksMetrics,
    /// `/projects/<uuid>/metrics/<key>`, `/projects/<uuid>/checks/metrics/<key>`, and
    /// `/projects/<uuid>/metrics/` with the key in a header
    ProjectMetrics(Uuid, Option<Box<str>>),
}

impl Route {
    /// Parses a path. `None` if no such resource exists.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let first = segments.next()?;
        // No path has more segments after the first.
        let mut rest = [""; 6];
        let mut count = 0;
        for segment in segments {
            *rest.get_mut(count)? = segment;
            count += 1;
        }
        let rest = rest.get(..count)?;
        match (first, rest) {
            ("ping", rest) => PingPath::parse(rest).map(Self::Ping),
            ("api", ["v3", "openapi.json"]) => Some(Self::OpenApi),
            ("api", rest) if instance::is_path(rest) => Some(Self::Instance),
            ("api", rest) => Endpoint::parse(rest).map(Self::Api),
            ("login", ["provider", number, "logout"]) => {
                number.parse().ok().map(Self::ProviderLogout)
            }
            ("badge", rest) => BadgePath::parse_tag(rest).map(Self::Badge),
            ("b", rest) => BadgePath::parse_check(rest).map(Self::Badge),
            ("unsubscribe", rest) => UnsubscribePath::parse(rest).map(Self::Unsubscribe),
            ("healthz", []) => Some(Self::Health),
            ("metrics", []) => Some(Self::Metrics),
            ("metrics", ["checks"]) => Some(Self::AllChecksMetrics),
            ("projects", [project, "metrics", key] | [project, "checks", "metrics", key]) => {
                Some(Self::ProjectMetrics(
                    parse_path_uuid(project)?,
                    Some(*key).filter(|key| !key.is_empty()).map(Into::into),
                ))
            }
            _ => None,
        }
    }
}

/// True for a fixed segment of a path that begins with `first`.
pub(super) fn is_fixed_segment(first: &str, segment: &str) -> bool {
    match first {
        "ping" if segment != first => matches!(
            PingAction::parse(segment),
            Some(PingAction::Start | PingAction::Fail | PingAction::Log)
        ),
        "api" => {
            segment == "openapi.json"
                || api::is_fixed_segment(segment)
                || instance::is_fixed_segment(segment)
        }
        "ping" | "badge" | "b" | "unsubscribe" | "healthz" | "static" => segment == first,
        "metrics" => segment == first || segment == "checks",
        "projects" if segment == "metrics" => true,
        _ => Page::FIXED_SEGMENTS.contains(&segment),
    }
}

impl HttpServer {
    /// Responds to a request. The future of a ping is small: hyper moves the future of a request
    /// several times, so the others are boxed.
    pub(super) async fn respond(
        &self,
        request: Request<IncomingBody<'_>>,
        connection: ConnectionInfo,
    ) -> HttpReply {
        let peer = connection.peer;
        let server = &*self.0;
        let path = server.config.base_url.strip_base_path(request.uri().path());
        if let Err(error) = request::validate(&request) {
            return refuse(path, &error);
        }
        let route = Route::parse(path);
        if server.handle.as_of().is_some() && !is_stale_read(route.as_ref(), request.method()) {
            return refuse(path, &HttpError::NoLeader);
        }
        if connection.allowed_routes != AllowedRoutes::All {
            return Box::pin(respond_restricted(server, connection, route, &request)).await;
        }
        match route {
            Some(Route::Ping(path)) => {
                let client =
                    Client::from_headers(request.headers(), peer, &server.config.trusted_proxies);
                ping::respond(server, path, request, client).await
            }
            Some(Route::Api(endpoint)) => {
                Box::pin(api::respond(server, endpoint, request, peer)).await
            }
            Some(Route::Instance) => Box::pin(instance::respond(server, request, peer)).await,
            Some(Route::ProviderLogout(provider)) => {
                let Some(dashboard) = &server.dashboard else {
                    return refuse(path, &HttpError::NotFound);
                };
                let quota = server.body_budget.of(WorkOwner::Other);
                Box::pin(dashboard::respond_to_logout(
                    dashboard, quota, provider, request, peer,
                ))
                .await
            }
            Some(Route::OpenApi) => {
                public_reply(&request, async || {
                    Ok(reply::json(server.api.openapi.clone()))
                })
                .await
            }
            Some(Route::Badge(badge)) => {
                Box::pin(public_reply(&request, async || {
                    badge::respond(server, badge).await
                }))
                .await
            }
            Some(Route::Unsubscribe(path)) => {
                Box::pin(unsubscribe::respond(server, request.method(), &path)).await
            }
            Some(Route::Health) => {
                Box::pin(health_reply(server, &request, connection.is_forwarded)).await
            }
            Some(Route::Metrics) => {
                Box::pin(metrics::server_metrics(server, &request, false)).await
            }
            Some(Route::AllChecksMetrics) => {
                Box::pin(metrics::all_checks_metrics(server, &request, false)).await
            }
            Some(Route::ProjectMetrics(project, key)) => {
                Box::pin(metrics::project_metrics(
                    server, project, key, &request, peer,
                ))
                .await
            }
            None => Box::pin(respond_in_dashboard(server, request, peer)).await,
        }
    }
}

/// True for a request that a machine may answer although no machine of the cluster leads. That
/// excludes badges and metrics, because nothing shows their readers how old they are.
fn is_stale_read(route: Option<&Route>, method: &Method) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    is_read
        && matches!(
            route,
            None | Some(Route::Api(_) | Route::OpenApi | Route::Health)
        )
}

/// True if the first bytes of a connection begin a request as in [`is_stale_read`].
pub(crate) fn begins_stale_read(first_bytes: &[u8], base_url: &BaseUrl) -> bool {
    let mut parts = first_bytes.split(|byte| matches!(byte, b' ' | b'?'));
    let (Some(method), Some(path)) = (parts.next(), parts.next()) else {
        return false;
    };
    let (Ok(method), Ok(path)) = (Method::from_bytes(method), str::from_utf8(path)) else {
        return false;
    };
    let route = Route::parse(base_url.strip_base_path(path));
    is_stale_read(route.as_ref(), &method)
}

/// Responds on a connection that may use some routes only.
async fn respond_restricted<B>(
    server: &ServerState,
    connection: ConnectionInfo,
    route: Option<Route>,
    request: &Request<B>,
) -> HttpReply {
    let path = server.config.base_url.strip_base_path(request.uri().path());
    match (connection.allowed_routes, route) {
        (AllowedRoutes::MetricsOnly, Some(Route::Metrics)) => {
            metrics::server_metrics(server, request, true).await
        }
        (AllowedRoutes::MetricsOnly, Some(Route::AllChecksMetrics)) => {
            metrics::all_checks_metrics(server, request, true).await
        }
        (AllowedRoutes::HealthOnly, Some(Route::Health)) => {
            health_reply(server, request, connection.is_forwarded).await
        }
        (AllowedRoutes::HealthOnly, _) => refuse(
            path,
            &HttpError::BadRequest("this address accepts only https:// URLs".into()),
        ),
        _ => refuse(path, &HttpError::NotFound),
    }
}

/// Responds to a path without a route: a page of the dashboard, or an error.
async fn respond_in_dashboard(
    server: &ServerState,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> HttpReply {
    let full_path = request.uri().path();
    let path = server.config.base_url.strip_base_path(full_path);
    let Some(dashboard) = &server.dashboard else {
        return refuse(path, &HttpError::NotFound);
    };
    match DashboardTarget::parse(path).or_else(|| DashboardTarget::parse(full_path)) {
        Some(target) => {
            dashboard::handle_request(dashboard, &server.body_budget, target, request, peer).await
        }
        None => dashboard::not_found_page(dashboard, request.headers(), peer)
            .unwrap_or_else(|| refuse(path, &HttpError::NotFound)),
    }
}

/// Error response for a path: unknown paths of the API are answered in JSON, too.
fn refuse(path: &str, error: &HttpError) -> HttpReply {
    if path.starts_with("/api/") {
        error.to_json()
    } else {
        error.to_text()
    }
}

/// Responds to a health check. With the parameter `leader`, only the machine that leads a cluster
/// is healthy. `is_forwarded`: true if the client connected to another machine.
async fn health_reply<B>(
    server: &ServerState,
    request: &Request<B>,
    is_forwarded: bool,
) -> HttpReply {
    let mut parameters = request.uri().query().unwrap_or_default().split('&');
    let asks_for_leader = parameters.any(|parameter| parameter.split('=').next() == Some("leader"));
    if asks_for_leader && is_forwarded {
        HttpError::NotLeader.to_text()
    } else if server.is_healthy().await {
        reply::text("OK")
    } else {
        HttpError::Unavailable.to_text()
    }
}

/// Responds to a request to a public read-only endpoint.
async fn public_reply<B>(
    request: &Request<B>,
    read: impl AsyncFnOnce() -> Result<HttpReply, HttpError>,
) -> HttpReply {
    let methods = "GET, HEAD, OPTIONS";
    let answer = match *request.method() {
        Method::GET | Method::HEAD => read().await,
        Method::OPTIONS => Ok(reply::no_content()),
        _ => Err(HttpError::MethodNotAllowed(methods)),
    };
    reply::with_any_origin(answer.unwrap_or_else(|error| error.to_json()), methods)
}

#[cfg(test)]
mod tests;
