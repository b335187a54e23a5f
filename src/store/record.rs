//! How a row becomes bytes: one version byte, then a MessagePack array of that version's fields.

use serde::{Deserialize, Serialize};

use super::StoreError;

/// A stored row. Fields may only be changed together with `VERSION`; [`Record::older`] then reads what earlier releases wrote.
pub(super) trait Record<'a>: Serialize + Deserialize<'a> {
    /// The table, for messages.
    const TABLE: &'static str;
    /// The version that this release writes.
    const VERSION: u8;

    /// Reads a row of an earlier version, without its version byte. `None`: there was no such version.
    fn older(_version: u8, _bytes: &'a [u8]) -> Option<Result<Self, rmp_serde::decode::Error>> {
        None
    }
}

/// Writes a row in place of what `out` held.
pub(super) fn encode<'a, R: Record<'a>>(row: &R, out: &mut Vec<u8>) -> Result<(), StoreError> {
    out.clear();
    out.push(R::VERSION);
    rmp_serde::encode::write(out, row).map_err(|error| corrupt::<R>(&error))
}

/// Reads a row of this or an earlier version.
pub(super) fn decode<'a, R: Record<'a>>(bytes: &'a [u8]) -> Result<R, StoreError> {
    let (version, fields) = bytes.split_first().ok_or_else(|| corrupt::<R>(&"it is empty"))?;
    let row = if *version == R::VERSION { Some(rmp_serde::from_slice(fields)) } else { R::older(*version, fields) };
    row.ok_or_else(|| corrupt::<R>(&format_args!("version {version} is not known")))?.map_err(|error| corrupt::<R>(&error))
}

/// The error for a row of this kind.
pub(super) fn corrupt<'a, R: Record<'a>>(reason: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt { table: R::TABLE, reason: reason.to_string() }
}
