//! Rows for objects that a configuration file manages. They are small and are read completely at
//! start.

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::declared::ConfigSource;

/// `managed`: id of a channel, check, window, key or user -> `DeclaredRecord`.
pub(super) const DECLARED: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("managed");

#[derive(Serialize, Deserialize)]
struct DeclaredRecord<'a> {
    source: &'a str,
}

impl<'a> Record<'a> for DeclaredRecord<'a> {
    const TABLE: &'static str = "managed";
    const VERSION: u8 = 1;
}

/// Creates the table so that readers can open it.
pub(super) fn create_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(DECLARED)?;
    Ok(())
}

/// Reads the source in a row.
pub(super) fn read_source(id: u64, bytes: &[u8]) -> Result<(u64, ConfigSource), StoreError> {
    let row: DeclaredRecord<'_> = record::decode(bytes)?;
    let source = ConfigSource::parse(row.source)
        .map_err(|reason| record::invalid_row::<DeclaredRecord<'_>>(&reason))?;
    Ok((id, source))
}

impl Batch {
    /// Sets the source that manages an object; `None` if no source does.
    pub fn put_source(&self, id: u64, source: Option<&ConfigSource>) -> Result<(), StoreError> {
        match source {
            Some(source) => self.put_record(
                DECLARED,
                id,
                &DeclaredRecord {
                    source: source.as_str(),
                },
            ),
            None => self.remove_sources([id]),
        }
    }

    /// Removes the sources of these objects.
    pub fn remove_sources(&self, ids: impl IntoIterator<Item = u64>) -> Result<(), StoreError> {
        let mut table = self.table(DECLARED)?;
        ids.into_iter()
            .try_for_each(|id| table.remove(id).map(drop))?;
        Ok(())
    }
}

impl Snapshot {
    /// Returns the ids of managed objects with their sources.
    pub fn sources(&self) -> Result<Vec<(u64, ConfigSource)>, StoreError> {
        self.rows(DECLARED, read_source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Medium, Store};

    #[test]
    fn a_source_is_read_until_it_is_removed() {
        let store = Store::open(&Medium::memory()).unwrap();
        let web = ConfigSource::parse("web").unwrap();
        for (source, expected) in [
            (Some(&web), vec![(7, web.clone()), (8, web.clone())]),
            (None, vec![(8, web.clone())]),
        ] {
            let batch = store.batch().unwrap();
            batch.put_source(7, source).unwrap();
            batch.put_source(8, Some(&web)).unwrap();
            batch.commit().unwrap();
            assert_eq!(store.snapshot().unwrap().sources().unwrap(), expected);
        }
    }
}
