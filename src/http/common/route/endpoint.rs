//! API addresses: versions, resources, and the methods that each resource accepts.

use uuid::Uuid;

use crate::domain::ids::{UniqueKey, parse_path_uuid, write_uuid};

/// API version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "numbers")]
pub(crate) enum ApiVersion {
    V1 = 1,
    V2 = 2,
    V3 = 3,
}

impl ApiVersion {
    /// First segments of the addresses of this version.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::V1 => "/api/v1",
            Self::V2 => "/api/v2",
            Self::V3 => "/api/v3",
        }
    }
}

/// API address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Endpoint {
    pub(crate) version: ApiVersion,
    pub(crate) resource: ApiResource,
    /// True if the trailing slash is missing. All methods but GET, HEAD and OPTIONS are then
    /// redirected to the form with it.
    pub(crate) is_slash_missing: bool,
}

/// Resource of an API address; `<unique_key>` is 40 lower case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ApiResource {
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

impl Endpoint {
    /// Address of a resource as it appears in responses.
    pub(crate) fn new(version: ApiVersion, resource: ApiResource) -> Self {
        Self {
            version,
            resource,
            is_slash_missing: false,
        }
    }

    /// Parses the segments after `/api/`: the version and the rest.
    pub(super) fn parse(version: &str, segments: &[&str]) -> Option<Self> {
        let version = match version {
            "v1" => ApiVersion::V1,
            "v2" => ApiVersion::V2,
            "v3" => ApiVersion::V3,
            _ => return None,
        };
        let (segments, slash) = match segments {
            [segments @ .., ""] => (segments, true),
            segments => (segments, false),
        };
        let resource = ApiResource::parse(segments)?;
        let ends_in_slash = resource.ends_in_slash();
        let there_is = ends_in_slash || !slash;
        there_is.then_some(Self {
            version,
            resource,
            is_slash_missing: ends_in_slash && !slash,
        })
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push_str(self.version.path());
        self.resource.write(out);
        if self.resource.ends_in_slash() && !self.is_slash_missing {
            out.push('/');
        }
    }
}

impl ApiResource {
    /// One of each, with its path below `/api/v3` as a template. Tests compare every other table of
    /// endpoints with this one.
    #[cfg(test)]
    pub(crate) const ALL: [(ApiResource, &'static str); 12] = [
        (ApiResource::Checks, "/checks/"),
        (ApiResource::Check(Uuid::nil()), "/checks/{uuid}"),
        (
            ApiResource::UniqueCheck(UniqueKey::NONE),
            "/checks/{unique_key}",
        ),
        (ApiResource::Pause(Uuid::nil()), "/checks/{uuid}/pause"),
        (ApiResource::Resume(Uuid::nil()), "/checks/{uuid}/resume"),
        (ApiResource::Pings(Uuid::nil()), "/checks/{uuid}/pings/"),
        (
            ApiResource::PingBody(Uuid::nil(), 1),
            "/checks/{uuid}/pings/{n}/body",
        ),
        (ApiResource::Flips(Uuid::nil()), "/checks/{uuid}/flips/"),
        (
            ApiResource::UniqueFlips(UniqueKey::NONE),
            "/checks/{unique_key}/flips/",
        ),
        (ApiResource::Channels, "/channels/"),
        (ApiResource::Badges, "/badges/"),
        (ApiResource::Status, "/status/"),
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
                let uuid = parse_path_uuid(name)?;
                match rest {
                    [] => Self::Check(uuid),
                    ["pause"] => Self::Pause(uuid),
                    ["resume"] => Self::Resume(uuid),
                    ["pings"] => Self::Pings(uuid),
                    ["pings", n, "body"] => Self::PingBody(uuid, parse_number(n)?),
                    ["flips"] => Self::Flips(uuid),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// Writes the path without its trailing slash.
    fn write(&self, out: &mut String) {
        let mut of_check = |uuid: &Uuid, rest: &str| {
            out.push_str("/checks/");
            write_uuid(*uuid, out);
            out.push_str(rest);
        };
        match self {
            Self::Checks => out.push_str("/checks"),
            Self::Check(uuid) => of_check(uuid, ""),
            Self::UniqueCheck(key) => out.extend(["/checks/", &key.to_string()]),
            Self::Pause(uuid) => of_check(uuid, "/pause"),
            Self::Resume(uuid) => of_check(uuid, "/resume"),
            Self::Pings(uuid) => of_check(uuid, "/pings"),
            Self::PingBody(uuid, n) => {
                of_check(uuid, "/pings/");
                out.extend([&n.to_string(), "/body"]);
            }
            Self::Flips(uuid) => of_check(uuid, "/flips"),
            Self::UniqueFlips(key) => out.extend(["/checks/", &key.to_string(), "/flips"]),
            Self::Channels => out.push_str("/channels"),
            Self::Badges => out.push_str("/badges"),
            Self::Status => out.push_str("/status"),
        }
    }

    /// Accepted methods, as `Allow` lists them.
    pub(crate) fn allowed_methods(&self) -> &'static str {
        match self {
            Self::Checks => "GET, HEAD, POST, OPTIONS",
            Self::Check(_) => "GET, HEAD, POST, DELETE, OPTIONS",
            Self::Pause(_) | Self::Resume(_) => "POST, OPTIONS",
            Self::UniqueCheck(_)
            | Self::Pings(_)
            | Self::PingBody(..)
            | Self::Flips(_)
            | Self::UniqueFlips(_)
            | Self::Channels
            | Self::Badges
            | Self::Status => "GET, HEAD, OPTIONS",
        }
    }

    /// True if a read-only key may read this resource. Such a key never may write.
    pub(crate) fn allows_read_only(&self) -> bool {
        match self {
            Self::Checks
            | Self::Check(_)
            | Self::UniqueCheck(_)
            | Self::Flips(_)
            | Self::UniqueFlips(_)
            | Self::Badges
            | Self::Status => true,
            Self::Pause(_)
            | Self::Resume(_)
            | Self::Pings(_)
            | Self::PingBody(..)
            | Self::Channels => false,
        }
    }

    /// True if the address ends in a slash. The address without it is accepted too, since clients
    /// omit it.
    pub(super) fn ends_in_slash(&self) -> bool {
        match self {
            Self::Checks
            | Self::Pings(_)
            | Self::Flips(_)
            | Self::UniqueFlips(_)
            | Self::Channels
            | Self::Badges
            | Self::Status => true,
            Self::Check(_)
            | Self::UniqueCheck(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::PingBody(..) => false,
        }
    }
}

/// Parses a number of digits only. One that exceeds 64 bits is read as the largest: no ping has
/// that number.
fn parse_number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().unwrap_or(u64::MAX))
}
