//! Compares a declared configuration with the current state, or applies it.

use std::fmt;

use super::document::{ConfigDocument, ConfigProblem};
use crate::domain::declared::{
    ApplyConflict, ApplyOptions, DeclaredConfig, ObjectKind, PlannedChange,
};
use crate::engine::Handle;
use crate::engine::command::apply_config::{AppliedConfig, ApplyConfigRequest};
use crate::engine::command::{Command, CommandError, CommandOutcome, Unavailable};
use crate::engine::config_plan::{ConfigPlan, plan_config};

/// Maximum number of attempts while objects are deleted concurrently.
const MAX_ATTEMPTS: usize = 5;
/// First placeholder number of a new object, above all existing numbers.
const FIRST_PLACEHOLDER_ID: u64 = u64::MAX / 2;

/// Reason why a declared configuration is not applied.
#[derive(Debug)]
pub enum ConfigApplyError {
    /// It conflicts with the current state.
    Conflicts(Vec<ApplyConflict>),
    /// Other clients change the state all the time.
    ConcurrentChanges,
    /// The writer did not answer; for [`Unavailable::StorageFailed`] the change may or may not have
    /// been made.
    Unavailable(Unavailable),
}

impl fmt::Display for ConfigApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflicts(conflicts) => {
                let lines: Vec<_> = conflicts
                    .iter()
                    .map(|conflict| format!("{}: {}", conflict.object.name, conflict.reason))
                    .collect();
                f.write_str(&lines.join("; "))
            }
            Self::ConcurrentChanges => f.write_str(
                "the configuration on the server keeps changing; nothing was changed, try again",
            ),
            Self::Unavailable(Unavailable::QueueFull) => {
                f.write_str("the server is overloaded; nothing was changed, try again")
            }
            Self::Unavailable(Unavailable::Stopping) => {
                f.write_str("the server is stopping; nothing was changed, try again")
            }
            Self::Unavailable(Unavailable::StorageFailed) => f.write_str(
                "the database cannot be written at the moment; the change may or may not have been \
                 made; see the log of the server",
            ),
        }
    }
}

impl std::error::Error for ConfigApplyError {}

/// Returns the changes that applying would make.
///
/// # Errors
/// If it conflicts with the current state.
pub async fn diff_config(
    handle: &Handle,
    config: &DeclaredConfig,
    options: ApplyOptions,
) -> Result<Vec<PlannedChange>, ConfigApplyError> {
    make_plan(handle, config, options)
        .await
        .map(|plan| plan.changes)
}

/// Applies the configuration, all of it or nothing, and returns the changes.
///
/// # Errors
/// If it conflicts with the current state, or the writer does not answer.
pub async fn apply_config(
    handle: &Handle,
    config: DeclaredConfig,
    options: ApplyOptions,
) -> Result<Vec<PlannedChange>, ConfigApplyError> {
    for _ in 0..MAX_ATTEMPTS {
        let plan = make_plan(handle, &config, options).await?;
        if plan.is_empty() {
            return Ok(plan.changes);
        }
        let uuids = (0..plan.uuid_count)
            .map(|_| handle.random().uuid())
            .collect();
        let request = ApplyConfigRequest {
            config: config.clone(),
            options,
            uuids,
        };
        match handle.call(Command::ApplyConfig(Box::new(request))).await {
            Ok(Ok(CommandOutcome::ConfigApplied(AppliedConfig { changes }))) => return Ok(changes),
            Ok(Err(CommandError::ConfigConflicts(conflicts))) => {
                return Err(ConfigApplyError::Conflicts(conflicts));
            }
            // More objects must be created than UUIDs were generated for.
            Ok(_) => {}
            Err(unavailable) => return Err(ConfigApplyError::Unavailable(unavailable)),
        }
    }
    Err(ConfigApplyError::ConcurrentChanges)
}

/// Plans the changes on a thread for slow work.
async fn make_plan(
    handle: &Handle,
    config: &DeclaredConfig,
    options: ApplyOptions,
) -> Result<ConfigPlan, ConfigApplyError> {
    let handle = handle.clone();
    let config = config.clone();
    let planning = tokio::task::spawn_blocking(move || {
        handle.with_state(|state| {
            plan_config(
                state,
                &config,
                options,
                handle.now(),
                FIRST_PLACEHOLDER_ID,
                &[],
            )
        })
    });
    match planning.await {
        Ok(planned) => planned.map_err(ConfigApplyError::Conflicts),
        // The process is about to end.
        Err(_) => Err(ConfigApplyError::Unavailable(Unavailable::Stopping)),
    }
}

/// Converts a conflict to a problem of files, without its location.
pub fn to_problem(conflict: ApplyConflict) -> ConfigProblem {
    let ApplyConflict {
        object: at,
        field,
        reason,
    } = conflict;
    let kind = at.kind.name().to_owned();
    let name = String::from(at.name);
    let mut path = match (at.project.map(String::from), at.kind) {
        (Some(project), ObjectKind::Project) => vec!["project".into(), project],
        (Some(project), ObjectKind::Key) if name.is_empty() => {
            vec!["project".into(), project, "ping-key".into()]
        }
        (Some(project), _) => vec!["project".into(), project, kind, name],
        (None, _) => vec![kind, name],
    };
    path.extend(match field {
        Some("parents") => vec!["alert".to_owned(), "parents".to_owned()],
        Some(field) => vec![field.to_owned()],
        None => Vec::new(),
    });
    ConfigProblem {
        location: None,
        path,
        reason,
    }
}

/// Returns the text of an error, with the locations in the files.
pub fn error_text(document: &ConfigDocument, error: &ConfigApplyError) -> String {
    let ConfigApplyError::Conflicts(conflicts) = error else {
        return error.to_string();
    };
    let problems = conflicts
        .iter()
        .cloned()
        .map(to_problem)
        .map(|problem| ConfigProblem {
            location: document.find_location(&problem.path),
            ..problem
        });
    document.render_problems(&problems.collect::<Vec<_>>())
}
