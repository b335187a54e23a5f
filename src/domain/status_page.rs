//! Public status pages of a project: which checks they show, and at which address.

use std::fmt;

use uuid::Uuid;

use super::text::{Name, Tags, is_host_name};

/// Maximum number of status pages of a project: see [limits](crate::docs::limits).
pub const MAX_STATUS_PAGES: usize = 20;

/// Status page: a public page with the status of some checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusPage {
    /// UUID that identifies it in forms. It is not public.
    pub uuid: Uuid,
    /// Last part of its URL.
    pub address: StatusPageAddress,
    /// Title on the page.
    pub title: StatusPageTitle,
    /// Tags that a check must have to be shown. Empty: every check of the project.
    pub tags: Tags,
    /// Host name whose first page it is.
    pub domain: Option<StatusPageDomain>,
}

/// Title of a status page: 1 to 100 characters without control characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusPageTitle(Box<str>);

impl StatusPageTitle {
    /// Parses a title, without white space around it.
    ///
    /// # Errors
    /// If it is empty, too long, or has control characters.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() || text.chars().count() > Name::MAX_CHARS {
            return Err("a title has 1 to 100 characters");
        }
        if text.chars().any(char::is_control) {
            return Err("a title has no control characters");
        }
        Ok(Self(text.into()))
    }

    /// Text of the title.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Last part of the URL of a status page: 1 to 64 characters of `A-Za-z0-9_-`. A generated one
/// is a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StatusPageAddress(Box<str>);

impl StatusPageAddress {
    /// Number of characters of a generated address.
    pub const GENERATED_LENGTH: usize = 22;
    /// Maximum number of characters.
    const MAX_LENGTH: usize = 64;

    /// Parses an address.
    ///
    /// # Errors
    /// If it is empty, too long, or has other characters.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (1..=Self::MAX_LENGTH).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text.into()))
        } else {
            Err("an address has 1 to 64 characters: letters A to Z, digits, hyphens, underscores")
        }
    }

    /// Text of the address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StatusPageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusPageAddress(..)")
    }
}

/// Host name of a status page, in lower case. It has a dot and is not an IP address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusPageDomain(Box<str>);

impl StatusPageDomain {
    /// Parses a host name.
    ///
    /// # Errors
    /// If it is none, has a scheme, port or path, or is an IP address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let name = text.to_ascii_lowercase();
        let is_word = |label: &str| label.bytes().any(|byte| byte.is_ascii_alphabetic());
        let last = name.rsplit_once('.').map(|(_, last)| last);
        match last {
            Some(last) if is_host_name(&name) && is_word(last) => Ok(Self(name.into())),
            _ => Err("a domain is a host name such as status.example.org, without https://"),
        }
    }

    /// True if a `Host` header names it, with any port.
    pub fn matches_host(&self, host: &str) -> bool {
        let name = host.split_once(':').map_or(host, |(name, _)| name);
        name.eq_ignore_ascii_case(&self.0)
    }

    /// Text of the host name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl StatusPage {
    /// True if it shows a check with these tags.
    pub fn shows(&self, tags: &Tags) -> bool {
        self.tags.iter().all(|tag| tags.contains(tag))
    }
}

/// Reason for refusing a status page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusPageError {
    /// The project has the maximum number of them.
    TooMany,
    /// Another one has the address.
    AddressTaken,
    /// Another one has the domain.
    DomainTaken,
}

impl fmt::Display for StatusPageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMany => "the project has 20 status pages, which is the maximum",
            Self::AddressTaken => "another status page has this address",
            Self::DomainTaken => "another status page has this domain",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_names_with_a_dot() {
        for text in [
            "status.example.org",
            "a.b",
            "STATUS.Example.org",
            "x1.y-z.de",
        ] {
            let domain = StatusPageDomain::parse(text).unwrap();
            assert!(domain.matches_host(text), "{text}");
            assert!(domain.matches_host(&format!("{text}:8443")), "{text}");
            assert!(!domain.matches_host(&format!("x{text}")), "{text}");
        }
        let long = format!("{}.de", "a".repeat(64));
        for text in [
            "",
            "localhost",
            "127.0.0.1",
            "[::1]",
            "status.example.org:80",
            "https://status.example.org",
            "status.example.org/",
            "a..b",
            ".a.b",
            "a.b.",
            "-a.b",
            "a b.c",
            &long,
        ] {
            assert!(StatusPageDomain::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_and_titles_have_limits() {
        for text in ["a", "A-b_9", &"x".repeat(64)] {
            assert_eq!(StatusPageAddress::parse(text).unwrap().as_str(), text);
        }
        for text in ["", "a/b", "a.b", "ä", "a b", &"x".repeat(65)] {
            assert!(StatusPageAddress::parse(text).is_err(), "{text}");
        }
        assert_eq!(StatusPageTitle::parse(" Jobs ").unwrap().as_str(), "Jobs");
        for text in ["", "  ", "a\nb", &"x".repeat(101)] {
            assert!(StatusPageTitle::parse(text).is_err(), "{text}");
        }
    }
}
