//! Parsed `http` or `https` URLs, and targets of redirects.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::http::uri::Authority;
use percent_encoding::percent_decode_str;

use super::error::{SendError, SendStage};

/// Host of a URL.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Host {
    Address(IpAddr),
    /// In lower case, of letters, digits, `-`, `_` and dots.
    Name(String),
}

impl Host {
    /// Parses a host; an IPv6 address may be in brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse() {
            return Some(Self::Address(address));
        }
        let is_known = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let labels = text.strip_suffix('.').unwrap_or(text).split('.');
        let is_label = |label: &str| (1..=63).contains(&label.len()) && !label.starts_with('-');
        let is_name = text.len() <= 253
            && text.bytes().all(is_known)
            && labels.clone().count() > 0
            && labels.clone().all(is_label);
        is_name.then(|| Self::Name(text.to_ascii_lowercase()))
    }

    /// True if the host is this machine, whatever a resolver answers (RFC 6761).
    pub(super) fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Name(name) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
        }
    }

    /// True if some programs take this name for an IPv4 address in another form, such as `127.1`,
    /// `2130706433` or `0x7f000001`: its last label is a number (WHATWG URL, "ends in a number").
    pub(super) fn ends_in_number(&self) -> bool {
        let Self::Name(name) = self else { return false };
        let last = name
            .trim_end_matches('.')
            .rsplit('.')
            .next()
            .unwrap_or_default();
        last.strip_prefix("0x").map_or_else(
            || last.bytes().all(|digit| digit.is_ascii_digit()),
            |digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        )
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Host and port. Displays as `host:port`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct HostPort {
    pub(super) host: Host,
    pub(super) port: u16,
}

impl HostPort {
    /// Parses `HOST:PORT`. An IPv6 address is in brackets.
    ///
    /// # Errors
    /// If it has no valid host and port.
    pub(super) fn parse(text: &str) -> Result<Self, SendError> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| {
            Some(Self {
                host: Host::parse(host)?,
                port: port.parse().ok()?,
            })
        });
        parts.ok_or_else(|| {
            SendError::new(
                SendStage::Request,
                format!("{text} is not an address of the form HOST:PORT"),
            )
        })
    }

    /// Parses the authority of a URL, without its user. `default` applies if it has no port.
    pub(super) fn from_authority(authority: &Authority, default: u16) -> Option<Self> {
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            // `port` ignores an invalid port.
            None => authority
                .as_str()
                .ends_with(authority.host())
                .then_some(default)?,
        };
        Some(Self {
            host: Host::parse(authority.host())?,
            port,
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Parsed URL. It has no `Debug`: its path and query may be secrets.
#[derive(Clone)]
pub(super) struct Url {
    pub(super) is_https: bool,
    pub(super) host_port: HostPort,
    /// Path and query, as in a request line.
    pub(super) path: String,
    /// Value of `Authorization` for the user and password in the URL.
    pub(super) authorization: Option<String>,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, SendError> {
        let url_error = |what: &str| SendError::new(SendStage::Request, what);
        let uri: Uri = text
            .parse()
            .map_err(|_| url_error("the URL is not valid"))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(url_error("the URL must begin with http:// or https://")),
        };
        let authority = uri
            .authority()
            .ok_or_else(|| url_error("the URL has no host"))?;
        let host_port = HostPort::from_authority(authority, if https { 443 } else { 80 })
            .ok_or_else(|| url_error("the URL has no valid host and port"))?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Self {
            is_https: https,
            host_port,
            path,
            authorization: user.map(basic_auth),
        })
    }

    /// Target of a redirect. `None`: the location is not understood.
    pub(super) fn join(&self, location: &str) -> Option<Self> {
        let location = location.split('#').next().unwrap_or_default();
        let origin = self.origin();
        let target = if location.contains("://") && !location.starts_with(['/', '?', '.']) {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{}:{location}", self.scheme())
        } else if location.starts_with('/') {
            format!("{origin}{location}")
        } else if location.starts_with('?') {
            format!(
                "{origin}{}{location}",
                self.path.split('?').next().unwrap_or_default()
            )
        } else if location.is_empty() {
            return None;
        } else {
            let path = self.path.split('?').next().unwrap_or_default();
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{origin}{directory}/{location}")
        };
        Self::parse(&target).ok()
    }

    fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// Scheme, host and port.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority())
    }

    /// Value of `Host`.
    pub(super) fn authority(&self) -> String {
        match (self.is_https, self.host_port.port) {
            (true, 443) | (false, 80) => self.host_port.host.to_string(),
            _ => self.host_port.to_string(),
        }
    }
}

/// Converts `user:password` of a URL to HTTP Basic authentication.
fn basic_auth(user: &str) -> String {
    let decoded: Vec<u8> = percent_decode_str(user).collect();
    let colon = if user.contains(':') { "" } else { ":" };
    format!(
        "Basic {}",
        BASE64_STANDARD.encode([&decoded, colon.as_bytes()].concat())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &Url) -> String {
        format!(
            "{} {} {} {}",
            url.origin(),
            url.host_port,
            url.path,
            url.authorization.as_deref().unwrap_or("-")
        )
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, shown) in [
            ("10.0.0.1:8001", "10.0.0.1:8001"),
            ("[::1]:8001", "[::1]:8001"),
            ("Node-2.example:65535", "node-2.example:65535"),
        ] {
            assert_eq!(HostPort::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            "a",
            "a:",
            ":1",
            "a:65536",
            "user@a:1",
            "http://a:1",
            "::1",
        ] {
            assert!(
                HostPort::parse(text).is_err_and(|error| error.stage == SendStage::Request),
                "{text}"
            );
        }
    }

    #[test]
    fn numeric_hosts_are_recognized() {
        let is_number = |text: &str| Host::parse(text).unwrap().ends_in_number();
        for number in [
            "127.1",
            "2130706433",
            "0x7f000001",
            "0X7F.1",
            "127.0.0.0x1",
            "a.0",
            "017700000001",
            "0x",
            "1.",
        ] {
            assert!(is_number(number), "{number}");
        }
        for name in [
            "127.0.0.1",
            "[::1]",
            "h",
            "h.test",
            "1.h",
            "0x7g",
            "0x7f.example",
            "x1",
            "1-1",
            "a0x1",
        ] {
            assert!(!is_number(name), "{name}");
        }
    }

    #[test]
    fn urls_are_split_into_their_parts() {
        for (text, expected) in [
            ("https://ntfy.sh", "https://ntfy.sh ntfy.sh:443 / -"),
            (
                "http://NTFY.sh:8080/a?b=c#d",
                "http://ntfy.sh:8080 ntfy.sh:8080 /a?b=c -",
            ),
            ("http://[::1]:80/", "http://[::1] [::1]:80 / -"),
            (
                "https://ann:p%40ss@10.0.0.1/x",
                "https://10.0.0.1 10.0.0.1:443 /x Basic YW5uOnBAc3M=",
            ),
            ("https://ann@h/x", "https://h h:443 /x Basic YW5uOg=="),
            ("https://h?q", "https://h h:443 /?q -"),
        ] {
            assert_eq!(
                shown(&Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))),
                expected
            );
        }
        for text in [
            "",
            "x",
            "ftp://h/",
            "https://",
            "https:///x",
            "https://a b/",
            "https://-h/",
            "https://a..b/",
            "https://h:99999/",
        ] {
            assert!(
                Url::parse(text).is_err_and(|error| error.stage == SendStage::Request),
                "{text}"
            );
        }
    }

    #[test]
    fn redirect_targets_are_resolved() {
        let from = Url::parse("https://h:8443/a/b?c").unwrap();
        for (location, expected) in [
            ("https://other/x", "https://other/x"),
            ("//other/x", "https://other/x"),
            ("/x?y", "https://h:8443/x?y"),
            ("x", "https://h:8443/a/x"),
            ("?y", "https://h:8443/a/b?y"),
            ("/x#fragment", "https://h:8443/x"),
            (
                "/x?next=http://other/",
                "https://h:8443/x?next=http://other/",
            ),
        ] {
            let to = from.join(location).unwrap();
            assert_eq!(
                format!("{}{}", to.origin(), to.path),
                expected,
                "{location}"
            );
        }
        assert!(from.join("").is_none());
        assert!(from.join("mailto://x y").is_none());
    }
}
