//! Encoding of rows: one version byte, then a MessagePack array of the fields of that version.

use serde::{Deserialize, Serialize};

use super::StoreError;

/// Stored row. A new field needs a new version. It is added at the end with a serde default,
/// which is the value for rows of earlier versions.
pub(super) trait Record<'a>: Serialize + Deserialize<'a> {
    /// Name of the table, for messages.
    const TABLE: &'static str;
    /// Version that this release writes. It reads every version from 1 on.
    const VERSION: u8;
}

/// Encodes a row into `out`, replacing its contents.
pub(super) fn encode<'a, R: Record<'a>>(row: &R, out: &mut Vec<u8>) -> Result<(), StoreError> {
    out.clear();
    out.push(R::VERSION);
    rmp_serde::encode::write(out, row).map_err(|error| invalid_row::<R>(&error))
}

/// Decodes a row of this or an earlier version.
pub(super) fn decode<'a, R: Record<'a>>(bytes: &'a [u8]) -> Result<R, StoreError> {
    let (version, fields) = bytes
        .split_first()
        .ok_or_else(|| invalid_row::<R>(&"it is empty"))?;
    if !(1..=R::VERSION).contains(version) {
        return Err(invalid_row::<R>(&format_args!(
            "version {version} is not known"
        )));
    }
    rmp_serde::from_slice(fields).map_err(|error| invalid_row::<R>(&error))
}

/// Returns the error for a row of this kind.
pub(super) fn invalid_row<'a, R: Record<'a>>(reason: &dyn std::fmt::Display) -> StoreError {
    StoreError::InvalidRow {
        table: R::TABLE,
        reason: reason.to_string(),
    }
}
