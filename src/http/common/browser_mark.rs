//! Mark of a browser in which a user has signed in before. A browser with a mark is not locked out
//! by wrong passwords that others try. A mark cannot be forged without the secret of the server. It
//! becomes invalid when the user changes the password or the second factor, or ends all sessions.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::domain::ids::write_uuid;
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::http::common::badge_link::hmac_of;

/// Length of the random part that distinguishes marks of one user, in characters.
pub(crate) const NONCE_LENGTH: usize = 16;
/// Length of a mark in characters: the nonce and 32 bytes in base64.
pub(crate) const MARK_LENGTH: usize = NONCE_LENGTH + 43;

/// Creates the mark of a user with these random characters.
///
/// `since`: see
/// [`User::browsers_trusted_since`](crate::domain::user::User::browsers_trusted_since).
pub(crate) fn new_mark(secret: &BadgeSecret, user: Uuid, since: Timestamp, nonce: &str) -> String {
    format!("{nonce}{}", signature(secret, user, since, nonce))
}

/// True if this is a valid mark of the user.
pub(crate) fn is_mark_of(secret: &BadgeSecret, user: Uuid, since: Timestamp, mark: &str) -> bool {
    let parts = mark.split_at_checked(NONCE_LENGTH);
    parts.is_some_and(|(nonce, claimed)| {
        signature(secret, user, since, nonce)
            .as_bytes()
            .ct_eq(claimed.as_bytes())
            .into()
    })
}

/// HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &BadgeSecret, user: Uuid, since: Timestamp, nonce: &str) -> String {
    // Badges and unsubscribe links never sign this text.
    let mut text = "browser\n".to_owned();
    write_uuid(user, &mut text);
    let since = since.micros().to_string();
    BASE64_URL_SAFE_NO_PAD.encode(
        hmac_of(
            secret,
            &[
                text.as_bytes(),
                b"\n",
                since.as_bytes(),
                b"\n",
                nonce.as_bytes(),
            ],
        )
        .finalize()
        .into_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_belongs_to_one_user_one_secret_and_one_time() {
        let secret = BadgeSecret([7; 32]);
        let [ann, bob] = [1, 2].map(Uuid::from_u128);
        let since = Timestamp::from_secs(5);
        let made = new_mark(&secret, ann, since, "0123456789abcdef");
        assert_eq!(made.len(), MARK_LENGTH);
        assert!(is_mark_of(&secret, ann, since, &made));
        let swapped = made.replacen('0', "1", 1);
        for (secret, user, since, mark) in [
            (&secret, bob, since, made.as_str()),
            (&BadgeSecret([8; 32]), ann, since, &made),
            (&secret, ann, since.plus_micros(1), &made),
            (&secret, ann, since, &swapped),
            (&secret, ann, since, &made[1..]),
            (&secret, ann, since, &made[..NONCE_LENGTH]),
            (&secret, ann, since, ""),
            (&secret, ann, since, "žžžžžžžžž"),
        ] {
            assert!(!is_mark_of(secret, user, since, mark), "{mark}");
        }
    }
}
