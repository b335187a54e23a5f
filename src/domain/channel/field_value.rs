//! Validation of setting values, one function for each type of field. An error continues a sentence
//! that begins with the key. It never repeats the value.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use crate::domain::formatting::format_seconds;
use crate::domain::mail_address::MailAddress;
use crate::domain::text::is_host_name;
use crate::domain::timezone::Timezone;

/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 2_000;
/// Maximum length of a list in bytes.
const MAX_LIST_BYTES: usize = 2_000;
/// Maximum length of a header name and of its value, in bytes.
const MAX_HEADER_BYTES: (usize, usize) = (100, 1_000);
/// Maximum length of a label name and of its value, in bytes.
const MAX_LABEL_BYTES: (usize, usize) = (100, 1_000);
/// Maximum length of the path of a secret file, in bytes.
const MAX_PATH_BYTES: usize = 1_000;
/// Weekdays as they are written, Monday first.
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Headers that control routing and framing of a request. Only the sender sets them.
const RESERVED_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Validates a comma-separated list of at most `max` mail addresses.
pub(super) fn validate_mail_addresses(text: &str, max: usize) -> Result<(), String> {
    let addresses: Vec<_> = split_list(text).collect();
    if !addresses
        .iter()
        .all(|address| MailAddress::is_valid(address))
    {
        let problem = if addresses.len() == 1 {
            "is not one mail address"
        } else {
            "has an item that is not a mail address"
        };
        return Err(format!(
            "{problem} like ops@example.org; give just the address, without a name or brackets"
        ));
    }
    if addresses.len() > max {
        Err(format!(
            "has {} addresses; give at most {max}",
            addresses.len()
        ))
    } else {
        Ok(())
    }
}

/// Validates an international number (ITU-T E.164: at most 15 digits, no country code begins with
/// 0). Numbers with fewer than 7 digits reach no phone.
pub(crate) fn validate_phone_number(text: &str) -> Result<(), &'static str> {
    let is_number = text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0')
    });
    let reason =
        "is not a phone number like +37120000000; give + and 7 to 15 digits, country code first";
    if is_number { Ok(()) } else { Err(reason) }
}

/// Validates that the text is one of these words.
pub(super) fn validate_choice(text: &str, words: &[&str]) -> Result<(), String> {
    if words.contains(&text) {
        Ok(())
    } else {
        Err(format!(
            "is not one of {}; give one of these, exactly as written",
            words.join(", ")
        ))
    }
}

/// Validates a list of some of these words, each at most once.
pub(super) fn validate_words(text: &str, words: &[&str]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    if split_list(text).all(|item| words.contains(&item) && seen.insert(item)) {
        Ok(())
    } else {
        Err(format!(
            "is not a list of some of {}; give each at most once, separated by commas",
            words.join(", ")
        ))
    }
}

/// Parses a whole number from `min` to `max`, written without a plus sign or leading zeros.
pub(super) fn parse_number(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let number = text
        .parse::<i64>()
        .ok()
        .filter(|number| number.to_string() == text && (min..=max).contains(number));
    number
        .ok_or_else(|| format!("is not a whole number in range; give a number from {min} to {max}"))
}

/// Parses a whole number with a unit (`90s`, `30m`, `4h` or `2d`) and returns seconds.
///
/// # Errors
/// If the text has another form, or is not between `min` and `max` seconds.
pub fn parse_duration(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let in_unit = |(unit, seconds): (&str, i64)| {
        parse_number(text.strip_suffix(unit)?, 1, max)
            .ok()?
            .checked_mul(seconds)
    };
    let seconds = units
        .into_iter()
        .find_map(in_unit)
        .filter(|seconds| (min..=max).contains(seconds));
    seconds.ok_or_else(|| {
        let examples = [("90s", 90), ("30m", 1_800), ("4h", 14_400), ("2d", 172_800)];
        let mut examples: Vec<_> = examples
            .into_iter()
            .filter(|(_, seconds)| (min..=max).contains(seconds))
            .map(|(text, _)| text)
            .collect();
        let last = examples.pop().unwrap_or("2d");
        let others = examples.join(", ");
        let or = if others.is_empty() { "" } else { " or " };
        format!(
            "is not a duration from {} to {}; give one like {others}{or}{last}",
            format_seconds(min),
            format_seconds(max)
        )
    })
}

/// Parses a time range into the minutes of the day at which it begins and ends.
pub(super) fn parse_time_range(text: &str) -> Result<(u16, u16), &'static str> {
    let minute = |text: &str| {
        let (hour, minute) = text
            .split_once(':')
            .filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2)?;
        let number = |text: &str, max: u16| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u16>()
                .ok()
                .filter(|number| digits && *number < max)
        };
        Some(number(hour, 24)? * 60 + number(minute, 60)?)
    };
    let hours = text
        .split_once('-')
        .and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
    hours.ok_or(
        "is not a time range like 22:00-07:00; give two 24-hour times with a hyphen between them",
    )
}

/// Parses weekdays into a bit set; Monday is the lowest bit.
pub(super) fn parse_weekdays(text: &str) -> Result<u8, &'static str> {
    let day = |text: &str| WEEKDAYS.iter().position(|day| *day == text);
    let bits = split_list(text).try_fold(0, |bits, item| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let first = day(first)?;
        let last = day(last)?;
        // A range may wrap around the end of the week.
        let count = (last + 7 - first) % 7;
        Some((0..=count).fold(bits, |bits, more| bits | 1 << ((first + more) % 7)))
    });
    bits.ok_or(
        "is not a list of weekdays like mon-fri or sat,sun; use mon, tue, wed, thu, fri, sat and \
         sun",
    )
}

/// Validates the name of a time zone.
pub(super) fn validate_time_zone(text: &str) -> Result<(), String> {
    Timezone::parse(text)
        .map(drop)
        .map_err(|error| format!("is {error}"))
}

/// Parses the SHA-256 of a certificate: 64 hexadecimal digits. Also accepts the colons and the
/// prefix that `openssl x509 -fingerprint -sha256` prints.
pub(super) fn parse_certificate_pin(text: &str) -> Result<[u8; 32], &'static str> {
    let prefix = |prefix: &str| {
        text.split_at_checked(prefix.len())
            .filter(|(start, _)| start.eq_ignore_ascii_case(prefix))
            .map(|(_, rest)| rest)
    };
    let digits = ["sha256:", "sha256 fingerprint="]
        .into_iter()
        .find_map(prefix)
        .unwrap_or(text);
    let is_in_pairs =
        digits.split(':').count() == 32 && digits.split(':').all(|pair| pair.len() == 2);
    let digits = if is_in_pairs {
        digits.replace(':', "")
    } else {
        digits.to_owned()
    };
    let mut pin = [0; 32];
    let read = |digits: String| {
        for (byte, pair) in pin.iter_mut().zip(digits.as_bytes().as_chunks::<2>().0) {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
        }
        Some(pin)
    };
    Some(digits)
        .filter(|digits| digits.len() == 64 && digits.is_ascii())
        .and_then(read)
        .ok_or(
            "is not the SHA-256 of a certificate; give sha256: and the 64 digits of `openssl x509 \
             -noout -fingerprint -sha256 -in CERTIFICATE`",
        )
}

/// Validates one line of at least one character and at most `max_bytes` bytes.
pub(super) fn validate_line(text: &str, max_bytes: usize) -> Result<(), String> {
    self::validate_text(text, max_bytes)?;
    if text.trim().is_empty() {
        return Err("is empty; give a value, or leave it out".into());
    }
    if text.chars().any(char::is_control) {
        Err("has a control character; remove line breaks and tabs".into())
    } else {
        Ok(())
    }
}

/// Validates at most `max` lines separated by commas.
pub(super) fn validate_list(text: &str, max: usize) -> Result<(), String> {
    validate_line(text, MAX_LIST_BYTES)?;
    match split_list(text).count() {
        _ if split_list(text).any(str::is_empty) => {
            Err("has an empty item; separate the values by single commas".into())
        }
        count if count > max => Err(format!("has {count} items; give at most {max}")),
        _ => Ok(()),
    }
}

/// Splits a list and trims spaces around its items.
pub(super) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(|item| item.trim_matches(' '))
}

/// Validates an absolute path.
pub(super) fn validate_path(text: &str) -> Result<(), String> {
    validate_line(text, MAX_PATH_BYTES)?;
    if text.starts_with('/') {
        Ok(())
    } else {
        Err("is not an absolute path; give one that begins with /".into())
    }
}

/// Validates a text of at most `max_bytes` bytes.
pub(super) fn validate_text(text: &str, max_bytes: usize) -> Result<(), String> {
    if text.len() <= max_bytes {
        Ok(())
    } else {
        Err(format!(
            "has {} bytes; give at most {max_bytes}",
            text.len()
        ))
    }
}

/// Validates an absolute `http` or `https` URL (RFC 3986) without user name and fragment, since a
/// request carries neither.
pub(super) fn validate_url(text: &str) -> Result<(), String> {
    self::validate_text(text, MAX_URL_BYTES)?;
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
    {
        return Err("has a character that a URL must not have; percent-encode it".into());
    }
    let after_scheme = text.split_once("://").filter(|(scheme, _)| {
        ["http", "https"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(scheme))
    });
    let Some((_, rest)) = after_scheme else {
        return Err(
            "is not an http:// or https:// URL; give one like https://example.org/hook".into(),
        );
    };
    if rest.contains('#') {
        return Err("has a fragment, which is never sent; remove it, or write # as %23".into());
    }
    let authority = url_authority(rest);
    if authority.contains('@') {
        return Err("has a user name; give header.Authorization=... instead".into());
    }
    // The colon of the port is the last one, unless it is inside the brackets of an IPv6 address.
    let (host, port) = authority
        .rsplit_once(':')
        .filter(|(_, port)| !port.ends_with(']'))
        .unwrap_or((authority, "80"));
    let is_ipv6 = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|literal| literal.parse::<Ipv6Addr>().is_ok());
    if !is_ipv6 && !is_host_name(host) {
        return Err("has no valid host; give a URL like https://example.org/hook".into());
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit())
        || !port.parse::<u16>().is_ok_and(|port| port > 0)
    {
        return Err(
            "has no valid port; give one between 1 and 65535 after the host, or none".into(),
        );
    }
    Ok(())
}

/// Returns the host of a URL in lower case without its port, and the path with the query.
pub(crate) fn host_and_path(url: &str) -> Option<(String, &str)> {
    let (_, rest) = url.split_once("://")?;
    let (authority, path) = rest
        .find('/')
        .and_then(|at| rest.split_at_checked(at))
        .unwrap_or((rest, ""));
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    Some((host.to_ascii_lowercase(), path))
}

/// True if the URL is on this domain or one of its subdomains.
pub(crate) fn is_on_domain(url: &str, domain: &str) -> bool {
    let is_in = |host: &str| {
        host == domain
            || host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    host_and_path(url).is_some_and(|(host, _)| is_in(&host))
}

/// Returns the part of a URL that decides which server gets the request: scheme, host and port, in
/// lower case.
pub(super) fn url_origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    Some(format!("{scheme}://{}", url_authority(rest)).to_ascii_lowercase())
}

/// Returns host and port from the part of a URL after its scheme.
fn url_authority(rest: &str) -> &str {
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// Validates a header. A field name is a token (RFC 9110, section 5.6.2). A value must not contain
/// control characters.
pub(super) fn validate_header(name: &str, value: &str) -> Result<(), String> {
    let (max_name_bytes, max_value_bytes) = MAX_HEADER_BYTES;
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        || name.is_empty()
    {
        return Err("does not name a header; use letters, digits and hyphens".into());
    }
    if RESERVED_HEADERS
        .iter()
        .any(|reserved| reserved.eq_ignore_ascii_case(name))
    {
        return Err("is set by overdue itself; leave it out".into());
    }
    if name.len() > max_name_bytes || value.len() > max_value_bytes {
        return Err(format!(
            "is too long; a name has at most {max_name_bytes} bytes and a value {max_value_bytes}"
        ));
    }
    if value.chars().any(char::is_control) {
        return Err("has a control character in its value; remove line breaks and tabs".into());
    }
    Ok(())
}

/// Validates a label. Its name has letters, digits and underscores and does not begin with a digit,
/// as in Prometheus.
pub(super) fn validate_label(name: &str, value: &str) -> Result<(), String> {
    let (max_name_bytes, max_value_bytes) = MAX_LABEL_BYTES;
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || name.len() > max_name_bytes || !is_name {
        return Err("does not name a label; use letters, digits and underscores".into());
    }
    validate_line(value, max_value_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_accepted_as_openssl_prints_them() {
        let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap() * 8);
        let pairs = bytes.map(|byte| format!("{byte:02X}"));
        let plain = pairs.concat();
        let colons = pairs.join(":");
        for text in [
            format!("sha256:{plain}"),
            format!("sha256:{colons}"),
            format!("SHA256 Fingerprint={colons}"),
            colons.clone(),
            plain.clone(),
        ] {
            assert_eq!(parse_certificate_pin(&text), Ok(bytes), "{text}");
        }
        for text in [
            format!("sha1:{plain}"),
            format!("sha256:{}", &colons[1..]),
            format!("sha256:{}:{}", &plain[..2], &plain[2..]),
            format!("0:0{}", colons[2..].replacen(':', "", 1)),
            plain[1..].into(),
        ] {
            assert!(parse_certificate_pin(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_label_has_letters_digits_and_underscores() {
        let (max_name_bytes, max_value_bytes) = MAX_LABEL_BYTES;
        let longest = "a".repeat(max_name_bytes);
        for name in ["a", "Team_1", "_", "a_0", &longest] {
            assert_eq!(validate_label(name, "x"), Ok(()), "{name}");
        }
        for name in ["", "1a", "a-b", "a.b", "a b", "ā", &format!("{longest}a")] {
            assert!(validate_label(name, "x").is_err(), "{name}");
        }
        assert_eq!(validate_label("a", &"x".repeat(max_value_bytes)), Ok(()));
        assert!(validate_label("a", &"x".repeat(max_value_bytes + 1)).is_err());
    }

    #[test]
    fn a_domain_includes_its_subdomains() {
        assert!(
            is_on_domain(
                "https://x.webhook.office.com/webhookb2/1",
                "webhook.office.com"
            ) && is_on_domain("https://WEBHOOK.office.com", "webhook.office.com")
        );
        assert!(!is_on_domain(
            "https://evil-webhook.office.com.example.org/",
            "webhook.office.com"
        ));
    }
}
