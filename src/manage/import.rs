//! Imports: begun, handed over some at a time, and shown all at once; and trials, which an import begins.

use super::{ManageError, submit};
use crate::domain::ids::ProjectId;
use crate::domain::moment::Moment;
use crate::domain::staged::{ImportId, Staged, StagedFlip, StagedPing};
use crate::engine::Handle;
use crate::engine::command::stage::{Ending, Lost, StageCommand, StageOutcome};
use crate::engine::command::{Command, Outcome};

async fn step(handle: &Handle, command: StageCommand) -> Result<Outcome, ManageError> {
    submit(handle, Command::Stage(Box::new(command))).await
}

/// Begins one of so many things, some of them checks.
///
/// # Errors
/// When as many are under way as may be, it is too large, it has more checks than a server that runs takes at once, or the writer does not
/// answer.
pub async fn begin(handle: &Handle, ids: u64, checks: u64) -> Result<ImportId, ManageError> {
    match step(handle, StageCommand::Begin { ids, checks }).await? {
        Outcome::Stage(StageOutcome::Begun(import)) => Ok(import),
        // That command comes to nothing else.
        _ => Err(ManageError::Gone),
    }
}

/// Takes entries of logs.
///
/// # Errors
/// When there is no such import, they make no sense, or the writer does not answer.
pub async fn log(handle: &Handle, import: ImportId, pings: Vec<StagedPing>, flips: Vec<StagedFlip>) -> Result<(), ManageError> {
    step(handle, StageCommand::Log { import, pings, flips }).await.map(drop)
}

/// Takes things.
///
/// # Errors
/// When there is no such import, they make no sense, or the writer does not answer.
pub async fn objects(handle: &Handle, import: ImportId, objects: Vec<Staged>) -> Result<(), ManageError> {
    step(handle, StageCommand::Objects { import, objects }).await.map(drop)
}

/// Shows all of it; how many projects it took the place of, and what was done in these and is lost.
///
/// # Errors
/// When something else here has its names or keys, checks were pinged or changed here and it is not to `replace` them, or the writer does
/// not answer. It can be tried again.
pub async fn finish(handle: &Handle, import: ImportId, ending: Ending) -> Result<(usize, Lost), ManageError> {
    end(handle, StageCommand::Finish { import, ending }).await
}

/// What it would come to to finish; it goes on.
///
/// # Errors
/// As of [`finish`].
pub async fn look(handle: &Handle, import: ImportId, ending: Ending) -> Result<(usize, Lost), ManageError> {
    end(handle, StageCommand::Look { import, ending }).await
}

async fn end(handle: &Handle, command: StageCommand) -> Result<(usize, Lost), ManageError> {
    match step(handle, command).await? {
        Outcome::Stage(StageOutcome::Finished { replaced, lost }) => Ok((replaced, lost)),
        // Those commands come to nothing else.
        _ => Err(ManageError::Gone),
    }
}

/// Forgets one.
///
/// # Errors
/// When there is no such import, or the writer does not answer.
pub async fn abandon(handle: &Handle, import: ImportId) -> Result<(), ManageError> {
    step(handle, StageCommand::Abandon { import }).await.map(drop)
}

/// Ends the trial of a project.
///
/// # Errors
/// When it is not on trial, it is gone, or the writer does not answer.
pub async fn release(handle: &Handle, project: ProjectId) -> Result<(), ManageError> {
    step(handle, StageCommand::Release(project)).await.map(drop)
}

/// An import under way, or a project on trial.
pub enum Listed {
    /// An import: its number, when it began and the checks that were handed over.
    Staged(ImportId, Moment, u64),
    /// The name of a project, and how many checks it has.
    Trial(String, u64),
}

/// Imports under way, then projects on trial, the oldest first.
pub fn list(handle: &Handle) -> Vec<Listed> {
    handle.with_state(|state| {
        let staged = state.stagings.iter().map(|(import, staging)| Listed::Staged(import, staging.begun, staging.counts.checks));
        let held = state.projects().filter(|project_state| project_state.project.is_held());
        let trials = held.map(|held| Listed::Trial(held.project.name.as_str().into(), held.checks.len() as u64));
        staged.chain(trials).collect()
    })
}
