//! Unsubscribe links. Each is for one recipient of one channel; a link for another one needs the
//! secret.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::domain::ids::{parse_path_uuid, write_uuid};
use crate::domain::project::BadgeSecret;
use crate::http::common::badge_link::hmac_of;

/// Path of an unsubscribe link: `/unsubscribe/<uuid of a channel>/<signature>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnsubscribePath {
    pub(crate) channel: Uuid,
    pub(crate) signature: Box<str>,
}

impl UnsubscribePath {
    /// Parses the segments after `/unsubscribe/`.
    pub(crate) fn parse(segments: &[&str]) -> Option<Self> {
        let [channel, signature] = segments else {
            return None;
        };
        Some(Self {
            channel: parse_path_uuid(channel)?,
            signature: (*signature).into(),
        })
    }

    pub(crate) fn write(&self, out: &mut String) {
        out.push_str("/unsubscribe/");
        write_uuid(self.channel, out);
        out.extend(["/", &self.signature]);
    }
}

/// Unsubscribe URL for one recipient of a channel. It does not contain the recipient's address.
pub(crate) fn unsubscribe_url(
    base_url: &str,
    secret: &BadgeSecret,
    channel: Uuid,
    recipient: &str,
) -> String {
    let mut url = base_url.to_owned();
    let path = UnsubscribePath {
        channel,
        signature: signature(secret, channel, Some(recipient)).into(),
    };
    path.write(&mut url);
    url
}

/// True if the signature is valid for the channel and recipient. `recipient` is `None` for links of
/// earlier releases, which signed the channel alone.
pub(crate) fn is_valid_signature(
    secret: &BadgeSecret,
    channel: Uuid,
    recipient: Option<&str>,
    claimed: &str,
) -> bool {
    signature(secret, channel, recipient)
        .as_bytes()
        .ct_eq(claimed.as_bytes())
        .into()
}

/// HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &BadgeSecret, channel: Uuid, recipient: Option<&str>) -> String {
    // A badge key contains no line end, so no badge signs this text.
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
        let secret = BadgeSecret([7; 32]);
        let channel = Uuid::from_u128(5);
        let url = unsubscribe_url("https://h/sub", &secret, channel, "a@b");
        let segments = url.strip_prefix("https://h/sub/unsubscribe/").unwrap();
        let segments: Vec<_> = segments.split('/').collect();
        let path = UnsubscribePath::parse(&segments).unwrap();
        assert_eq!(path.channel, channel);
        let claimed = path.signature;
        assert!(is_valid_signature(&secret, channel, Some("a@b"), &claimed));
        for (secret, channel, recipient) in [
            (BadgeSecret([8; 32]), channel, Some("a@b")),
            (secret, Uuid::from_u128(6), Some("a@b")),
            (secret, channel, Some("b@b")),
            (secret, channel, None),
        ] {
            assert!(!is_valid_signature(&secret, channel, recipient, &claimed));
        }
        assert!(
            [&claimed[1..], ""]
                .into_iter()
                .all(|claimed| !is_valid_signature(&secret, channel, Some("a@b"), claimed))
        );
    }
}
