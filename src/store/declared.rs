//! Rows of what a file owns: few or many, small, read whole at start.

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::declared::ConfigSource;

/// `sources`: id of a channel, check, window, key or user -> `DeclaredRecord`.
pub(super) const DECLARED: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("managed");

#[derive(Serialize, Deserialize)]
struct DeclaredRecord<'a> {
    source: &'a str,
}

impl<'a> Record<'a> for DeclaredRecord<'a> {
    const TABLE: &'static str = "managed";
    const VERSION: u8 = 1;
}

/// Makes the table, so that readers find it.
pub(super) fn create_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(DECLARED)?;
    Ok(())
}

/// The source in these bytes.
pub(super) fn read_source(id: u64, bytes: &[u8]) -> Result<(u64, ConfigSource), StoreError> {
    let row: DeclaredRecord<'_> = record::decode(bytes)?;
    let source = ConfigSource::parse(row.source).map_err(|reason| record::corrupt::<DeclaredRecord<'_>>(&reason))?;
    Ok((id, source))
}

impl Batch {
    /// Writes who owns an object; `None`: nobody.
    pub fn put_source(&self, id: u64, source: Option<&ConfigSource>) -> Result<(), StoreError> {
        match source {
            Some(source) => self.put_record(DECLARED, id, &DeclaredRecord { source: source.as_str() }),
            None => self.remove_sources([id]),
        }
    }

    /// Nobody owns these objects any more.
    pub fn remove_sources(&self, ids: impl IntoIterator<Item = u64>) -> Result<(), StoreError> {
        let mut table = self.transaction.open_table(DECLARED)?;
        ids.into_iter().try_for_each(|id| table.remove(id).map(drop))?;
        Ok(())
    }
}

impl Snapshot {
    /// The ids of objects that somebody owns, with their owners.
    pub fn sources(&self) -> Result<Vec<(u64, ConfigSource)>, StoreError> {
        self.rows(DECLARED, read_source)
    }
}
