//! The signed part of badge URLs: it names a project and a tag, and cannot be made for another tag without the secret.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::{Format, States};

/// All but the unreserved characters of RFC 3986, section 2.3: a tag stays one segment whatever it has in it.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters of a signature; each stands for six bits.
const SIGNATURE_LENGTH: usize = 8;

/// What the signature of a two-state badge has behind it (contract, Badge set).
const TWO_STATES: &str = "-2";

/// The URLs of the badge of a tag, or of a whole project, with their names (contract, Badge set).
pub(crate) fn links(base_url: &str, secret: &[u8; 32], badge_key: &str, tag: Option<&str>) -> [(&'static str, String); 6] {
    let signature = signature(secret, badge_key, tag);
    let tag = tag.map(|tag| format!("/{}", utf8_percent_encode(tag, ESCAPED))).unwrap_or_default();
    let link = |states, format: Format| format!("{base_url}/badge/{badge_key}/{signature}{states}{tag}.{}", format.name());
    [
        ("svg", link(TWO_STATES, Format::Svg)),
        ("svg3", link("", Format::Svg)),
        ("json", link(TWO_STATES, Format::Json)),
        ("json3", link("", Format::Json)),
        ("shields", link(TWO_STATES, Format::Shields)),
        ("shields3", link("", Format::Shields)),
    ]
}

/// What a signed URL asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Link<'a> {
    /// The segment that names the project.
    pub(super) badge_key: &'a str,
    /// `None`: all checks of the project.
    pub(super) tag: Option<Cow<'a, str>>,
    pub(super) states: States,
    pub(super) format: Format,
}

impl<'a> Link<'a> {
    /// Reads the segments of a URL behind `/badge/`, the last of which bears the format; `None` when the signature does not fit.
    pub(super) fn parse(secret: &[u8; 32], badge_key: &'a str, signed: &'a str, tag: Option<&'a str>) -> Option<Self> {
        let (last, format) = tag.unwrap_or(signed).rsplit_once('.')?;
        let (signed, tag) = match tag {
            Some(_) => (signed, Some(percent_decode_str(last).decode_utf8().ok()?)),
            None => (last, None),
        };
        // A signature may itself end in `-2`.
        let (claimed, states) = match signed.split_at_checked(SIGNATURE_LENGTH)? {
            (claimed, TWO_STATES) => (claimed, States::Two),
            (claimed, "") => (claimed, States::Three),
            _ => return None,
        };
        let due = signature(secret, badge_key, tag.as_deref());
        let fits: bool = due.as_bytes().ct_eq(claimed.as_bytes()).into();
        fits.then_some(Self { badge_key, tag, states, format: Format::parse(format)? })
    }
}

/// The first 8 characters of an HMAC-SHA-256 (RFC 2104) in URL-safe base64.
fn signature(secret: &[u8; 32], badge_key: &str, tag: Option<&str>) -> String {
    // A key shorter than a block is filled up with zeros (RFC 2104, section 2).
    let mut block = [0; 64];
    block.iter_mut().zip(secret).for_each(|(byte, secret)| *byte = *secret);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(badge_key.as_bytes());
    if let Some(tag) = tag {
        // No badge key has a slash in it, so no two badges give the same text.
        mac.update(b"/");
        mac.update(tag.as_bytes());
    }
    let mut signature = BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    signature.truncate(SIGNATURE_LENGTH);
    signature
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: [u8; 32] = [7; 32];

    /// Reads a URL as the route table hands it over.
    fn parse<'a>(secret: &[u8; 32], url: &'a str) -> Option<Link<'a>> {
        match *url.strip_prefix("http://h/badge/")?.split('/').collect::<Vec<_>>() {
            [key, signed] => Link::parse(secret, key, signed, None),
            [key, signed, tag] => Link::parse(secret, key, signed, Some(tag)),
            _ => None,
        }
    }

    fn svg3(tag: Option<&str>) -> String {
        let [_, (_, url), ..] = links("http://h", &SECRET, "key", tag);
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
            assert_eq!(&url.strip_prefix("http://h/badge/key/").unwrap()[SIGNATURE_LENGTH..], end);
        }
    }

    #[test]
    fn a_signature_fits_one_secret_one_project_and_one_tag() {
        let (all, tag) = (svg3(None), svg3(Some("prod")));
        assert!(parse(&SECRET, &all).is_some() && parse(&SECRET, &tag).is_some());
        assert_eq!(parse(&[8; 32], &all), None);
        let signature = tag.strip_prefix("http://h/badge/key/").and_then(|rest| rest.strip_suffix("/prod.svg")).unwrap();
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
            assert_eq!(parse(&SECRET, &format!("http://h/badge/{forged}")), None, "{forged}");
        }
        assert_eq!(parse(&SECRET, &all.replace(".svg", "/*.svg")), None, "a tag named * is not the whole project");
    }

    proptest! {
        #[test]
        fn any_tag_survives_its_urls(secret: [u8; 32], tag: String) {
            for (name, url) in links("http://h", &secret, "key", Some(&tag)) {
                prop_assert!(url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%:/".contains(&byte)), "{url}");
                let states = if name.ends_with('3') { States::Three } else { States::Two };
                let format = Format::parse(name.trim_end_matches('3')).unwrap();
                prop_assert_eq!(parse(&secret, &url), Some(Link { badge_key: "key", tag: Some(tag.as_str().into()), states, format }));
            }
        }
    }
}
