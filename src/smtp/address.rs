//! What the recipient of a mail says about the check to ping, before anyone looks whether there is such a check.

use crate::domain::ids::hyphenated_uuid;
use crate::domain::project::PingKey;
use crate::domain::text::Slug;
use crate::engine::command::Target;

/// The domain that mail is taken for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain(Box<str>);

impl Domain {
    /// Refuses what cannot stand after the `@` of an address; the message says what can.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') || (!c.is_ascii() && !c.is_control());
        match text.len() {
            1..=190 if text.chars().all(fits) => Ok(Self(text.into())),
            _ => Err("the domain of ping addresses is a host name such as ping.example.org"),
        }
    }

    /// The domain as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this domain: the case of letters does not matter (RFC 5321, section 2.4).
    fn is(&self, other: &str) -> bool {
        let lower = |text: &str| text.to_lowercase();
        self.0.eq_ignore_ascii_case(other) || lower(&self.0) == lower(other)
    }
}

/// Why a recipient was refused. Neither tells whether a check exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Mail for another domain: nothing is ever relayed.
    Domain,
    /// Neither a UUID nor a ping key and a slug.
    Mailbox,
}

/// Reads a recipient: `<uuid>@DOMAIN`, the UUID in either case, or `<ping key>+<slug>@DOMAIN`.
pub fn target(recipient: &str, domain: &Domain) -> Result<Target, Refusal> {
    let (mailbox, of) = recipient.rsplit_once('@').ok_or(Refusal::Mailbox)?;
    if !domain.is(of) {
        return Err(Refusal::Domain);
    }
    if let Some(uuid) = hyphenated_uuid(mailbox) {
        return Ok(Target::Uuid(uuid));
    }
    let (key, slug) = mailbox.split_once('+').ok_or(Refusal::Mailbox)?;
    let key = PingKey::parse(key).ok_or(Refusal::Mailbox)?;
    let slug = Slug::parse(slug).ok().filter(|slug| !slug.is_empty()).ok_or(Refusal::Mailbox)?;
    Ok(Target::Slug { key, slug, create: None })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
    const KEY: &str = "aZ09-_aZ09-_aZ09-_aZ09";

    fn slug(slug: &str) -> Target {
        Target::Slug { key: PingKey::parse(KEY).unwrap(), slug: Slug::parse(slug).unwrap(), create: None }
    }

    fn domain(text: &str) -> Domain {
        Domain::parse(text).unwrap()
    }

    #[test]
    fn domains_are_host_names() {
        for good in ["d", "ping.example.org", "nas_1.LAN", "přehled.example"] {
            assert!(Domain::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "ping@example.org", "<d>", "d\n", "[::1]", &"x".repeat(191)] {
            assert!(Domain::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn recipients_name_checks() {
        let check = Target::Uuid(UUID.parse().unwrap());
        for (mailbox, wanted) in [
            (UUID.to_owned(), Ok(check.clone())),
            (UUID.to_uppercase(), Ok(check)),
            ("00000000-0000-0000-0000-000000000000".to_owned(), Ok(Target::Uuid(Uuid::nil()))),
            (format!("{KEY}+nightly-backup_2"), Ok(slug("nightly-backup_2"))),
            (format!("{KEY}+{}", "x".repeat(100)), Ok(slug(&"x".repeat(100)))),
            (format!("{KEY}+{}", "x".repeat(101)), Err(Refusal::Mailbox)),
            (format!("{KEY}+"), Err(Refusal::Mailbox)),
            (format!("{KEY}+Nightly"), Err(Refusal::Mailbox)),
            (format!("{KEY}+a+b"), Err(Refusal::Mailbox)),
            (format!("{KEY}+a.b"), Err(Refusal::Mailbox)),
            (format!("{}+a", "x".repeat(129)), Err(Refusal::Mailbox)),
            ("+a".to_owned(), Err(Refusal::Mailbox)),
            (format!("{}.+a", &KEY[1..]), Err(Refusal::Mailbox)),
            (format!("{}ž+a", &KEY[2..]), Err(Refusal::Mailbox)),
            (format!("{UUID}+a"), Err(Refusal::Mailbox)),
            (KEY.to_owned(), Err(Refusal::Mailbox)),
            (UUID.replace('-', ""), Err(Refusal::Mailbox)),
            (format!("{UUID}@ping.example.org"), Err(Refusal::Mailbox)),
            ("postmaster".to_owned(), Err(Refusal::Mailbox)),
            (String::new(), Err(Refusal::Mailbox)),
        ] {
            assert_eq!(target(&format!("{mailbox}@ping.example.org"), &domain("ping.example.org")), wanted, "{mailbox}");
        }
    }

    #[test]
    fn the_case_of_a_domain_does_not_matter() {
        for (own, of) in [("ping.example.org", "PING.Example.ORG"), ("Ping.EXAMPLE.org", "ping.example.org"), ("Přehled.cz", "PŘEHLED.CZ")]
        {
            assert_eq!(target(&format!("{UUID}@{of}"), &domain(own)), Ok(Target::Uuid(UUID.parse().unwrap())), "{own} {of}");
        }
    }

    #[test]
    fn only_the_own_domain_is_served() {
        for other in ["elsewhere.example", "ping.example.orG.", "ping.example.org.", "", " ping.example.org", "a@ping.example.org@x"] {
            assert_eq!(target(&format!("{UUID}@{other}"), &domain("ping.example.org")), Err(Refusal::Domain), "{other}");
        }
        for without in ["", UUID, "postmaster"] {
            assert_eq!(target(without, &domain("ping.example.org")), Err(Refusal::Mailbox), "{without}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_reads_back_as_it_was_sent(recipient in "[a-z0-9A-Z_+@.-]{0,80}|[a-zA-Z0-9_-]{1,40}\\+[a-z0-9_-]{1,100}@d|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}@d") {
            match target(&recipient, &domain("d")) {
                Ok(Target::Uuid(uuid)) => prop_assert_eq!(format!("{uuid}@d"), recipient.to_lowercase()),
                Ok(Target::Slug { key, slug, .. }) => prop_assert_eq!(format!("{}+{}@d", key.as_str(), slug.as_str()), recipient),
                Err(Refusal::Domain) => prop_assert!(!recipient.ends_with("@d")),
                Err(Refusal::Mailbox) => {}
            }
        }
    }
}
