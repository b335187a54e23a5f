//! Rows that this release cannot read are put aside, so that one of them does not keep the rest from being used.
//!
//! Their bytes stay in a table of their own. In place of a check or a project stands one that says so; a key, a channel, a window, a row of
//! the outbox or an entry of a log is not there.

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::ping::{BODIES, PINGS};
use super::{Store, StoreError, check, flip, managed, meta, outbox, ping, project, user, window};
use crate::domain::ids::CheckId;

/// `aside`: (table, key) -> the row as it was found.
pub(super) const ASIDE: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("aside");

type Table = TableDefinition<'static, u64, &'static [u8]>;
/// Why a row cannot be read; and what stands in its place, if anything can.
type Refused = (StoreError, Option<Vec<u8>>);

impl Store {
    /// Puts aside what [`crate::store::Snapshot`] cannot read of the rows that a start needs, and tells each. Returns the checks that are
    /// shown without some of their settings.
    pub fn put_aside(&self) -> Result<Vec<CheckId>, StoreError> {
        let batch = self.batch()?;
        let transaction = &batch.transaction;
        put_aside(transaction, project::PROJECTS, 0, project::refused_project)?;
        put_aside(transaction, project::KEYS, 0, |_, bytes| project::read_key(0, bytes).err().map(|error| (error, None)))?;
        put_aside(transaction, project::CHANNELS, 0, |_, bytes| project::read_channel(0, bytes).err().map(|error| (error, None)))?;
        put_aside(transaction, user::USERS, 0, |_, bytes| user::read_user(0, bytes).err().map(|error| (error, None)))?;
        put_aside(transaction, user::SESSIONS, 0, |_, bytes| user::read_session(0, bytes).err().map(|error| (error, None)))?;
        put_aside(transaction, user::LINKS, 0, |_, bytes| user::read_link(0, bytes).err().map(|error| (error, None)))?;
        put_aside(transaction, window::WINDOWS, 0, |id, bytes| Some((window::read_window(id, bytes).err()?, None)))?;
        put_aside(transaction, managed::MANAGED, 0, |id, bytes| Some((managed::read_managed(id, bytes).err()?, None)))?;
        let (_, checks) = put_aside(transaction, check::CHECKS, 0, check::refused)?;
        let checkpoint = meta::mark(transaction, meta::Mark::CheckpointArrival)?;
        let (gone, _) = put_aside(transaction, PINGS, checkpoint + 1, |_, bytes| Some((ping::read(bytes).err()?, None)))?;
        let mut bodies = transaction.open_table(BODIES)?;
        gone.into_iter().try_for_each(|arrival| bodies.remove(arrival).map(drop))?;
        drop(bodies);
        let checkpoint = meta::mark(transaction, meta::Mark::CheckpointFlip)?;
        put_aside(transaction, flip::FLIPS, checkpoint + 1, |_, bytes| Some((flip::read(bytes).err()?, None)))?;
        put_aside(transaction, outbox::OUTBOX, 0, |number, bytes| Some((outbox::read_waiting(number, bytes).err()?, None)))?;
        batch.commit()?;
        Ok(checks.into_iter().map(CheckId).collect())
    }
}

/// Puts aside the rows that are `refused`, from a key on; the keys of those in whose place nothing stands, and of those that are
/// replaced.
fn put_aside(
    transaction: &WriteTransaction,
    table: Table,
    from: u64,
    refused: impl Fn(u64, &[u8]) -> Option<Refused>,
) -> Result<(Vec<u64>, Vec<u64>), StoreError> {
    let mut rows = transaction.open_table(table)?;
    let mut found = Vec::new();
    for row in rows.range(from..)? {
        let (key, bytes) = row?;
        if let Some((error, instead)) = refused(key.value(), bytes.value()) {
            found.push((key.value(), bytes.value().to_vec(), instead));
            let shown = if found.last().is_some_and(|(.., instead)| instead.is_some()) { "; it is shown without it" } else { "" };
            tracing::error!("row {} is put aside: {error}{shown}", key.value());
        }
    }
    let mut aside = transaction.open_table(ASIDE)?;
    let (mut gone, mut replaced) = (Vec::new(), Vec::new());
    for (key, bytes, instead) in found {
        let name = redb::TableHandle::name(&table).to_owned();
        aside.insert((name.as_str(), key), bytes.as_slice())?;
        match instead {
            Some(instead) => {
                rows.insert(key, instead.as_slice())?;
                replaced.push(key);
            }
            None => {
                rows.remove(key)?;
                gone.push(key);
            }
        }
    }
    Ok((gone, replaced))
}
