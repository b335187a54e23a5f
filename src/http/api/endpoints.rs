//! Table of the endpoints of the API. Everything about an endpoint that other modules need follows
//! from its row: parsing and writing of its path, `Allow`, the access that a key needs, and the
//! call of its handler.

use hyper::Method;
use uuid::Uuid;

use super::check_fields::{FieldError, RequestDocument};
use super::{ApiCall, badges, channels, checks, extensions, flips, pings, status};
use crate::domain::ids::UniqueKey;
use crate::domain::project::KeyAccess;
use crate::http::common::path_segment::PathSegment;
use crate::http::common::reply::{HttpError, HttpReply};

/// Version of the API.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ApiVersion {
    /// Version 1 of Healthchecks.
    V1,
    /// Version 2 of Healthchecks.
    V2,
    /// Version 3 of Healthchecks.
    V3,
    /// Endpoints that Healthchecks lacks.
    OverdueV1,
}

/// Versions of the API of Healthchecks.
const HEALTHCHECKS: &[ApiVersion] = &[ApiVersion::V1, ApiVersion::V2, ApiVersion::V3];
/// Versions of the endpoints that Healthchecks lacks.
const OVERDUE: &[ApiVersion] = &[ApiVersion::OverdueV1];

impl ApiVersion {
    /// Every version.
    pub const ALL: [Self; 4] = [Self::V1, Self::V2, Self::V3, Self::OverdueV1];

    /// First segments of the paths of this version.
    pub fn path(self) -> &'static str {
        match self {
            Self::V1 => "/api/v1",
            Self::V2 => "/api/v2",
            Self::V3 => "/api/v3",
            Self::OverdueV1 => "/api/overdue/v1",
        }
    }
}

/// Verb of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// GET or HEAD; hyper sends the response to HEAD without its body.
    Get,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
}

impl Verb {
    pub(super) fn from_method(method: &Method) -> Option<Self> {
        match *method {
            Method::GET | Method::HEAD => Some(Self::Get),
            Method::POST => Some(Self::Post),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Number of a ping in a path, with digits only. One that exceeds 64 bits is read as the largest,
/// which no ping has: the key is checked before the response says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PingNumber(pub(crate) u64);

impl PathSegment for PingNumber {
    fn example() -> Option<Self> {
        Some(Self(1))
    }

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| Self(text.parse().unwrap_or(u64::MAX)))
    }

    fn write(&self, out: &mut String) {
        self.0.write(out);
    }
}

/// Row of the table of endpoints.
#[derive(Debug)]
pub struct EndpointRow {
    /// Versions of the API that have the endpoint.
    pub versions: &'static [ApiVersion],
    /// Path after [`ApiVersion::path`], with `{name}` for a variable segment.
    pub template: &'static str,
    /// True if the path ends in a slash. The path without it is accepted too, since clients omit
    /// it.
    pub ends_in_slash: bool,
    /// Accepted methods, as `Allow` lists them.
    pub allow: &'static str,
    /// Rules of the accepted verbs.
    pub verbs: &'static [VerbRules],
}

/// Rules of a verb of an endpoint.
#[derive(Debug)]
pub struct VerbRules {
    /// Verb of the request.
    pub verb: Verb,
    /// Access that a key must give: a key for reading and writing, or any API key.
    pub access: KeyAccess,
    /// Parser of the body.
    pub(super) parse_body: fn(&[u8]) -> Result<RequestDocument, FieldError>,
}

impl EndpointRow {
    /// Returns the rules of a verb. `None` if the endpoint does not accept it.
    pub(super) fn rules(&self, verb: Verb) -> Option<&'static VerbRules> {
        self.verbs.iter().find(|rules| rules.verb == verb)
    }
}

/// Declares [`ApiResource`] and [`ENDPOINTS`] from the table. A group of rows begins with the
/// versions of the API that have them. A row looks like this:
///
/// ```text
/// Pings(uuid: Uuid) ["checks" uuid "pings"] slash { Get ReadWrite pings::list }
/// ```
///
/// - `Pings(uuid: Uuid)`: variant of [`ApiResource`] with the variable segments of the path.
/// - `["checks" uuid "pings"] slash`: path after [`ApiVersion::path`]. A segment in quotation marks
///   is fixed. With `slash` the path ends in a slash; the form without it is accepted too, but
///   redirects requests that write.
/// - `Get ReadWrite pings::list`: verb, [`KeyAccess`] that it needs, and handler. The verbs are in
///   the order of `Allow`. A handler takes the [`ApiCall`] and the variable segments. After it,
///   `lenient` accepts bodies of [`RequestDocument::parse_lenient`].
macro_rules! endpoints {
    ($($versions:ident {$(
        $name:ident($($field:ident: $type:ty),*) [$($segment:tt)*] $($slash:ident)? {
            $($verbs:tt)*
        }
    )*})*) => {
        /// Resource of a path of the API.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum ApiResource {
            $($($name($($type),*)),*),*
        }

        /// Table of the endpoints.
        pub const ENDPOINTS: &[EndpointRow] = &[
            $($(endpoints!(@row $versions [$($segment)*] [$($slash)?] $($verbs)*)),*),*
        ];

        impl ApiResource {
            pub(super) fn row(&self) -> &'static EndpointRow {
                match self {
                    $($(Self::$name(..) => {
                        &endpoints!(@row $versions [$($segment)*] [$($slash)?] $($verbs)*)
                    })*)*
                }
            }

            /// Parses the segments after the path of the version, without a slash at the end.
            fn parse(version: ApiVersion, segments: &[&str]) -> Option<Self> {
                $(if $versions.contains(&version) {
                    $(if let [$($segment),*] = *segments
                        $(&& let Some($field) = <$type as PathSegment>::parse($field))*
                    {
                        return Some(Self::$name($($field),*));
                    })*
                })*
                None
            }

            /// Writes the segments after the path of the version, without a slash at the end.
            fn write(&self, out: &mut String) {
                match self {
                    $($(Self::$name($($field),*) => {
                        $(endpoints!(@write out $segment);)*
                    })*)*
                }
            }
        }

        /// Calls the handler of the resource and the verb.
        pub(super) async fn call_handler(
            call: &mut ApiCall<'_>,
            verb: Verb,
        ) -> Result<HttpReply, HttpError> {
            match call.endpoint.resource {
                $($(ApiResource::$name($($field),*) => {
                    endpoints!(@call call verb ($($field),*) $($verbs)*);
                })*)*
            }
            Err(HttpError::MethodNotAllowed(call.endpoint.resource.row().allow))
        }
    };

    (@row $versions:ident [$($segment:tt)*] [$($slash:ident)?]
        $($verb:ident $access:ident $($handler:ident)::+ $($lenient:ident)?),*) => {
        EndpointRow {
            versions: $versions,
            template: concat!($(endpoints!(@template $segment),)* endpoints!(@end $($slash)?)),
            ends_in_slash: endpoints!(@has_slash $($slash)?),
            allow: concat!($(endpoints!(@allow $verb), ", ",)* "OPTIONS"),
            verbs: &[$(VerbRules {
                verb: Verb::$verb,
                access: KeyAccess::$access,
                parse_body: endpoints!(@parse_body $($lenient)?),
            }),*],
        }
    };
    (@template $fixed:literal) => { concat!("/", $fixed) };
    (@template $field:ident) => { concat!("/{", stringify!($field), "}") };
    (@end) => { "" };
    (@end slash) => { "/" };
    (@has_slash) => { false };
    (@has_slash slash) => { true };
    (@allow Get) => { "GET, HEAD" };
    (@allow Post) => { "POST" };
    (@allow Put) => { "PUT" };
    (@allow Delete) => { "DELETE" };
    (@parse_body) => { RequestDocument::parse };
    (@parse_body lenient) => { RequestDocument::parse_lenient };

    (@write $out:ident $fixed:literal) => { $out.push_str(concat!("/", $fixed)) };
    (@write $out:ident $field:ident) => {
        $out.push('/');
        PathSegment::write($field, $out)
    };

    (@call $call:ident $verb:ident $fields:tt
        $($of:ident $access:ident $($handler:ident)::+ $($lenient:ident)?),*) => {
        $(if $verb == Verb::$of {
            return endpoints!(@invoke ($($handler)::+) $call $fields);
        })*
    };
    (@invoke ($handler:path) $call:ident ($($field:ident),*)) => {
        $handler($call, $($field),*).await
    };
}

endpoints! {
    HEALTHCHECKS {
        Checks() ["checks"] slash {
            Get ReadOnly checks::list,
            Post ReadWrite checks::create
        }
        Check(uuid: Uuid) ["checks" uuid] {
            Get ReadOnly checks::get,
            Post ReadWrite checks::update,
            Delete ReadWrite checks::delete
        }
        UniqueCheck(unique_key: UniqueKey) ["checks" unique_key] { Get ReadOnly checks::get }
        Pause(uuid: Uuid) ["checks" uuid "pause"] { Post ReadWrite checks::pause lenient }
        Resume(uuid: Uuid) ["checks" uuid "resume"] { Post ReadWrite checks::resume lenient }
        Pings(uuid: Uuid) ["checks" uuid "pings"] slash { Get ReadWrite pings::list }
        PingBody(uuid: Uuid, n: PingNumber) ["checks" uuid "pings" n "body"] {
            Get ReadWrite pings::body
        }
        Flips(uuid: Uuid) ["checks" uuid "flips"] slash { Get ReadOnly flips::list }
        UniqueFlips(unique_key: UniqueKey) ["checks" unique_key "flips"] slash {
            Get ReadOnly flips::list
        }
        ChannelNames() ["channels"] slash { Get ReadWrite channels::list }
        Badges() ["badges"] slash { Get ReadOnly badges::list }
        Status() ["status"] slash { Get ReadOnly status::probe }
    }

    OVERDUE {
        Kinds() ["kinds"] { Get ReadWrite extensions::kinds::list }
        Channels() ["channels"] {
            Get ReadWrite extensions::channels::list,
            Post ReadWrite extensions::channels::create
        }
        Channel(uuid: Uuid) ["channels" uuid] {
            Get ReadWrite extensions::channels::get,
            Put ReadWrite extensions::channels::change,
            Delete ReadWrite extensions::channels::delete
        }
        TestChannel(uuid: Uuid) ["channels" uuid "test"] {
            Post ReadWrite extensions::channels::test lenient
        }
        EnableChannel(uuid: Uuid) ["channels" uuid "enable"] {
            Post ReadWrite extensions::channels::enable lenient
        }
        ChannelDeliveries(uuid: Uuid) ["channels" uuid "deliveries"] {
            Get ReadWrite extensions::deliveries::list_of_channel
        }
        CheckDeliveries(uuid: Uuid) ["checks" uuid "deliveries"] {
            Get ReadWrite extensions::deliveries::list_of_check
        }
        Alerting(uuid: Uuid) ["checks" uuid "alerting"] {
            Get ReadWrite extensions::alerting::get,
            Put ReadWrite extensions::alerting::change
        }
        Deliveries() ["deliveries"] { Get ReadWrite extensions::deliveries::list }
        Audit() ["audit"] { Get ReadWrite extensions::audit::list }
        Windows() ["windows"] {
            Get ReadWrite extensions::windows::list,
            Post ReadWrite extensions::windows::create
        }
        Window(uuid: Uuid) ["windows" uuid] {
            Get ReadWrite extensions::windows::get,
            Delete ReadWrite extensions::windows::delete
        }
    }
}

/// True for a fixed segment of a path of the API.
pub(crate) fn is_fixed_segment(segment: &str) -> bool {
    let is_in = |path: &str| path.split('/').any(|fixed| fixed == segment);
    ApiVersion::ALL.iter().any(|version| is_in(version.path()))
        || ENDPOINTS.iter().any(|row| is_in(row.template))
}

/// Path of the API: version and resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Endpoint {
    pub(crate) version: ApiVersion,
    pub(crate) resource: ApiResource,
    /// True if the trailing slash is missing. All methods but GET, HEAD and OPTIONS are then
    /// redirected to the form with it.
    pub(crate) is_slash_missing: bool,
}

impl Endpoint {
    /// Path of a resource as it appears in responses.
    pub(crate) fn new(version: ApiVersion, resource: ApiResource) -> Self {
        Self {
            version,
            resource,
            is_slash_missing: false,
        }
    }

    /// Parses the segments after `/api/`.
    pub(crate) fn parse(segments: &[&str]) -> Option<Self> {
        let (version, segments) = match segments {
            ["v1", segments @ ..] => (ApiVersion::V1, segments),
            ["v2", segments @ ..] => (ApiVersion::V2, segments),
            ["v3", segments @ ..] => (ApiVersion::V3, segments),
            ["overdue", "v1", segments @ ..] => (ApiVersion::OverdueV1, segments),
            _ => return None,
        };
        let (segments, has_slash) = match segments {
            [segments @ .., ""] => (segments, true),
            segments => (segments, false),
        };
        let resource = ApiResource::parse(version, segments)?;
        let needs_slash = resource.row().ends_in_slash;
        (needs_slash || !has_slash).then_some(Self {
            version,
            resource,
            is_slash_missing: needs_slash && !has_slash,
        })
    }

    pub(crate) fn write(&self, out: &mut String) {
        out.push_str(self.version.path());
        self.resource.write(out);
        if self.resource.row().ends_in_slash && !self.is_slash_missing {
            out.push('/');
        }
    }
}
