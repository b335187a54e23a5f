//! Decides which requests a page accepts: only forms from pages of this server, and only known
//! hosts. Sets the security headers of every response.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderName, ORIGIN, USER_AGENT,
};

use super::DashboardState;
use super::cookie::CookieJar;
use super::page_error::PageError;
use super::proxy_auth::ProxyAuth;
use crate::domain::ping::PingScheme;
use crate::http::common::client_address::{Client, Peer, is_trusted};
use crate::http::common::reply::{self, HttpReply};
use crate::http::common::request::{BaseUrl, is_loopback_host};

const FETCH_SITE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Headers that proxies add.
const PROXY_HEADERS: [&str; 3] = ["x-forwarded-for", "forwarded", "via"];
const FORWARDED_HOST_HEADER: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Origin of a request, and the host that it was sent to.
#[derive(Clone, Debug)]
pub(crate) struct RequestOrigin {
    /// Address of the other end of the connection.
    pub(crate) peer: IpAddr,
    /// Client that sent the request.
    pub(crate) client: Client,
    /// `Host` header of the request.
    pub(crate) host: Box<str>,
    /// Host of the request according to a trusted proxy.
    forwarded_host: Option<Box<str>>,
    /// True if a proxy forwarded the request.
    pub(super) is_proxied: bool,
    /// True if the connection itself is encrypted, with the certificate of this server.
    is_tls: bool,
    /// Possible mark of a browser in which a user has signed in before, not verified yet.
    pub(super) browser_mark: Option<Box<str>>,
    /// `User-Agent` header.
    pub(crate) user_agent: Box<str>,
    /// `Sec-Fetch-Site` header: the relation to the page that sent the request.
    fetch_site: Option<Box<str>>,
    origin_header: Option<Box<str>>,
}

impl RequestOrigin {
    /// Reads the origin from the headers.
    pub(super) fn from_headers(
        headers: &HeaderMap,
        peer: Peer,
        dashboard: &DashboardState,
    ) -> Self {
        // A value that is not text must match nothing.
        let text = |name: &HeaderName| {
            headers
                .get(name)
                .map(|value| value.to_str().unwrap_or("?").trim().into())
        };
        let trusted = is_trusted(peer.address.ip(), &dashboard.trusted_proxies);
        let mut origin = Self {
            peer: peer.address.ip().to_canonical(),
            is_tls: peer.scheme == PingScheme::Https,
            browser_mark: None,
            client: Client::from_headers(headers, peer, &dashboard.trusted_proxies),
            host: text(&HOST).unwrap_or_default(),
            forwarded_host: text(&FORWARDED_HOST_HEADER).filter(|_| trusted),
            is_proxied: PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)),
            user_agent: text(&USER_AGENT).unwrap_or_default(),
            fetch_site: text(&FETCH_SITE_HEADER),
            origin_header: text(&ORIGIN),
        };
        let jar = CookieJar {
            is_secure: origin.is_secure(&dashboard.base_url),
            base_path: dashboard.base_url.path(),
        };
        origin.browser_mark = jar.browser_mark(headers).map(Box::from);
        origin
    }

    /// Refuses a form that another site sent or may have sent. Cookies prove nothing: browsers send
    /// them to every port of a host.
    pub(super) fn require_same_origin(&self, base_url: &BaseUrl) -> Result<(), PageError> {
        let is_ours = match (&self.fetch_site, &self.origin_header) {
            (Some(site), _) => &**site == "same-origin",
            (None, Some(origin)) => parse_origin(origin)
                .is_some_and(|origin| self.own_origins(base_url).contains(&Some(origin))),
            (None, None) => false,
        };
        if is_ours {
            Ok(())
        } else {
            Err(PageError::cross_origin(base_url, &self.host))
        }
    }

    /// Origins of our own pages that may have sent this request.
    fn own_origins(&self, base_url: &BaseUrl) -> [Option<UrlOrigin>; 3] {
        let scheme = match self.client.scheme {
            PingScheme::Https => "https",
            _ => "http",
        };
        let by = |host: &str| parse_origin(&format!("{scheme}://{host}"));
        [
            parse_origin(base_url.as_str()),
            by(&self.host),
            self.forwarded_host.as_deref().and_then(by),
        ]
    }

    /// True if the browser connected by TLS: a proxy says so, or the host is that of a base URL
    /// with `https`.
    pub(super) fn is_secure(&self, base_url: &BaseUrl) -> bool {
        let by_tls = || parse_origin(&format!("https://{}", self.host));
        self.client.scheme == PingScheme::Https
            || parse_origin(base_url.as_str()).is_some_and(|base| by_tls() == Some(base))
    }

    /// True if the browser treats the response as trustworthy: it came by TLS, or never left the
    /// machine.
    pub(super) fn is_trustworthy(&self, base_url: &BaseUrl) -> bool {
        self.is_secure(base_url)
            || parse_origin(&format!("http://{}", self.host))
                .is_some_and(|(_, host, _)| is_loopback_host(&host))
    }

    /// True if the response may set HSTS: this server has a certificate of its own, and the base
    /// URL names this host without a port. With a port, other programs of the host may serve other
    /// ports without TLS, but HSTS applies to all ports.
    pub(super) fn can_use_hsts(&self, base_url: &BaseUrl) -> bool {
        let base = parse_origin(base_url.as_str())
            .filter(|(scheme, host, _)| &**scheme == "https" && !is_loopback_host(host));
        let own = parse_origin(&format!("https://{}", self.host));
        self.is_tls
            && base
                .zip(own)
                .is_some_and(|((_, base, port), (_, own, _))| base == own && port == 443)
    }

    /// True if form input travels through a public network without encryption.
    pub(super) fn is_plaintext(&self, base_url: &BaseUrl) -> bool {
        !is_private_address(self.client.addr) && !self.is_secure(base_url)
    }

    /// True if the request was sent to a host that is certainly ours. A site may point its name to
    /// this machine, and would then be treated as one of our pages (DNS rebinding).
    pub(super) fn has_known_host(&self, dashboard: &DashboardState) -> bool {
        is_known_host(&self.host, &dashboard.base_url)
    }

    /// Host of the request, or the one that a trusted proxy forwards, if it is not certainly ours.
    pub(super) fn unknown_host(&self, dashboard: &DashboardState) -> Option<&str> {
        let hosts = [Some(&self.host), self.forwarded_host.as_ref()]
            .into_iter()
            .flatten();
        hosts
            .map(|host| &**host)
            .find(|host| !is_known_host(host, &dashboard.base_url))
    }

    /// Origin that the request was sent to, if it is not that of the base URL.
    pub(super) fn mismatched_address(&self, base_url: &BaseUrl) -> Option<String> {
        let [base, own, forwarded] = self.own_origins(base_url);
        // A proxy may have replaced the host that the browser sent.
        let is_unknown = self.is_proxied && forwarded.is_none();
        if is_unknown || base == own || base == forwarded {
            return None;
        }
        let scheme = forwarded.or(own)?.0;
        Some(format!(
            "{scheme}://{}",
            self.forwarded_host.as_deref().unwrap_or(&self.host)
        ))
    }

    /// True if a page of another origin may measure the length of the response.
    pub(super) fn is_cross_site(&self) -> bool {
        matches!(self.fetch_site.as_deref(), Some("cross-site" | "same-site"))
    }
}

/// True if an address belongs to this machine or to a private network.
pub(super) fn is_private_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_private() || address.is_link_local()
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

/// True if a host, with or without a port, is that of the base URL, or a name that is this machine
/// for every browser.
fn is_known_host(host: &str, base_url: &BaseUrl) -> bool {
    let Some((_, host, _)) = parse_origin(&format!("http://{host}")) else {
        return false;
    };
    is_loopback_host(&host)
        || parse_origin(base_url.as_str()).is_some_and(|(_, base, _)| base == host)
}

/// Scheme, host and port, normalized: lower case, with the default port filled in.
type UrlOrigin = (Box<str>, Box<str>, u16);

/// Parses the origin of a URL or of an `Origin` header (RFC 6454, section 6). `None` for `null` and
/// for invalid values.
fn parse_origin(url: &str) -> Option<UrlOrigin> {
    let uri: hyper::Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let authority = uri.authority()?;
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return None;
    }
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let port = match authority.as_str().strip_prefix(authority.host())? {
        "" | ":" => default_port,
        port => port.strip_prefix(':')?.parse().ok()?,
    };
    Some((
        scheme.into(),
        authority.host().to_ascii_lowercase().into(),
        port,
    ))
}

/// Origin of a base URL as browsers write it: in lower case, without the default port.
pub(super) fn origin_text(base_url: &BaseUrl) -> Option<String> {
    let (scheme, host, port) = parse_origin(base_url.as_str())?;
    Some(match (&*scheme, port) {
        ("http", 80) | ("https", 443) => format!("{scheme}://{host}"),
        _ => format!("{scheme}://{host}:{port}"),
    })
}

/// Content security policy of pages. Pages load nothing from other servers and contain no inline
/// script.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src \
                              'self'; connect-src 'self'; manifest-src 'self'; form-action \
                              'self'; base-uri 'none'; frame-ancestors 'none'; \
                              require-trusted-types-for 'script'; trusted-types swap";

/// Headers of every response.
const SECURITY_HEADERS: [(&str, &str); 5] = [
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=()",
    ),
    ("x-robots-tag", "noindex"),
];

/// Header of responses that the browser treats as trustworthy. Otherwise browsers ignore it and log
/// a warning for every page.
const OPENER_POLICY: (&str, &str) = ("cross-origin-opener-policy", "same-origin");

/// Header for a server with its own TLS: for 30 days browsers use this host only by TLS (RFC 6797).
const STRICT_TRANSPORT: (&str, &str) = ("strict-transport-security", "max-age=2592000");

/// Content security policy of untrusted files: no script in them ever runs.
const SANDBOX_POLICY: &str = "sandbox; default-src 'none'";

/// Adds the security headers to a response.
pub(super) fn with_security_headers(
    dashboard: &DashboardState,
    origin: &RequestOrigin,
    mut reply: HttpReply,
) -> HttpReply {
    // A response that is saved as a file has untrusted content.
    let is_file = reply.headers().contains_key(CONTENT_DISPOSITION);
    let logout = dashboard
        .config
        .proxy_auth
        .as_ref()
        .and_then(ProxyAuth::logout_url)
        .map(|logout| &*logout.origin);
    reply::set_header(
        &mut reply,
        CONTENT_SECURITY_POLICY,
        &content_policy(is_file, logout),
    );
    let opener = origin
        .is_trustworthy(&dashboard.base_url)
        .then_some(OPENER_POLICY);
    let strict = origin
        .can_use_hsts(&dashboard.base_url)
        .then_some(STRICT_TRANSPORT);
    for (name, value) in SECURITY_HEADERS.into_iter().chain(opener).chain(strict) {
        reply::set_header(&mut reply, HeaderName::from_static(name), value);
    }
    reply
}

/// Content security policy of a page, or of an untrusted file. `logout`: origin to which signing
/// out redirects.
fn content_policy(is_file: bool, logout: Option<&str>) -> Cow<'static, str> {
    match logout {
        _ if is_file => SANDBOX_POLICY.into(),
        Some(origin) => CONTENT_POLICY
            .replace(
                "form-action 'self'",
                &format!("form-action 'self' {origin}"),
            )
            .into(),
        None => CONTENT_POLICY.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_origin(
        scheme: PingScheme,
        host: &str,
        forwarded_host: Option<&str>,
        fetch_site: Option<&str>,
        origin: Option<&str>,
    ) -> RequestOrigin {
        let client = Client {
            addr: [127, 0, 0, 1].into(),
            scheme,
        };
        let [forwarded_host, fetch_site, origin] =
            [forwarded_host, fetch_site, origin].map(|text| text.map(Box::from));
        let host = host.into();
        let is_encrypted = false;
        let mark = None;
        let agent = "".into();
        RequestOrigin {
            peer: client.addr,
            client,
            host,
            forwarded_host,
            is_proxied: false,
            is_tls: is_encrypted,
            browser_mark: mark,
            user_agent: agent,
            fetch_site,
            origin_header: origin,
        }
    }

    #[test]
    fn downloads_are_never_executed_by_the_browser() {
        for logout in [None, Some("https://auth.example")] {
            assert_eq!(content_policy(true, logout), SANDBOX_POLICY);
        }
        assert_eq!(content_policy(false, None), CONTENT_POLICY);
        let policy = content_policy(false, Some("https://auth.example"));
        assert!(
            policy.contains("form-action 'self' https://auth.example; base-uri 'none'"),
            "{policy}"
        );
    }

    #[test]
    fn only_forms_of_our_own_pages_are_accepted() {
        use PingScheme::{Http, Https};
        let base: BaseUrl = "https://Checks.example.org/sub".parse().unwrap();
        let lan = "192.168.1.5:8000";
        for (scheme, host, forwarded, site, origin, taken) in [
            // The browser sends `Sec-Fetch-Site`.
            (Http, lan, None, Some("same-origin"), None, true),
            (
                Http,
                lan,
                None,
                Some("same-origin"),
                Some("https://evil.example"),
                true,
            ),
            (
                Http,
                lan,
                None,
                Some("same-site"),
                Some("http://192.168.1.5:8000"),
                false,
            ),
            (
                Http,
                lan,
                None,
                Some("cross-site"),
                Some("http://192.168.1.5:8000"),
                false,
            ),
            (Http, lan, None, Some("none"), None, false),
            (Http, lan, None, Some(""), None, false),
            // The browser does not send it: plain HTTP to an address.
            (Http, lan, None, None, Some("http://192.168.1.5:8000"), true),
            (
                Http,
                lan,
                None,
                None,
                Some("http://192.168.1.5:8001"),
                false,
            ),
            (Http, lan, None, None, Some("http://192.168.1.5"), false),
            (
                Http,
                lan,
                None,
                None,
                Some("https://192.168.1.5:8000"),
                false,
            ),
            (Http, lan, None, None, Some("null"), false),
            (Http, lan, None, None, Some(""), false),
            (
                Http,
                lan,
                None,
                None,
                Some("http://u@192.168.1.5:8000"),
                false,
            ),
            (Http, lan, None, None, None, false),
            // Behind a proxy that keeps the host, or forwards it, or does neither.
            (
                Https,
                "checks.example.org",
                None,
                None,
                Some("https://checks.example.org"),
                true,
            ),
            (
                Https,
                "checks.example.org:443",
                None,
                None,
                Some("https://CHECKS.example.org"),
                true,
            ),
            (
                Http,
                "other.example",
                None,
                None,
                Some("https://checks.example.org:443"),
                true,
            ),
            (
                Http,
                "other.example",
                None,
                None,
                Some("https://checks.example.org:8443"),
                false,
            ),
            (
                Https,
                "10.0.0.2:8000",
                Some("nas.example"),
                None,
                Some("https://nas.example"),
                true,
            ),
            (
                Https,
                "10.0.0.2:8000",
                Some("nas.example"),
                None,
                Some("http://nas.example"),
                false,
            ),
            (
                Https,
                "10.0.0.2:8000",
                None,
                None,
                Some("https://nas.example"),
                false,
            ),
            (
                Http,
                "[::1]:8000",
                None,
                None,
                Some("http://[::1]:8000"),
                true,
            ),
            (Http, "[::1]:8000", None, None, Some("http://[::1]"), false),
            (Http, "", None, None, Some("http://"), false),
        ] {
            let origin = request_origin(scheme, host, forwarded, site, origin);
            assert_eq!(
                origin.require_same_origin(&base).is_ok(),
                taken,
                "{origin:?}"
            );
        }
    }
}
