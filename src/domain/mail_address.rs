//! Mail addresses.

use crate::domain::text::is_host_name;

/// Mail address: a dot-atom (RFC 5322, section 3.2.3) of at most 64 octets at a host name, together
/// at most 254 octets, which fit a path (RFC 5321, section 4.5.3.1.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailAddress(Box<str>);

impl MailAddress {
    /// Parses an address without a name or brackets.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if Self::is_valid(text) {
            Ok(Self(text.into()))
        } else {
            Err("give one mail address like ops@example.org, without a name or brackets")
        }
    }

    /// True if the text is an address.
    pub(super) fn is_valid(text: &str) -> bool {
        let is_atom = |atom: &str| {
            !atom.is_empty()
                && atom.bytes().all(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
                })
        };
        text.len() <= 254
            && text.split_once('@').is_some_and(|(local, host)| {
                local.len() <= 64 && local.split('.').all(is_atom) && is_host_name(host)
            })
    }

    /// Text of the address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_address_has_at_most_254_octets_and_64_before_the_at_sign() {
        let host = |bytes: usize| {
            let labels = format!("{}.", "a".repeat(60)).repeat(5);
            labels.get(labels.len() - bytes + 1..).unwrap().to_owned() + "b"
        };
        for (local, host_bytes, is_valid) in [
            (1, 252, true),
            (1, 253, false),
            (64, 189, true),
            (64, 190, false),
            (65, 20, false),
        ] {
            let address = format!("{}@{}", "x".repeat(local), host(host_bytes));
            assert_eq!(address.len(), local + 1 + host_bytes);
            assert_eq!(MailAddress::parse(&address).is_ok(), is_valid, "{address}");
        }
    }
}
