//! Rows of a table as one run of bytes, for backup and restore.

/// Size of a row header in bytes: the lengths of key and value, each in 4 bytes little endian.
const HEADER_BYTES: usize = 8;

/// Rows of one table, in the order of their keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableRows<'a> {
    table: &'a str,
    bytes: &'a [u8],
}

impl<'a> TableRows<'a> {
    /// Parses rows; `None` if the bytes are malformed.
    pub fn read(table: &'a str, bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = split_first_row(rest)?;
        }
        Some(Self { table, bytes })
    }

    /// Name of the table.
    pub fn table(&self) -> &'a str {
        self.table
    }

    /// Encoded bytes of all rows.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Iterates over the key and value of each row.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let row;
            (row, rest) = split_first_row(rest)?;
            Some(row)
        })
    }
}

/// Splits off the first row.
#[allow(clippy::type_complexity, reason = "it is a row and the rest")]
fn split_first_row(bytes: &[u8]) -> Option<((&[u8], &[u8]), &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let [a, b, c, d, e, f, g, h] = *header;
    let key = u32::from_le_bytes([a, b, c, d]);
    let value = u32::from_le_bytes([e, f, g, h]);
    let (key, rest) = rest.split_at_checked(key as usize)?;
    let (value, rest) = rest.split_at_checked(value as usize)?;
    Some(((key, value), rest))
}

/// Appends a row.
pub(super) fn append_row(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // redb takes no key or value of 4 GiB.
    bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_as_they_were_appended() {
        let rows: [(&[u8], &[u8]); 3] = [(b"a", b""), (b"", b"value"), (&[7; 300], &[9; 70_000])];
        let mut bytes = Vec::new();
        rows.iter()
            .for_each(|(key, value)| append_row(&mut bytes, key, value));
        assert_eq!(
            TableRows::read("t", &bytes)
                .unwrap()
                .iter()
                .collect::<Vec<_>>(),
            rows
        );
        for len in (1..bytes.len()).filter(|len| ![9, 22].contains(len)) {
            assert_eq!(TableRows::read("t", &bytes[..len]), None, "{len}");
        }
    }
}
