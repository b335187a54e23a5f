//! Rows of what a file owns: few or many, small, read whole at start.

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::wanted::Source;

/// `managed`: id of a channel, check, window, key or user -> `ManagedRow`.
pub(super) const MANAGED: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("managed");

#[derive(Serialize, Deserialize)]
struct ManagedRow<'a> {
    source: &'a str,
}

impl<'a> Record<'a> for ManagedRow<'a> {
    const TABLE: &'static str = "managed";
    const VERSION: u8 = 1;
}

/// Makes the table, so that readers find it.
pub(super) fn make_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(MANAGED)?;
    Ok(())
}

/// The source in these bytes.
pub(super) fn read_managed(id: u64, bytes: &[u8]) -> Result<(u64, Source), StoreError> {
    let row: ManagedRow<'_> = record::decode(bytes)?;
    let source = Source::parse(row.source).map_err(|reason| record::corrupt::<ManagedRow<'_>>(&reason))?;
    Ok((id, source))
}

impl Batch {
    /// Writes who owns an object; `None`: nobody.
    pub fn put_managed(&self, id: u64, source: Option<&Source>) -> Result<(), StoreError> {
        match source {
            Some(source) => self.put(MANAGED, id, &ManagedRow { source: source.as_str() }),
            None => self.remove_managed([id]),
        }
    }

    /// Nobody owns these objects any more.
    pub fn remove_managed(&self, ids: impl IntoIterator<Item = u64>) -> Result<(), StoreError> {
        let mut table = self.transaction.open_table(MANAGED)?;
        ids.into_iter().try_for_each(|id| table.remove(id).map(drop))?;
        Ok(())
    }
}

impl Snapshot {
    /// The ids of objects that somebody owns, with their owners.
    pub fn managed(&self) -> Result<Vec<(u64, Source)>, StoreError> {
        self.rows(MANAGED, read_managed)
    }
}
