//! Addresses of an etcd cluster, as one URL: `etcd://user:password@a:2379,b:2379,c:2379/prefix`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use percent_encoding::percent_decode_str;

/// Port of an endpoint that is given without one.
pub(super) const DEFAULT_PORT: u16 = 2379;
/// Form of the URL, for errors.
const FORM: &str =
    "give it as etcd://HOST:PORT,HOST:PORT,HOST:PORT/PREFIX, or as etcds://… for TLS";

/// Error in the configuration of the client. Displays as a sentence without a full stop, and
/// contains no password and no key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EtcdConfigError(pub(super) String);

impl fmt::Display for EtcdConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EtcdConfigError {}

/// Address of one member of the cluster. Displays as `host:port`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EtcdEndpoint {
    /// Name or address, without brackets.
    pub(crate) host: String,
    /// Port for clients.
    pub(crate) port: u16,
}

impl fmt::Display for EtcdEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// User of etcd.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EtcdUser {
    /// Name of the user.
    pub(crate) name: String,
    /// Password of the user.
    pub(crate) password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdUser({:?}, ..)", self.name)
    }
}

/// Parsed URL of an etcd cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EtcdUrl {
    /// Members of the cluster, at least one, in the order of the URL.
    pub(crate) endpoints: Vec<EtcdEndpoint>,
    /// User, if the URL has one. The password is empty if the URL has only a name.
    pub(crate) user: Option<EtcdUser>,
    /// Path without slashes at its ends; empty if there is none.
    pub(crate) key_prefix: String,
    /// True for `etcds://`.
    pub(crate) uses_tls: bool,
}

impl EtcdUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// If the scheme is unknown, or if the user, an endpoint or the prefix is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, EtcdConfigError> {
        if text.is_empty() {
            return Err(config_error(format!(
                "--cluster is empty: {FORM}, or leave it out for a server without a cluster"
            )));
        }
        let (uses_tls, rest) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            // The text may contain a password.
            (None, None) => {
                return Err(config_error(format!(
                    "the URL of etcd begins with neither etcd:// nor etcds://: {FORM}"
                )));
            }
        };
        // Neither an endpoint nor a prefix contains `@`. So no later part contains a password.
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(parse_user(user)?), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        if hosts.is_empty() {
            return Err(config_error(format!(
                "the URL of etcd names no host: {FORM}"
            )));
        }
        let mut endpoints = Vec::new();
        for host in hosts.split(',') {
            let endpoint = parse_endpoint(host)?;
            if endpoints.contains(&endpoint) {
                return Err(config_error(format!(
                    "the URL of etcd names {endpoint} twice: give every member once"
                )));
            }
            endpoints.push(endpoint);
        }
        Ok(Self {
            endpoints,
            user,
            key_prefix: parse_prefix(path)?,
            uses_tls,
        })
    }
}

fn config_error(text: String) -> EtcdConfigError {
    EtcdConfigError(text)
}

/// Parses `user:password` or `user`. Both may be percent-encoded.
fn parse_user(text: &str) -> Result<EtcdUser, EtcdConfigError> {
    let (name, password) = text.split_once(':').unwrap_or((text, ""));
    let decode = |part: &str| {
        let decoded = percent_decode_str(part).decode_utf8();
        decoded.ok().map(|decoded| decoded.into_owned())
    };
    match (decode(name), decode(password)) {
        (Some(name), Some(password)) if !name.is_empty() && !text.contains(['/', '@']) => {
            Ok(EtcdUser { name, password })
        }
        _ => Err(config_error(
            "the user in the URL of etcd is not valid: give it as etcd://USER:PASSWORD@HOST, and \
             write / as %2F, @ as %40 and % as %25 in both"
                .into(),
        )),
    }
}

/// Parses `host`, `host:port`, `[address]` or `[address]:port`.
fn parse_endpoint(text: &str) -> Result<EtcdEndpoint, EtcdConfigError> {
    let invalid_host = || {
        config_error(format!(
            "{text:?} in the URL of etcd is no host with an optional port: give a name or an \
             address, such as etcd1.example.com:{DEFAULT_PORT} or [2001:db8::1]:{DEFAULT_PORT}"
        ))
    };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or_else(invalid_host)?;
            address.parse::<Ipv6Addr>().map_err(|_| invalid_host())?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or_else(invalid_host)?),
            };
            (address, port)
        }
        None if text.matches(':').count() > 1 && text.parse::<IpAddr>().is_ok() => {
            return Err(config_error(format!(
                "the address {text} in the URL of etcd is not in brackets: give [{text}]"
            )));
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if !is_host(host) {
        return Err(invalid_host());
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|number| *number > 0 && port.bytes().all(|digit| digit.is_ascii_digit()))
            .ok_or_else(|| {
                config_error(format!(
                    "the port of {text:?} in the URL of etcd is not a number from 1 to 65535: \
                     give the port for clients, usually {DEFAULT_PORT}"
                ))
            })?,
    };
    Ok(EtcdEndpoint {
        host: host.to_owned(),
        port,
    })
}

/// True for an address, or for a name of letters, digits, `-`, `_` and dots.
fn is_host(host: &str) -> bool {
    if host.parse::<Ipv6Addr>().is_ok() || host.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    let is_known = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && !label.starts_with('-') && label.bytes().all(is_known)
    };
    let labels = host.strip_suffix('.').unwrap_or(host);
    labels.len() <= 253 && labels.split('.').all(is_label)
}

/// Parses the path after its first slash.
fn parse_prefix(path: &str) -> Result<String, EtcdConfigError> {
    let prefix = path.trim_matches('/');
    let is_known =
        |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b'~' | b'/');
    if !prefix.bytes().all(is_known) || prefix.contains("//") {
        return Err(config_error(format!(
            "the prefix {prefix:?} in the URL of etcd is not valid: give letters, digits, -, _, \
             ., ~ and single slashes"
        )));
    }
    Ok(prefix.to_owned())
}
