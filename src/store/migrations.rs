//! Migrations of the layout, one step for each version, so that a file of every earlier release can
//! be opened.

use redb::WriteTransaction;

use super::{Batch, MetaKey, Store, StoreError, meta};
use crate::domain::ids::Arrival;

/// Migration from the previous version of the layout, in one transaction.
type Migration = fn(&WriteTransaction) -> Result<(), StoreError>;

/// Migrations by version: the first creates version 1 in an empty file. New ones are only added at
/// the end. `tests/layouts` has a file of each release, and every test run opens them.
const MIGRATIONS: [Migration; 18] = [
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
    rows_with_imported_ping_counts,
    rows_with_delivery_proofs,
    rows_with_alerted_names,
    rows_with_refused_recipients,
    file_with_log,
    rows_with_pause_ends,
    audit_table,
];

/// Version that this release writes.
pub const SCHEMA: u64 = MIGRATIONS.len() as u64;

/// Returns the version of an existing layout if migrations are missing.
pub(super) fn outdated_schema(store: &Store) -> Result<Option<u64>, StoreError> {
    // A new file has no tables yet, so a snapshot could not open them.
    let found = meta::schema(store.batch()?.unrecorded())?;
    Ok(Some(found).filter(|found| (1..SCHEMA).contains(found)))
}

/// Runs the missing migrations, each in its own transaction. Refuses a version newer than this
/// release.
pub(super) fn migrate(store: &Store) -> Result<(), StoreError> {
    migrate_to(store, SCHEMA)
}

/// Runs the migrations up to a version. Refuses a version newer than this release.
pub(super) fn migrate_to(store: &Store, target: u64) -> Result<(), StoreError> {
    loop {
        let batch: Batch = store.batch()?;
        let found = meta::schema(batch.unrecorded())?;
        if found >= target {
            return if found == target {
                Ok(())
            } else {
                Err(StoreError::TooNew {
                    found,
                    known: target,
                })
            };
        }
        let step = usize::try_from(found)
            .ok()
            .and_then(|found| MIGRATIONS.get(found));
        let Some(step) = step else {
            return Err(StoreError::TooNew {
                found: found.max(target),
                known: SCHEMA,
            });
        };
        step(batch.unrecorded())?;
        meta::set_schema(batch.unrecorded(), found + 1)?;
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

/// Version 2: new rows of checks, keys, pings and flips have version 2. Release 0.1 cannot read
/// them, so it must refuse the file. Existing rows stay unchanged. The bytes of their bodies are
/// counted once.
fn second_rows(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let checkpoint = Arrival(meta::meta_value(transaction, MetaKey::CheckpointArrival)?);
    let (logged, kept) = super::ping::count_bytes(transaction, checkpoint)?;
    meta::set_meta_value(transaction, MetaKey::CheckpointBytes, logged)?;
    meta::set_meta_value(transaction, MetaKey::KeptBytes, kept)
}

/// Version 3: adds the outbox and the log of deliveries. New rows of checks and channels have a new
/// version. No alerts are sent for checks that are already down.
fn outbox_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::outbox::create_tables(transaction)
}

/// Version 4: new rows of checks name the checks that they depend on, and have version 4.
fn rows_with_parents(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 5: adds users, with sessions and links.
fn user_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::user::create_tables(transaction)
}

/// Version 6: new long bodies are stored in chunks, and rows of pings have a new version. Existing
/// ones stay unchanged. It is unknown if the clock was set back between existing flips.
fn chunk_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::chunks::create_tables(transaction)?;
    meta::set_meta_value(
        transaction,
        MetaKey::FlipsOutOfOrder,
        super::flip::newest_flip_number(transaction)?,
    )
}

/// Version 7: adds the table of windows.
fn window_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::window::create_table(transaction)
}

/// Version 8: new rows of users include a second factor and list preferences, and have version 2.
fn rows_with_second_factors(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 9: adds the table of objects that configuration files manage.
fn declared_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::declared::create_table(transaction)
}

/// Version 10: new rows of keys may contain a key of another server, and have version 3. Rows of
/// projects may contain the key that signed their badge URLs there, and have version 2.
fn rows_with_legacy_keys(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 11: new rows of projects (version 3) and of checks (version 5) record what an import
/// added.
fn rows_of_imports(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 12: new rows of checks record the number of imported pings, and have version 6.
fn rows_with_imported_ping_counts(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 13: rows of channels record successful deliveries and unsubscribed recipients. Groups
/// list their members by UUID. Both have version 3. New rows of users record since when browsers
/// are recognised, and have version 3, too.
fn rows_with_delivery_proofs(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::project::rewrite_channels(transaction, &super::outbox::channels_reached(transaction)?)
}

/// Version 14: new rows of checks (version 7) record the names in the alert about a downtime. New
/// rows of flips (version 3) record since when a signal was awaited. New rows of the outbox and of
/// deliveries have version 2.
fn rows_with_alerted_names(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 15: new rows of channels record refused recipients, and have version 4.
fn rows_with_refused_recipients(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 16: a log may be ahead of the file. Earlier releases would not read it.
fn file_with_log(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 17: new rows of checks (version 8) record the end of a pause, new rows of flips (version
/// 4) that a pause ended, and new rows of users (version 4) pinned checks and saved filters.
fn rows_with_pause_ends(_: &WriteTransaction) -> Result<(), StoreError> {
    Ok(())
}

/// Version 18: adds the audit logs. New rows of projects (version 4) have status pages
/// and the permission for settings in pings, and new rows of users (version 5) passkeys.
fn audit_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::audit::create_table(transaction)
}
