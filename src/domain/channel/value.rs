//! What values each form of field takes. An error continues a sentence that begins with the key; it never repeats the value.

use std::net::Ipv6Addr;

/// Bytes of a URL.
const LONGEST_URL: usize = 2_000;
/// Bytes of the name of a header, and of its value.
const LONGEST_HEADER: (usize, usize) = (100, 1_000);
/// Headers that say where a request goes and where it ends, which is up to whoever sends it.
const RESERVED: [&str; 9] =
    ["connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// A dot-atom (RFC 5322, section 3.2.3) of at most 64 octets at a host name; 254 octets fit a path (RFC 5321, section 4.5.3.1.3).
pub(super) fn mail_address(text: &str) -> Result<(), &'static str> {
    let is_atom =
        |atom: &str| !atom.is_empty() && atom.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte));
    let is_address = text.len() <= 254
        && text.split_once('@').is_some_and(|(local, host)| local.len() <= 64 && local.split('.').all(is_atom) && is_host_name(host));
    let reason = "is not one mail address like ops@example.org; give just the address, without a name or brackets";
    if is_address { Ok(()) } else { Err(reason) }
}

/// An international number (ITU-T E.164: at most 15 digits, no country code begins with 0); shorter ones than 7 digits reach no phone.
pub(super) fn phone(text: &str) -> Result<(), &'static str> {
    let is_number = text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0')
    });
    let reason = "is not a phone number like +37120000000; give + and 7 to 15 digits, country code first";
    if is_number { Ok(()) } else { Err(reason) }
}

/// One of these words.
pub(super) fn choice(text: &str, words: &[&str]) -> Result<(), String> {
    if words.contains(&text) { Ok(()) } else { Err(format!("is none of {}; give one of them, written just so", words.join(", "))) }
}

/// At most so many bytes.
pub(super) fn text(text: &str, longest: usize) -> Result<(), String> {
    if text.len() <= longest { Ok(()) } else { Err(format!("has {} bytes; give at most {longest}", text.len())) }
}

/// An absolute `http` or `https` URL (RFC 3986) without user name and fragment, neither of which a request carries.
pub(super) fn url(text: &str) -> Result<(), String> {
    self::text(text, LONGEST_URL)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
        return Err("has a character that no URL has; percent-encode it".into());
    }
    let after_scheme =
        text.split_once("://").filter(|(scheme, _)| ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme)));
    let Some((_, rest)) = after_scheme else {
        return Err("is not an http:// or https:// URL; give one like https://example.org/hook".into());
    };
    if rest.contains('#') {
        return Err("has a fragment, which is never sent; leave out # and what follows, or write %23".into());
    }
    let authority = authority(rest);
    if authority.contains('@') {
        return Err("has a user name; give header.Authorization=... in its place".into());
    }
    // The colon of the port is the last one, unless that is inside the brackets of an IPv6 address.
    let (host, port) = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).unwrap_or((authority, "80"));
    let is_ipv6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|literal| literal.parse::<Ipv6Addr>().is_ok());
    if !is_ipv6 && !is_host_name(host) {
        return Err("has no valid host; give a URL like https://example.org/hook".into());
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err("has no valid port; give one between 1 and 65535 after the host, or none".into());
    }
    Ok(())
}

/// What of a URL decides which server gets the request: its scheme, host and port, in lower case.
pub(super) fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    Some(format!("{scheme}://{}", authority(rest)).to_ascii_lowercase())
}

/// Host and port, from what follows the scheme of a URL.
fn authority(rest: &str) -> &str {
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// A field name is a token (RFC 9110, section 5.6.2); a value must not break the line.
pub(super) fn header(name: &str, value: &str) -> Result<(), String> {
    let (longest_name, longest_value) = LONGEST_HEADER;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)) || name.is_empty() {
        return Err("does not name a header; use letters, digits and hyphens".into());
    }
    if RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        return Err("is set by the sender itself; leave it out".into());
    }
    if name.len() > longest_name || value.len() > longest_value {
        return Err(format!("is too long; a name has at most {longest_name} bytes and a value {longest_value}"));
    }
    if value.chars().any(char::is_control) {
        return Err("has a control character in its value; leave out line ends and tabs".into());
    }
    Ok(())
}

/// Whether a text is a host name (RFC 1123, section 2.1), underscores allowed since names inside networks have them.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}
