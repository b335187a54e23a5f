//! Verification that a secret is that of the old server, by values that the server signed.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::domain::legacy_keys::{LegacyBadgeKey, LegacySecret};
use crate::import::source_row::SourceRow;

/// Maximum number of sessions that are verified.
pub(in crate::import) const MAX_SESSIONS: usize = 200;

/// Salt of Django for signatures of sessions.
const SESSION_SALT: &[u8] = b"django.contrib.sessions.SessionStoresigner";

/// Result of verifying the given secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum SecretVerdict {
    /// No readable signatures were found.
    #[default]
    Unknown,
    /// The secret made one of the signatures.
    Correct,
    /// The secret made none of this number of signatures.
    Incorrect(usize),
}

impl SecretVerdict {
    /// Returns the result with a further signature included.
    pub(super) fn with_signature(self, is_own: Option<bool>) -> Self {
        match (self, is_own) {
            (Self::Correct, _) | (_, Some(true)) => Self::Correct,
            (Self::Unknown, Some(false)) => Self::Incorrect(1),
            (Self::Incorrect(count), Some(false)) => Self::Incorrect(count + 1),
            (unchanged, None) => unchanged,
        }
    }
}

impl SecretVerdict {
    /// Returns advice about the given secret.
    pub(super) fn advice(self) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Correct => {
                Some("the SECRET_KEY is correct: it matches signatures in the source".into())
            }
            Self::Incorrect(count) => Some(format!(
                "the SECRET_KEY seems to be wrong: it matches none of {count} signatures in the \
                 source; with a wrong key, hashed API keys are rejected, and badge URLs of \
                 projects and tags return 404"
            )),
        }
    }
}

/// True if the secret signed the session in this row. `None` if the signature has another format,
/// as in releases before 2021.
pub(super) fn verify_session_signature(row: &SourceRow, secret: &LegacySecret) -> Option<bool> {
    let (value, signature) = row.text("session_data").ok()?.rsplit_once(':')?;
    let signature = BASE64_URL_SAFE_NO_PAD
        .decode(signature)
        .ok()
        .filter(|signature| signature.len() == 32)?;
    // The signed text is a value and a time.
    value.contains(':').then_some(())?;
    let key = Sha256::new()
        .chain_update(SESSION_SALT)
        .chain_update(secret.as_str())
        .finalize();
    let mac = Hmac::<Sha256>::new_from_slice(&key)
        .ok()?
        .chain_update(value)
        .finalize()
        .into_bytes();
    Some(mac.as_slice() == signature)
}

/// True if the secret signed the badge of a whole project. `None` if the signature has another
/// length.
pub(super) fn verify_badge_signature(signature: &str, badge: &LegacyBadgeKey) -> Option<bool> {
    let expected = BASE64_URL_SAFE_NO_PAD.encode(badge.sign_tag(None));
    (signature.len() == 8).then(|| expected.starts_with(signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::source_row::SourceTable;
    use crate::import::tests::texts;

    #[test]
    fn a_signature_proves_a_secret_right_or_wrong() {
        // Django 5.2: signing.dumps({"_auth_user_id": "1"},
        // salt="django.contrib.sessions.SessionStore", compress=True)
        let session =
            "eyJfYXV0aF91c2VyX2lkIjoiMSJ9:1x8elk:N8HQR8ov3262IblOrEIwOOBxAUUTTLZ9dnuydb1Zqbk";
        let signed = |data: &str, secret: &str| {
            verify_session_signature(
                &texts(SourceTable::Session, &[("session_data", data)]),
                &LegacySecret::parse(secret).unwrap(),
            )
        };
        assert_eq!(
            (
                signed(session, "s3cret"),
                signed(session, "s3cret # comment")
            ),
            (Some(true), Some(false))
        );
        assert_eq!(
            (
                signed("YmFzZTY0", "s3cret"),
                signed("", "s3cret"),
                signed("a:b", "s3cret")
            ),
            (None, None, None)
        );
        let badge = LegacyBadgeKey::for_project("bk-1", &LegacySecret::parse("s3cret").unwrap());
        let own = BASE64_URL_SAFE_NO_PAD.encode(badge.sign_tag(None));
        assert_eq!(verify_badge_signature(&own[..8], &badge), Some(true));
        assert_eq!(
            (
                verify_badge_signature("AAAAAAAA", &badge),
                verify_badge_signature("", &badge)
            ),
            (Some(false), None)
        );
    }

    #[test]
    fn one_signature_is_enough() {
        let proof = |signatures: &[Option<bool>]| {
            signatures
                .iter()
                .fold(SecretVerdict::default(), |proof, own| {
                    proof.with_signature(*own)
                })
        };
        assert_eq!(proof(&[None, None]), SecretVerdict::Unknown);
        assert_eq!(
            proof(&[None, Some(false), Some(false)]),
            SecretVerdict::Incorrect(2)
        );
        assert_eq!(
            proof(&[Some(false), Some(true), Some(false)]),
            SecretVerdict::Correct
        );
    }
}
