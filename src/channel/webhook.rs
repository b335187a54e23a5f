//! Channels that make an HTTP request.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use super::{Given, is_host_name};

/// Bytes of a URL.
const LONGEST_URL: usize = 2_000;
/// Bytes of a body.
const LONGEST_BODY: usize = 10_000;
/// Bytes of the name of a header, and of its value.
const LONGEST_HEADER: (usize, usize) = (100, 1_000);
/// What stands before the name of a header in the key of its setting.
const HEADER: &str = "header.";
/// Headers that say where a request goes and where it ends, which is up to whoever sends it.
const RESERVED: [&str; 9] =
    ["connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];
const METHODS: [&str; 3] = ["GET", "POST", "PUT"];

/// What request to make when a check goes down, and when it comes up again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    /// At least one of the two URLs is there.
    down_url: Option<Box<str>>,
    up_url: Option<Box<str>>,
    method: &'static str,
    /// Empty when the method is GET.
    body: Box<str>,
    /// Values by names in lower case.
    headers: BTreeMap<Box<str>, Box<str>>,
}

impl Webhook {
    pub(super) const KEYS: &[&str] = &["down-url", "up-url", "method", "body", "header.NAME"];

    pub(super) fn parse(mut given: Given) -> Result<Self, String> {
        let mut url = |key: &str| given.remove(key).map(|text| parse_url(text).map_err(|problem| format!("{key} {problem}"))).transpose();
        let (down_url, up_url) = (url("down-url")?, url("up-url")?);
        if down_url.is_none() && up_url.is_none() {
            return Err("there is no URL; give down-url=URL, up-url=URL or both".into());
        }
        let body = given.remove("body").unwrap_or_default();
        if body.len() > LONGEST_BODY {
            return Err(format!("body has {} bytes; give at most {LONGEST_BODY}", body.len()));
        }
        let method = given.remove("method").unwrap_or_else(|| if body.is_empty() { "GET" } else { "POST" }.into());
        let Some(method) = METHODS.into_iter().find(|name| **name == *method) else {
            return Err(format!("method is none of {}; give one of them, in capitals", METHODS.join(", ")));
        };
        if method == "GET" && !body.is_empty() {
            return Err("method GET carries no body; give method=POST or method=PUT, or leave body out".into());
        }
        let mut headers = BTreeMap::new();
        for (key, value) in given {
            let name = key.strip_prefix(HEADER).unwrap_or_default().to_ascii_lowercase();
            check_header(&name, &value).map_err(|problem| format!("{key:?} {problem}"))?;
            if headers.insert(name.into(), value).is_some() {
                return Err(format!("{key:?} is given twice, upper and lower case being the same; give it once"));
            }
        }
        Ok(Self { down_url, up_url, method, body, headers })
    }

    pub(super) fn given(&self) -> Given {
        let urls = [("down-url", &self.down_url), ("up-url", &self.up_url)];
        let urls = urls.into_iter().filter_map(|(key, url)| Some((key.into(), url.clone()?)));
        let body = [("body".into(), self.body.clone())].into_iter().filter(|(_, body)| !body.is_empty());
        let headers = self.headers.iter().map(|(name, value)| (format!("{HEADER}{name}").into(), value.clone()));
        urls.chain([("method".into(), self.method.into())]).chain(body).chain(headers).collect()
    }
}

/// An absolute `http` or `https` URL (RFC 3986) without user name and fragment, neither of which a request carries.
fn parse_url(text: Box<str>) -> Result<Box<str>, String> {
    if text.len() > LONGEST_URL {
        return Err(format!("has {} bytes; give at most {LONGEST_URL}", text.len()));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
        return Err("has a character that no URL has; percent-encode it".into());
    }
    let after_scheme =
        text.split_once("://").filter(|(scheme, _)| ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme)));
    let Some((_, rest)) = after_scheme else {
        return Err("is not an http:// or https:// URL; give one like https://example.org/hook".into());
    };
    if rest.contains('#') {
        return Err("has a fragment, which is never sent; leave out # and what follows, or write %23".into());
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("has a user name; give header.Authorization=... in its place".into());
    }
    // The colon of the port is the last one, unless that is inside the brackets of an IPv6 address.
    let (host, port) = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).unwrap_or((authority, "80"));
    let is_ipv6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
    if !is_ipv6 && !is_host_name(host) {
        return Err("has no valid host; give a URL like https://example.org/hook".into());
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err("has no valid port; give one between 1 and 65535 after the host, or none".into());
    }
    Ok(text)
}

/// A field name is a token (RFC 9110, section 5.6.2); a value must not break the line.
fn check_header(name: &str, value: &str) -> Result<(), String> {
    let (longest_name, longest_value) = LONGEST_HEADER;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)) || name.is_empty() {
        return Err("does not name a header; use letters, digits and hyphens".into());
    }
    if RESERVED.contains(&name) {
        return Err("is set by the sender itself; leave it out".into());
    }
    if name.len() > longest_name || value.len() > longest_value {
        return Err(format!("is too long; a name has at most {longest_name} bytes and a value {longest_value}"));
    }
    if value.chars().any(char::is_control) {
        return Err("has a control character in its value; leave out line ends and tabs".into());
    }
    Ok(())
}
