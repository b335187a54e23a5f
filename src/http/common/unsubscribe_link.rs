//! Unsubscribe links. Each is for one recipient of one channel, or for the summaries of one user; a
//! link for another one needs the secret.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;
use subtle::ConstantTimeEq as _;

use crate::domain::ids::{parse_path_uuid, write_uuid};
use crate::domain::project::BadgeSecret;
use crate::http::common::badge_link::hmac_of;
use crate::notifier::UnsubscribeTarget;

/// Path of an unsubscribe link: `/unsubscribe/<uuid of a channel>/<signature>`, or
/// `/unsubscribe/summary/<uuid of a user>/<signature>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnsubscribePath {
    pub(crate) target: UnsubscribeTarget,
    pub(crate) signature: Box<str>,
}

impl UnsubscribePath {
    /// Parses the segments after `/unsubscribe/`.
    pub(crate) fn parse(segments: &[&str]) -> Option<Self> {
        let parsed = match segments {
            [channel, signature] => (
                UnsubscribeTarget::Channel(parse_path_uuid(channel)?),
                signature,
            ),
            ["summary", user, signature] => (
                UnsubscribeTarget::Summary(parse_path_uuid(user)?),
                signature,
            ),
            _ => return None,
        };
        Some(Self {
            target: parsed.0,
            signature: (*parsed.1).into(),
        })
    }

    pub(crate) fn write(&self, out: &mut String) {
        out.push_str("/unsubscribe/");
        let uuid = match self.target {
            UnsubscribeTarget::Channel(uuid) => uuid,
            UnsubscribeTarget::Summary(uuid) => {
                out.push_str("summary/");
                uuid
            }
        };
        write_uuid(uuid, out);
        out.extend(["/", &self.signature]);
    }
}

/// Unsubscribe URL for one recipient. It does not contain the recipient's address.
pub(crate) fn unsubscribe_url(
    base_url: &str,
    secret: &BadgeSecret,
    target: UnsubscribeTarget,
    recipient: &str,
) -> String {
    let mut url = base_url.to_owned();
    let path = UnsubscribePath {
        target,
        signature: signature(secret, target, Some(recipient)).into(),
    };
    path.write(&mut url);
    url
}

/// True if the signature is valid for the target and recipient. `recipient` is `None` for links of
/// earlier releases, which signed the channel alone.
pub(crate) fn is_valid_signature(
    secret: &BadgeSecret,
    target: UnsubscribeTarget,
    recipient: Option<&str>,
    claimed: &str,
) -> bool {
    signature(secret, target, recipient)
        .as_bytes()
        .ct_eq(claimed.as_bytes())
        .into()
}

/// HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &BadgeSecret, target: UnsubscribeTarget, recipient: Option<&str>) -> String {
    // A badge key contains no line end, so no badge signs these texts.
    let signed = match target {
        UnsubscribeTarget::Channel(uuid) => ("unsubscribe\n", uuid),
        UnsubscribeTarget::Summary(uuid) => ("unsubscribe summary\n", uuid),
    };
    let mut text = signed.0.to_owned();
    write_uuid(signed.1, &mut text);
    if let Some(recipient) = recipient {
        text.push('\n');
        text.push_str(recipient);
    }
    BASE64_URL_SAFE_NO_PAD.encode(hmac_of(secret, &[text.as_bytes()]).finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_link_is_for_one_recipient_of_one_target() {
        let secret = BadgeSecret([7; 32]);
        let uuid = Uuid::from_u128(5);
        let channel = UnsubscribeTarget::Channel(uuid);
        let summary = UnsubscribeTarget::Summary(uuid);
        for (target, other) in [(channel, summary), (summary, channel)] {
            let url = unsubscribe_url("https://h/sub", &secret, target, "a@b");
            let segments = url.strip_prefix("https://h/sub/unsubscribe/").unwrap();
            let segments: Vec<_> = segments.split('/').collect();
            let path = UnsubscribePath::parse(&segments).unwrap();
            assert_eq!(path.target, target);
            let claimed = path.signature;
            assert!(is_valid_signature(&secret, target, Some("a@b"), &claimed));
            let another = UnsubscribeTarget::Channel(Uuid::from_u128(6));
            for (secret, target, recipient) in [
                (BadgeSecret([8; 32]), target, Some("a@b")),
                (secret, another, Some("a@b")),
                (secret, other, Some("a@b")),
                (secret, target, Some("b@b")),
                (secret, target, None),
            ] {
                assert!(!is_valid_signature(&secret, target, recipient, &claimed));
            }
            assert!(
                [&claimed[1..], ""]
                    .into_iter()
                    .all(|claimed| !is_valid_signature(&secret, target, Some("a@b"), claimed))
            );
        }
    }
}
