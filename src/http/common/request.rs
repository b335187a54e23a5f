//! Checks that apply to every request, its URL (maximum length, base path) and its query.

use std::str::FromStr;
use std::sync::Arc;

use hyper::header::{HOST, HeaderMap, IF_NONE_MATCH, TRANSFER_ENCODING};
use hyper::{Request, Uri, Version};

use super::reply::HttpError;

/// Maximum length of path and query in bytes; longer ones are answered 414.
pub(crate) const MAX_URL_BYTES: usize = 8 << 10;

/// Rejects requests that no address accepts: a URL that is too long, no host or several (RFC 9112,
/// section 3.2), and a body with a transfer coding other than chunked (section 6.1).
pub(crate) fn validate<B>(request: &Request<B>) -> Result<(), HttpError> {
    let headers = request.headers();
    if request
        .uri()
        .path_and_query()
        .is_some_and(|target| target.as_str().len() > MAX_URL_BYTES)
    {
        return Err(HttpError::UriTooLong);
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() || (host.is_none() && request.version() == Version::HTTP_11) {
        return Err(HttpError::BadRequest(
            "exactly one Host header is required".into(),
        ));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(HttpError::UnsupportedCoding),
    }
}

/// Public URL of the service, without a trailing slash. It may have a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseUrl {
    text: Arc<str>,
    /// Path within `text`: empty, or with a leading and no trailing slash.
    path: Arc<str>,
}

/// The text is no base URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BaseUrlError;

impl std::fmt::Display for BaseUrlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "a base URL looks like https://checks.example.org or https://example.org/checks, \
             without query and fragment",
        )
    }
}

impl std::error::Error for BaseUrlError {}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        let text = text.trim_end_matches('/');
        let uri: Uri = text.parse().map_err(|_| BaseUrlError)?;
        let authority = uri.authority().ok_or(BaseUrlError)?;
        let bad = !matches!(uri.scheme_str(), Some("http" | "https"))
            || uri.query().is_some()
            || text.contains('#');
        if bad || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(BaseUrlError);
        }
        Ok(Self {
            text: text.into(),
            path: uri.path().trim_end_matches('/').into(),
        })
    }
}

impl BaseUrl {
    /// URL without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host of the URL, without its port.
    pub fn host(&self) -> &str {
        let rest = self.text.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or_default();
        match authority.split_once(']') {
            Some((address, _)) => address.trim_start_matches('['),
            None => authority.split(':').next().unwrap_or_default(),
        }
    }

    /// True if the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.text.starts_with("https:")
    }

    /// True if the host is this machine for every browser.
    pub fn is_loopback(&self) -> bool {
        is_loopback_host(&self.host().to_ascii_lowercase())
    }

    /// Path of the URL: empty, or with a leading and no trailing slash.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Strips the base path from the path of a request, if present: proxies may pass it on or strip
    /// it.
    pub(crate) fn strip_base_path<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(&*self.path)
            .filter(|rest| rest.starts_with('/'))
            .unwrap_or(path)
    }
}

/// True if a host, in lower case, is this machine for every browser. An IPv6 address may be in
/// brackets.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    ["localhost", "127.0.0.1", "::1", "[::1]"].contains(&host)
}

/// Decoded parameters of a query, in order. A name or value that is not UTF-8 is `None`.
pub(crate) fn query(uri: &Uri) -> impl Iterator<Item = (Option<String>, Option<String>)> + '_ {
    form_pairs(uri.query().unwrap_or_default())
}

/// Decoded pairs of a query or a form, in order (URL Standard, application/x-www-form-urlencoded).
/// A name or value that is not UTF-8 is `None`.
pub(crate) fn form_pairs(
    text: &str,
) -> impl Iterator<Item = (Option<String>, Option<String>)> + '_ {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (percent_decode(name), percent_decode(value))
    })
}

fn percent_decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text)
        .decode_utf8()
        .ok()
        .map(std::borrow::Cow::into_owned)
}

/// Entity tags of the versions that the client has, without the mark of weak ones (RFC 9110,
/// section 13.1.2). A proxy that compresses makes tags weak, and `If-None-Match` compares weakly.
pub(crate) fn known_tags(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers
        .get_all(IF_NONE_MATCH)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    let tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_may_have_a_path_and_lose_the_last_slash() {
        for (text, kept, inner) in [
            (
                "http://localhost:8000",
                "http://localhost:8000",
                "/sub/ping",
            ),
            (
                "https://example.org/sub/",
                "https://example.org/sub",
                "/ping",
            ),
        ] {
            let base: BaseUrl = text.parse().unwrap();
            assert!(["localhost", "example.org"].contains(&base.host()));
            assert_eq!(
                (base.as_str(), base.strip_base_path("/sub/ping")),
                (kept, inner)
            );
            assert_eq!(base.strip_base_path("/subject"), "/subject");
        }
        for bad in [
            "",
            "localhost:8000",
            "ftp://example.org",
            "http://",
            "http://u@h",
            "http://h/?q",
            "http://h/#f",
            "/sub",
        ] {
            assert_eq!(bad.parse::<BaseUrl>(), Err(BaseUrlError), "{bad}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let uri = "/?a=1&b&&c=%C3%A4+x&d=%ff&a=2".parse().unwrap();
        let pairs: Vec<_> = query(&uri).collect();
        let some = |text: &str| Some(text.to_owned());
        let wanted = [
            ("a", some("1")),
            ("b", some("")),
            ("c", some("ä x")),
            ("d", None),
            ("a", some("2")),
        ]
        .map(|(name, value)| (some(name), value));
        assert_eq!(pairs, wanted);
    }
}
