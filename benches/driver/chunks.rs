//! Chunked bodies (RFC 9112, section 7.1), decoded as they arrive.

use super::Result;

/// Decoder of a body.
#[derive(Default)]
pub(super) struct ChunkDecoder {
    /// Bytes left of the chunk and of the line end after it.
    bytes_left: usize,
    /// Received part of the line with the length of the next chunk.
    size_line: Vec<u8>,
    /// True after the last chunk; an empty line ends the body.
    is_last: bool,
}

impl ChunkDecoder {
    /// Decodes received bytes and passes the body data on; returns `true` once the body is
    /// complete.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<bool> {
        const LINE_END: usize = 2;
        while let Some((first, rest)) = bytes.split_first() {
            if self.bytes_left > 0 {
                let (some, rest) = bytes.split_at(self.bytes_left.min(bytes.len()));
                data(
                    some.get(..self.bytes_left.saturating_sub(LINE_END))
                        .unwrap_or(some),
                );
                self.bytes_left -= some.len();
                bytes = rest;
                continue;
            }
            bytes = rest;
            if *first != b'\n' {
                self.size_line.push(*first);
                continue;
            }
            let line = std::mem::take(&mut self.size_line);
            let size = std::str::from_utf8(line.trim_ascii())?;
            if self.is_last && size.is_empty() {
                return Ok(true);
            }
            if !self.is_last {
                let size = usize::from_str_radix(size.split(';').next().unwrap_or_default(), 16)?;
                self.is_last = size == 0;
                self.bytes_left = if self.is_last { 0 } else { size + LINE_END };
            }
        }
        Ok(false)
    }
}
