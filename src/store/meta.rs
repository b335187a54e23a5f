//! The few single values of the database: schema version, id sequence, checkpoint marks, the secret that signs badge URLs, secrets of other
//! servers, the instance.

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::{Batch, Snapshot, StoreError};
use crate::domain::alert::Outage;
use crate::domain::legacy_keys::{LegacySecret, LegacySecrets};
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;

/// `meta`: name -> number in 8 bytes little endian, or raw bytes.
pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

const SCHEMA_NAME: &str = "schema";
const SECRET_NAME: &str = "badge_secret";
const INSTANCE_NAME: &str = "instance";
const OUTAGES_NAME: &str = "away";
const LEGACY_SECRETS_NAME: &str = "adopted";

/// A number that the engine keeps beside the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaKey {
    /// The next id of the one sequence.
    NextId,
    /// The number of what is to be told next.
    NextDelivery,
    /// Check rows hold every ping up to this arrival.
    CheckpointArrival,
    /// Check rows hold every flip up to this number.
    CheckpointFlip,
    /// Bytes of all bodies that were ever logged up to the checkpoint, as far as they count as long.
    CheckpointBytes,
    /// Bytes of all bodies that were ever taken off the log, as far as they count as long.
    SweptBytes,
    /// Bytes of the bodies of kept pings that count as long.
    KeptBytes,
    /// When pings could last be taken, as far as the file knows; microseconds.
    LastAlive,
    /// Times of flips up to this number may run backwards within a check: the clock was set back after them.
    FlipsOutOfOrder,
    /// Since when the clock had gone without a step when something was written last: microseconds since 1970.
    SteadySince,
    /// Not 0: there may be entries of logs of an import that has not been finished.
    ImportLeftovers,
}

impl MetaKey {
    fn name(self) -> &'static str {
        match self {
            Self::NextId => "next_id",
            Self::NextDelivery => "next_delivery",
            Self::CheckpointArrival => "checkpoint_arrival",
            Self::CheckpointFlip => "checkpoint_flip",
            Self::CheckpointBytes => "checkpoint_bytes",
            Self::SweptBytes => "swept_bytes",
            Self::KeptBytes => "kept_bytes",
            Self::LastAlive => "alive",
            Self::FlipsOutOfOrder => "flips_out_of_order",
            Self::SteadySince => "steady_since",
            Self::ImportLeftovers => "staged",
        }
    }
}

/// The version of the layout; 0 in an empty file.
pub(super) fn schema(transaction: &WriteTransaction) -> Result<u64, StoreError> {
    let meta = transaction.open_table(META)?;
    let found = meta.get(SCHEMA_NAME)?;
    found.map_or(Ok(0), |value| number(SCHEMA_NAME, value.value()))
}

/// Keeps the version of the layout.
pub(super) fn set_schema(transaction: &WriteTransaction, schema: u64) -> Result<(), StoreError> {
    transaction.open_table(META)?.insert(SCHEMA_NAME, schema.to_le_bytes().as_slice())?;
    Ok(())
}

/// A number that was kept; 0 before the first time.
pub(super) fn meta_value(transaction: &WriteTransaction, mark: MetaKey) -> Result<u64, StoreError> {
    let meta = transaction.open_table(META)?;
    let value = meta.get(mark.name())?;
    value.map_or(Ok(0), |value| number(mark.name(), value.value()))
}

/// Keeps a number.
pub(super) fn set_meta_value(transaction: &WriteTransaction, mark: MetaKey, value: u64) -> Result<(), StoreError> {
    transaction.open_table(META)?.insert(mark.name(), value.to_le_bytes().as_slice())?;
    Ok(())
}

fn number(name: &str, bytes: &[u8]) -> Result<u64, StoreError> {
    fixed_bytes(name, bytes).map(u64::from_le_bytes)
}

fn fixed_bytes<const N: usize>(name: &str, bytes: &[u8]) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt { table: "meta", reason: format!("`{name}` has {} bytes, not {N}", bytes.len()) })
}

impl Batch {
    /// Keeps a number.
    pub fn set_meta_value(&self, mark: MetaKey, value: u64) -> Result<(), StoreError> {
        set_meta_value(&self.transaction, mark, value)
    }

    /// Keeps the secret that signs badge URLs.
    pub fn set_badge_secret(&self, BadgeSecret(secret): &BadgeSecret) -> Result<(), StoreError> {
        self.transaction.open_table(META)?.insert(SECRET_NAME, secret.as_slice())?;
        Ok(())
    }
}

impl Batch {
    /// Keeps what tells this database from every other one.
    pub fn set_instance(&self, instance: [u8; 4]) -> Result<(), StoreError> {
        self.transaction.open_table(META)?.insert(INSTANCE_NAME, instance.as_slice())?;
        Ok(())
    }
}

impl Batch {
    /// Keeps the times in which no pings could be taken: each as two numbers of microseconds in 8 bytes little endian.
    pub fn set_outages(&self, away: &[Outage]) -> Result<(), StoreError> {
        let bytes: Vec<u8> = away.iter().flat_map(|away| [away.from, away.to]).flat_map(|at| at.micros().to_le_bytes()).collect();
        self.transaction.open_table(META)?.insert(OUTAGES_NAME, bytes.as_slice())?;
        Ok(())
    }
}

impl Batch {
    /// Keeps the secrets of other servers: each as its number in a byte, its length in 2 bytes little endian, and itself. Of none nothing is
    /// kept.
    pub fn set_legacy_secrets(&self, adopted: &LegacySecrets) -> Result<(), StoreError> {
        let mut meta = self.transaction.open_table(META)?;
        if adopted.is_empty() {
            meta.remove(LEGACY_SECRETS_NAME)?;
            return Ok(());
        }
        let mut bytes = Vec::new();
        for (number, secret) in adopted.iter() {
            let length = u16::try_from(secret.as_str().len()).map_err(|_| corrupt_legacy_secrets("a secret is too long"))?;
            bytes.push(number);
            bytes.extend(length.to_le_bytes());
            bytes.extend(secret.as_str().bytes());
        }
        meta.insert(LEGACY_SECRETS_NAME, bytes.as_slice())?;
        Ok(())
    }
}

fn read_legacy_secrets(mut bytes: &[u8]) -> Result<LegacySecrets, StoreError> {
    let mut secrets = Vec::new();
    while let Some(([number, length @ ..], rest)) = bytes.split_first_chunk::<3>() {
        let (secret, rest) =
            rest.split_at_checked(u16::from_le_bytes(*length).into()).ok_or_else(|| corrupt_legacy_secrets("it is cut short"))?;
        let text = str::from_utf8(secret).map_err(|_| corrupt_legacy_secrets("a secret is no text"))?;
        secrets.push((*number, LegacySecret::parse(text).map_err(corrupt_legacy_secrets)?));
        bytes = rest;
    }
    if bytes.is_empty() {
        LegacySecrets::from_stored(secrets).map_err(corrupt_legacy_secrets)
    } else {
        Err(corrupt_legacy_secrets("it is cut short"))
    }
}

fn corrupt_legacy_secrets(reason: &str) -> StoreError {
    StoreError::Corrupt { table: "meta", reason: format!("`{LEGACY_SECRETS_NAME}`: {reason}") }
}

/// Looks at a value whose form could be wrong; the version of the layout, if this is the row that says it.
pub(super) fn validate_value(name: &str, bytes: &[u8]) -> Result<Option<u64>, StoreError> {
    if name == LEGACY_SECRETS_NAME {
        read_legacy_secrets(bytes)?;
    }
    (name == SCHEMA_NAME).then(|| number(name, bytes)).transpose()
}

impl Snapshot {
    /// The secrets of other servers.
    pub fn legacy_secrets(&self) -> Result<LegacySecrets, StoreError> {
        let value = self.transaction.open_table(META)?.get(LEGACY_SECRETS_NAME)?;
        value.map_or(Ok(LegacySecrets::default()), |value| read_legacy_secrets(value.value()))
    }

    /// The times in which no pings could be taken.
    pub fn outages(&self) -> Result<Vec<Outage>, StoreError> {
        let Some(value) = self.transaction.open_table(META)?.get(OUTAGES_NAME)? else { return Ok(Vec::new()) };
        let (pairs, rest) = value.value().as_chunks::<16>();
        if !rest.is_empty() {
            let reason = format!("`{OUTAGES_NAME}` has {} bytes, not a multiple of 16", value.value().len());
            return Err(StoreError::Corrupt { table: "meta", reason });
        }
        let moment = |half: u64| Timestamp::from_micros(half.cast_signed());
        let away = |pair: &[u8; 16]| {
            let both = u128::from_le_bytes(*pair);
            Outage { from: moment(both as u64), to: moment((both >> 64) as u64) }
        };
        Ok(pairs.iter().map(away).collect())
    }

    /// What tells this database from every other one, if it has been drawn already.
    pub fn instance(&self) -> Result<Option<[u8; 4]>, StoreError> {
        let value = self.transaction.open_table(META)?.get(INSTANCE_NAME)?;
        value.map(|value| fixed_bytes(INSTANCE_NAME, value.value())).transpose()
    }

    /// A number that was kept; 0 before the first time.
    pub fn meta_value(&self, mark: MetaKey) -> Result<u64, StoreError> {
        self.number(mark.name())
    }

    fn number(&self, name: &str) -> Result<u64, StoreError> {
        let value = self.transaction.open_table(META)?.get(name)?;
        value.map_or(Ok(0), |value| number(name, value.value()))
    }

    /// The secret that signs badge URLs, if there is one already.
    pub fn badge_secret(&self) -> Result<Option<BadgeSecret>, StoreError> {
        let value = self.transaction.open_table(META)?.get(SECRET_NAME)?;
        value.map(|value| fixed_bytes(SECRET_NAME, value.value()).map(BadgeSecret)).transpose()
    }

    /// A small read of the database, for probes.
    pub fn probe(&self) -> Result<(), StoreError> {
        self.transaction.open_table(META)?.get(SCHEMA_NAME)?;
        Ok(())
    }
}
