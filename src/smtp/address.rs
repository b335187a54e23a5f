//! What the recipient of a mail says about the check to ping, before anyone looks whether there is such a check.

use uuid::Uuid;

use crate::domain::ids::hyphenated_uuid;

/// Characters of a ping key.
const PING_KEY_LENGTH: usize = 22;
/// Characters of the longest slug that a check can have.
const SLUG_MAX: usize = 100;

/// The check that a recipient names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// `<uuid>@DOMAIN`
    Check(Uuid),
    /// `<ping key>+<slug>@DOMAIN`
    Slug {
        /// 22 characters of A-Z, a-z, 0-9, hyphen and underscore.
        ping_key: Box<str>,
        /// 1 to 100 characters of a-z, 0-9, hyphen and underscore.
        slug: Box<str>,
    },
}

/// Why a recipient was refused. Neither tells whether a check exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Mail for another domain: nothing is ever relayed.
    Domain,
    /// Neither a UUID nor a ping key and a slug.
    Mailbox,
}

/// Reads a recipient of `domain`, which is compared exactly. A UUID may have either case.
pub fn target(recipient: &str, domain: &str) -> Result<Target, Refusal> {
    let (mailbox, of) = recipient.rsplit_once('@').ok_or(Refusal::Mailbox)?;
    if of != domain {
        return Err(Refusal::Domain);
    }
    if let Some(uuid) = hyphenated_uuid(mailbox) {
        return Ok(Target::Check(uuid));
    }
    match mailbox.split_once('+') {
        Some((ping_key, slug)) if is_ping_key(ping_key) && is_slug(slug) => {
            Ok(Target::Slug { ping_key: ping_key.into(), slug: slug.into() })
        }
        _ => Err(Refusal::Mailbox),
    }
}

fn is_ping_key(text: &str) -> bool {
    text.len() == PING_KEY_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn is_slug(text: &str) -> bool {
    (1..=SLUG_MAX).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
    const KEY: &str = "aZ09-_aZ09-_aZ09-_aZ09";

    fn slug(slug: &str) -> Target {
        Target::Slug { ping_key: KEY.into(), slug: slug.into() }
    }

    #[test]
    fn recipients_name_checks() {
        let check = Target::Check(UUID.parse().unwrap());
        for (mailbox, wanted) in [
            (UUID.to_owned(), Ok(check.clone())),
            (UUID.to_uppercase(), Ok(check)),
            ("00000000-0000-0000-0000-000000000000".to_owned(), Ok(Target::Check(Uuid::nil()))),
            (format!("{KEY}+nightly-backup_2"), Ok(slug("nightly-backup_2"))),
            (format!("{KEY}+{}", "x".repeat(100)), Ok(slug(&"x".repeat(100)))),
            (format!("{KEY}+{}", "x".repeat(101)), Err(Refusal::Mailbox)),
            (format!("{KEY}+"), Err(Refusal::Mailbox)),
            (format!("{KEY}+Nightly"), Err(Refusal::Mailbox)),
            (format!("{KEY}+a+b"), Err(Refusal::Mailbox)),
            (format!("{KEY}+a.b"), Err(Refusal::Mailbox)),
            (format!("{KEY}x+a"), Err(Refusal::Mailbox)),
            (format!("{}+a", &KEY[1..]), Err(Refusal::Mailbox)),
            (format!("{}.+a", &KEY[1..]), Err(Refusal::Mailbox)),
            (format!("{}ž+a", &KEY[2..]), Err(Refusal::Mailbox)),
            (format!("{UUID}+a"), Err(Refusal::Mailbox)),
            (KEY.to_owned(), Err(Refusal::Mailbox)),
            (UUID.replace('-', ""), Err(Refusal::Mailbox)),
            (format!("{UUID}@ping.example.org"), Err(Refusal::Mailbox)),
            ("postmaster".to_owned(), Err(Refusal::Mailbox)),
            (String::new(), Err(Refusal::Mailbox)),
        ] {
            assert_eq!(target(&format!("{mailbox}@ping.example.org"), "ping.example.org"), wanted, "{mailbox}");
        }
    }

    #[test]
    fn only_the_own_domain_is_served() {
        for domain in ["elsewhere.example", "PING.example.org", "ping.example.org.", "", " ping.example.org", "a@ping.example.org@x"] {
            assert_eq!(target(&format!("{UUID}@{domain}"), "ping.example.org"), Err(Refusal::Domain), "{domain}");
        }
        for without in ["", UUID, "postmaster"] {
            assert_eq!(target(without, "ping.example.org"), Err(Refusal::Mailbox), "{without}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_reads_back_as_it_was_sent(recipient in "[a-z0-9A-Z_+@.-]{0,80}|[a-zA-Z0-9_-]{22}\\+[a-z0-9_-]{1,100}@d|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}@d") {
            match target(&recipient, "d") {
                Ok(Target::Check(uuid)) => prop_assert_eq!(format!("{uuid}@d"), recipient.to_lowercase()),
                Ok(Target::Slug { ping_key, slug }) => prop_assert_eq!(format!("{ping_key}+{slug}@d"), recipient),
                Err(Refusal::Domain) => prop_assert!(!recipient.ends_with("@d")),
                Err(Refusal::Mailbox) => {}
            }
        }
    }
}
