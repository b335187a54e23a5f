//! Parser for the supported part of `resolv.conf`. The rest is ignored, as the C library does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

/// Maximum number of name servers. The C library has the same limit.
const MAX_SERVERS: usize = 3;
/// Maximum number of search domains.
const MAX_SEARCH_DOMAINS: usize = 6;

/// Name servers and options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ResolvConf {
    /// At least one.
    pub(super) servers: Vec<SocketAddr>,
    /// Domains to append to a name.
    pub(super) search: Vec<String>,
    /// A name with at least this number of dots is first tried unchanged.
    pub(super) ndots: usize,
    /// Time to wait for the answer of a server.
    pub(super) timeout: Duration,
    /// Number of queries to each server.
    pub(super) attempts: usize,
    /// Use TCP only.
    pub(super) use_vc: bool,
}

impl ResolvConf {
    /// Parses the text of the file. If it names no server, the server on this machine is used.
    pub(super) fn parse(text: &str) -> Self {
        let mut conf = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(2),
            attempts: 2,
            use_vc: false,
        };
        for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.servers.extend(words.next().and_then(parse_server)),
                // The last of these lines wins.
                Some("search" | "domain") => {
                    conf.search = words
                        .map(|word| word.trim_matches('.').to_ascii_lowercase())
                        .filter(|word| !word.is_empty())
                        .collect();
                }
                Some("options") => words.for_each(|word| conf.apply_option(word)),
                _ => {}
            }
        }
        conf.servers.truncate(MAX_SERVERS);
        conf.search.truncate(MAX_SEARCH_DOMAINS);
        if conf.servers.is_empty() {
            conf.servers.push((Ipv4Addr::LOCALHOST, 53).into());
        }
        conf
    }

    fn apply_option(&mut self, word: &str) {
        let (name, value) = word.split_once(':').unwrap_or((word, ""));
        match (name, value.parse::<u8>()) {
            ("ndots", Ok(value)) => self.ndots = usize::from(value.min(15)),
            // At most the default: all servers share five seconds.
            ("timeout", Ok(value)) => {
                self.timeout = Duration::from_secs(u64::from(value.clamp(1, 2)));
            }
            ("attempts", Ok(value)) => self.attempts = usize::from(value.clamp(1, 5)),
            ("use-vc", _) => self.use_vc = true,
            _ => {}
        }
    }

    /// Names to look up in turn, none with a trailing dot.
    pub(super) fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let mut candidates: Vec<_> = self
            .search
            .iter()
            .map(|domain| format!("{name}.{domain}"))
            .collect();
        let first = name.bytes().filter(|byte| *byte == b'.').count() >= self.ndots;
        candidates.insert(if first { 0 } else { candidates.len() }, name.to_owned());
        candidates
    }
}

/// Parses the address of a server. A port is written as `[ADDRESS]:PORT`; a link-local address
/// names its interface after a `%`.
fn parse_server(word: &str) -> Option<SocketAddr> {
    if let Ok(with_port) = word.parse() {
        return Some(with_port);
    }
    let Some((address, interface)) = word.split_once('%') else {
        return Some((word.parse::<IpAddr>().ok()?, 53).into());
    };
    let index = interface
        .parse::<u32>()
        .ok()
        .or_else(|| interface_index(interface))?;
    Some(SocketAddrV6::new(address.parse::<Ipv6Addr>().ok()?, 53, 0, index).into())
}

/// Index of an interface, from the file in which the system shows it.
fn interface_index(interface: &str) -> Option<u32> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let path = format!("/sys/class/net/{interface}/ifindex");
    let plain = interface.chars().all(is_plain) && !interface.starts_with('.');
    plain.then(|| std::fs::read_to_string(path).ok()?.trim().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_options_are_read_and_others_ignored() {
        let conf = ResolvConf::parse(
            "# a comment\n; another\nnameserver 192.0.2.1\nnameserver fe80::1%7\nnameserver \
             nonsense\nnameserver [2001:db8::1]:5353\nnameserver 192.0.2.9\nsortlist \
             10.0.0.0\nlookup file bind\nsearch old.example\nsearch Home.Example. \
             example.org\noptions ndots:2 timeout:30 attempts:0 edns0 trust-ad \
             rotate\n\nnameserver\n",
        );
        let servers: Vec<_> = conf.servers.iter().map(ToString::to_string).collect();
        assert_eq!(
            servers,
            ["192.0.2.1:53", "[fe80::1%7]:53", "[2001:db8::1]:5353"]
        );
        assert_eq!(conf.search, ["home.example", "example.org"]);
        assert_eq!(
            (
                conf.ndots,
                conf.timeout.as_secs(),
                conf.attempts,
                conf.use_vc
            ),
            (2, 2, 1, false)
        );
    }

    #[test]
    fn without_a_server_this_machine_is_queried() {
        assert_eq!(
            ResolvConf::parse("").servers,
            [(Ipv4Addr::LOCALHOST, 53).into()]
        );
    }

    #[test]
    fn names_are_expanded_by_the_search_list() {
        let conf = ResolvConf::parse("search a.example b.example");
        assert_eq!(conf.candidates("h"), ["h.a.example", "h.b.example", "h"]);
        assert_eq!(
            conf.candidates("h.lan"),
            ["h.lan", "h.lan.a.example", "h.lan.b.example"]
        );
        assert_eq!(conf.candidates("h."), ["h"]);
    }
}
