//! Conversion of URLs and mail addresses to the format of this server, where it is lossless.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use unicode_normalization::UnicodeNormalization as _;

/// A converted URL or other value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ConvertedValue {
    pub(super) value: String,
    /// Value of the header `Authorization` for a user name in the URL.
    pub(super) authorization: Option<String>,
    /// Changes, as parts of a sentence.
    pub(super) changes: Vec<&'static str>,
}

/// Converts a URL. Other values stay unchanged.
pub(super) fn convert_url(text: &str) -> ConvertedValue {
    let mut converted = ConvertedValue {
        value: text.into(),
        ..ConvertedValue::default()
    };
    let Some((scheme, rest)) = text.split_once("://") else {
        return converted;
    };
    let rest = match rest.split_once('#') {
        Some((sent, _)) => {
            converted
                .changes
                .push("the fragment, which is never sent, is removed");
            sent
        }
        None => rest,
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once('@') {
        Some(("", host)) => {
            converted
                .changes
                .push("the @ without a user name is removed");
            host
        }
        Some((user, host)) => {
            converted.authorization = Some(basic_auth_header(user));
            converted
                .changes
                .push("the user name and password are sent in a header");
            host
        }
        None => authority,
    };
    let host = if host.is_ascii() {
        host.to_owned()
    } else {
        converted
            .changes
            .push("the host name is converted to ASCII");
        to_ascii_host(host)
    };
    let path = percent_encode(path);
    if path != rest[end..] {
        converted
            .changes
            .push("characters that are invalid in a URL are percent-encoded");
    }
    converted.value = format!("{scheme}://{host}{path}");
    converted
}

/// Returns the value of `Authorization` for a user name and password of a URL. The colon is there
/// even without a password (RFC 7617, section 2).
fn basic_auth_header(userinfo: &str) -> String {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let decoded: Vec<u8> = percent_decode_str(user)
        .chain(*b":")
        .chain(percent_decode_str(password))
        .collect();
    format!("Basic {}", BASE64_STANDARD.encode(decoded))
}

/// Converts mail addresses that are separated by commas.
pub(super) fn convert_mail_addresses(text: &str) -> ConvertedValue {
    if text.is_ascii() {
        return ConvertedValue {
            value: text.into(),
            ..ConvertedValue::default()
        };
    }
    let parts = text
        .split(',')
        .map(|address| match address.rsplit_once('@') {
            Some((local, host)) => format!("{local}@{}", to_ascii_host(host)),
            None => address.to_owned(),
        });
    ConvertedValue {
        value: parts.collect::<Vec<_>>().join(","),
        authorization: None,
        changes: vec!["the host name is converted to ASCII"],
    }
}

/// Percent-encodes characters that are invalid in a URL.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Converts each label of a host name to ASCII (RFC 5891). The text after the host name is kept.
fn to_ascii_host(host: &str) -> String {
    let label = |label: &str| {
        if label.is_ascii() {
            return label.to_owned();
        }
        let normal: String = label.to_lowercase().nfkc().collect();
        encode_punycode(&normal).map_or_else(|| label.to_owned(), |ascii| format!("xn--{ascii}"))
    };
    host.split('.').map(label).collect::<Vec<_>>().join(".")
}

/// Maximum number of characters of a label of a host name (RFC 1035, section 2.3.4). An encoded
/// label begins with `xn--`.
const MAX_LABEL_CHARS: usize = 63;
const MAX_ENCODED_CHARS: usize = MAX_LABEL_CHARS - "xn--".len();

/// Encodes a label (RFC 3492, section 6.3); `None` if it is too long. The time grows with the
/// square of the length.
fn encode_punycode(label: &str) -> Option<String> {
    if label.chars().nth(MAX_LABEL_CHARS).is_some() {
        return None;
    }
    const BASE: u32 = 36;
    let digit =
        |value: u32| char::from_digit(if value < 26 { value + 10 } else { value - 26 }, BASE);
    let mut output: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(output.len()).ok()?;
    if basic > 0 {
        output.push('-');
    }
    let mut code = 128_u32;
    let mut delta = 0_u32;
    let mut bias = 72_u32;
    let mut handled = basic;
    let count = u32::try_from(label.chars().count()).ok()?;
    while handled < count {
        let next = label
            .chars()
            .map(u32::from)
            .filter(|character| *character >= code)
            .min()?;
        delta = delta.checked_add((next - code).checked_mul(handled + 1)?)?;
        code = next;
        for character in label.chars().map(u32::from) {
            if character < code {
                delta = delta.checked_add(1)?;
            }
            if character != code {
                continue;
            }
            let mut rest = delta;
            let mut position = BASE;
            loop {
                let threshold = position.saturating_sub(bias).clamp(1, 26);
                if rest < threshold {
                    break;
                }
                output.push(digit(threshold + (rest - threshold) % (BASE - threshold))?);
                rest = (rest - threshold) / (BASE - threshold);
                position += BASE;
            }
            output.push(digit(rest)?);
            // RFC 3492, section 6.1.
            let mut scaled = if handled == basic {
                delta / 700
            } else {
                delta / 2
            };
            scaled += scaled / (handled + 1);
            let mut steps = 0;
            while scaled > 455 {
                scaled /= BASE - 1;
                steps += BASE;
            }
            bias = steps + BASE * scaled / (scaled + 38);
            (delta, handled) = (0, handled + 1);
        }
        delta = delta.checked_add(1)?;
        code = code.checked_add(1)?;
    }
    (output.len() <= MAX_ENCODED_CHARS).then_some(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_encoded_as_in_the_standard() {
        // Examples of RFC 3492, section 7.1, and names that exist.
        for (label, ascii) in [
            ("bücher", "bcher-kva"),
            ("münchen", "mnchen-3ya"),
            ("rīga", "rga-uta"),
            ("他们为什么不说中文", "ihqwcrb4cv8a8dqg056pqjye"),
            (
                "почемужеонинеговорятпорусски",
                "b1abfaaepdrnnbgefbadotcwatmq2g4l",
            ),
            ("3年b組金八先生", "3b-ww4c5e180e575a65lsy2b"),
        ] {
            assert_eq!(encode_punycode(label).as_deref(), Some(ascii), "{label}");
        }
    }

    #[test]
    fn invalid_labels_are_not_encoded() {
        for (label, is_encoded) in [
            (format!("{}ž", "a".repeat(50)), true),
            // In ASCII the label would be too long.
            (format!("{}ž", "a".repeat(62)), false),
            (format!("{}ž", "a".repeat(63)), false),
            // Encoding these would take hours.
            (
                ('\u{4e00}'..)
                    .take(20_000)
                    .cycle()
                    .take(2_000_000)
                    .collect(),
                false,
            ),
        ] {
            assert_eq!(
                encode_punycode(&label).is_some(),
                is_encoded,
                "{}",
                label.len()
            );
            let converted = convert_url(&format!("https://{label}.example/"));
            assert_eq!(converted.value.is_ascii(), is_encoded, "{}", label.len());
        }
    }

    #[test]
    fn urls_and_addresses_are_converted() {
        for (text, value, authorization, changes) in [
            (
                "https://a.example/x?y=$NAME",
                "https://a.example/x?y=$NAME",
                None,
                0,
            ),
            (
                "https://user:p%40w@a.example/x",
                "https://a.example/x",
                Some("Basic dXNlcjpwQHc="),
                1,
            ),
            // As curl sends it.
            (
                "https://TOKEN@a.example/x",
                "https://a.example/x",
                Some("Basic VE9LRU46"),
                1,
            ),
            (
                "https://a%3Ab:c%3Ad@a.example/x",
                "https://a.example/x",
                Some("Basic YTpiOmM6ZA=="),
                1,
            ),
            (
                "https://a%3Ab@a.example/x",
                "https://a.example/x",
                Some("Basic YTpiOg=="),
                1,
            ),
            (
                "https://:pw@a.example/x",
                "https://a.example/x",
                Some("Basic OnB3"),
                1,
            ),
            ("https://@a.example/x", "https://a.example/x", None, 1),
            ("https://a.example/x#top", "https://a.example/x", None, 1),
            (
                "https://Bücher.example:8443/ä b",
                "https://xn--bcher-kva.example:8443/%C3%A4%20b",
                None,
                2,
            ),
            ("nothing", "nothing", None, 0),
        ] {
            let converted = convert_url(text);
            assert_eq!(
                (converted.value.as_str(), converted.authorization.as_deref()),
                (value, authorization),
                "{text}"
            );
            assert_eq!(converted.changes.len(), changes, "{text}");
        }
        assert_eq!(
            convert_mail_addresses("ops@bücher.example,a@b.example").value,
            "ops@xn--bcher-kva.example,a@b.example"
        );
        assert!(convert_mail_addresses("ops@b.example").changes.is_empty());
    }
}
