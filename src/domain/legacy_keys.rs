//! Keys that another server derived from its secret and that keep working here: API keys known only
//! by a digest, and badge URLs.
//!
//! From its first use on, such an API key is stored by its own hash. A secret is forgotten when no
//! key needs it any longer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Block size of SHA-1 and SHA-256 in bytes. The key of an HMAC is padded with zeros to this length
/// (RFC 2104, section 2).
const HMAC_BLOCK_BYTES: usize = 64;

fn pad_to_block(key: &[u8]) -> [u8; HMAC_BLOCK_BYTES] {
    let mut block = [0; HMAC_BLOCK_BYTES];
    block
        .iter_mut()
        .zip(key)
        .for_each(|(byte, key_byte)| *byte = *key_byte);
    block
}

/// HMAC-SHA-256 of an API key with a [`LegacySecret`]. Keys are looked up by it, like by a
/// `SecretHash`.
#[derive(Clone, Copy, Eq)]
pub struct LegacyKeyDigest(pub [u8; 32]);

impl PartialEq for LegacyKeyDigest {
    fn eq(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.0.as_slice(), &other.0).into()
    }
}

impl std::hash::Hash for LegacyKeyDigest {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// Secret of another server.
#[derive(Clone, PartialEq, Eq)]
pub struct LegacySecret(Box<str>);

impl LegacySecret {
    /// Maximum length in bytes: see [limits](crate::docs::limits).
    pub const MAX_BYTES: usize = 1_000;

    /// Rejects an empty secret and more than 1,000 bytes. The message says which.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text.len() {
            0 => Err("the secret is empty"),
            length if length > Self::MAX_BYTES => Err("a secret has at most 1,000 bytes"),
            _ => Ok(Self(text.into())),
        }
    }

    /// Text of the secret.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Digest that the other server stored in place of this key.
    pub fn digest_key(&self, key: &[u8]) -> LegacyKeyDigest {
        let secret = self.0.as_bytes();
        // A key of an HMAC that is longer than a block is hashed first (RFC 2104, section 2).
        let block = if secret.len() > HMAC_BLOCK_BYTES {
            pad_to_block(&Sha256::digest(secret))
        } else {
            pad_to_block(secret)
        };
        LegacyKeyDigest(
            Hmac::<Sha256>::new(&block.into())
                .chain_update(key)
                .finalize()
                .into_bytes()
                .into(),
        )
    }
}

/// HMAC-SHA-1 key for the badge URLs of one project, derived from its badge key and the secret of
/// the other server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LegacyBadgeKey(pub [u8; 20]);

impl LegacyBadgeKey {
    /// Derives the key of a project.
    pub fn for_project(badge_key: &str, secret: &LegacySecret) -> Self {
        Self(
            Sha1::new()
                .chain_update(badge_key)
                .chain_update(secret.as_str())
                .finalize()
                .into(),
        )
    }

    /// HMAC of a tag, or of all checks if `None`. A signature is the beginning of it.
    pub fn sign_tag(&self, tag: Option<&str>) -> [u8; 20] {
        Hmac::<Sha1>::new(&pad_to_block(&self.0).into())
            .chain_update(tag.unwrap_or("*"))
            .finalize()
            .into_bytes()
            .into()
    }
}

macro_rules! masked {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )*};
}

masked!(LegacyKeyDigest LegacySecret LegacyBadgeKey);

/// Identification of an API key of another server that has not been used on this server yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LegacyKey {
    /// True if the key only gives read access.
    pub read_only: bool,
    /// Number of the secret that makes the digest: see [`LegacySecrets`].
    pub secret_number: u8,
    /// Digest of the key.
    pub digest: LegacyKeyDigest,
}

impl LegacyKey {
    /// Prefixes of keys with write access, and of read-only keys.
    const PREFIXES: [(bool, &str); 2] = [(false, "hcw_"), (true, "hcr_")];

    /// Prefix of such a key.
    pub fn prefix(read_only: bool) -> &'static str {
        Self::PREFIXES
            .into_iter()
            .find(|(is_read_only, _)| *is_read_only == read_only)
            .map_or("", |(_, prefix)| prefix)
    }

    /// True if a key with this text is read-only; `None` if no such key has its prefix.
    pub fn read_only_by_prefix(text: &[u8]) -> Option<bool> {
        Self::PREFIXES
            .into_iter()
            .find(|(_, prefix)| text.starts_with(prefix.as_bytes()))
            .map(|(read_only, _)| read_only)
    }
}

/// Secrets of other servers that keys still need, numbered from 1 to [`Self::MAX_SECRETS`]. A
/// number is reused after its secret was forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LegacySecrets(BTreeMap<u8, LegacySecret>);

impl LegacySecrets {
    /// Maximum number of secrets. A request with a wrong key costs one HMAC for each. See
    /// [limits](crate::docs::limits).
    pub const MAX_SECRETS: u8 = 8;

    /// Restores stored secrets.
    ///
    /// # Errors
    /// If two have the same number, or a number is out of range.
    pub fn from_stored(
        secrets: impl IntoIterator<Item = (u8, LegacySecret)>,
    ) -> Result<Self, &'static str> {
        let mut stored = BTreeMap::new();
        for (number, secret) in secrets {
            if !(1..=Self::MAX_SECRETS).contains(&number) || stored.insert(number, secret).is_some()
            {
                return Err("the number of a secret is out of range or occurs twice");
            }
        }
        Ok(Self(stored))
    }

    /// Adds a secret and returns its number. A secret that is already present keeps its number.
    ///
    /// # Errors
    /// If there are [`Self::MAX_SECRETS`] already. The message says what to do.
    pub fn with_secret(&self, secret: &LegacySecret) -> Result<(Self, u8), &'static str> {
        if let Some((number, _)) = self.iter().find(|(_, stored)| *stored == secret) {
            return Ok((self.clone(), number));
        }
        let free = (1..=Self::MAX_SECRETS).find(|number| !self.0.contains_key(number));
        let number = free.ok_or(
            "imported keys of 8 other servers have not been used yet; use or revoke the keys of \
             one of these servers first",
        )?;
        let mut more = self.clone();
        more.0.insert(number, secret.clone());
        Ok((more, number))
    }

    /// Returns only the secrets with these numbers.
    pub fn retain_numbers(&self, needed: &BTreeSet<u8>) -> Self {
        Self(
            self.iter()
                .filter(|(number, _)| needed.contains(number))
                .map(|(number, secret)| (number, secret.clone()))
                .collect(),
        )
    }

    /// True if there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Secrets with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &LegacySecret)> {
        self.0.iter().map(|(number, secret)| (*number, secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> LegacySecret {
        LegacySecret::parse(text).unwrap()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_equal_those_of_the_other_server() {
        // Python: hmac.new(secret, key, hashlib.sha256).hexdigest()
        for (own, key, digest) in [
            (
                "s3cret",
                "hcw_abcdefghijklmnopqrstuvwxyz01",
                "17e81515a4e915712af8fd8dc3c5ace0c3787e7f941bcab00d858d932a930abe",
            ),
            (
                &"long-".repeat(20),
                "hcr_abcdefghijklmnopqrstuvwxyz01",
                "07624e366167067785c3e41adae3b49782d845b6c9a0719f10b649b478c28574",
            ),
            (
                &"x".repeat(64),
                "ž",
                "f1f7b684df73db2de4fa37ba7060110b1c954c30429adc7ef6984dc829bcc309",
            ),
        ] {
            assert_eq!(
                hex(&secret(own).digest_key(key.as_bytes()).0),
                digest,
                "{own}"
            );
        }
    }

    #[test]
    fn digests_are_equal_only_if_all_bytes_are() {
        let digest = LegacyKeyDigest([7; 32]);
        assert!(digest == LegacyKeyDigest([7; 32]));
        for at in [0, 15, 31] {
            let mut other = digest;
            other.0[at] = 8;
            assert!(digest != other, "{at}");
        }
    }

    #[test]
    fn secrets_and_derived_keys_are_never_shown() {
        let secret = secret("s3cret");
        let shown = format!(
            "{secret:?} {:?} {:?}",
            LegacyBadgeKey::for_project("bk-1", &secret),
            secret.digest_key(b"key")
        );
        assert_eq!(
            shown,
            "LegacySecret(..) LegacyBadgeKey(..) LegacyKeyDigest(..)"
        );
        let (adopted, _) = LegacySecrets::default().with_secret(&secret).unwrap();
        assert!(!format!("{adopted:?}").contains("s3cret"));
        assert!(
            LegacySecret::parse("").is_err() && LegacySecret::parse(&"x".repeat(1_001)).is_err()
        );
    }

    #[test]
    fn the_prefix_of_a_key_shows_its_access() {
        for (text, read_only) in [
            ("hcw_abc", Some(false)),
            ("hcr_abc", Some(true)),
            ("hcw", None),
            ("HCW_abc", None),
            ("", None),
            ("xhcw_", None),
        ] {
            assert_eq!(
                LegacyKey::read_only_by_prefix(text.as_bytes()),
                read_only,
                "{text}"
            );
        }
        for read_only in [false, true] {
            assert_eq!(
                LegacyKey::read_only_by_prefix(LegacyKey::prefix(read_only).as_bytes()),
                Some(read_only)
            );
        }
    }

    #[test]
    fn each_secret_has_a_number_until_it_is_forgotten() {
        let mut adopted = LegacySecrets::default();
        for number in 1..=LegacySecrets::MAX_SECRETS {
            for _ in 0..2 {
                let (more, own) = adopted
                    .with_secret(&secret(&format!("secret {number}")))
                    .unwrap();
                assert_eq!(own, number);
                adopted = more;
            }
        }
        assert!(adopted.with_secret(&secret("one more")).is_err());
        let fewer = adopted.retain_numbers(&BTreeSet::from([1, 3, 9]));
        assert_eq!(
            fewer
                .iter()
                .map(|(number, secret)| (number, secret.as_str()))
                .collect::<Vec<_>>(),
            [(1, "secret 1"), (3, "secret 3")]
        );
        assert_eq!(fewer.with_secret(&secret("another")).unwrap().1, 2);
        assert!(adopted.retain_numbers(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn stored_secrets_are_restored_or_rejected() {
        let read = |numbers: &[u8]| {
            LegacySecrets::from_stored(
                numbers
                    .iter()
                    .map(|number| (*number, secret(&number.to_string()))),
            )
            .is_ok()
        };
        assert!(read(&[]) && read(&[1, 8]));
        assert!(!read(&[0]) && !read(&[9]) && !read(&[2, 2]));
    }
}
