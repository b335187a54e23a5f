//! URL table: all paths, their resources, and how they are written. [`Route::parse`] returns the
//! same route for every path that [`Route::write`] writes.

mod badge;
mod endpoint;
mod extension;
mod ping;

pub(crate) use badge::{BadgeFormat, BadgePath, BadgeStates, SIGNATURE_LENGTH};
pub(crate) use endpoint::{ApiResource, ApiVersion, Endpoint};
pub(crate) use extension::{EXTENSION_PATH, ExtensionResource};
pub use ping::creating_ping_url;
pub(crate) use ping::{PingAction, PingPath};

use uuid::Uuid;

use crate::domain::ids::{parse_path_uuid, write_uuid};

/// Resource of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// `/ping/…`
    Ping(PingPath),
    /// `/api/v1/…` to `/api/v3/…`
    Api(Endpoint),
    /// `/api/overdue/v1/…`
    Extension(ExtensionResource),
    /// `/api/v3/openapi.json`
    OpenApi,
    /// `/badge/…` and `/b/…`
    Badge(BadgePath),
    /// `/unsubscribe/<uuid of a channel>/<signature>`
    Unsubscribe(Uuid, Box<str>),
    /// `/healthz`
    Health,
    /// `/metrics`
    Metrics,
    /// `/projects/<uuid>/metrics/<key>`, `/projects/<uuid>/checks/metrics/<key>`, and
    /// `/projects/<uuid>/metrics/` with the key in a header
    ProjectMetrics(Uuid, Option<Box<str>>),
}

impl Route {
    /// Parses a path. `None` if no such resource exists.
    pub(crate) fn parse(path: &str) -> Option<Self> {
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
            ("api", ["overdue", "v1", rest @ ..]) => {
                ExtensionResource::parse(rest).map(Self::Extension)
            }
            ("api", [version, rest @ ..]) => Endpoint::parse(version, rest).map(Self::Api),
            ("badge", [badge_key, last]) => {
                Some(Self::Badge(BadgePath::parse_project(badge_key, last)))
            }
            ("badge", [badge_key, signed, last]) => {
                Some(Self::Badge(BadgePath::parse_tag(badge_key, signed, last)))
            }
            ("b", [states, last]) => BadgePath::parse_check(states, last).map(Self::Badge),
            ("unsubscribe", [channel, signature]) => Some(Self::Unsubscribe(
                parse_path_uuid(channel)?,
                (*signature).into(),
            )),
            ("healthz", []) => Some(Self::Health),
            ("metrics", []) => Some(Self::Metrics),
            ("projects", [project, "metrics", key] | [project, "checks", "metrics", key]) => {
                Some(Self::ProjectMetrics(
                    parse_path_uuid(project)?,
                    Some(*key).filter(|key| !key.is_empty()).map(Into::into),
                ))
            }
            _ => None,
        }
    }

    /// Writes the path. An invalid value that a path may contain, such as an exit status above 255,
    /// is written as an example of its kind.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Ping(path) => path.write(out),
            Self::Api(endpoint) => endpoint.write(out),
            Self::Extension(resource) => resource.write(out),
            Self::OpenApi => out.extend([ApiVersion::V3.path(), "/openapi.json"]),
            Self::Badge(path) => path.write(out),
            Self::Unsubscribe(channel, signature) => {
                out.push_str("/unsubscribe/");
                write_uuid(*channel, out);
                out.extend(["/", signature]);
            }
            Self::Health => out.push_str("/healthz"),
            Self::Metrics => out.push_str("/metrics"),
            Self::ProjectMetrics(project, key) => {
                out.push_str("/projects/");
                write_uuid(*project, out);
                out.extend(["/metrics/", key.as_deref().unwrap_or_default()]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
