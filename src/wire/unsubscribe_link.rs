//! The link by which whoever gets a mail of a channel ends that. It cannot be made for another channel without the secret.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::domain::ids::write_uuid;
use crate::domain::project::BadgeSecret;
use crate::wire::badge_link::mac;
use crate::wire::route::Route;

/// The link of a channel.
pub(crate) fn link(base_url: &str, secret: &BadgeSecret, channel: Uuid) -> String {
    let mut url = base_url.to_owned();
    Route::Unsubscribe(channel, signature(secret, channel).into()).write(&mut url);
    url
}

/// Whether a signature is that of a channel.
pub(crate) fn is_signed(secret: &BadgeSecret, channel: Uuid, claimed: &str) -> bool {
    signature(secret, channel).as_bytes().ct_eq(claimed.as_bytes()).into()
}

/// An HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &BadgeSecret, channel: Uuid) -> String {
    // No badge key has a line end in it, so this is the text of no badge.
    let mut text = "unsubscribe\n".to_owned();
    write_uuid(channel, &mut text);
    BASE64_URL_SAFE_NO_PAD.encode(mac(secret, &[text.as_bytes()]).finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_for_one_channel_and_one_secret() {
        let (secret, channel) = (BadgeSecret([7; 32]), Uuid::from_u128(5));
        let url = link("https://h/sub", &secret, channel);
        let Some(Route::Unsubscribe(named, claimed)) = Route::parse(url.strip_prefix("https://h/sub").unwrap()) else { panic!("{url}") };
        assert_eq!(named, channel);
        assert!(is_signed(&secret, channel, &claimed));
        assert!(!is_signed(&BadgeSecret([8; 32]), channel, &claimed) && !is_signed(&secret, Uuid::from_u128(6), &claimed));
        assert!(!is_signed(&secret, channel, &claimed[1..]) && !is_signed(&secret, channel, ""));
    }
}
