//! Extracts the parts of a mail that keyword filters search: the subject, and the text of its plain
//! and HTML parts.
//!
//! `mail_parser` reads headers, charsets and encoded words. This module walks over the parts. The
//! walk never goes deeper than [`MAX_DEPTH`], keeps no list of headers and accepts only whole lines
//! as delimiters. It reads every byte a bounded number of times, so the cost of a message is
//! proportional to its length. It decodes only the beginning of each part, so a long message is not
//! in memory several times.

mod html;

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::parsers::MessageStream;
use mail_parser::{ContentType, HeaderValue};

/// Maximum nesting depth of multiparts. Deeper parts are not searched.
pub const MAX_DEPTH: u8 = 16;
/// Maximum number of parts of one multipart that are searched.
pub const MAX_PARTS: usize = 1_000;
/// Maximum number of bytes of text that are searched.
pub const MAX_TEXT_BYTES: usize = 1_000_000;
/// Maximum number of encoded bytes of a part from which text is read. The searched text usually
/// fits into fewer.
pub const MAX_PART_BYTES: usize = 4 << 20;
/// Maximum number of bytes of a character, in any charset.
const MAX_CHAR_BYTES: usize = 4;
/// Maximum number of bytes of a header field. The rest is ignored.
pub const MAX_FIELD_BYTES: usize = 16_384;

/// Texts of a mail that keyword filters search.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchableMail {
    /// First Subject field, with encoded words decoded.
    pub subject: String,
    /// Text of the text/plain and text/html parts that are not attachments, joined by line ends,
    /// up to [`MAX_TEXT_BYTES`]. HTML is reduced to its visible text.
    pub text: String,
}

impl SearchableMail {
    /// Reads a whole message (RFC 5322, with MIME as in RFC 2045 to 2047). Never fails: unreadable
    /// parts are not searched, and a message without structure is plain text.
    pub fn parse(message: &[u8]) -> Self {
        let (head, body) = PartHeader::split(message);
        let subject = match MessageStream::new(&with_line_end(head.subject)).parse_unstructured() {
            HeaderValue::Text(subject) => subject.into_owned(),
            _ => String::new(),
        };
        let mut text = String::new();
        collect_text(&head, body, 0, &mut text);
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        Self { subject, text }
    }
}

/// Adds the text of one part and of the parts inside it.
fn collect_text(head: &PartHeader<'_>, body: &[u8], depth: u8, text: &mut String) {
    if parse_content_type(head.disposition).is_some_and(|disposition| disposition.is_attachment()) {
        return;
    }
    let content_type = parse_content_type(head.content_type);
    let is_html = match content_type
        .as_ref()
        .map(|parsed| (parsed.ctype(), parsed.subtype()))
    {
        Some(("multipart", _)) => {
            let boundary = content_type
                .as_ref()
                .and_then(|parsed| parsed.attribute("boundary"))
                .map(str::trim_ascii_end);
            let parts = boundary
                .filter(|boundary| !boundary.is_empty())
                .map(|boundary| split_parts(body, boundary))
                .unwrap_or_default();
            for part in &parts {
                if depth < MAX_DEPTH && text.len() < MAX_TEXT_BYTES {
                    let (head, body) = PartHeader::split(part);
                    collect_text(&head, body, depth + 1, text);
                }
            }
            if !parts.is_empty() {
                return;
            }
            // Without a delimiter nothing divides the body: all of it is text.
            false
        }
        Some(("text", Some("html"))) => true,
        // A type without a subtype is invalid (RFC 2045, section 5.2): plain text.
        None | Some(("text", Some("plain")) | (_, None)) => false,
        Some(_) => return,
    };
    if !text.is_empty() {
        text.push('\n');
    }
    let remaining = MAX_TEXT_BYTES.saturating_sub(text.len());
    let decoded = decode_transfer_encoding(head, body);
    // The length of markup does not limit the length of its text.
    let length = if is_html {
        decoded.len()
    } else {
        decoded.len().min(MAX_CHAR_BYTES * remaining)
    };
    let decoded = decoded.get(..length).unwrap_or_default();
    let charset = content_type
        .as_ref()
        .and_then(|parsed| parsed.attribute("charset"));
    let content = match charset.and_then(|charset| charset_decoder(charset.trim_ascii().as_bytes()))
    {
        Some(decoder) => decoder(decoded).into(),
        None => String::from_utf8_lossy(decoded),
    };
    if is_html {
        text.push_str(&html::html_to_text(&content, remaining));
    } else {
        text.push_str(
            content
                .get(..content.floor_char_boundary(remaining))
                .unwrap_or_default(),
        );
    }
}

/// Relevant header fields, each at its first occurrence, undecoded.
#[derive(Default)]
struct PartHeader<'x> {
    subject: Option<&'x [u8]>,
    content_type: Option<&'x [u8]>,
    transfer_encoding: Option<&'x [u8]>,
    disposition: Option<&'x [u8]>,
}

impl<'x> PartHeader<'x> {
    /// Splits a message or part into header fields and body. The fields end at the first empty
    /// line, or before the first line that is not a field, which then begins the body.
    fn split(part: &'x [u8]) -> (Self, &'x [u8]) {
        let mut head = Self::default();
        let mut rest = part;
        loop {
            let (line, mut after) = split_line(rest);
            if line.trim_ascii_end().is_empty() {
                return (head, after);
            }
            let Some((name, value)) = split_field(line) else {
                return (head, rest);
            };
            let mut length = value.len();
            while after.starts_with(b" ") || after.starts_with(b"\t") {
                let (continuation, next) = split_line(after);
                length += continuation.len();
                after = next;
            }
            let start = line.len() - value.len();
            let value = rest
                .get(start..start + length.min(MAX_FIELD_BYTES))
                .unwrap_or_default();
            head.record_field(name, value);
            rest = after;
        }
    }

    fn record_field(&mut self, name: &[u8], value: &'x [u8]) {
        let fields = [
            ("subject", &mut self.subject),
            ("content-type", &mut self.content_type),
            ("content-transfer-encoding", &mut self.transfer_encoding),
            ("content-disposition", &mut self.disposition),
        ];
        for (field_name, field) in fields {
            if name.eq_ignore_ascii_case(field_name.as_bytes()) {
                field.get_or_insert(value);
            }
        }
    }
}

/// Parses a field such as Content-Type: a type and its parameters.
fn parse_content_type(value: Option<&[u8]>) -> Option<ContentType<'static>> {
    match MessageStream::new(&with_line_end(value))
        .parse_content_type()
        .into_owned()
    {
        HeaderValue::ContentType(content_type) => Some(content_type),
        _ => None,
    }
}

/// Value of a field, followed by the line end that `mail_parser` requires.
fn with_line_end(value: Option<&[u8]>) -> Vec<u8> {
    [value.unwrap_or_default().trim_ascii(), b"\r\n"].concat()
}

/// Splits a header line into name and value. `None` if the line is not one (RFC 5322, section 2.2;
/// white space before the colon as in section 4.5).
fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = line.get(..colon)?.trim_ascii_end();
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    is_name.then_some((name, line.get(colon + 1..)?))
}

/// Splits off the first line, including its line end.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(
        bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(bytes.len(), |lf| lf + 1),
    )
}

/// Returns the parts of a multipart, between its delimiter lines. The line end before a delimiter
/// belongs to the delimiter (RFC 2046, section 5.1.1). A part that is not closed ends with the
/// body.
fn split_parts<'x>(body: &'x [u8], boundary: &str) -> Vec<&'x [u8]> {
    let mut parts = Vec::new();
    let mut start = None;
    let mut rest = body;
    while !rest.is_empty() && parts.len() < MAX_PARTS {
        let at = body.len() - rest.len();
        let (line, after) = split_line(rest);
        rest = after;
        let Some(tail) = line
            .strip_prefix(b"--")
            .and_then(|line| line.strip_prefix(boundary.as_bytes()))
        else {
            continue;
        };
        let tail = tail.trim_ascii_end();
        if !tail.is_empty() && tail != b"--" {
            continue;
        }
        if let Some(part) = start.and_then(|start| body.get(start..at)) {
            parts.push(without_line_end(part));
        }
        start = tail.is_empty().then_some(body.len() - rest.len());
        if start.is_none() {
            break;
        }
    }
    if parts.len() < MAX_PARTS {
        parts.extend(start.and_then(|start| body.get(start..)));
    }
    parts
}

fn without_line_end(part: &[u8]) -> &[u8] {
    let part = part.strip_suffix(b"\n").unwrap_or(part);
    part.strip_suffix(b"\r").unwrap_or(part)
}

/// Removes the transfer encoding from the first [`MAX_PART_BYTES`] bytes of the body. Bytes that
/// are invalid in the encoding are skipped or kept.
fn decode_transfer_encoding<'x>(head: &PartHeader<'_>, body: &'x [u8]) -> Cow<'x, [u8]> {
    let encoding = head.transfer_encoding.unwrap_or_default().trim_ascii();
    let (body, is_cut) = body
        .get(..MAX_PART_BYTES)
        .map_or((body, false), |beginning| (beginning, true));
    if encoding.eq_ignore_ascii_case(b"base64") {
        let whole = if is_cut { None } else { base64_decode(body) };
        let decoded = whole.or_else(|| {
            let mut digits: Vec<_> = body
                .iter()
                .copied()
                .filter(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
                .collect();
            if is_cut {
                // Four digits encode three bytes.
                digits.truncate(digits.len() / 4 * 4);
            }
            base64_decode(&digits)
        });
        decoded.map_or(Cow::Borrowed(body), Cow::Owned)
    } else if encoding.eq_ignore_ascii_case(b"quoted-printable") {
        decode_quoted_printable(body).into()
    } else {
        body.into()
    }
}

/// Decodes quoted-printable (RFC 2045, section 6.7). An invalid `=` is kept; `mail_parser` would
/// reject the whole text.
fn decode_quoted_printable(body: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.iter().position(|byte| *byte == b'=') {
        let (plain, from) = rest.split_at(at);
        decoded.extend_from_slice(plain);
        let hex = |byte: &u8| char::from(*byte).to_digit(16);
        rest = if let [_, high, low, after @ ..] = from
            && let (Some(high), Some(low)) = (hex(high), hex(low))
        {
            // Two hexadecimal digits: at most 255.
            decoded.push((high * 16 + low) as u8);
            after
        } else {
            let after = from.get(1..).unwrap_or_default();
            let padding = after
                .iter()
                .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
                .count();
            match after.get(padding..) {
                // A soft line break, which is not part of the text.
                Some([b'\n', after @ ..]) => after,
                _ => {
                    decoded.push(b'=');
                    after
                }
            }
        };
    }
    decoded.extend_from_slice(rest);
    decoded
}

#[cfg(test)]
mod tests;
