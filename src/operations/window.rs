//! Maintenance windows of projects.

use std::sync::Arc;

use super::{OperationError, submit};
use crate::domain::ids::{ProjectId, parse_hyphenated_uuid};
use crate::domain::maintenance_window::{MaintenanceWindow, TimesError, WindowTimesInput};
use crate::domain::project::Project;
use crate::domain::text::{Name, Tags};
use crate::engine::Handle;
use crate::engine::command::{Command, NewWindow};

/// Creates a window.
///
/// # Errors
/// If it has too many tags or invalid times, the project is gone or has too many windows, or the
/// writer does not answer.
pub async fn create(
    handle: &Handle,
    project: ProjectId,
    name: Name,
    tags: Tags,
    times: WindowTimesInput,
) -> Result<Arc<MaintenanceWindow>, OperationError> {
    if !tags.is_within_limit() {
        let reason = format!(
            "at most {} characters in total and {} tags are allowed",
            Tags::MAX_CHARS,
            Tags::MAX_TAGS
        );
        return Err(OperationError::Times(TimesError("tags", reason)));
    }
    let times = times.parse(handle.now()).map_err(OperationError::Times)?;
    let uuid = handle.random().uuid();
    let window = NewWindow {
        uuid,
        project,
        name,
        tags,
        times,
    };
    submit(handle, Command::CreateWindow(Box::new(window))).await
}

/// Deletes a window. Alerts that it held back are sent.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, window: &MaintenanceWindow) -> Result<(), OperationError> {
    submit(handle, Command::DeleteWindow(window.project, window.id)).await
}

/// Returns the windows of a project or of all, oldest first, with their projects.
pub fn list(
    handle: &Handle,
    project: Option<ProjectId>,
) -> Vec<(Arc<Project>, Arc<MaintenanceWindow>)> {
    handle.with_state(|state| {
        let selected = state.projects().filter(|project_state| {
            project.is_none_or(|project| project_state.project.id == project)
        });
        let windows = selected.flat_map(|project_state| {
            project_state
                .windows
                .values()
                .map(|window| (Arc::clone(&project_state.project), Arc::clone(window)))
        });
        windows.collect()
    })
}

/// Returns the one window of this UUID or name, in one project or in all.
///
/// # Errors
/// If there is none, or several have the name.
pub fn find(
    handle: &Handle,
    project: Option<ProjectId>,
    requested: &str,
) -> Result<Arc<MaintenanceWindow>, OperationError> {
    let windows = || list(handle, project).into_iter().map(|(_, window)| window);
    if let Some(uuid) = parse_hyphenated_uuid(requested)
        && let Some(window) = windows().find(|window| window.uuid == uuid)
    {
        return Ok(window);
    }
    let mut matching: Vec<_> = windows()
        .filter(|window| window.name.as_str() == requested)
        .collect();
    match matching.len() {
        0 | 1 => matching
            .pop()
            .ok_or_else(|| OperationError::UnknownWindow(requested.into())),
        _ => Err(OperationError::AmbiguousWindow {
            requested: requested.into(),
            uuids: matching.iter().map(|window| window.uuid).collect(),
        }),
    }
}
