//! The layout of the file moves in steps, so that a file of every earlier release opens.

use redb::WriteTransaction;

use super::{Batch, Mark, Store, StoreError, meta};
use crate::domain::ids::Arrival;

/// Makes the layout of one version out of that of the version before, in one transaction.
type Step = fn(&WriteTransaction) -> Result<(), StoreError>;

/// The step to each version: the first makes version 1 out of an empty file. Steps are only ever added at the end. A file of each
/// version lies under `tests/layouts` and is opened in every run of the tests.
const STEPS: [Step; 3] = [first_tables, second_rows, outbox_tables];

/// The version that this release writes.
pub(super) const SCHEMA: u64 = STEPS.len() as u64;

/// Takes the steps that are missing, each in a transaction of its own. Refuses a version newer than this release.
pub(super) fn migrate(store: &Store) -> Result<(), StoreError> {
    loop {
        let batch: Batch = store.batch()?;
        let found = meta::schema(&batch.transaction)?;
        let step = usize::try_from(found).ok().and_then(|found| STEPS.get(found));
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
    super::project::make_tables(transaction)?;
    super::check::make_table(transaction)?;
    super::flip::make_table(transaction)?;
    super::ping::make_tables(transaction)
}

/// Version 2: rows of checks, keys, pings and flips that are written from here on have version 2. Release 0.1 cannot read them, so it
/// has to refuse the file. The rows that are there stay as they are. The bytes of their bodies are counted once.
fn second_rows(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let checkpoint = Arrival(meta::mark(transaction, Mark::CheckpointArrival)?);
    let (logged, kept) = super::ping::count_bytes(transaction, checkpoint)?;
    meta::set_mark(transaction, Mark::CheckpointBytes, logged)?;
    meta::set_mark(transaction, Mark::KeptBytes, kept)
}

/// Version 3: there are the outbox and the log of deliveries, and rows of checks and channels that are written from here on have a new
/// version. What is down already stays untold.
fn outbox_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    super::outbox::make_tables(transaction)
}
