//! What a request says about itself besides its path: where it came from, its query, and the address we are reached at.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hyper::header::HeaderName;
use hyper::{Request, Uri};
use ipnet::IpNet;

use crate::domain::ping::Scheme;

/// Bytes of path and query; longer ones are answered 414.
pub(crate) const URL_BYTES: usize = 8 << 10;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Where the service is reached, without a slash at the end; it may have a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseUrl {
    text: Box<str>,
    /// The path within `text`: empty, or beginning with a slash and ending without one.
    path: Box<str>,
}

/// Why a text is no base URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BaseUrlError;

impl std::fmt::Display for BaseUrlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a base URL looks like https://checks.example.org or https://example.org/checks, without query and fragment")
    }
}

impl std::error::Error for BaseUrlError {}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        let text = text.trim_end_matches('/');
        let uri: Uri = text.parse().map_err(|_| BaseUrlError)?;
        let authority = uri.authority().ok_or(BaseUrlError)?;
        let bad = !matches!(uri.scheme_str(), Some("http" | "https")) || uri.query().is_some() || text.contains('#');
        if bad || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(BaseUrlError);
        }
        Ok(Self { text: text.into(), path: uri.path().trim_end_matches('/').into() })
    }
}

impl BaseUrl {
    /// The URL, without a slash at the end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path of the URL: empty, or beginning with a slash and ending without one.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A request's path as if the service lay at the root: proxies may pass the prefix on or strip it.
    pub(crate) fn inner_path<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(&*self.path).filter(|rest| rest.starts_with('/')).unwrap_or(path)
    }
}

/// Who sent a request, as far as a trusted proxy or the connection says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) addr: IpAddr,
    pub(crate) scheme: Scheme,
}

impl Client {
    /// The forwarded address and scheme if the peer is a trusted proxy, else those of the connection.
    pub(crate) fn of<B>(request: &Request<B>, peer: SocketAddr, trusted: &[IpNet]) -> Self {
        let peer = peer.ip().to_canonical();
        if !trusted.iter().any(|net| net.contains(&peer)) {
            return Self { addr: peer, scheme: Scheme::Http };
        }
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let scheme = match header(FORWARDED_PROTO) {
            Some("https") => Scheme::Https,
            _ => Scheme::Http,
        };
        let addr = header(FORWARDED_FOR).and_then(|list| forwarded_address(list.split(',').next()?.trim()));
        Self { addr: addr.unwrap_or(peer), scheme }
    }
}

/// An address, or an IPv4 address with a port.
fn forwarded_address(entry: &str) -> Option<IpAddr> {
    let with_port = || entry.parse::<SocketAddr>().ok().filter(SocketAddr::is_ipv4).map(|socket| socket.ip());
    entry.parse().ok().or_else(with_port)
}

/// The decoded parameters of a query, in order. A name or value that is not UTF-8 is `None`.
pub(crate) fn query(uri: &Uri) -> impl Iterator<Item = (Option<String>, Option<String>)> + '_ {
    let parts = uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), decoded(value))
    })
}

fn decoded(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let builder = headers.iter().fold(Request::builder().uri("/"), |builder, (name, value)| builder.header(*name, *value));
        builder.body(()).unwrap()
    }

    #[test]
    fn base_urls_may_have_a_path_and_lose_the_last_slash() {
        for (text, kept, inner) in [
            ("http://localhost:8000", "http://localhost:8000", "/sub/ping"),
            ("https://example.org/sub/", "https://example.org/sub", "/ping"),
        ] {
            let base: BaseUrl = text.parse().unwrap();
            assert_eq!((base.as_str(), base.inner_path("/sub/ping")), (kept, inner));
            assert_eq!(base.inner_path("/subject"), "/subject");
        }
        for bad in ["", "localhost:8000", "ftp://example.org", "http://", "http://u@h", "http://h/?q", "http://h/#f", "/sub"] {
            assert_eq!(bad.parse::<BaseUrl>(), Err(BaseUrlError), "{bad}");
        }
    }

    #[test]
    fn forwarded_headers_count_from_trusted_proxies_only() {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap()];
        let from = |peer: &str, headers: &[(&str, &str)]| {
            let client = Client::of(&request(headers), SocketAddr::new(peer.parse().unwrap(), 1), &trusted);
            (client.addr.to_string(), client.scheme)
        };
        for (peer, forwarded, addr) in [
            ("10.1.2.3", "192.0.2.7", "192.0.2.7"),
            ("10.1.2.3", " 192.0.2.7:1234 , 10.0.0.1", "192.0.2.7"),
            ("10.1.2.3", "2001:DB8:0:0::1", "2001:db8::1"),
            ("10.1.2.3", "::ffff:192.0.2.33", "::ffff:192.0.2.33"),
            ("10.1.2.3", "", "10.1.2.3"),
            ("10.1.2.3", "unknown, 192.0.2.7", "10.1.2.3"),
            ("::ffff:10.1.2.3", "192.0.2.7", "192.0.2.7"),
            ("192.0.2.1", "192.0.2.7", "192.0.2.1"),
        ] {
            assert_eq!(from(peer, &[("x-forwarded-for", forwarded)]).0, addr, "{peer} {forwarded}");
        }
        assert_eq!(from("10.0.0.1", &[("x-forwarded-proto", "https")]).1, Scheme::Https);
        assert_eq!(from("10.0.0.1", &[("x-forwarded-proto", "wss")]).1, Scheme::Http);
        assert_eq!(from("192.0.2.1", &[("x-forwarded-proto", "https")]).1, Scheme::Http);
    }

    #[test]
    fn queries_are_decoded() {
        let uri = "/?a=1&b&&c=%C3%A4+x&d=%ff&a=2".parse().unwrap();
        let pairs: Vec<_> = query(&uri).collect();
        let some = |text: &str| Some(text.to_owned());
        let wanted =
            [("a", some("1")), ("b", some("")), ("c", some("ä x")), ("d", None), ("a", some("2"))].map(|(name, value)| (some(name), value));
        assert_eq!(pairs, wanted);
    }
}
