//! Finds the end and the status of a response. The rest of it is ignored.

use super::Result;
use super::chunks::ChunkDecoder;

/// Parser of a response.
#[derive(Default)]
pub(super) struct ResponseParser {
    /// Received part of the head, while it is not complete.
    head: Vec<u8>,
    /// Status and body, once the head is complete.
    body: Option<(u16, RemainingBody)>,
}

/// Remaining part of a body.
enum RemainingBody {
    Bytes(usize),
    Chunks(ChunkDecoder),
}

impl ResponseParser {
    /// Parses received bytes; returns the status once the response is complete. Bytes after that
    /// belong to the next response.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Option<u16>> {
        if let Some((status, mut body)) = self.body.take() {
            let is_complete = body.take(bytes)?;
            if !is_complete {
                self.body = Some((status, body));
            }
            return Ok(is_complete.then_some(status));
        }
        let joined;
        let bytes = if self.head.is_empty() {
            bytes
        } else {
            self.head.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.head);
            &joined
        };
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            self.head = bytes.to_vec();
            return Ok(None);
        };
        let (head, rest) = bytes.split_at(end + 4);
        let (status, mut body) = parse(head)?;
        let is_complete = body.take(rest)?;
        if !is_complete {
            self.body = Some((status, body));
        }
        Ok(is_complete.then_some(status))
    }
}

impl RemainingBody {
    /// Consumes received bytes; returns `true` once the body is complete.
    fn take(&mut self, bytes: &[u8]) -> Result<bool> {
        match self {
            Self::Bytes(left) => {
                *left = left.saturating_sub(bytes.len());
                Ok(*left == 0)
            }
            Self::Chunks(chunks) => chunks.take(bytes, |_| {}),
        }
    }
}

/// Parses status and body.
fn parse(head: &[u8]) -> Result<(u16, RemainingBody)> {
    let status = head
        .get(9..12)
        .and_then(number)
        .ok_or("an answer does not begin with the status line of HTTP/1.1")?;
    let status = u16::try_from(status)?;
    let field = |name: &str| {
        let mut lines = head
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.split_at_checked(name.len()));
        lines.find_map(|(label, value)| {
            label
                .eq_ignore_ascii_case(name.as_bytes())
                .then_some(value.trim_ascii())
        })
    };
    let body = match (field("content-length:"), field("transfer-encoding:")) {
        (Some(length), _) => {
            RemainingBody::Bytes(number(length).ok_or("a Content-Length that is not a number")?)
        }
        (None, Some(b"chunked")) => RemainingBody::Chunks(ChunkDecoder::default()),
        (None, _) if status == 204 || status == 304 => RemainingBody::Bytes(0),
        (None, _) => return Err("an answer that does not say where it ends".into()),
    };
    Ok((status, body))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
