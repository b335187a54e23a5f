//! Unsubscribe links: each is for one recipient of one channel, and cannot be made for another one without the secret.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::domain::ids::write_uuid;
use crate::domain::project::BadgeSecret;
use crate::wire::badge_link::hmac_of;
use crate::wire::route::Route;

/// The link of a channel for one recipient, whose address does not stand in it.
pub(crate) fn unsubscribe_url(base_url: &str, secret: &BadgeSecret, channel: Uuid, recipient: &str) -> String {
    let mut url = base_url.to_owned();
    Route::Unsubscribe(channel, signature(secret, channel, Some(recipient)).into()).write(&mut url);
    url
}

/// True if a signature is that of a channel and a recipient, or of the channel alone, as earlier releases signed; `recipient` is `None`
/// then.
pub(crate) fn is_valid_signature(secret: &BadgeSecret, channel: Uuid, recipient: Option<&str>, claimed: &str) -> bool {
    signature(secret, channel, recipient).as_bytes().ct_eq(claimed.as_bytes()).into()
}

/// An HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &BadgeSecret, channel: Uuid, recipient: Option<&str>) -> String {
    // No badge key has a line end in it, so this is the text of no badge.
    let mut text = "unsubscribe\n".to_owned();
    write_uuid(channel, &mut text);
    if let Some(recipient) = recipient {
        text.push('\n');
        text.push_str(recipient);
    }
    BASE64_URL_SAFE_NO_PAD.encode(hmac_of(secret, &[text.as_bytes()]).finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_for_one_recipient_of_one_channel() {
        let (secret, channel) = (BadgeSecret([7; 32]), Uuid::from_u128(5));
        let url = unsubscribe_url("https://h/sub", &secret, channel, "a@b");
        let Some(Route::Unsubscribe(named, claimed)) = Route::parse(url.strip_prefix("https://h/sub").unwrap()) else { panic!("{url}") };
        assert_eq!(named, channel);
        assert!(is_valid_signature(&secret, channel, Some("a@b"), &claimed));
        for (secret, channel, recipient) in [
            (BadgeSecret([8; 32]), channel, Some("a@b")),
            (secret, Uuid::from_u128(6), Some("a@b")),
            (secret, channel, Some("b@b")),
            (secret, channel, None),
        ] {
            assert!(!is_valid_signature(&secret, channel, recipient, &claimed));
        }
        assert!([&claimed[1..], ""].into_iter().all(|claimed| !is_valid_signature(&secret, channel, Some("a@b"), claimed)));
    }
}
