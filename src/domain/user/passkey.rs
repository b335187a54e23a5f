//! Passkeys: key pairs of an authenticator, such as a phone or a security key, with which a user
//! signs in without a password (Web Authentication).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::super::timestamp::Timestamp;

/// Maximum number of passkeys of a user: see [limits](crate::docs::limits).
pub const MAX_PASSKEYS: usize = 20;
/// Maximum number of characters of a name: see [limits](crate::docs::limits).
const MAX_NAME_CHARS: usize = 60;
/// Maximum number of bytes of an identifier (Web Authentication, section 4).
const MAX_ID_BYTES: usize = 1023;
/// Maximum number of bytes of a public key: one of RSA with 8,192 bits has 1,062.
const MAX_KEY_BYTES: usize = 1100;

/// Passkey of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passkey {
    /// Identifier that the authenticator chose.
    pub id: PasskeyId,
    /// Name that the user chose.
    pub name: PasskeyName,
    /// Public key.
    pub public_key: PasskeyPublicKey,
    /// Signature counter of the last use. 0 if the authenticator does not count.
    pub counter: u32,
    /// Time at which the passkey was added.
    pub created: Timestamp,
    /// Time of the last sign-in.
    pub last_used: Option<Timestamp>,
}

impl Passkey {
    /// True if a signature with this counter is newer than the last one. A counter that does not
    /// grow is that of a copied authenticator, or of a repeated signature (Web Authentication,
    /// section 6.1.1).
    pub fn accepts_counter(&self, counter: u32) -> bool {
        counter > self.counter || (counter == 0 && self.counter == 0)
    }
}

/// Identifier of a passkey: 1 to 1,023 bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PasskeyId(Box<[u8]>);

impl PasskeyId {
    /// Returns the identifier; `None` if it has a wrong length.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (1..=MAX_ID_BYTES)
            .contains(&bytes.len())
            .then(|| Self(bytes.into()))
    }

    /// Parses the output of [`to_text`](Self::to_text).
    pub fn parse(text: &str) -> Option<Self> {
        Self::new(&BASE64_URL_SAFE_NO_PAD.decode(text).ok()?)
    }

    /// URL-safe base64 without padding, as in Web Authentication.
    pub fn to_text(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&self.0)
    }

    /// Bytes of the identifier.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Public key of a passkey: a `SubjectPublicKeyInfo` (RFC 5280, section 4.1) of at most 1,100
/// bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasskeyPublicKey(Box<[u8]>);

impl PasskeyPublicKey {
    /// Returns the key; `None` if it is too long. Signatures do not match bytes of another form.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= MAX_KEY_BYTES).then(|| Self(bytes.into()))
    }

    /// Bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Name of a passkey: 1 to 60 characters without control characters, and without white space at its
/// ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasskeyName(Box<str>);

impl PasskeyName {
    /// Trims white space, and rejects empty names, more than 60 characters and control characters.
    /// The message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text.trim() {
            "" => Err("a passkey needs a name"),
            text if text.chars().count() > MAX_NAME_CHARS => {
                Err("the name of a passkey has at most 60 characters")
            }
            text if text.chars().any(char::is_control) => {
                Err("the name of a passkey has no control characters")
            }
            text => Ok(Self(text.into())),
        }
    }

    /// Text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_keys_and_names_have_bounds() {
        for (length, is_good) in [(0, false), (1, true), (1023, true), (1024, false)] {
            let id = PasskeyId::new(&vec![7; length]);
            assert_eq!(id.is_some(), is_good, "{length}");
            if let Some(id) = id {
                assert_eq!(PasskeyId::parse(&id.to_text()), Some(id));
            }
        }
        for wrong in ["", "=", "a", "AQ==", "A+8", "ž"] {
            assert_eq!(PasskeyId::parse(wrong), None, "{wrong}");
        }
        assert!(PasskeyPublicKey::new(&[0; 1100]).is_some());
        assert!(PasskeyPublicKey::new(&[0; 1101]).is_none());
        assert_eq!(PasskeyName::parse("  phone ").unwrap().as_str(), "phone");
        assert!(PasskeyName::parse(&"é".repeat(60)).is_ok());
        for wrong in ["", " \t", "a\nb", &"é".repeat(61)] {
            assert!(PasskeyName::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_counter_must_grow_unless_the_authenticator_does_not_count() {
        for (stored, counter, is_accepted) in [
            (0, 0, true),
            (0, 1, true),
            (5, 6, true),
            (5, 5, false),
            (5, 4, false),
            (5, 0, false),
        ] {
            let passkey = Passkey {
                id: PasskeyId::new(&[1]).unwrap(),
                name: PasskeyName::parse("phone").unwrap(),
                public_key: PasskeyPublicKey::new(&[]).unwrap(),
                counter: stored,
                created: Timestamp::from_secs(0),
                last_used: None,
            };
            assert_eq!(
                passkey.accepts_counter(counter),
                is_accepted,
                "{stored} {counter}"
            );
        }
    }
}
