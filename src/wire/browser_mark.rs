//! The mark of a browser in which a user has signed in before. Wrong passwords that others try do not keep it out. Nobody can make the mark of
//! a user without the secret of the server.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::domain::ids::write_uuid;
use crate::domain::project::BadgeSecret;
use crate::wire::badge_link::mac;

/// Characters of the part that tells marks of one user apart.
pub(crate) const NONCE_LENGTH: usize = 16;
/// Characters of a mark: the nonce and 32 bytes in base64.
pub(crate) const LENGTH: usize = NONCE_LENGTH + 43;

/// Makes the mark of a user with these random characters.
pub(crate) fn mark(secret: &BadgeSecret, user: Uuid, nonce: &str) -> String {
    format!("{nonce}{}", signature(secret, user, nonce))
}

/// True if this is a mark of the user.
pub(crate) fn is_of(secret: &BadgeSecret, user: Uuid, mark: &str) -> bool {
    let parts = mark.split_at_checked(NONCE_LENGTH);
    parts.is_some_and(|(nonce, claimed)| signature(secret, user, nonce).as_bytes().ct_eq(claimed.as_bytes()).into())
}

/// An HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &BadgeSecret, user: Uuid, nonce: &str) -> String {
    // The text of no badge and of no link that unsubscribes.
    let mut text = "browser\n".to_owned();
    write_uuid(user, &mut text);
    BASE64_URL_SAFE_NO_PAD.encode(mac(secret, &[text.as_bytes(), b"\n", nonce.as_bytes()]).finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_that_of_one_user_and_one_secret() {
        let (secret, [ann, bob]) = (BadgeSecret([7; 32]), [1, 2].map(Uuid::from_u128));
        let made = mark(&secret, ann, "0123456789abcdef");
        assert_eq!(made.len(), LENGTH);
        assert!(is_of(&secret, ann, &made));
        let swapped = made.replacen('0', "1", 1);
        for (secret, user, mark) in [
            (&secret, bob, made.as_str()),
            (&BadgeSecret([8; 32]), ann, &made),
            (&secret, ann, &swapped),
            (&secret, ann, &made[1..]),
            (&secret, ann, &made[..NONCE_LENGTH]),
            (&secret, ann, ""),
            (&secret, ann, "žžžžžžžžž"),
        ] {
            assert!(!is_of(secret, user, mark), "{mark}");
        }
    }
}
