//! A wanted state is compared with the real one, or made it.

use std::fmt;

use super::document::{Document, Problem};
use crate::domain::wanted::{Conflict, Manner, ObjectKind, PlannedChange, Wanted};
use crate::engine::Handle;
use crate::engine::command::declare::{Declare, Declared};
use crate::engine::command::{Command, Outcome, Refusal, Unavailable};
use crate::engine::plan::{Plan, plan};

/// How often it is tried when something goes while names are drawn.
const TRIES: usize = 5;
/// Numbers of what would be made, above all that there are.
const NUMBERS: u64 = u64::MAX / 2;

/// Why a wanted state is not the real one.
#[derive(Debug)]
pub enum DeclareError {
    /// It cannot be.
    Conflicts(Vec<Conflict>),
    /// Somebody changes things all the time.
    Restless,
    /// The writer did not answer; for [`Unavailable::Storage`] it may or may not have been made.
    Unavailable(Unavailable),
}

impl fmt::Display for DeclareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflicts(conflicts) => {
                let told: Vec<_> = conflicts.iter().map(|conflict| format!("{}: {}", conflict.at.name, conflict.reason)).collect();
                f.write_str(&told.join("; "))
            }
            Self::Restless => f.write_str("what is there changes all the time; nothing was changed, try again"),
            Self::Unavailable(Unavailable::Busy) => f.write_str("the server has too much to do; nothing was changed, try again"),
            Self::Unavailable(Unavailable::Stopping) => f.write_str("the server is stopping; nothing was changed, try again"),
            Self::Unavailable(Unavailable::Storage) => {
                f.write_str("the database cannot be written at the moment, the change may or may not have been made; see the server's log")
            }
        }
    }
}

impl std::error::Error for DeclareError {}

/// What would change.
///
/// # Errors
/// When it cannot be.
pub async fn diff(handle: &Handle, wanted: &Wanted, manner: Manner) -> Result<Vec<PlannedChange>, DeclareError> {
    planned(handle, wanted, manner).await.map(|plan| plan.changes)
}

/// Makes it so, all of it or nothing, and says what was changed.
///
/// # Errors
/// When it cannot be, or the writer does not answer.
pub async fn apply(handle: &Handle, wanted: Wanted, manner: Manner) -> Result<Vec<PlannedChange>, DeclareError> {
    for _ in 0..TRIES {
        let plan = planned(handle, &wanted, manner).await?;
        if plan.is_empty() {
            return Ok(plan.changes);
        }
        let names = (0..plan.names).map(|_| handle.random().uuid()).collect();
        let asked = Declare { wanted: wanted.clone(), manner, names };
        match handle.call(Command::Declare(Box::new(asked))).await {
            Ok(Ok(Outcome::Declared(Declared { changes }))) => return Ok(changes),
            Ok(Err(Refusal::Conflicts(conflicts))) => return Err(DeclareError::Conflicts(conflicts)),
            // More is to be made than names were drawn for.
            Ok(_) => {}
            Err(unavailable) => return Err(DeclareError::Unavailable(unavailable)),
        }
    }
    Err(DeclareError::Restless)
}

/// Plans on a thread that may take its time.
async fn planned(handle: &Handle, wanted: &Wanted, manner: Manner) -> Result<Plan, DeclareError> {
    let (handle, wanted) = (handle.clone(), wanted.clone());
    let planning = tokio::task::spawn_blocking(move || handle.with_state(|state| plan(state, &wanted, manner, handle.now(), NUMBERS, &[])));
    match planning.await {
        Ok(planned) => planned.map_err(DeclareError::Conflicts),
        // The process is about to end.
        Err(_) => Err(DeclareError::Unavailable(Unavailable::Stopping)),
    }
}

/// A conflict as a problem of files, without its place.
pub fn problem_of(conflict: Conflict) -> Problem {
    let Conflict { at, field, reason } = conflict;
    let (kind, name) = (at.kind.name().to_owned(), String::from(at.name));
    let mut path = match (at.project.map(String::from), at.kind) {
        (Some(project), ObjectKind::Project) => vec!["project".into(), project],
        (Some(project), ObjectKind::Key) if name.is_empty() => vec!["project".into(), project, "ping-key".into()],
        (Some(project), _) => vec!["project".into(), project, kind, name],
        (None, _) => vec![kind, name],
    };
    path.extend(match field {
        Some("parents") => vec!["alert".to_owned(), "parents".to_owned()],
        Some(field) => vec![field.to_owned()],
        None => Vec::new(),
    });
    Problem { at: None, path, reason }
}

/// Why what a document declares is not so, with the places in its files.
pub fn told(document: &Document, error: &DeclareError) -> String {
    let DeclareError::Conflicts(conflicts) = error else { return error.to_string() };
    let problems = conflicts.iter().cloned().map(problem_of).map(|problem| Problem { at: document.place(&problem.path), ..problem });
    document.told(&problems.collect::<Vec<_>>())
}
