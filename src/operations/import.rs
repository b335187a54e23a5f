//! Imports, which receive their items in steps and become visible all at once, and trials, which an
//! import begins.

use super::{OperationError, submit};
use crate::domain::ids::ProjectId;
use crate::domain::import_item::{ImportId, ImportItem, NumberedFlip, NumberedPing};
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::command::import::{ImportFinishOptions, ImportStep, LocalChanges};
use crate::engine::command::{Command, CommandOutcome, UnexpectedOutcome};

async fn submit_step<T>(handle: &Handle, step: ImportStep) -> Result<T, OperationError>
where
    T: TryFrom<CommandOutcome, Error = UnexpectedOutcome>,
{
    submit(handle, Command::Import(Box::new(step))).await
}

/// Begins an import with these numbers of objects and of checks. Returns its number.
///
/// # Errors
/// If too many imports are open, it is too large, it has more checks than a running server accepts
/// at once, or the writer does not answer.
pub async fn begin(
    handle: &Handle,
    object_count: u64,
    check_count: u64,
) -> Result<ImportId, OperationError> {
    submit_step(
        handle,
        ImportStep::Begin {
            object_count,
            check_count,
        },
    )
    .await
}

/// Adds log entries.
///
/// # Errors
/// If there is no such import, the entries are inconsistent, or the writer does not answer.
pub async fn add_log_entries(
    handle: &Handle,
    import: ImportId,
    pings: Vec<NumberedPing>,
    flips: Vec<NumberedFlip>,
) -> Result<(), OperationError> {
    let step = ImportStep::Log {
        import,
        pings,
        flips,
    };
    submit_step(handle, step).await
}

/// Adds items.
///
/// # Errors
/// If there is no such import, the items are inconsistent, or the writer does not answer.
pub async fn add_items(
    handle: &Handle,
    import: ImportId,
    objects: Vec<ImportItem>,
) -> Result<(), OperationError> {
    submit_step(handle, ImportStep::Items { import, objects }).await
}

/// Makes all items of an import visible. Returns the number of projects that it replaced, and the
/// local changes in them that are lost.
///
/// # Errors
/// If another object here has its names or keys, checks were pinged or changed here and `replace`
/// is not set, or the writer does not answer. It can be tried again.
pub async fn finish(
    handle: &Handle,
    import: ImportId,
    options: ImportFinishOptions,
) -> Result<(usize, LocalChanges), OperationError> {
    submit_step(handle, ImportStep::Finish { import, options }).await
}

/// Dry run of [`finish`]; the import stays open.
///
/// # Errors
/// The same as of [`finish`].
pub async fn dry_run(
    handle: &Handle,
    import: ImportId,
    options: ImportFinishOptions,
) -> Result<(usize, LocalChanges), OperationError> {
    submit_step(handle, ImportStep::DryRun { import, options }).await
}

/// Discards an import.
///
/// # Errors
/// If there is no such import, or the writer does not answer.
pub async fn abandon(handle: &Handle, import: ImportId) -> Result<(), OperationError> {
    submit_step(handle, ImportStep::Abandon { import }).await
}

/// Queues the discarding of an import. If the queue is full, the import ends after an hour without
/// activity.
pub fn queue_abandonment(handle: &Handle, import: ImportId) {
    let step = ImportStep::Abandon { import };
    drop(handle.submit(Command::Import(Box::new(step))));
}

/// Ends the trial of a project.
///
/// # Errors
/// If it is not on trial, it is gone, or the writer does not answer.
pub async fn end_trial(handle: &Handle, project: ProjectId) -> Result<(), OperationError> {
    submit_step(handle, ImportStep::EndTrial(project)).await
}

/// An open import, or a project on trial.
pub enum ImportListEntry {
    /// An open import: its number, the time at which it began, and the number of checks received.
    Open(ImportId, Timestamp, u64),
    /// A project on trial: its name and its number of checks.
    Trial(String, u64),
}

/// Returns open imports, then projects on trial, the oldest first.
pub fn list(handle: &Handle) -> Vec<ImportListEntry> {
    handle.with_state(|state| {
        let staged = state.imports.iter().map(|(import, staging)| {
            ImportListEntry::Open(import, staging.begun_at, staging.counts.checks)
        });
        let held = state
            .projects()
            .filter(|project_state| project_state.project.is_on_trial());
        let trials = held.map(|held| {
            ImportListEntry::Trial(held.project.name.as_str().into(), held.checks.len() as u64)
        });
        staged.chain(trials).collect()
    })
}
