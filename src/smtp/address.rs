//! Parser of mail recipients. It returns the target of the ping without checking that it exists.

use crate::domain::ids::parse_hyphenated_uuid;
use crate::domain::project::PingKey;
use crate::domain::text::Slug;
use crate::engine::command::PingTarget;

/// Domain for which mail is accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailDomain(Box<str>);

impl MailDomain {
    /// Parses a domain. The error says which domains are valid after the `@` of an address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let fits = |c: char| {
            c.is_ascii_alphanumeric()
                || matches!(c, '-' | '.' | '_')
                || (!c.is_ascii() && !c.is_control())
        };
        match text.len() {
            1..=190 if text.chars().all(fits) => Ok(Self(text.into())),
            _ => Err("the domain of ping addresses is a host name such as ping.example.org"),
        }
    }

    /// Returns the domain as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if `other` is this domain. Case does not matter (RFC 5321, section 2.4).
    fn matches(&self, other: &str) -> bool {
        let lower = |text: &str| text.to_lowercase();
        self.0.eq_ignore_ascii_case(other) || lower(&self.0) == lower(other)
    }
}

/// Reason why a recipient was refused. It does not reveal whether a check exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecipientError {
    /// Mail for another domain. Mail is never relayed.
    OtherDomain,
    /// Neither a UUID nor a ping key and a slug.
    BadMailbox,
}

/// Parses a recipient: `<uuid>@DOMAIN`, the UUID in either case, or `<ping key>+<slug>@DOMAIN`.
pub fn parse_recipient(recipient: &str, domain: &MailDomain) -> Result<PingTarget, RecipientError> {
    let (mailbox, of) = recipient
        .rsplit_once('@')
        .ok_or(RecipientError::BadMailbox)?;
    if !domain.matches(of) {
        return Err(RecipientError::OtherDomain);
    }
    if let Some(uuid) = parse_hyphenated_uuid(mailbox) {
        return Ok(PingTarget::Uuid(uuid));
    }
    let (key, slug) = mailbox.split_once('+').ok_or(RecipientError::BadMailbox)?;
    let key = PingKey::parse(key).ok_or(RecipientError::BadMailbox)?;
    let slug = Slug::parse(slug)
        .ok()
        .filter(|slug| !slug.is_empty())
        .ok_or(RecipientError::BadMailbox)?;
    Ok(PingTarget::Slug {
        key,
        slug,
        create: None,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
    const KEY: &str = "aZ09-_aZ09-_aZ09-_aZ09";

    fn slug(slug: &str) -> PingTarget {
        PingTarget::Slug {
            key: PingKey::parse(KEY).unwrap(),
            slug: Slug::parse(slug).unwrap(),
            create: None,
        }
    }

    fn domain(text: &str) -> MailDomain {
        MailDomain::parse(text).unwrap()
    }

    #[test]
    fn domains_are_host_names() {
        for good in ["d", "ping.example.org", "nas_1.LAN", "přehled.example"] {
            assert!(MailDomain::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a b",
            "ping@example.org",
            "<d>",
            "d\n",
            "[::1]",
            &"x".repeat(191),
        ] {
            assert!(MailDomain::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn recipients_name_checks() {
        let check = PingTarget::Uuid(UUID.parse().unwrap());
        for (mailbox, wanted) in [
            (UUID.to_owned(), Ok(check.clone())),
            (UUID.to_uppercase(), Ok(check)),
            (
                "00000000-0000-0000-0000-000000000000".to_owned(),
                Ok(PingTarget::Uuid(Uuid::nil())),
            ),
            (
                format!("{KEY}+nightly-backup_2"),
                Ok(slug("nightly-backup_2")),
            ),
            (
                format!("{KEY}+{}", "x".repeat(100)),
                Ok(slug(&"x".repeat(100))),
            ),
            (
                format!("{KEY}+{}", "x".repeat(101)),
                Err(RecipientError::BadMailbox),
            ),
            (format!("{KEY}+"), Err(RecipientError::BadMailbox)),
            (format!("{KEY}+Nightly"), Err(RecipientError::BadMailbox)),
            (format!("{KEY}+a+b"), Err(RecipientError::BadMailbox)),
            (format!("{KEY}+a.b"), Err(RecipientError::BadMailbox)),
            (
                format!("{}+a", "x".repeat(129)),
                Err(RecipientError::BadMailbox),
            ),
            ("+a".to_owned(), Err(RecipientError::BadMailbox)),
            (format!("{}.+a", &KEY[1..]), Err(RecipientError::BadMailbox)),
            (format!("{}ž+a", &KEY[2..]), Err(RecipientError::BadMailbox)),
            (format!("{UUID}+a"), Err(RecipientError::BadMailbox)),
            (KEY.to_owned(), Err(RecipientError::BadMailbox)),
            (UUID.replace('-', ""), Err(RecipientError::BadMailbox)),
            (
                format!("{UUID}@ping.example.org"),
                Err(RecipientError::BadMailbox),
            ),
            ("postmaster".to_owned(), Err(RecipientError::BadMailbox)),
            (String::new(), Err(RecipientError::BadMailbox)),
        ] {
            assert_eq!(
                parse_recipient(
                    &format!("{mailbox}@ping.example.org"),
                    &domain("ping.example.org")
                ),
                wanted,
                "{mailbox}"
            );
        }
    }

    #[test]
    fn the_case_of_a_domain_does_not_matter() {
        for (own, of) in [
            ("ping.example.org", "PING.Example.ORG"),
            ("Ping.EXAMPLE.org", "ping.example.org"),
            ("Přehled.cz", "PŘEHLED.CZ"),
        ] {
            assert_eq!(
                parse_recipient(&format!("{UUID}@{of}"), &domain(own)),
                Ok(PingTarget::Uuid(UUID.parse().unwrap())),
                "{own} {of}"
            );
        }
    }

    #[test]
    fn only_the_configured_domain_is_served() {
        for other in [
            "elsewhere.example",
            "ping.example.orG.",
            "ping.example.org.",
            "",
            " ping.example.org",
            "a@ping.example.org@x",
        ] {
            assert_eq!(
                parse_recipient(&format!("{UUID}@{other}"), &domain("ping.example.org")),
                Err(RecipientError::OtherDomain),
                "{other}"
            );
        }
        for without in ["", UUID, "postmaster"] {
            assert_eq!(
                parse_recipient(without, &domain("ping.example.org")),
                Err(RecipientError::BadMailbox),
                "{without}"
            );
        }
    }

    proptest! {
        #[test]
        fn accepted_recipients_are_read_back_unchanged(
            recipient in concat!(
                "[a-z0-9A-Z_+@.-]{0,80}",
                "|[a-zA-Z0-9_-]{1,40}\\+[a-z0-9_-]{1,100}@d",
                "|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}@d",
            ),
        ) {
            match parse_recipient(&recipient, &domain("d")) {
                Ok(PingTarget::Uuid(uuid)) => {
                    prop_assert_eq!(format!("{uuid}@d"), recipient.to_lowercase());
                }
                Ok(PingTarget::Slug { key, slug, .. }) => {
                    prop_assert_eq!(format!("{}+{}@d", key.as_str(), slug.as_str()), recipient);
                }
                Err(RecipientError::OtherDomain) => prop_assert!(!recipient.ends_with("@d")),
                Err(RecipientError::BadMailbox) => {}
            }
        }
    }
}
