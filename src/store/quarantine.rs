//! Quarantine: rows that this release cannot read are set apart, so that the rest can be used.
//!
//! Their bytes move to a separate table. A check or a project is replaced by a row that names the
//! problem. A key, a channel, a window, a row of the outbox or an entry of a log is left out.

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::ping::{BODIES, PINGS};
use super::{Store, StoreError, check, declared, flip, meta, outbox, ping, project, user, window};
use crate::domain::ids::CheckId;

/// `aside`: (table, key) -> the row as it was found.
pub(super) const QUARANTINE: TableDefinition<'_, (&str, u64), &[u8]> =
    TableDefinition::new("aside");

type RowTable = TableDefinition<'static, u64, &'static [u8]>;
/// Reason why a row cannot be read, and a replacement row if there is one.
type UnreadableRow = (StoreError, Option<Vec<u8>>);

impl Store {
    /// Moves rows that startup needs, and that [`crate::store::Snapshot`] cannot read, to
    /// quarantine, and logs each. Returns the checks that are shown without some of their settings.
    pub fn quarantine_unreadable_rows(&self) -> Result<Vec<CheckId>, StoreError> {
        let batch = self.batch()?;
        let transaction = batch.unrecorded();
        quarantine_rows(
            transaction,
            project::PROJECTS,
            0,
            project::unreadable_project_row,
        )?;
        quarantine_rows(transaction, project::KEYS, 0, |_, bytes| {
            project::read_key(0, bytes).err().map(|error| (error, None))
        })?;
        quarantine_rows(transaction, project::CHANNELS, 0, |_, bytes| {
            project::read_channel(0, bytes)
                .err()
                .map(|error| (error, None))
        })?;
        quarantine_rows(transaction, user::USERS, 0, |_, bytes| {
            user::read_user(0, bytes).err().map(|error| (error, None))
        })?;
        quarantine_rows(transaction, user::SESSIONS, 0, |_, bytes| {
            user::read_session(0, bytes)
                .err()
                .map(|error| (error, None))
        })?;
        quarantine_rows(transaction, user::LINKS, 0, |_, bytes| {
            user::read_link(0, bytes).err().map(|error| (error, None))
        })?;
        quarantine_rows(transaction, window::WINDOWS, 0, |id, bytes| {
            Some((window::read_window(id, bytes).err()?, None))
        })?;
        quarantine_rows(transaction, declared::DECLARED, 0, |id, bytes| {
            Some((declared::read_source(id, bytes).err()?, None))
        })?;
        let (_, checks) =
            quarantine_rows(transaction, check::CHECKS, 0, check::unreadable_check_row)?;
        let checkpoint = meta::meta_value(transaction, meta::MetaKey::CheckpointArrival)?;
        let (removed, _) = quarantine_rows(transaction, PINGS, checkpoint + 1, |_, bytes| {
            Some((ping::read_ping(bytes).err()?, None))
        })?;
        let mut bodies = transaction.open_table(BODIES)?;
        removed
            .into_iter()
            .try_for_each(|arrival| bodies.remove(arrival).map(drop))?;
        drop(bodies);
        let checkpoint = meta::meta_value(transaction, meta::MetaKey::CheckpointFlip)?;
        quarantine_rows(transaction, flip::FLIPS, checkpoint + 1, |_, bytes| {
            Some((flip::read_flip(bytes).err()?, None))
        })?;
        quarantine_rows(transaction, outbox::OUTBOX, 0, |number, bytes| {
            Some((outbox::read_outbox_row(number, bytes).err()?, None))
        })?;
        batch.commit()?;
        Ok(checks.into_iter().map(CheckId).collect())
    }
}

/// Moves the rows for which `find_error` returns an error to quarantine, from a key on. Returns the
/// keys of rows without a replacement, and the keys of replaced rows.
fn quarantine_rows(
    transaction: &WriteTransaction,
    table: RowTable,
    from: u64,
    find_error: impl Fn(u64, &[u8]) -> Option<UnreadableRow>,
) -> Result<(Vec<u64>, Vec<u64>), StoreError> {
    let mut rows = transaction.open_table(table)?;
    let mut found = Vec::new();
    for row in rows.range(from..)? {
        let (key, bytes) = row?;
        if let Some((error, replacement)) = find_error(key.value(), bytes.value()) {
            found.push((key.value(), bytes.value().to_vec(), replacement));
            let note = if found
                .last()
                .is_some_and(|(.., replacement)| replacement.is_some())
            {
                "; the rest of it is used"
            } else {
                ""
            };
            tracing::error!("row {} is quarantined: {error}{note}", key.value());
        }
    }
    let mut quarantine = transaction.open_table(QUARANTINE)?;
    let mut removed = Vec::new();
    let mut replaced = Vec::new();
    for (key, bytes, replacement) in found {
        let name = redb::TableHandle::name(&table).to_owned();
        quarantine.insert((name.as_str(), key), bytes.as_slice())?;
        match replacement {
            Some(replacement) => {
                rows.insert(key, replacement.as_slice())?;
                replaced.push(key);
            }
            None => {
                rows.remove(key)?;
                removed.push(key);
            }
        }
    }
    Ok((removed, replaced))
}
