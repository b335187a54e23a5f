//! Address of the client: from the connection, or from the headers of a trusted proxy.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::domain::ping::PingScheme;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Remote end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// `Https` if the connection is encrypted.
    pub(crate) scheme: PingScheme,
}

/// Origin of a request, as the log of pings shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) addr: IpAddr,
    pub(crate) scheme: PingScheme,
}

impl Client {
    /// Reads the address and the scheme from the headers if the peer is a trusted proxy. Otherwise,
    /// and for what the proxy omits, uses the connection.
    ///
    /// The address is the last one in the list that belongs to no trusted proxy, since the client
    /// can forge all entries before it. If all belong to trusted proxies, it is the first. See
    /// [protocol](crate::docs::protocol).
    pub(crate) fn from_headers(headers: &HeaderMap, peer: Peer, trusted: &[IpNet]) -> Self {
        let connection_scheme = peer.scheme;
        let peer = peer.address.ip().to_canonical();
        let trusts = |addr| is_trusted(addr, trusted);
        if !trusts(peer) {
            return Self {
                addr: peer,
                scheme: connection_scheme,
            };
        }
        let hops = if headers.contains_key(FORWARDED_FOR) {
            forwarded_for(headers)
        } else {
            forwarded(headers)
        };
        let hop = hops
            .iter()
            .rev()
            .find(|hop| !hop.addr.is_some_and(trusts))
            .or(hops.first())
            .copied()
            .unwrap_or_default();
        // The peer wrote the last entry.
        let proto = header_lines(headers, &FORWARDED_PROTO)
            .last()
            .and_then(|line| line.rsplit(',').next());
        let scheme = proto.map_or(hop.scheme, |proto| parse_scheme(proto.trim()));
        Self {
            addr: hop.addr.unwrap_or(peer),
            scheme: scheme.unwrap_or(connection_scheme),
        }
    }
}

/// True if the address belongs to a trusted proxy.
pub(crate) fn is_trusted(addr: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| net.contains(&addr.to_canonical()))
}

/// One hop of a forwarding header. A field is `None` if it is absent or unreadable.
#[derive(Clone, Copy, Default)]
struct ProxyHop {
    addr: Option<IpAddr>,
    scheme: Option<PingScheme>,
}

/// Values of all lines of a header. Together they form one list (RFC 9110, section 5.3). A line
/// with bytes that no address contains is empty.
fn header_lines<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'h str> + use<'h> {
    headers
        .get_all(name)
        .into_iter()
        .map(|value| value.to_str().unwrap_or_default())
}

/// Entries of `X-Forwarded-For`.
fn forwarded_for(headers: &HeaderMap) -> Vec<ProxyHop> {
    let entries = header_lines(headers, &FORWARDED_FOR).flat_map(|line| line.split(','));
    entries
        .map(|entry| ProxyHop {
            addr: parse_address(entry.trim()),
            scheme: None,
        })
        .collect()
}

/// Elements of `Forwarded` (RFC 7239, section 4).
fn forwarded(headers: &HeaderMap) -> Vec<ProxyHop> {
    let elements = header_lines(headers, &FORWARDED).flat_map(|line| split_unquoted(line, ','));
    elements
        .map(|element| forwarded_element(element).unwrap_or_default())
        .collect()
}

/// Parses one element. Any syntax error invalidates all of it: otherwise a client that sends an
/// unterminated quoted string could hide in it what a proxy adds.
fn forwarded_element(element: &str) -> Option<ProxyHop> {
    let mut hop = ProxyHop::default();
    for pair in split_unquoted(element, ';')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.contains('"'))?;
        let value = unquote(value)?;
        if name.eq_ignore_ascii_case("for") {
            hop.addr = parse_node(&value);
        } else if name.eq_ignore_ascii_case("proto") {
            hop.scheme = parse_scheme(&value);
        }
    }
    Some(hop)
}

/// Splits a text at separators outside quoted strings.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |c| {
        let separates = c == separator && !quoted;
        if !std::mem::take(&mut escaped) {
            escaped = quoted && c == '\\';
            quoted ^= c == '"';
        }
        separates
    })
}

/// Value of a token or of a quoted string (RFC 9110, section 5.6.4).
fn unquote(value: &str) -> Option<String> {
    let Some(quoted) = value.strip_prefix('"') else {
        return (!value.contains('"')).then(|| value.to_owned());
    };
    let mut unquoted = String::new();
    let mut rest = quoted.chars();
    loop {
        match rest.next()? {
            '"' => return rest.as_str().is_empty().then_some(unquoted),
            '\\' => unquoted.push(rest.next()?),
            c => unquoted.push(c),
        }
    }
}

/// Address of a node (RFC 7239, section 6). An IPv6 address is in brackets; a port is dropped.
fn parse_node(node: &str) -> Option<IpAddr> {
    match node.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')?
            .0
            .parse()
            .map(|addr: Ipv6Addr| addr.into())
            .ok(),
        None => parse_address(node),
    }
}

/// Parses an address, or an IPv4 address with a port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let with_port = || {
        text.parse::<SocketAddr>()
            .ok()
            .filter(SocketAddr::is_ipv4)
            .map(|socket| socket.ip())
    };
    text.parse().ok().or_else(with_port)
}

fn parse_scheme(name: &str) -> Option<PingScheme> {
    match name {
        "https" => Some(PingScheme::Https),
        "http" => Some(PingScheme::Http),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Client that a request with these header lines has; 10.0.0.0/8 and 2001:db8:ffff::/48 are
    /// trusted.
    fn client(peer: &str, lines: &[(&'static str, &str)]) -> (String, PingScheme) {
        let trusted = ["10.0.0.0/8", "2001:db8:ffff::/48"].map(|net| net.parse().unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let peer = Peer {
            address: SocketAddr::new(peer.parse().unwrap(), 1),
            scheme: PingScheme::Http,
        };
        let Client { addr, scheme } = Client::from_headers(&headers, peer, &trusted);
        (addr.to_string(), scheme)
    }

    const PROXY: &str = "10.1.2.3";

    #[test]
    fn the_last_address_that_no_proxy_owns_counts() {
        for (forwarded, addr) in [
            (["192.0.2.7"].as_slice(), "192.0.2.7"),
            (&["6.6.6.6, 192.0.2.7"], "192.0.2.7"),
            (&["6.6.6.6, 192.0.2.7 ,10.0.0.1,10.0.0.2"], "192.0.2.7"),
            (&["6.6.6.6", "192.0.2.7", "10.0.0.1"], "192.0.2.7"),
            (
                &["192.0.2.7, ::ffff:10.0.0.1, 2001:db8:ffff::1"],
                "192.0.2.7",
            ),
            (&["10.0.0.3, 10.0.0.1"], "10.0.0.3"),
            (&[" 192.0.2.7:1234 , 10.0.0.1:80"], "192.0.2.7"),
            (&["2001:DB8:0:0::1"], "2001:db8::1"),
            (&["::ffff:192.0.2.33"], "::ffff:192.0.2.33"),
            // No address: only the peer is known.
            (&[""], PROXY),
            (&["192.0.2.7,"], PROXY),
            (&["192.0.2.7, unknown, 10.0.0.1"], PROXY),
            (&["192.0.2.7", "ž"], PROXY),
            (&["[2001:db8::1]:80"], PROXY),
            (&["unknown, 192.0.2.7"], "192.0.2.7"),
        ] {
            let lines: Vec<_> = forwarded
                .iter()
                .map(|line| ("x-forwarded-for", *line))
                .collect();
            assert_eq!(client(PROXY, &lines).0, addr, "{forwarded:?}");
        }
        let line = [("x-forwarded-for", "192.0.2.7")];
        assert_eq!(client("::ffff:10.1.2.3", &line).0, "192.0.2.7");
        assert_eq!(client("192.0.2.1", &line).0, "192.0.2.1", "not trusted");
    }

    #[test]
    fn forwarded_counts_where_there_is_no_x_forwarded_for() {
        use PingScheme::{Http, Https};
        for (forwarded, addr, scheme) in [
            (["for=192.0.2.7"].as_slice(), "192.0.2.7", Http),
            (
                &[concat!(
                    r#"for=6.6.6.6, For="192.0.2.7:4711";proto=https;by=10.0.0.1, "#,
                    "for=10.0.0.1;proto=http"
                )],
                "192.0.2.7",
                Https,
            ),
            (
                &["for=6.6.6.6;proto=https", "for=192.0.2.7;proto=http"],
                "192.0.2.7",
                Http,
            ),
            (&["for=\"[2001:DB8::1]\""], "2001:db8::1", Http),
            (
                &["for=\"[2001:db8::1]:47011\" ; PROTO=\"htt\\ps\";"],
                "2001:db8::1",
                Https,
            ),
            (&["host=\"a,b;c\";for=192.0.2.7"], "192.0.2.7", Http),
            (
                &["for=10.0.0.3;proto=https, for=10.0.0.1"],
                "10.0.0.3",
                Https,
            ),
            (&["for=192.0.2.7, for=unknown"], PROXY, Http),
            (
                &[r#"for=192.0.2.7, for="_hidden";proto=https"#],
                PROXY,
                Https,
            ),
            (&["for=192.0.2.7, proto=https"], PROXY, Https),
            (&["for=192.0.2.7,"], PROXY, Http),
            (&["for=\"192.0.2.7"], PROXY, Http),
            (&["for"], PROXY, Http),
            (&["for=\"[2001:db8::1\""], PROXY, Http),
            // A quote that the client leaves open does not swallow what the proxy adds.
            (&[r#"for=6.6.6.6;x=", for="[2001:db8::7]""#], PROXY, Http),
            (&[r#"for=6.6.6.6;x=;", for="192.0.2.7:80""#], PROXY, Http),
            (&["for=6.6.6.6, for=\", for=192.0.2.7"], PROXY, Http),
            (&["for=6.6.6.6;x=\"", "for=192.0.2.7"], "192.0.2.7", Http),
        ] {
            let mut lines: Vec<_> = forwarded.iter().map(|line| ("forwarded", *line)).collect();
            assert_eq!(
                client(PROXY, &lines),
                (addr.to_owned(), scheme),
                "{forwarded:?}"
            );
            lines.push(("x-forwarded-for", "192.0.2.9"));
            assert_eq!(
                client(PROXY, &lines),
                ("192.0.2.9".to_owned(), Http),
                "{forwarded:?}"
            );
            assert_eq!(
                client("192.0.2.1", &lines[..1]),
                ("192.0.2.1".to_owned(), Http),
                "not trusted"
            );
        }
    }

    #[test]
    fn an_encrypted_connection_is_https_unless_a_proxy_says_otherwise() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        for (peer, proto, scheme) in [
            ("192.0.2.1", None, PingScheme::Https),
            ("192.0.2.1", Some("http"), PingScheme::Https),
            (PROXY, None, PingScheme::Https),
            (PROXY, Some("http"), PingScheme::Http),
        ] {
            let mut headers = HeaderMap::new();
            proto.map(|proto| headers.insert(FORWARDED_PROTO, proto.parse().unwrap()));
            let peer = Peer {
                address: SocketAddr::new(peer.parse().unwrap(), 1),
                scheme: PingScheme::Https,
            };
            assert_eq!(
                Client::from_headers(&headers, peer, &trusted).scheme,
                scheme,
                "{peer:?} {proto:?}"
            );
        }
    }

    #[test]
    fn the_scheme_is_what_the_nearest_proxy_says() {
        for (lines, scheme) in [
            (["https"].as_slice(), PingScheme::Https),
            (&["http"], PingScheme::Http),
            (&["wss"], PingScheme::Http),
            (&["HTTPS"], PingScheme::Http),
            (&["http, https "], PingScheme::Https),
            (&["https", "http"], PingScheme::Http),
        ] {
            let lines: Vec<_> = lines
                .iter()
                .map(|line| ("x-forwarded-proto", *line))
                .collect();
            assert_eq!(
                client(PROXY, &lines),
                (PROXY.to_owned(), scheme),
                "{lines:?}"
            );
            assert_eq!(
                client("192.0.2.1", &lines).1,
                PingScheme::Http,
                "not trusted"
            );
        }
        assert_eq!(
            client(
                PROXY,
                &[
                    ("forwarded", "for=192.0.2.7;proto=https"),
                    ("x-forwarded-proto", "http")
                ]
            )
            .1,
            PingScheme::Http
        );
    }

    proptest! {
        #[test]
        fn a_client_cannot_change_the_address_that_a_proxy_adds(
            sent in concat!(
                "[a-z0-9.,;=\" \\\\\\[\\]:]{0,60}|",
                "for=6\\.6\\.6\\.6(;x=\"?|, )[\"\\\\,;=]{0,4}"
            ),
        ) {
            for added in [
                "for=192.0.2.7",
                "for=\"192.0.2.7:80\";proto=https",
                "for=192.0.2.7;by=\"_p\"",
            ] {
                let (addr, _) = client(PROXY, &[("forwarded", &format!("{sent}, {added}"))]);
                prop_assert!(addr == "192.0.2.7" || addr == PROXY, "{} became {}", sent, addr);
            }
        }
    }
}
