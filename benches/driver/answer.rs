//! Where one answer ends and what its status is; the rest of it is not looked at.

use super::Result;

/// An answer on its way in.
#[derive(Default)]
pub(super) struct Answer {
    /// What has come of the head, while it is not whole.
    head: Vec<u8>,
    /// The status, once the head is whole, and how many bytes of the body are to come.
    body: Option<(u16, usize)>,
}

impl Answer {
    /// Takes bytes as they came; returns the status once the answer is whole.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Option<u16>> {
        let (status, left) = match self.body {
            Some((status, left)) => (status, left.saturating_sub(bytes.len())),
            None => {
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
                let (status, length) = parse(head)?;
                (status, length.saturating_sub(rest.len()))
            }
        };
        self.body = (left > 0).then_some((status, left));
        Ok((left == 0).then_some(status))
    }
}

/// Status and length of the body.
fn parse(head: &[u8]) -> Result<(u16, usize)> {
    let status = head.get(9..12).and_then(number).ok_or("an answer does not begin with the status line of HTTP/1.1")?;
    let status = u16::try_from(status)?;
    let mut lines = head.split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| {
        let (name, value) = line.split_at_checked("content-length:".len())?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| number(value.trim_ascii()))
    });
    match length {
        Some(length) => Ok((status, length.ok_or("a Content-Length that is not a number")?)),
        None if status == 204 || status == 304 => Ok((status, 0)),
        None => Err("an answer without Content-Length: this driver does not read chunked bodies".into()),
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
