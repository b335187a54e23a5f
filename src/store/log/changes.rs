//! Changes of rows in a record: runs of rows of one table that are put or removed.

use std::ops::Range;

use crate::store::table_rows::{TableRows, append_row};

/// Kind of a change. A row that is removed has a key alone; a range has its first key as the key
/// and its last one as the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) enum RowChange {
    Put = 0,
    Remove = 1,
    RemoveRange = 2,
}

impl RowChange {
    const ALL: [Self; 3] = [Self::Put, Self::Remove, Self::RemoveRange];
}

/// Size in bytes of the length of a run.
const LENGTH_BYTES: usize = 4;

/// Encoded changes of a batch, in order.
#[derive(Default, Debug)]
pub(in crate::store) struct RowChanges {
    bytes: Vec<u8>,
    /// Last run.
    run: Option<LastRun>,
}

#[derive(Debug)]
struct LastRun {
    change: RowChange,
    /// Bytes of the name of its table.
    table: Range<usize>,
    /// Offset of the length of its rows.
    length_at: usize,
}

impl RowChanges {
    /// Encoded changes.
    pub(in crate::store) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a change of a row of a table. Names of tables have at most 255 bytes.
    pub(in crate::store) fn add(
        &mut self,
        change: RowChange,
        table: &str,
        key: &[u8],
        value: &[u8],
    ) {
        let last = self.run.as_ref().filter(|run| {
            run.change == change && self.bytes.get(run.table.clone()) == Some(table.as_bytes())
        });
        let length_at = match last {
            Some(run) => run.length_at,
            None => self.begin_run(change, table),
        };
        append_row(&mut self.bytes, key, value);
        let length = (self.bytes.len() - length_at - LENGTH_BYTES) as u32;
        if let Some(place) = self.bytes.get_mut(length_at..length_at + LENGTH_BYTES) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Begins a run and returns the offset of its length.
    fn begin_run(&mut self, change: RowChange, table: &str) -> usize {
        self.bytes.push(change as u8);
        self.bytes.push(table.len() as u8);
        let table_at = self.bytes.len();
        self.bytes.extend_from_slice(table.as_bytes());
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        self.run = Some(LastRun {
            change,
            table: table_at..length_at,
            length_at,
        });
        length_at
    }

    /// Decodes changes. `None` if the bytes are malformed.
    pub(in crate::store) fn decode(bytes: &[u8]) -> Option<Vec<(RowChange, TableRows<'_>)>> {
        let mut runs = Vec::new();
        let mut rest = bytes;
        while let Some((kind, after)) = rest.split_first() {
            let change = *RowChange::ALL.get(usize::from(*kind))?;
            let (name_len, after) = after.split_first()?;
            let (name, after) = after.split_at_checked(usize::from(*name_len))?;
            let (length, after) = after.split_first_chunk::<LENGTH_BYTES>()?;
            let (rows, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            runs.push((
                change,
                TableRows::read(std::str::from_utf8(name).ok()?, rows)?,
            ));
            rest = after;
        }
        Some(runs)
    }
}
