//! The whole URL table: which paths there are, what they name, and which methods they take.

use uuid::Uuid;

use crate::domain::ids::{UniqueKey, path_uuid};
use crate::domain::ping::Kind;
use crate::domain::project::PingKey;
use crate::domain::text::Slug;

/// What a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// `/ping/…`
    Ping(PingPath),
    /// `/api/v1/…` to `/api/v3/…`
    Api(Endpoint),
    /// `/api/v3/openapi.json`
    OpenApi,
    /// `/badge/…` and `/b/…`
    Badge(BadgePath),
    /// `/healthz`
    Health,
}

/// A ping URL: whom it is for and what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PingPath {
    /// `/ping/<uuid>[/<action>]`
    Uuid(Uuid, Action),
    /// `/ping/<ping key>/<slug>[/<action>]`
    Slug(PingKey, Slug, Action),
    /// A slug with capital letters.
    BadSlug,
}

/// The last segment of a ping URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// None, `start`, `fail`, `log`, or an exit status of 0 to 255.
    Signal(Kind),
    /// An exit status above 255.
    BadExitStatus,
}

/// A version of the API.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "numbers")]
pub(crate) enum Version {
    V1 = 1,
    V2 = 2,
    V3 = 3,
}

impl Version {
    /// The first segments of its addresses.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::V1 => "/api/v1",
            Self::V2 => "/api/v2",
            Self::V3 => "/api/v3",
        }
    }
}

/// An address of the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Endpoint {
    pub(crate) version: Version,
    pub(crate) resource: Resource,
    /// The final slash is missing: other methods than GET, HEAD and OPTIONS are sent on to the form with it.
    pub(crate) slash_missing: bool,
}

/// What an address of the API names; `<unique_key>` is 40 lower case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Resource {
    /// `/checks/`
    Checks,
    /// `/checks/<uuid>`
    Check(Uuid),
    /// `/checks/<unique_key>`
    UniqueCheck(UniqueKey),
    /// `/checks/<uuid>/pause`
    Pause(Uuid),
    /// `/checks/<uuid>/resume`
    Resume(Uuid),
    /// `/checks/<uuid>/pings/`
    Pings(Uuid),
    /// `/checks/<uuid>/pings/<n>/body`
    PingBody(Uuid, u64),
    /// `/checks/<uuid>/flips/`
    Flips(Uuid),
    /// `/checks/<unique_key>/flips/`
    UniqueFlips(UniqueKey),
    /// `/channels/`
    Channels,
    /// `/badges/`
    Badges,
    /// `/status/`
    Status,
}

/// A badge URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BadgePath {
    /// `/badge/<project key>/<signature>[-2]/<tag>.<format>`, for `*` without the tag segment.
    Tag {
        project_key: Box<str>,
        /// With the format where there is no tag.
        signature: Box<str>,
        /// With the format; still percent-encoded.
        tag: Option<Box<str>>,
    },
    /// `/b/<states>/<badge uuid>.<format>`
    Check {
        /// 2 or 3.
        states: u8,
        /// With the format.
        badge: Box<str>,
    },
}

impl Route {
    /// What a path names, or `None`: there is no such thing.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let room = segments.next()?;
        // No path of ours has more segments after the first.
        let mut rest = [""; 6];
        let mut count = 0;
        for segment in segments {
            *rest.get_mut(count)? = segment;
            count += 1;
        }
        let rest = rest.get(..count)?;
        match (room, rest) {
            ("ping", rest) => PingPath::parse(rest).map(Self::Ping),
            ("api", ["v3", "openapi.json"]) => Some(Self::OpenApi),
            ("api", [version, rest @ ..]) => Endpoint::parse(version, rest).map(Self::Api),
            ("badge", [project_key, signature]) => Some(Self::Badge(BadgePath::tag(project_key, signature, None))),
            ("badge", [project_key, signature, tag]) => Some(Self::Badge(BadgePath::tag(project_key, signature, Some(tag)))),
            ("b", ["2", badge]) => Some(Self::Badge(BadgePath::Check { states: 2, badge: (*badge).into() })),
            ("b", ["3", badge]) => Some(Self::Badge(BadgePath::Check { states: 3, badge: (*badge).into() })),
            ("healthz", []) => Some(Self::Health),
            _ => None,
        }
    }
}

impl BadgePath {
    fn tag(project_key: &str, signature: &str, tag: Option<&str>) -> Self {
        Self::Tag { project_key: project_key.into(), signature: signature.into(), tag: tag.map(Box::from) }
    }
}

impl PingPath {
    fn parse(segments: &[&str]) -> Option<Self> {
        let (first, rest) = segments.split_first()?;
        if let Some(uuid) = path_uuid(first) {
            return match rest {
                [] | [""] => Some(Self::Uuid(uuid, Action::Signal(Kind::Success))),
                [action] => Some(Self::Uuid(uuid, Action::parse(action)?)),
                _ => None,
            };
        }
        let (slug, action) = match rest {
            [slug] => (slug, Action::Signal(Kind::Success)),
            [slug, action] => (slug, Action::parse(action)?),
            _ => return None,
        };
        let sluggish = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if slug.is_empty() || !slug.bytes().all(sluggish) {
            return None;
        }
        if slug.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Some(Self::BadSlug);
        }
        Some(Self::Slug(PingKey::parse(first)?, Slug::parse(slug).ok()?, action))
    }
}

impl Action {
    fn parse(segment: &str) -> Option<Self> {
        Some(match segment {
            "start" => Self::Signal(Kind::Start),
            "fail" => Self::Signal(Kind::Fail),
            "log" => Self::Signal(Kind::Log),
            "" => return None,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.trim_start_matches('0') {
                "" => Self::Signal(Kind::Success),
                status if status.parse::<u8>().is_ok() => Self::Signal(Kind::Fail),
                _ => Self::BadExitStatus,
            },
            _ => return None,
        })
    }
}

impl Endpoint {
    fn parse(version: &str, segments: &[&str]) -> Option<Self> {
        let version = match version {
            "v1" => Version::V1,
            "v2" => Version::V2,
            "v3" => Version::V3,
            _ => return None,
        };
        let (segments, slash) = match segments {
            [segments @ .., ""] => (segments, true),
            segments => (segments, false),
        };
        let resource = Resource::parse(segments)?;
        let ends_in_slash = resource.ends_in_slash();
        let there_is = ends_in_slash || !slash;
        there_is.then_some(Self { version, resource, slash_missing: ends_in_slash && !slash })
    }
}

impl Resource {
    /// One of each, with its path below `/api/v3` as a template; every other table of endpoints is checked against this one.
    #[cfg(test)]
    pub(crate) const ALL: [(Resource, &'static str); 12] = [
        (Resource::Checks, "/checks/"),
        (Resource::Check(Uuid::nil()), "/checks/{uuid}"),
        (Resource::UniqueCheck(UniqueKey::NONE), "/checks/{unique_key}"),
        (Resource::Pause(Uuid::nil()), "/checks/{uuid}/pause"),
        (Resource::Resume(Uuid::nil()), "/checks/{uuid}/resume"),
        (Resource::Pings(Uuid::nil()), "/checks/{uuid}/pings/"),
        (Resource::PingBody(Uuid::nil(), 1), "/checks/{uuid}/pings/{n}/body"),
        (Resource::Flips(Uuid::nil()), "/checks/{uuid}/flips/"),
        (Resource::UniqueFlips(UniqueKey::NONE), "/checks/{unique_key}/flips/"),
        (Resource::Channels, "/channels/"),
        (Resource::Badges, "/badges/"),
        (Resource::Status, "/status/"),
    ];

    fn parse(segments: &[&str]) -> Option<Self> {
        Some(match segments {
            ["checks"] => Self::Checks,
            ["channels"] => Self::Channels,
            ["badges"] => Self::Badges,
            ["status"] => Self::Status,
            ["checks", name, rest @ ..] => {
                if let Some(key) = UniqueKey::parse(name) {
                    return match rest {
                        [] => Some(Self::UniqueCheck(key)),
                        ["flips"] => Some(Self::UniqueFlips(key)),
                        _ => None,
                    };
                }
                let uuid = path_uuid(name)?;
                match rest {
                    [] => Self::Check(uuid),
                    ["pause"] => Self::Pause(uuid),
                    ["resume"] => Self::Resume(uuid),
                    ["pings"] => Self::Pings(uuid),
                    ["pings", n, "body"] => Self::PingBody(uuid, number(n)?),
                    ["flips"] => Self::Flips(uuid),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// The methods that are answered here, as `Allow` lists them.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Self::Checks => "GET, HEAD, POST, OPTIONS",
            Self::Check(_) => "GET, HEAD, POST, DELETE, OPTIONS",
            Self::Pause(_) | Self::Resume(_) => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// Whether a read-only key may read here. It may write nowhere.
    pub(crate) fn shows_read_only(&self) -> bool {
        !matches!(self, Self::Channels | Self::Pings(_) | Self::PingBody(..))
    }

    /// Whether its address ends in a slash. It is found without the slash too, since clients leave it out.
    fn ends_in_slash(&self) -> bool {
        match self {
            Self::Checks | Self::Pings(_) | Self::Flips(_) | Self::UniqueFlips(_) | Self::Channels | Self::Badges | Self::Status => true,
            Self::Check(_) | Self::UniqueCheck(_) | Self::Pause(_) | Self::Resume(_) | Self::PingBody(..) => false,
        }
    }
}

/// A number of digits alone; what exceeds 64 bits is as good as the largest.
fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
