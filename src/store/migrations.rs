//! The layout of the file moves in steps, so that a file of every earlier release opens.

use redb::WriteTransaction;

use super::{Batch, MetaKey, Store, StoreError, meta};
use crate::domain::ids::Arrival;

/// Makes the layout of one version out of that of the version before, in one transaction.
type Migration = fn(&WriteTransaction) -> Result<(), StoreError>;

/// The step to each version: the first makes version 1 out of an empty file. Steps are only ever added at the end. A file of each
/// release lies under `tests/layouts` and is opened in every run of the tests.
const MIGRATIONS: [Migration; 15] = [
    first_tables,
    second_rows,
    outbox_tables,
    rows_with_parents,
    user_tables,
    chunk_tables,
    window_table,
    rows_with_second_factors,
    declared_table,
    rows_with_legacy_keys,
    rows_of_imports,
    rows_of_replacements,
    rows_with_delivery_proofs,
    rows_with_alerted_names,
    rows_with_refused_recipients,
];

/// The version that this release writes.
pub const SCHEMA: u64 = MIGRATIONS.len() as u64;

/// The version of a file that has one, if steps are missing.
pub(super) fn outdated_schema(store: &Store) -> Result<Option<u64>, StoreError> {
    // A new file has no tables yet, which a snapshot would not open.
    let found = meta::schema(&store.batch()?.transaction)?;
    Ok(Some(found).filter(|found| (1..SCHEMA).contains(found)))
}

/// Takes the steps that are missing, each in a transaction of its own. Refuses a version newer than this release.
pub(super) fn migrate(store: &Store) -> Result<(), StoreError> {
    loop {
        let batch: Batch = store.batch()?;
        let found = meta::schema(&batch.transaction)?;
        let step = usize::try_from(found).ok().and_then(|found| MIGRATIONS.get(found));
        let Some(step) = step else {
            return if found == SCHEMA { Ok(()) } else { Err(StoreError::TooNew { found, known: SCHEMA }) };
        };
        step(&batch.transaction)?;
        meta::set_schema(&batch.transaction, found + 1)?;
        batch.commit()?;
    }
}

/// Version 1, release 0.1.
fn first_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::project::create_tables(transaction)?;
    super::check::create_table(transaction)?;
    super::flip::create_table(transaction)?;
    super::ping::create_tables(transaction)
}

/// Version 2: rows of checks, keys, pings and flips that are written from here on have version 2. Release 0.1 cannot read them, so it
/// has to refuse the file. The rows that are there stay as they are. The bytes of their bodies are counted once.
fn second_rows(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let checkpoint = Arrival(meta::meta_value(transaction, MetaKey::CheckpointArrival)?);
    let (logged, kept) = super::ping::count_bytes(transaction, checkpoint)?;
    meta::set_meta_value(transaction, MetaKey::CheckpointBytes, logged)?;
    meta::set_meta_value(transaction, MetaKey::KeptBytes, kept)
}

/// Version 3: there are the outbox and the log of deliveries, and rows of checks and channels that are written from here on have a new
/// version. What is down already stays untold.
fn outbox_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::outbox::create_tables(transaction)
}

/// Version 4: rows of checks that are written from here on name the checks that they depend on, and have version 4.
fn rows_with_parents(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 5: there are users, with sessions and links.
fn user_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::user::create_tables(transaction)
}

/// Version 6: long bodies that are written from here on lie in pieces, and rows of pings have a new version. Those that are there stay as
/// they are. Nobody knows whether the clock was set back between the flips that are there.
fn chunk_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::chunks::create_tables(transaction)?;
    meta::set_meta_value(transaction, MetaKey::FlipsOutOfOrder, super::flip::newest_flip_number(transaction)?)
}

/// Version 7: there is the table of windows.
fn window_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::window::create_table(transaction)
}

/// Version 8: rows of users that are written from here on hold a second factor and how lists are shown, and have version 2.
fn rows_with_second_factors(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 9: there is the table of what files own.
fn declared_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::declared::create_table(transaction)
}

/// Version 10: rows of keys that are written from here on may be of another server, and have version 3; rows of projects may hold what signed
/// their badge URLs there, and have version 2.
fn rows_with_legacy_keys(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 11: rows of projects and checks that are written from here on say what an import brought, and have versions 3 and 5.
fn rows_of_imports(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 12: rows of checks that are written from here on say how many pings an import brought, and have version 6.
fn rows_of_replacements(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 13: rows of channels say whether something has arrived and who has unsubscribed, groups list their members by UUID, and both
/// have version 3. So have rows of users that are written from here on: they say since when browsers are recognised.
fn rows_with_delivery_proofs(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::project::rewrite_channels(transaction, &super::outbox::channels_reached(transaction)?)
}

/// Version 14: rows of checks that are written from here on hold the names under which a downtime was told, and have version 7; those of flips
/// say since when a signal was awaited, and have version 3; those of the outbox and of deliveries have version 2.
fn rows_with_alerted_names(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 15: rows of channels that are written from here on say which recipients are refused, and have version 4.
fn rows_with_refused_recipients(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}
