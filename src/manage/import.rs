//! Imports: begun, handed over some at a time, and shown all at once; and trials, which an import begins.

use super::{OperationError, submit};
use crate::domain::ids::ProjectId;
use crate::domain::import_item::{ImportId, ImportItem, NumberedFlip, NumberedPing};
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::command::import::{ImportFinishOptions, ImportStep, ImportStepOutcome, LocalChanges};
use crate::engine::command::{Command, CommandOutcome};

async fn submit_step(handle: &Handle, command: ImportStep) -> Result<CommandOutcome, OperationError> {
    submit(handle, Command::Import(Box::new(command))).await
}

/// Begins one of so many things, some of them checks.
///
/// # Errors
/// When as many are under way as may be, it is too large, it has more checks than a server that runs takes at once, or the writer does not
/// answer.
pub async fn begin(handle: &Handle, ids: u64, checks: u64) -> Result<ImportId, OperationError> {
    match submit_step(handle, ImportStep::Begin { ids, checks }).await? {
        CommandOutcome::Import(ImportStepOutcome::Begun(import)) => Ok(import),
        // That command comes to nothing else.
        _ => Err(OperationError::Removed),
    }
}

/// Takes entries of logs.
///
/// # Errors
/// When there is no such import, they make no sense, or the writer does not answer.
pub async fn add_log_entries(
    handle: &Handle,
    import: ImportId,
    pings: Vec<NumberedPing>,
    flips: Vec<NumberedFlip>,
) -> Result<(), OperationError> {
    submit_step(handle, ImportStep::Log { import, pings, flips }).await.map(drop)
}

/// Takes things.
///
/// # Errors
/// When there is no such import, they make no sense, or the writer does not answer.
pub async fn add_items(handle: &Handle, import: ImportId, objects: Vec<ImportItem>) -> Result<(), OperationError> {
    submit_step(handle, ImportStep::Objects { import, objects }).await.map(drop)
}

/// Shows all of it; how many projects it took the place of, and what was done in these and is lost.
///
/// # Errors
/// When something else here has its names or keys, checks were pinged or changed here and it is not to `replace` them, or the writer does
/// not answer. It can be tried again.
pub async fn finish(handle: &Handle, import: ImportId, ending: ImportFinishOptions) -> Result<(usize, LocalChanges), OperationError> {
    submit_finish(handle, ImportStep::Finish { import, ending }).await
}

/// What it would come to to finish; it goes on.
///
/// # Errors
/// As of [`finish`].
pub async fn dry_run(handle: &Handle, import: ImportId, ending: ImportFinishOptions) -> Result<(usize, LocalChanges), OperationError> {
    submit_finish(handle, ImportStep::Preview { import, ending }).await
}

async fn submit_finish(handle: &Handle, command: ImportStep) -> Result<(usize, LocalChanges), OperationError> {
    match submit_step(handle, command).await? {
        CommandOutcome::Import(ImportStepOutcome::Finished { replaced, lost_changes: lost }) => Ok((replaced, lost)),
        // Those commands come to nothing else.
        _ => Err(OperationError::Removed),
    }
}

/// Forgets one.
///
/// # Errors
/// When there is no such import, or the writer does not answer.
pub async fn abandon(handle: &Handle, import: ImportId) -> Result<(), OperationError> {
    submit_step(handle, ImportStep::Abandon { import }).await.map(drop)
}

/// Ends the trial of a project.
///
/// # Errors
/// When it is not on trial, it is gone, or the writer does not answer.
pub async fn end_trial(handle: &Handle, project: ProjectId) -> Result<(), OperationError> {
    submit_step(handle, ImportStep::EndTrial(project)).await.map(drop)
}

/// An import under way, or a project on trial.
pub enum ImportListEntry {
    /// An import: its number, when it began and the checks that were handed over.
    Open(ImportId, Timestamp, u64),
    /// The name of a project, and how many checks it has.
    Trial(String, u64),
}

/// Imports under way, then projects on trial, the oldest first.
pub fn list(handle: &Handle) -> Vec<ImportListEntry> {
    handle.with_state(|state| {
        let staged = state.imports.iter().map(|(import, staging)| ImportListEntry::Open(import, staging.begun_at, staging.counts.checks));
        let held = state.projects().filter(|project_state| project_state.project.is_on_trial());
        let trials = held.map(|held| ImportListEntry::Trial(held.project.name.as_str().into(), held.checks.len() as u64));
        staged.chain(trials).collect()
    })
}
