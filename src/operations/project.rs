//! Projects: sets of checks with keys and channels of their own.

use std::sync::Arc;

use uuid::Uuid;

use super::{OperationError, submit};
use crate::domain::ids::ProjectId;
use crate::domain::project::{Project, ProjectName};
use crate::engine::Handle;
use crate::engine::command::{Command, NewProject};

/// Length in characters of the path segment that names a project in badge URLs.
const BADGE_KEY_LENGTH: usize = 22;

/// Changes of a project; `None` leaves a field as it is.
#[derive(Clone, Default)]
pub struct ProjectChanges {
    /// New name.
    pub name: Option<ProjectName>,
    /// Maximum number of checks; `Some(None)` for no limit.
    pub check_limit: Option<Option<u32>>,
    /// Number of pings that are kept of each check.
    pub ping_log_limit: Option<u32>,
    /// True to let pings give the settings of checks that they create.
    pub allows_ping_settings: Option<bool>,
}

/// Creates a project.
///
/// # Errors
/// If another has the name, or the writer does not answer.
pub async fn create(
    handle: &Handle,
    name: ProjectName,
    check_limit: Option<u32>,
    ping_log_limit: u32,
) -> Result<Box<Project>, OperationError> {
    let uuid = handle.random().uuid();
    let badge_key = handle.random().url_safe::<BADGE_KEY_LENGTH>().into();
    let project = NewProject {
        uuid,
        name,
        check_limit,
        ping_log_limit,
        badge_key,
    };
    submit(handle, Command::CreateProject(Box::new(project))).await
}

/// Changes a project.
///
/// # Errors
/// If another has the new name, it is gone, or the writer does not answer.
pub async fn update(
    handle: &Handle,
    project: ProjectId,
    changes: ProjectChanges,
) -> Result<(), OperationError> {
    let ProjectChanges {
        name,
        check_limit,
        ping_log_limit,
        allows_ping_settings,
    } = changes;
    let before = handle.with_state(|state| {
        state
            .project(project)
            .map(|project_state| Arc::clone(&project_state.project))
    });
    let command = Command::UpdateProject {
        project,
        name: name.clone(),
        check_limit,
        ping_log_limit,
        allows_ping_settings,
    };
    submit::<()>(handle, command).await?;
    if let Some((before, now)) = before.zip(name).filter(|(before, now)| before.name != *now) {
        tracing::info!(
            before = before.name.as_str(),
            now = now.as_str(),
            "a project was renamed"
        );
    }
    Ok(())
}

/// Deletes a project with all that belongs to it.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, project: ProjectId) -> Result<(), OperationError> {
    submit(handle, Command::DeleteProject(project)).await
}

/// Returns the project of this UUID or, if there is none, of this name. A name in the form of a
/// UUID hides no project.
///
/// # Errors
/// If there is no such project.
pub fn find(handle: &Handle, requested: &str) -> Result<Arc<Project>, OperationError> {
    handle.with_state(|state| {
        let projects = || state.projects().map(|project_state| &project_state.project);
        let by_uuid = requested
            .parse::<Uuid>()
            .ok()
            .and_then(|uuid| projects().find(|project| project.uuid == uuid));
        let found = by_uuid
            .or_else(|| projects().find(|project| project.name.as_str() == requested))
            .cloned();
        let names = || {
            projects()
                .map(|project| project.name.as_str().into())
                .collect()
        };
        found.ok_or_else(|| OperationError::UnknownProject {
            requested: requested.into(),
            names: names(),
        })
    })
}

/// Returns the requested project; if none is named, the only one.
///
/// # Errors
/// If there is no such project, or none is named and there is not exactly one.
pub fn find_or_only(
    handle: &Handle,
    requested: Option<&str>,
) -> Result<Arc<Project>, OperationError> {
    if let Some(requested) = requested {
        return find(handle, requested);
    }
    handle.with_state(|state| {
        let projects: Vec<_> = state
            .projects()
            .map(|project_state| &project_state.project)
            .collect();
        match projects.as_slice() {
            [only] => Ok(Arc::clone(only)),
            several => Err(OperationError::ProjectRequired {
                names: several
                    .iter()
                    .map(|project| project.name.as_str().into())
                    .collect(),
            }),
        }
    })
}

/// Returns all projects with the number of their checks, oldest first.
pub fn list(handle: &Handle) -> Vec<(Arc<Project>, usize)> {
    handle.with_state(|state| {
        state
            .projects()
            .map(|project_state| {
                (
                    Arc::clone(&project_state.project),
                    project_state.checks.len(),
                )
            })
            .collect()
    })
}
