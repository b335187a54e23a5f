//! One-time links: for the first owner, for invited users, and for lost passwords.

use std::fmt::{self, Write as _};

use super::super::ids::{LinkId, UserId};
use super::super::project::SecretHash;
use super::super::timestamp::Timestamp;

/// Letters and digits of a code, without I, L, O and U, which can be misread.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Number of characters in a group of a displayed code.
const GROUP_LENGTH: usize = 4;

/// Link that can be used once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OneTimeLink {
    /// Number of the link.
    pub id: LinkId,
    /// Hash of the code.
    pub hash: SecretHash,
    /// Purpose of the link.
    pub purpose: LinkPurpose,
    /// Time at which the link expires.
    pub expires: Timestamp,
}

impl OneTimeLink {
    /// True if the link has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires
    }
}

/// Purpose of a link. There is at most one link for each purpose: a new one replaces the old one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkPurpose {
    /// Creates the first owner, while there is no user.
    Setup,
    /// Sets the password of this user, the first or a new one.
    Password(UserId),
}

/// Code in a link, which users may also type: 16 characters with five random bits each. Case,
/// hyphens and white space are ignored, and I, L and O are read as 1, 1 and 0. Recovery codes of a
/// second factor have the same form.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkCode([u8; Self::LENGTH]);

impl LinkCode {
    /// Number of characters, without hyphens.
    pub const LENGTH: usize = 16;
    /// Code for tests.
    pub const EXAMPLE: Self = Self([b'0'; Self::LENGTH]);

    /// Creates a code from random bytes.
    pub fn from_random(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes.map(|byte| *ALPHABET.get(usize::from(byte % 32)).unwrap_or(&b'0')))
    }

    /// Parses a code; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut code = [0; Self::LENGTH];
        let mut places = code.iter_mut();
        for c in text.chars().filter(|c| !c.is_whitespace() && *c != '-') {
            let byte = match c.to_ascii_uppercase() {
                'O' => b'0',
                'I' | 'L' => b'1',
                c => u8::try_from(c)
                    .ok()
                    .filter(|byte| ALPHABET.contains(byte))?,
            };
            *places.next()? = byte;
        }
        places.next().is_none().then_some(Self(code))
    }

    /// Hash of the code, for storage.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

/// Writes groups of four, as in `K7QF-2M9X-TBVA-8RHC`.
impl fmt::Display for LinkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if place > 0 && place.is_multiple_of(GROUP_LENGTH) {
                f.write_char('-')?;
            }
            f.write_char(char::from(*byte))?;
        }
        Ok(())
    }
}

impl fmt::Debug for LinkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkCode(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_can_be_typed() {
        let code = LinkCode::from_random(std::array::from_fn(|place| place as u8 * 17));
        let text = code.to_string();
        assert_eq!((text.len(), text.matches('-').count()), (19, 3));
        let spaced = text.replace('-', " \u{a0}");
        for typed in [
            text.as_str(),
            &text.to_lowercase(),
            &text.replace('-', ""),
            &spaced,
            &text.replace('1', "l").replace('0', "o"),
        ] {
            assert_eq!(LinkCode::parse(typed), Some(code.clone()), "{typed}");
        }
        for wrong in [
            "",
            "K7QF-2M9X-TBVA-8RH",
            "K7QF-2M9X-TBVA-8RHCC",
            "K7QF-2M9X-TBVA-8RHU",
            "K7QF-2M9X-TBVA-8RHž",
        ] {
            assert_eq!(LinkCode::parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            code.hash(),
            LinkCode::parse(&text.to_lowercase()).unwrap().hash()
        );
        assert_eq!(format!("{code:?}"), "LinkCode(..)");
    }
}
