//! Maintenance windows of projects.

use std::sync::Arc;

use super::{ManageError, submit};
use crate::domain::ids::{ProjectId, hyphenated_uuid};
use crate::domain::project::Project;
use crate::domain::text::{Name, Tags};
use crate::domain::window::{GivenTimes, Window, WindowError};
use crate::engine::Handle;
use crate::engine::command::{Command, NewWindow, Outcome};

/// Makes a window.
///
/// # Errors
/// When its tags are too many or its times cannot be, the project is gone or has too many, or the writer does not answer.
pub async fn create(handle: &Handle, project: ProjectId, name: Name, tags: Tags, times: GivenTimes) -> Result<Arc<Window>, ManageError> {
    if !tags.fits() {
        let most = format!("they have at most {} characters, and there are at most {}", Tags::MOST_CHARS, Tags::MOST);
        return Err(ManageError::Window(WindowError("tags", most)));
    }
    let times = times.read(handle.now()).map_err(ManageError::Window)?;
    let uuid = handle.random().uuid();
    match submit(handle, Command::CreateWindow(Box::new(NewWindow { uuid, project, name, tags, times }))).await? {
        Outcome::Window(window) => Ok(window),
        // That command comes to nothing else.
        _ => Err(ManageError::Gone),
    }
}

/// Removes a window: what it held back is told.
///
/// # Errors
/// When it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, window: &Window) -> Result<(), ManageError> {
    submit(handle, Command::DeleteWindow(window.project, window.id)).await.map(drop)
}

/// The windows of a project or of all, oldest first, with their projects.
pub fn list(handle: &Handle, project: Option<ProjectId>) -> Vec<(Arc<Project>, Arc<Window>)> {
    handle.with_state(|state| {
        let wanted = state.projects().filter(|project_state| project.is_none_or(|project| project_state.project.id == project));
        let windows = wanted.flat_map(|project_state| {
            project_state.windows.values().map(|window| (Arc::clone(&project_state.project), Arc::clone(window)))
        });
        windows.collect()
    })
}

/// The one window of this UUID or name, in one project or in all.
///
/// # Errors
/// When there is none, or several have the name.
pub fn find(handle: &Handle, project: Option<ProjectId>, wanted: &str) -> Result<Arc<Window>, ManageError> {
    let windows = || list(handle, project).into_iter().map(|(_, window)| window);
    if let Some(uuid) = hyphenated_uuid(wanted)
        && let Some(window) = windows().find(|window| window.uuid == uuid)
    {
        return Ok(window);
    }
    let mut named: Vec<_> = windows().filter(|window| window.name.as_str() == wanted).collect();
    match named.len() {
        0 | 1 => named.pop().ok_or_else(|| ManageError::NoWindow(wanted.into())),
        _ => Err(ManageError::AmbiguousWindow { wanted: wanted.into(), uuids: named.iter().map(|window| window.uuid).collect() }),
    }
}
