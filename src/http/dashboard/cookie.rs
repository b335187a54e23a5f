//! Cookies of a session, of a known browser and of a sign-in at a provider: their names, their
//! attributes, and how they are read from a request.

use hyper::header::{COOKIE, HeaderMap};

use crate::domain::project::SecretHash;
use crate::domain::user::session::Session;
use crate::http::common::browser_mark;

/// Seconds for which a browser keeps a cookie. The end of a session is decided on the server.
const COOKIE_MAX_AGE_SECS: u32 = 180 * 86_400;
/// Seconds for which a browser keeps the state of a sign-in at a provider.
const PENDING_MAX_AGE_SECS: u32 = 900;
/// Maximum number of cookies of our name that are read from a request.
const MAX_COOKIES: usize = 4;

/// Parameters of cookies: the scheme of the request, and the base path of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CookieJar<'a> {
    /// True if the browser connected by TLS.
    pub(super) is_secure: bool,
    /// Path of the base URL, without a trailing slash.
    pub(super) base_path: &'a str,
}

impl CookieJar<'_> {
    /// Name of the session cookie. Its prefix prevents other hosts and plain HTTP from setting a
    /// cookie of this name (RFC 6265bis, section 4.1.3). Browsers accept neither prefix by plain
    /// HTTP.
    fn session_cookie_name(self) -> &'static str {
        match (self.is_secure, self.base_path.is_empty()) {
            (true, true) => "__Host-overdue",
            (true, false) => "__Secure-overdue",
            (false, _) => "overdue",
        }
    }

    /// Name of the cookie that holds the mark of a browser.
    fn mark_cookie_name(self) -> &'static str {
        match (self.is_secure, self.base_path.is_empty()) {
            (true, true) => "__Host-overdue-known",
            (true, false) => "__Secure-overdue-known",
            (false, _) => "overdue-known",
        }
    }

    /// Name of the cookie that holds the state of a sign-in at a provider.
    fn pending_cookie_name(self) -> &'static str {
        match (self.is_secure, self.base_path.is_empty()) {
            (true, true) => "__Host-overdue-pending",
            (true, false) => "__Secure-overdue-pending",
            (false, _) => "overdue-pending",
        }
    }

    /// State of a sign-in at a provider, not verified yet.
    pub(super) fn pending_sign_in(self, headers: &HeaderMap) -> Option<&str> {
        cookie_values(headers, self.pending_cookie_name()).next()
    }

    /// `Set-Cookie` value with the state of a sign-in at a provider.
    pub(super) fn set_pending_sign_in(self, state: &str) -> String {
        self.format_cookie(self.pending_cookie_name(), state, PENDING_MAX_AGE_SECS)
    }

    /// `Set-Cookie` value that removes the state of a sign-in at a provider.
    pub(super) fn clear_pending_sign_in(self) -> String {
        self.format_cookie(self.pending_cookie_name(), "", 0)
    }

    /// Possible mark of a browser in which a user has signed in before, not verified yet.
    pub(super) fn browser_mark(self, headers: &HeaderMap) -> Option<&str> {
        cookie_values(headers, self.mark_cookie_name())
            .find(|mark| mark.len() == browser_mark::MARK_LENGTH)
    }

    /// `Set-Cookie` value with this mark. Signing out does not remove it.
    pub(super) fn set_mark(self, mark: &str) -> String {
        self.format_cookie(self.mark_cookie_name(), mark, COOKIE_MAX_AGE_SECS)
    }

    /// Hashes of possible session tokens.
    pub(super) fn session_token_hashes(
        self,
        headers: &HeaderMap,
    ) -> impl Iterator<Item = SecretHash> {
        let tokens = cookie_values(headers, self.session_cookie_name())
            .filter(|token| token.len() == Session::TOKEN_LENGTH);
        tokens
            .take(MAX_COOKIES)
            .map(|token| SecretHash::of(token.as_bytes()))
    }

    /// `Set-Cookie` value with this token.
    pub(super) fn set_session(self, token: &str) -> String {
        self.format_cookie(self.session_cookie_name(), token, COOKIE_MAX_AGE_SECS)
    }

    /// `Set-Cookie` value that removes the token.
    pub(super) fn clear_session(self) -> String {
        self.format_cookie(self.session_cookie_name(), "", 0)
    }

    fn format_cookie(self, name: &str, value: &str, secs: u32) -> String {
        let path = if self.base_path.is_empty() {
            "/"
        } else {
            self.base_path
        };
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{name}={value}; Path={path}; Max-Age={secs}; HttpOnly; SameSite=Lax{secure}")
    }
}

/// Values of the cookies of this name, in order.
fn cookie_values<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> impl Iterator<Item = &'h str> + use<'h> {
    let pairs = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs
        .filter_map(move |pair| pair.trim().split_once('=').filter(|(own, _)| *own == name))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdefghijklmnopqrstuv";

    #[test]
    fn fuzz_cookies() {
        use hyper::header::HeaderValue;
        let known = "m".repeat(browser_mark::MARK_LENGTH);
        let examples = [
            format!("overdue={TOKEN}; overdue-known={known}; overdue-pending=abc; a=b"),
            format!("a=\"x;y\"; overdue={TOKEN}; overdue={TOKEN}; overdue="),
        ];
        let jar = CookieJar {
            is_secure: false,
            base_path: "",
        };
        crate::util::fuzzing::fuzz(&examples, |bytes| {
            let Ok(value) = HeaderValue::from_bytes(bytes) else {
                return;
            };
            let headers = HeaderMap::from_iter([(COOKIE, value)]);
            assert!(jar.session_token_hashes(&headers).count() <= MAX_COOKIES);
            let mark = jar.browser_mark(&headers);
            assert!(mark.is_none_or(|mark| mark.len() == browser_mark::MARK_LENGTH));
            let _ = jar.pending_sign_in(&headers);
        });
    }

    #[test]
    fn a_cookie_has_the_attributes_of_its_deployment() {
        for (is_secure, base_path, wanted) in [
            (
                false,
                "",
                "overdue=T; Path=/; Max-Age=15552000; HttpOnly; SameSite=Lax",
            ),
            (
                false,
                "/a",
                "overdue=T; Path=/a; Max-Age=15552000; HttpOnly; SameSite=Lax",
            ),
            (
                true,
                "",
                "__Host-overdue=T; Path=/; Max-Age=15552000; HttpOnly; SameSite=Lax; Secure",
            ),
            (
                true,
                "/a/b",
                "__Secure-overdue=T; Path=/a/b; Max-Age=15552000; HttpOnly; SameSite=Lax; Secure",
            ),
        ] {
            assert_eq!(
                CookieJar {
                    is_secure,
                    base_path
                }
                .set_session("T"),
                wanted
            );
        }
        assert_eq!(
            CookieJar {
                is_secure: true,
                base_path: ""
            }
            .clear_session(),
            "__Host-overdue=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
        );
    }

    #[test]
    fn the_browser_mark_is_a_separate_cookie() {
        let mark = "m".repeat(browser_mark::MARK_LENGTH);
        for (is_secure, base_path, name) in [
            (false, "", "overdue-known"),
            (true, "", "__Host-overdue-known"),
            (true, "/a", "__Secure-overdue-known"),
        ] {
            let jar = CookieJar {
                is_secure,
                base_path,
            };
            assert!(
                jar.set_mark(&mark)
                    .starts_with(&format!("{name}={mark}; Path=/")),
                "{name}"
            );
            for (line, is_found) in [
                (format!("a=1; {name}={mark}"), true),
                (format!("{name}=short"), false),
                (format!("x{name}={mark}"), false),
            ] {
                let headers = HeaderMap::from_iter([(COOKIE, line.parse().unwrap())]);
                assert_eq!(
                    jar.browser_mark(&headers),
                    is_found.then_some(mark.as_str()),
                    "{line}"
                );
                assert_eq!(jar.session_token_hashes(&headers).count(), 0);
            }
        }
    }

    #[test]
    fn only_a_cookie_of_the_right_name_counts() {
        let found = |is_secure, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, line.parse().unwrap());
            }
            CookieJar {
                is_secure,
                base_path: "",
            }
            .session_token_hashes(&headers)
            .collect::<Vec<_>>()
        };
        let hash = SecretHash::of(TOKEN.as_bytes());
        let plain = format!("overdue={TOKEN}");
        let secure = format!("__Host-overdue={TOKEN}");
        assert_eq!(found(false, &[&plain]), [hash]);
        assert_eq!(found(false, &[&format!("a=1; {plain} ;b")]), [hash]);
        assert_eq!(found(false, &["a=1", &plain]), [hash]);
        assert_eq!(found(true, &[&secure]), [hash]);
        // A cookie that plain HTTP may have set is ignored by TLS.
        assert_eq!(found(true, &[&plain]), []);
        assert_eq!(found(false, &[&secure]), []);
        for line in [
            "",
            "overdue",
            "overdue=",
            "overdue=short",
            &format!("Overdue={TOKEN}"),
            &format!("x-overdue={TOKEN}"),
        ] {
            assert_eq!(found(false, &[line]), [], "{line}");
        }
        let many = vec![plain.as_str(); 99].join(";");
        assert_eq!(found(false, &[&many]).len(), MAX_COOKIES);
    }
}
