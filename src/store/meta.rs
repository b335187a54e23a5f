//! Single values of the database: schema version, id sequence, checkpoints, secret that signs badge
//! URLs, secrets of other servers, instance ID.

use redb::{ReadableTable as _, TableDefinition, TableHandle as _, WriteTransaction};

use super::log::LogMark;
use super::{Batch, Snapshot, StoreError, TableRows};
use crate::domain::alert::Outage;
use crate::domain::legacy_keys::{LegacySecret, LegacySecrets};
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;

/// `meta`: name -> number in 8 bytes little endian, or raw bytes.
pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

const SCHEMA_NAME: &str = "schema";
const BADGE_SECRET_NAME: &str = "badge_secret";
const INSTANCE_NAME: &str = "instance";
const OUTAGES_NAME: &str = "away";
const LEGACY_SECRETS_NAME: &str = "adopted";

/// Number that the engine stores beside the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaKey {
    /// Next id of the id sequence.
    NextId,
    /// Number of the next delivery.
    NextDelivery,
    /// Arrival up to which rows of checks include every ping.
    CheckpointArrival,
    /// Number up to which rows of checks include every flip.
    CheckpointFlip,
    /// Bytes of all bodies ever logged up to the checkpoint, beyond the first 1,024 of each.
    CheckpointBytes,
    /// Bytes of all bodies ever removed from the log, beyond the first 1,024 of each.
    SweptBytes,
    /// Bytes of the bodies of kept pings beyond the first 1,024 of each.
    KeptBytes,
    /// Last recorded time at which the server accepted pings, in microseconds.
    LastAvailable,
    /// Flip number up to which the times of a check may run backwards, because the clock was set
    /// back afterwards.
    FlipsOutOfOrder,
    /// Start of the period without a clock jump, as of the last write; microseconds since 1970.
    SteadySince,
    /// Not 0 if log entries of an unfinished import may exist.
    ImportLeftovers,
    /// Random number that the log and the database share; 0 before the first log.
    LogDatabase,
    /// Number of the last record of the log whose rows the synced file contains.
    LogPlace,
    /// Chain of that record.
    LogChain,
    /// Number of the log of the database that a restore replaced: a kill may have left its journal.
    /// 0 if there was none.
    ReplacedLog,
    /// Not 0 if the database belongs to a cluster.
    IsClustered,
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
            Self::LastAvailable => "alive",
            Self::FlipsOutOfOrder => "flips_out_of_order",
            Self::SteadySince => "steady_since",
            Self::ImportLeftovers => "staged",
            Self::LogDatabase => "log_database",
            Self::LogPlace => "log_place",
            Self::LogChain => "log_chain",
            Self::ReplacedLog => "log_replaced",
            Self::IsClustered => "clustered",
        }
    }
}

/// Version of the layout; 0 in an empty file.
pub(super) fn schema(transaction: &WriteTransaction) -> Result<u64, StoreError> {
    let meta = transaction.open_table(META)?;
    let found = meta.get(SCHEMA_NAME)?;
    found.map_or(Ok(0), |value| number(SCHEMA_NAME, value.value()))
}

/// Stores the version of the layout.
pub(super) fn set_schema(transaction: &WriteTransaction, schema: u64) -> Result<(), StoreError> {
    transaction
        .open_table(META)?
        .insert(SCHEMA_NAME, schema.to_le_bytes().as_slice())?;
    Ok(())
}

/// Returns the version of the layout in changed rows of the table of single values, if it is one of
/// them.
pub(super) fn changed_schema(rows: &TableRows<'_>) -> Option<u64> {
    let mut rows = rows.iter().filter(|_| rows.table() == META.name());
    let (_, bytes) = rows.find(|(name, _)| *name == SCHEMA_NAME.as_bytes())?;
    number(SCHEMA_NAME, bytes).ok()
}

/// Returns a stored number; 0 if it was never set.
pub(super) fn meta_value(transaction: &WriteTransaction, key: MetaKey) -> Result<u64, StoreError> {
    let meta = transaction.open_table(META)?;
    let value = meta.get(key.name())?;
    value.map_or(Ok(0), |value| number(key.name(), value.value()))
}

/// Stores a number.
pub(super) fn set_meta_value(
    transaction: &WriteTransaction,
    key: MetaKey,
    value: u64,
) -> Result<(), StoreError> {
    transaction
        .open_table(META)?
        .insert(key.name(), value.to_le_bytes().as_slice())?;
    Ok(())
}

/// Returns the mark up to which the synced file contains the records of the log.
pub(super) fn log_mark(transaction: &WriteTransaction) -> Result<LogMark, StoreError> {
    Ok(LogMark {
        place: meta_value(transaction, MetaKey::LogPlace)?,
        chain: meta_value(transaction, MetaKey::LogChain)?,
    })
}

/// Stores the mark up to which the file contains the records of the log, once it is synced.
pub(super) fn set_log_mark(
    transaction: &WriteTransaction,
    mark: LogMark,
) -> Result<(), StoreError> {
    set_meta_value(transaction, MetaKey::LogPlace, mark.place)?;
    set_meta_value(transaction, MetaKey::LogChain, mark.chain)
}

fn number(name: &str, bytes: &[u8]) -> Result<u64, StoreError> {
    fixed_bytes(name, bytes).map(u64::from_le_bytes)
}

fn fixed_bytes<const N: usize>(name: &str, bytes: &[u8]) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| StoreError::InvalidRow {
        table: "meta",
        reason: format!("`{name}` has {} bytes, not {N}", bytes.len()),
    })
}

impl Batch {
    /// Stores the version of the layout as a change of the log.
    pub(super) fn record_schema(&self, schema: u64) -> Result<(), StoreError> {
        let mut meta = self.table(META)?;
        meta.insert(SCHEMA_NAME, schema.to_le_bytes().as_slice())?;
        Ok(())
    }

    /// Stores a number.
    pub fn set_meta_value(&self, key: MetaKey, value: u64) -> Result<(), StoreError> {
        let mut meta = self.table(META)?;
        meta.insert(key.name(), value.to_le_bytes().as_slice())?;
        Ok(())
    }

    /// Stores the secret that signs badge URLs.
    pub fn set_badge_secret(&self, BadgeSecret(secret): &BadgeSecret) -> Result<(), StoreError> {
        self.table(META)?
            .insert(BADGE_SECRET_NAME, secret.as_slice())?;
        Ok(())
    }
}

impl Batch {
    /// Stores the ID that distinguishes this database from every other one.
    pub fn set_instance(&self, instance: [u8; 4]) -> Result<(), StoreError> {
        self.table(META)?
            .insert(INSTANCE_NAME, instance.as_slice())?;
        Ok(())
    }
}

impl Batch {
    /// Stores the outages, in which the server accepted no pings: each as two numbers of
    /// microseconds in 8 bytes little endian.
    pub fn set_outages(&self, outages: &[Outage]) -> Result<(), StoreError> {
        let bytes: Vec<u8> = outages
            .iter()
            .flat_map(|outage| [outage.from, outage.to])
            .flat_map(|at| at.micros().to_le_bytes())
            .collect();
        self.table(META)?.insert(OUTAGES_NAME, bytes.as_slice())?;
        Ok(())
    }
}

impl Batch {
    /// Stores the secrets of other servers: each as its number in 1 byte, its length in 2 bytes
    /// little endian, and its bytes. Without secrets there is no row.
    pub fn set_legacy_secrets(&self, secrets: &LegacySecrets) -> Result<(), StoreError> {
        let mut meta = self.table(META)?;
        if secrets.is_empty() {
            meta.remove(LEGACY_SECRETS_NAME)?;
            return Ok(());
        }
        let mut bytes = Vec::new();
        for (number, secret) in secrets.iter() {
            let length = u16::try_from(secret.as_str().len())
                .map_err(|_| invalid_legacy_secrets("a secret is too long"))?;
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
        let (secret, rest) = rest
            .split_at_checked(u16::from_le_bytes(*length).into())
            .ok_or_else(|| invalid_legacy_secrets("it is truncated"))?;
        let text = str::from_utf8(secret)
            .map_err(|_| invalid_legacy_secrets("a secret is not valid UTF-8"))?;
        secrets.push((
            *number,
            LegacySecret::parse(text).map_err(invalid_legacy_secrets)?,
        ));
        bytes = rest;
    }
    if bytes.is_empty() {
        LegacySecrets::from_stored(secrets).map_err(invalid_legacy_secrets)
    } else {
        Err(invalid_legacy_secrets("it is truncated"))
    }
}

fn invalid_legacy_secrets(reason: &str) -> StoreError {
    StoreError::InvalidRow {
        table: "meta",
        reason: format!("`{LEGACY_SECRETS_NAME}`: {reason}"),
    }
}

/// Validates a value if its format can be wrong. Returns the version of the layout if this is the
/// row with it.
pub(super) fn validate_value(name: &str, bytes: &[u8]) -> Result<Option<u64>, StoreError> {
    if name == LEGACY_SECRETS_NAME {
        read_legacy_secrets(bytes)?;
    }
    (name == SCHEMA_NAME)
        .then(|| number(name, bytes))
        .transpose()
}

impl Snapshot {
    /// Secrets of other servers.
    pub fn legacy_secrets(&self) -> Result<LegacySecrets, StoreError> {
        let value = self
            .transaction
            .open_table(META)?
            .get(LEGACY_SECRETS_NAME)?;
        value.map_or(Ok(LegacySecrets::default()), |value| {
            read_legacy_secrets(value.value())
        })
    }

    /// Outages in which the server accepted no pings.
    pub fn outages(&self) -> Result<Vec<Outage>, StoreError> {
        let Some(value) = self.transaction.open_table(META)?.get(OUTAGES_NAME)? else {
            return Ok(Vec::new());
        };
        let (pairs, rest) = value.value().as_chunks::<16>();
        if !rest.is_empty() {
            let reason = format!(
                "`{OUTAGES_NAME}` has {} bytes, not a multiple of 16",
                value.value().len()
            );
            return Err(StoreError::InvalidRow {
                table: "meta",
                reason,
            });
        }
        let timestamp = |bits: u64| Timestamp::from_micros(bits.cast_signed());
        let outage = |pair: &[u8; 16]| {
            let both = u128::from_le_bytes(*pair);
            Outage {
                from: timestamp(both as u64),
                to: timestamp((both >> 64) as u64),
            }
        };
        Ok(pairs.iter().map(outage).collect())
    }

    /// ID that distinguishes this database from every other one, if it has been drawn.
    pub fn instance(&self) -> Result<Option<[u8; 4]>, StoreError> {
        let value = self.transaction.open_table(META)?.get(INSTANCE_NAME)?;
        value
            .map(|value| fixed_bytes(INSTANCE_NAME, value.value()))
            .transpose()
    }

    /// Returns a stored number; 0 if it was never set.
    pub fn meta_value(&self, key: MetaKey) -> Result<u64, StoreError> {
        self.number(key.name())
    }

    fn number(&self, name: &str) -> Result<u64, StoreError> {
        let value = self.transaction.open_table(META)?.get(name)?;
        value.map_or(Ok(0), |value| number(name, value.value()))
    }

    /// Secret that signs badge URLs, if there is one.
    pub fn badge_secret(&self) -> Result<Option<BadgeSecret>, StoreError> {
        let value = self.transaction.open_table(META)?.get(BADGE_SECRET_NAME)?;
        value
            .map(|value| fixed_bytes(BADGE_SECRET_NAME, value.value()).map(BadgeSecret))
            .transpose()
    }

    /// Reads a small part of the database, for health probes.
    pub fn probe(&self) -> Result<(), StoreError> {
        self.transaction.open_table(META)?.get(SCHEMA_NAME)?;
        Ok(())
    }
}
