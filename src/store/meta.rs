//! The few single values of the database: schema version, id sequence, checkpoint marks, the secret that signs badge URLs.

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::{Batch, Snapshot, StoreError};

/// `meta`: name -> number in 8 bytes little endian, or raw bytes.
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// The schema that this release writes. What it must be able to open: every version from 1 on.
pub(super) const SCHEMA: u64 = 1;

const SCHEMA_NAME: &str = "schema";
const SECRET_NAME: &str = "badge_secret";

/// A number that the engine keeps beside the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The next id of the one sequence.
    NextId,
    /// Check rows hold every ping up to this arrival.
    CheckpointArrival,
    /// Check rows hold every flip up to this number.
    CheckpointFlip,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::NextId => "next_id",
            Self::CheckpointArrival => "checkpoint_arrival",
            Self::CheckpointFlip => "checkpoint_flip",
        }
    }
}

/// Makes the schema row of a new database, refuses a newer schema. `true` if something was written.
pub(super) fn prepare(transaction: &WriteTransaction) -> Result<bool, StoreError> {
    let mut meta = transaction.open_table(META)?;
    let found = meta.get(SCHEMA_NAME)?.map(|value| number(SCHEMA_NAME, value.value())).transpose()?;
    match found {
        Some(found) if found > SCHEMA => Err(StoreError::TooNew { found, known: SCHEMA }),
        Some(_) => Ok(false),
        None => {
            meta.insert(SCHEMA_NAME, SCHEMA.to_le_bytes().as_slice())?;
            drop(meta);
            super::project::make_tables(transaction)?;
            super::check::make_table(transaction)?;
            super::flip::make_table(transaction)?;
            super::ping::make_tables(transaction)?;
            Ok(true)
        }
    }
}

fn number(name: &str, bytes: &[u8]) -> Result<u64, StoreError> {
    fixed(name, bytes).map(u64::from_le_bytes)
}

fn fixed<const N: usize>(name: &str, bytes: &[u8]) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt { table: "meta", reason: format!("`{name}` has {} bytes, not {N}", bytes.len()) })
}

impl Batch {
    /// Keeps a number.
    pub fn set_mark(&self, mark: Mark, value: u64) -> Result<(), StoreError> {
        self.transaction.open_table(META)?.insert(mark.name(), value.to_le_bytes().as_slice())?;
        Ok(())
    }

    /// Keeps the secret that signs badge URLs.
    pub fn set_badge_secret(&self, secret: &[u8; 32]) -> Result<(), StoreError> {
        self.transaction.open_table(META)?.insert(SECRET_NAME, secret.as_slice())?;
        Ok(())
    }
}

impl Snapshot {
    /// A number that was kept; 0 before the first time.
    pub fn mark(&self, mark: Mark) -> Result<u64, StoreError> {
        let value = self.transaction.open_table(META)?.get(mark.name())?;
        value.map_or(Ok(0), |value| number(mark.name(), value.value()))
    }

    /// The secret that signs badge URLs, if there is one already.
    pub fn badge_secret(&self) -> Result<Option<[u8; 32]>, StoreError> {
        let value = self.transaction.open_table(META)?.get(SECRET_NAME)?;
        value.map(|value| fixed(SECRET_NAME, value.value())).transpose()
    }

    /// A small read of the database, for probes.
    pub fn probe(&self) -> Result<(), StoreError> {
        self.transaction.open_table(META)?.get(SCHEMA_NAME)?;
        Ok(())
    }
}
