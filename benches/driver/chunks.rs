//! Bodies in chunks (RFC 9112, section 7.1), taken as they come.

use super::Result;

/// A body on its way in.
#[derive(Default)]
pub(super) struct Chunks {
    /// Bytes of the chunk that are still to come, and of the line end behind it.
    left: usize,
    /// What has come of the line that says how long the next chunk is.
    line: Vec<u8>,
    /// The last chunk has come; an empty line ends the body.
    last: bool,
}

impl Chunks {
    /// Takes bytes as they came and hands over what they hold of the body; `true` once it is whole.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<bool> {
        const LINE_END: usize = 2;
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let (some, rest) = bytes.split_at(self.left.min(bytes.len()));
                data(some.get(..self.left.saturating_sub(LINE_END)).unwrap_or(some));
                self.left -= some.len();
                bytes = rest;
                continue;
            }
            bytes = rest;
            if *first != b'\n' {
                self.line.push(*first);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let size = std::str::from_utf8(line.trim_ascii())?;
            if self.last && size.is_empty() {
                return Ok(true);
            }
            if !self.last {
                let size = usize::from_str_radix(size.split(';').next().unwrap_or_default(), 16)?;
                self.last = size == 0;
                self.left = if self.last { 0 } else { size + LINE_END };
            }
        }
        Ok(false)
    }
}
