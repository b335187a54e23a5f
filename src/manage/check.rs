//! Checks: what the API offers of them, for whoever may see all projects.

use std::sync::Arc;

use super::{ManageError, read, submit};
use crate::domain::check::Check;
use crate::domain::edit::{Edit, UniqueField};
use crate::domain::flip::Flip;
use crate::domain::ids::{CheckId, ProjectId, hyphenated_uuid};
use crate::domain::moment::Moment;
use crate::domain::parents::Parents;
use crate::domain::ping::Ping;
use crate::domain::project::{Channel, Project};
use crate::domain::text::{Failures, Slug};
use crate::engine::Handle;
use crate::engine::command::{CheckNames, Command, CreateCheck, Outcome, Refusal};
use crate::engine::state::ProjectState;

/// A check with its project, and with those channels that it is assigned to.
pub struct Found {
    /// The check.
    pub check: Check,
    /// Its project.
    pub project: Arc<Project>,
    /// Its channels.
    pub channels: Vec<Arc<Channel>>,
}

/// A place in the list of all checks: that of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(ProjectId, CheckId);

/// Makes a check, or changes the one that agrees with it on all of `unique`.
///
/// # Errors
/// When the project is gone or full, a channel is unknown, or the writer does not answer.
pub async fn create(handle: &Handle, project: ProjectId, edit: Edit, unique: Vec<UniqueField>) -> Result<Box<Check>, ManageError> {
    let names = CheckNames { uuid: handle.random().uuid(), badge: handle.random().uuid() };
    match submit(handle, Command::CreateCheck(Box::new(CreateCheck { project, edit, unique, names }))).await? {
        Outcome::Created(check) | Outcome::Check(check) => Ok(check),
        // That command comes to nothing else.
        _ => Err(ManageError::Gone),
    }
}

/// Changes a check.
///
/// # Errors
/// When it is gone, a channel is unknown, or the writer does not answer.
pub async fn set(handle: &Handle, check: CheckId, edit: Edit) -> Result<(), ManageError> {
    submit(handle, Command::UpdateCheck(check, Box::new(edit))).await.map(drop)
}

/// Pauses a check.
///
/// # Errors
/// When it is gone, or the writer does not answer.
pub async fn pause(handle: &Handle, check: CheckId) -> Result<(), ManageError> {
    submit(handle, Command::Pause(check)).await.map(drop)
}

/// Resumes a check.
///
/// # Errors
/// When it is gone or not paused, or the writer does not answer.
pub async fn resume(handle: &Handle, check: CheckId) -> Result<(), ManageError> {
    submit(handle, Command::Resume(check)).await.map(drop)
}

/// Changes how often in a row a check has to fail until that is told, and the checks that it depends on, given by UUID, slug or name; what
/// is `None` stays. The check as it is then.
///
/// # Errors
/// When it or a parent is gone, it cannot have these parents, or the writer does not answer.
pub async fn set_alerting(
    handle: &Handle,
    check: &Check,
    after: Option<Failures>,
    parents: Option<Vec<String>>,
) -> Result<Box<Check>, ManageError> {
    let parent = |wanted: &String| Ok(find(handle, Some(check.project), wanted)?.id);
    let parents = parents.map(|wanted| wanted.iter().map(parent).collect::<Result<Vec<_>, ManageError>>()).transpose()?;
    let parents = parents.map(Parents::new).transpose().map_err(|error| ManageError::Refused(Refusal::Parents(error)))?;
    match submit(handle, Command::SetAlerting { check: check.id, after, parents }).await? {
        Outcome::Check(check) => Ok(check),
        // That command comes to nothing else.
        _ => Err(ManageError::Gone),
    }
}

/// Removes a check with all that was logged of it.
///
/// # Errors
/// When it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, check: CheckId) -> Result<(), ManageError> {
    submit(handle, Command::DeleteCheck(check)).await.map(drop)
}

/// The one check of this UUID, slug or name, in one project or in all.
///
/// # Errors
/// When there is no such check, or several have the slug or the name.
pub fn find(handle: &Handle, project: Option<ProjectId>, wanted: &str) -> Result<Check, ManageError> {
    let within = |check: &Check| project.is_none_or(|project| check.project == project);
    if let Some(check) =
        hyphenated_uuid(wanted).and_then(|uuid| handle.with_state(|state| state.check_by_uuid(uuid).filter(|check| within(check)).cloned()))
    {
        return Ok(check);
    }
    let projects = projects(handle, project);
    let mut found = Vec::new();
    if !wanted.is_empty() {
        let slug = Slug::stored(wanted);
        handle.with_state(|state| {
            let ids = projects.iter().flat_map(|project| state.checks_by_slug(project.id, &slug));
            found.extend(ids.filter_map(|id| state.check(*id)).cloned());
        });
    }
    if found.is_empty() {
        for project in &projects {
            handle.each_check(project.id, |check| {
                if check.settings.name.as_str() == wanted {
                    found.push(check.clone());
                }
            });
        }
    }
    match found.len() {
        0 => Err(ManageError::NoCheck(wanted.into())),
        1 => found.pop().ok_or_else(|| ManageError::NoCheck(wanted.into())),
        _ => Err(ManageError::AmbiguousCheck { wanted: wanted.into(), uuids: found.iter().map(|check| check.uuid).collect() }),
    }
}

/// So many checks at most of a project or of all, from behind `after` on: projects and checks oldest first. Also the place to go on
/// from, if there may be more.
pub fn page(handle: &Handle, project: Option<ProjectId>, after: Option<Place>, most: usize) -> (Vec<Found>, Option<Place>) {
    handle.with_state(|state| {
        let mut page = Vec::new();
        for project_state in state.projects().filter(|project_state| project.is_none_or(|project| project_state.project.id == project)) {
            let id = project_state.project.id;
            let older = match after {
                Some(Place(before, _)) if id < before => continue,
                Some(Place(same, check)) if id == same => Some(check),
                _ => None,
            };
            let room = most - page.len();
            page.extend(state.checks_after(id, older).take(room).map(|check| with_channels(project_state, check.clone())));
            if page.len() == most {
                break;
            }
        }
        let last = page.last().filter(|_| page.len() == most).map(|found| Place(found.check.project, found.check.id));
        (page, last)
    })
}

/// A check with what belongs to it; `None` when its project is gone.
pub fn found(handle: &Handle, check: Check) -> Option<Found> {
    handle.with_state(|state| Some(with_channels(state.project(check.project)?, check)))
}

fn with_channels(project_state: &ProjectState, check: Check) -> Found {
    let channels = check.settings.channels.iter().filter_map(|channel| project_state.channels.get(channel)).cloned().collect();
    Found { project: Arc::clone(&project_state.project), channels, check }
}

/// The newest pings of a check, newest first: up to its log limit, at most 1000.
///
/// # Errors
/// When the file cannot be read.
pub async fn pings(handle: &Handle, check: Check) -> Result<Vec<Ping>, ManageError> {
    read(handle, move |handle| handle.pings(&check)).await
}

/// The flips of a check, newest first.
///
/// # Errors
/// When the file cannot be read.
pub async fn flips(handle: &Handle, check: Check) -> Result<Vec<Flip>, ManageError> {
    read(handle, move |handle| handle.flips(&check, Moment::from_micros(i64::MIN))).await
}

fn projects(handle: &Handle, project: Option<ProjectId>) -> Vec<Arc<Project>> {
    handle.with_state(|state| {
        let projects = state.projects().map(|project_state| &project_state.project);
        projects.filter(|one| project.is_none_or(|project| one.id == project)).cloned().collect()
    })
}
