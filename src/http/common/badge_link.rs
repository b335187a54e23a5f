//! Signed part of badge URLs. It names a project and a tag; a signature for another tag needs the
//! secret.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::percent_decode_str;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::domain::legacy_keys::LegacyBadgeKey;
use crate::domain::project::BadgeSecret;
use crate::http::common::badge_path::{BadgeFormat, BadgePath, BadgeStates, SIGNATURE_LENGTH};

/// Badge URLs of a tag, or of a whole project, with their names.
pub(crate) fn badge_urls(
    base_url: &str,
    secret: &BadgeSecret,
    badge_key: &str,
    tag: Option<&str>,
) -> [(&'static str, String); 6] {
    let signature: Box<str> = signature(secret, badge_key, tag).into();
    let link = |states, format| {
        let badge_key = badge_key.into();
        let signature = signature.clone();
        let tag = tag.map(Box::from);
        let mut url = base_url.to_owned();
        let path = BadgePath::Tag {
            badge_key,
            signature,
            states,
            tag,
            format,
        };
        path.write(&mut url);
        url
    };
    [
        ("svg", link(BadgeStates::Two, BadgeFormat::Svg)),
        ("svg3", link(BadgeStates::Three, BadgeFormat::Svg)),
        ("json", link(BadgeStates::Two, BadgeFormat::Json)),
        ("json3", link(BadgeStates::Three, BadgeFormat::Json)),
        ("shields", link(BadgeStates::Two, BadgeFormat::Shields)),
        ("shields3", link(BadgeStates::Three, BadgeFormat::Shields)),
    ]
}

/// Returns the tag of a badge URL if its signature is valid: signed by this server, or by the
/// server that the project was imported from. `Some(None)`: all checks.
pub(crate) fn verified_tag<'a>(
    secret: &BadgeSecret,
    old: Option<&LegacyBadgeKey>,
    badge_key: &str,
    tag: Option<&'a str>,
    claimed: &str,
) -> Option<Option<Cow<'a, str>>> {
    let is = |signature: String| bool::from(signature.as_bytes().ct_eq(claimed.as_bytes()));
    if is(signature(secret, badge_key, tag)) {
        return Some(tag.map(Cow::Borrowed));
    }
    // Healthchecks lists URLs whose tags are escaped twice, and accepts them.
    let tag = tag
        .map(|tag| percent_decode_str(tag).decode_utf8())
        .transpose()
        .ok()?;
    old.is_some_and(|old| is(encode_signature(&old.sign_tag(tag.as_deref()))))
        .then_some(tag)
}

/// First 8 characters of an HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &BadgeSecret, badge_key: &str, tag: Option<&str>) -> String {
    // A badge key contains no slash, so no two badges sign the same text.
    let mac = match tag {
        Some(tag) => hmac_of(secret, &[badge_key.as_bytes(), b"/", tag.as_bytes()]),
        None => hmac_of(secret, &[badge_key.as_bytes()]),
    };
    encode_signature(&mac.finalize().into_bytes())
}

/// Encodes the first [`SIGNATURE_LENGTH`] characters of a MAC, as they appear in URLs.
fn encode_signature(mac: &[u8]) -> String {
    let mut signature = BASE64_URL_SAFE_NO_PAD.encode(mac);
    signature.truncate(SIGNATURE_LENGTH);
    signature
}

/// HMAC-SHA-256 of a text given in parts.
pub(super) fn hmac_of(secret: &BadgeSecret, parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key shorter than a block is padded with zeros (RFC 2104, section 2).
    let mut block = [0; 64];
    block
        .iter_mut()
        .zip(&secret.0)
        .for_each(|(byte, secret)| *byte = *secret);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::legacy_keys::LegacySecret;
    use proptest::prelude::*;

    const SECRET: BadgeSecret = BadgeSecret([7; 32]);

    /// Tag, states and format of a URL whose signature is valid.
    fn parse(
        secret: &BadgeSecret,
        url: &str,
    ) -> Option<(Option<Box<str>>, BadgeStates, BadgeFormat)> {
        let segments: Vec<_> = url.strip_prefix("http://h/badge/")?.split('/').collect();
        match BadgePath::parse_tag(&segments)? {
            BadgePath::Tag {
                badge_key,
                signature,
                states,
                tag,
                format,
            } => {
                let tag = verified_tag(secret, None, &badge_key, tag.as_deref(), &signature)?;
                Some((tag.map(Box::from), states, format))
            }
            _ => None,
        }
    }

    fn svg3(tag: Option<&str>) -> String {
        let [_, (_, url), ..] = badge_urls("http://h", &SECRET, "key", tag);
        url
    }

    #[test]
    fn a_tag_is_one_segment_and_a_project_has_none() {
        for (tag, end) in [
            (None, ".svg"),
            (Some("prod"), "/prod.svg"),
            (Some("a/b#c d"), "/a%2Fb%23c%20d.svg"),
            (Some("v1.2"), "/v1.2.svg"),
            (Some("ž"), "/%C5%BE.svg"),
            (Some("*"), "/%2A.svg"),
        ] {
            let url = svg3(tag);
            assert_eq!(
                &url.strip_prefix("http://h/badge/key/").unwrap()[SIGNATURE_LENGTH..],
                end
            );
        }
    }

    #[test]
    fn a_signature_fits_one_secret_one_project_and_one_tag() {
        let all = svg3(None);
        let tag = svg3(Some("prod"));
        assert!(parse(&SECRET, &all).is_some() && parse(&SECRET, &tag).is_some());
        assert_eq!(parse(&BadgeSecret([8; 32]), &all), None);
        let signature = tag
            .strip_prefix("http://h/badge/key/")
            .and_then(|rest| rest.strip_suffix("/prod.svg"))
            .unwrap();
        for forged in [
            format!("kex/{signature}/prod.svg"),
            format!("key/{signature}/pro.svg"),
            format!("key/{signature}.svg"),
            format!("key/{signature}-3/prod.svg"),
            format!("key/{signature}x/prod.svg"),
            format!("key/{}/prod.svg", &signature[1..]),
            format!("key/{signature}/prod.png"),
            format!("key/{signature}/prod.SVG"),
            format!("key/{signature}/prod"),
            format!("key/{signature}/prod%FF.svg"),
            "key/äöüß/prod.svg".to_owned(),
            "key/.svg".to_owned(),
        ] {
            assert_eq!(
                parse(&SECRET, &format!("http://h/badge/{forged}")),
                None,
                "{forged}"
            );
        }
        assert_eq!(
            parse(&SECRET, &all.replace(".svg", "/*.svg")),
            None,
            "a tag named * is not the whole project"
        );
    }

    #[test]
    fn a_signature_of_the_previous_server_is_accepted() {
        let old = |badge_key: &str, secret: &str| {
            LegacyBadgeKey::for_project(badge_key, &LegacySecret::parse(secret).unwrap())
        };
        let own = old("bk-1", "s3cret");
        // As django.utils.crypto and hc.lib.badges create them.
        let signed = [
            (Some("x"), "Wv_yDCgl"),
            (None, "KWG_fXEJ"),
            (Some("ž"), "F4ihuk6A"),
        ];
        let of = |old: Option<&LegacyBadgeKey>, tag: Option<&str>, claimed: &str| {
            verified_tag(&SECRET, old, "bk-1", tag, claimed).map(|tag| tag.map(Cow::into_owned))
        };
        for (tag, claimed) in signed {
            let own_tag = Some(tag.map(str::to_owned));
            assert_eq!(of(Some(&own), tag, claimed), own_tag);
            for other in [
                None,
                Some(old("bk-2", "s3cret")),
                Some(old("bk-1", "S3cret")),
            ] {
                assert_eq!(of(other.as_ref(), tag, claimed), None, "{tag:?}");
            }
            for (tag, claimed) in [(Some("y"), claimed), (tag, &claimed[..7]), (tag, "")] {
                assert_eq!(of(Some(&own), tag, claimed), None, "{tag:?}");
            }
            assert_eq!(
                of(Some(&own), tag, &signature(&SECRET, "bk-1", tag)),
                own_tag,
                "ours goes on being known"
            );
        }
        // Healthchecks escapes tags twice; the router has already decoded them once.
        for (escaped, tag, claimed) in [
            ("a%2Fb", "a/b", "4V7tenab"),
            ("50%252F", "50%2F", "jICEePbu"),
            ("%C5%BE", "ž", "F4ihuk6A"),
        ] {
            assert_eq!(
                of(Some(&own), Some(escaped), claimed),
                Some(Some(tag.to_owned()))
            );
            assert_eq!(of(None, Some(escaped), claimed), None);
            let ours = signature(&SECRET, "bk-1", Some(escaped));
            assert_eq!(
                of(Some(&own), Some(escaped), &ours),
                Some(Some(escaped.to_owned())),
                "ours are escaped once"
            );
        }
        assert_eq!(of(Some(&own), Some("%FF"), "F4ihuk6A"), None);
    }

    proptest! {
        #[test]
        fn any_tag_survives_its_urls(
            secret in any::<[u8; 32]>().prop_map(BadgeSecret),
            tag in any::<String>(),
        ) {
            for (name, url) in badge_urls("http://h", &secret, "key", Some(&tag)) {
                let is_plain =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%:/".contains(&byte);
                prop_assert!(url.bytes().all(is_plain), "{url}");
                let states = match name.ends_with('3') {
                    true => BadgeStates::Three,
                    false => BadgeStates::Two,
                };
                let format = BadgeFormat::ALL
                    .into_iter()
                    .find(|format| format.name() == name.trim_end_matches('3'))
                    .unwrap();
                prop_assert_eq!(
                    parse(&secret, &url),
                    Some((Some(tag.as_str().into()), states, format))
                );
            }
        }
    }
}
