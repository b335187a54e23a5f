//! Checks: the operations of the Management API, without its access checks.

use std::sync::Arc;

use super::{OperationError, read_blocking, submit};
use crate::domain::check::{Check, PauseInput};
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::flip::Flip;
use crate::domain::ids::{CheckId, ProjectId, parse_hyphenated_uuid};
use crate::domain::number::FailureThreshold;
use crate::domain::parents::Parents;
use crate::domain::ping::Ping;
use crate::domain::project::{Channel, Project};
use crate::domain::status::Status;
use crate::domain::text::Slug;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::command::{
    CheckRestoration, CheckUuids, Command, CommandError, CreateCheckRequest, SavedCheck,
    Unavailable,
};
use crate::engine::state::ProjectState;

/// A check with its project and the channels that are assigned to it.
pub struct CheckDetails {
    /// The check itself.
    pub check: Check,
    /// Project of the check.
    pub project: Arc<Project>,
    /// Channels that are assigned to it.
    pub channels: Vec<Arc<Channel>>,
}

/// Change of one check.
pub enum CheckChange {
    /// Changes its settings.
    Update(CheckId, Box<CheckEdit>),
    /// Pauses it, until this time if there is one.
    Pause(CheckId, Option<Timestamp>),
    /// Resumes it.
    Resume(CheckId),
    /// Returns it to the state before a pause or resumption.
    Restore(Box<CheckRestoration>),
    /// Deletes it.
    Delete(CheckId),
}

/// Position in the list of checks: the last check of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckListCursor(ProjectId, CheckId);

/// Creates a check, or changes the one that matches on all fields of `unique`.
///
/// # Errors
/// If the project is gone or full, a channel is unknown, or the writer does not answer.
pub async fn create(
    handle: &Handle,
    project: ProjectId,
    edit: CheckEdit,
    unique: Vec<UniqueField>,
) -> Result<SavedCheck, OperationError> {
    let uuids = CheckUuids {
        uuid: handle.random().uuid(),
        badge: handle.random().uuid(),
    };
    let request = CreateCheckRequest {
        project,
        edit,
        unique,
        uuids,
    };
    submit(handle, Command::CreateCheck(Box::new(request))).await
}

/// Changes a check and returns it as it is now.
///
/// # Errors
/// If it is gone, a channel is unknown, or the writer does not answer.
pub async fn update(
    handle: &Handle,
    check: CheckId,
    edit: CheckEdit,
) -> Result<Box<Check>, OperationError> {
    submit(handle, Command::UpdateCheck(check, Box::new(edit))).await
}

/// Pauses a check, for the time that the user has given, and returns it as it is now.
///
/// # Errors
/// If it is gone, the time is wrong, or the writer does not answer.
pub async fn pause(
    handle: &Handle,
    check: CheckId,
    times: PauseInput,
) -> Result<Box<Check>, OperationError> {
    let until = times.parse(handle.now()).map_err(OperationError::Times)?;
    submit(handle, Command::PauseCheck(check, until)).await
}

/// Resumes a check and returns it as it is now.
///
/// # Errors
/// If it is gone or not paused, or the writer does not answer.
pub async fn resume(handle: &Handle, check: CheckId) -> Result<Box<Check>, OperationError> {
    submit(handle, Command::ResumeCheck(check)).await
}

/// Changes several checks and returns the result for each, in their order: the check as it is now,
/// or as it was before its deletion. The commands are queued together.
///
/// # Errors
/// If the queue is full, or the writer does not answer. Some checks may have been changed.
pub async fn change_all(
    handle: &Handle,
    changes: impl IntoIterator<Item = CheckChange>,
) -> Result<Vec<Result<Box<Check>, CommandError>>, OperationError> {
    let mut replies = Vec::new();
    for change in changes {
        let command = match change {
            CheckChange::Update(check, edit) => Command::UpdateCheck(check, edit),
            CheckChange::Pause(check, until) => Command::PauseCheck(check, until),
            CheckChange::Restore(restoration) => Command::RestoreCheck(restoration),
            CheckChange::Resume(check) => Command::ResumeCheck(check),
            CheckChange::Delete(check) => Command::DeleteCheck(check),
        };
        replies.push(handle.submit(command)?);
    }
    let mut results = Vec::with_capacity(replies.len());
    for reply in replies {
        // The writer has ended without a reply.
        let reply = reply.await.unwrap_or(Err(Unavailable::StorageFailed));
        results.push(match reply? {
            Ok(outcome) => Ok(outcome.try_into()?),
            Err(refusal) => Err(refusal),
        });
    }
    Ok(results)
}

/// Changes the number of consecutive failures before a check alerts, and the checks that it depends
/// on; `None` leaves a field as it is. Returns the check as it is now.
///
/// # Errors
/// If it or a parent is gone, it cannot have these parents, or the writer does not answer.
pub async fn update_alert_settings(
    handle: &Handle,
    check: CheckId,
    after: Option<FailureThreshold>,
    parents: Option<Parents>,
) -> Result<Box<Check>, OperationError> {
    let command = Command::UpdateAlertSettings {
        check,
        failure_threshold: after,
        parents,
    };
    submit(handle, command).await
}

/// Returns the checks of a project with these UUIDs, slugs or names, as parents of another.
///
/// # Errors
/// If there is no such check, several have a slug or a name, or they are too many.
pub fn find_parents(
    handle: &Handle,
    project: ProjectId,
    requested: &[String],
) -> Result<Parents, OperationError> {
    let ids = requested
        .iter()
        .map(|requested| Ok(find(handle, Some(project), requested)?.id))
        .collect::<Result<Vec<_>, OperationError>>()?;
    Parents::new(ids).map_err(|error| OperationError::Command(CommandError::InvalidParents(error)))
}

/// Deletes a check with all its log entries. Returns it as it was.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, check: CheckId) -> Result<Box<Check>, OperationError> {
    submit(handle, Command::DeleteCheck(check)).await
}

/// Returns the one check of this UUID, slug or name, in one project or in all.
///
/// # Errors
/// If there is no such check, or several have the slug or the name.
pub fn find(
    handle: &Handle,
    project: Option<ProjectId>,
    requested: &str,
) -> Result<Check, OperationError> {
    let within = |check: &Check| project.is_none_or(|project| check.project == project);
    if let Some(check) = parse_hyphenated_uuid(requested).and_then(|uuid| {
        handle.with_state(|state| {
            state
                .check_by_uuid(uuid)
                .filter(|check| within(check))
                .cloned()
        })
    }) {
        return Ok(check);
    }
    let projects = list_projects(handle, project);
    let mut found = Vec::new();
    if !requested.is_empty() {
        let slug = Slug::from_stored(requested);
        handle.with_state(|state| {
            let ids = projects
                .iter()
                .flat_map(|project| state.checks_by_slug(project.id, &slug));
            found.extend(ids.filter_map(|id| state.check(*id)).cloned());
        });
    }
    if found.is_empty() {
        for project in &projects {
            handle.for_each_check(project.id, |check| {
                if check.settings.name.as_str() == requested {
                    found.push(check.clone());
                }
            });
        }
    }
    match found.len() {
        0 => Err(OperationError::UnknownCheck(requested.into())),
        1 => found
            .pop()
            .ok_or_else(|| OperationError::UnknownCheck(requested.into())),
        _ => Err(OperationError::AmbiguousCheck {
            requested: requested.into(),
            uuids: found.iter().map(|check| check.uuid).collect(),
        }),
    }
}

/// Returns a page of the checks of a project or of all, that follow `after`: projects and checks
/// oldest first. Also returns the cursor for the next page, if there may be more.
pub fn list_page(
    handle: &Handle,
    project: Option<ProjectId>,
    after: Option<CheckListCursor>,
    limit: usize,
) -> (Vec<CheckDetails>, Option<CheckListCursor>) {
    handle.with_state(|state| {
        let mut page = Vec::new();
        for project_state in state.projects().filter(|project_state| {
            project.is_none_or(|project| project_state.project.id == project)
        }) {
            let id = project_state.project.id;
            let older = match after {
                Some(CheckListCursor(before, _)) if id < before => continue,
                Some(CheckListCursor(same, check)) if id == same => Some(check),
                _ => None,
            };
            let remaining = limit - page.len();
            page.extend(
                state
                    .checks_after(id, older)
                    .take(remaining)
                    .map(|check| check_details(project_state, check.clone())),
            );
            if page.len() == limit {
                break;
            }
        }
        let last = page
            .last()
            .filter(|_| page.len() == limit)
            .map(|found| CheckListCursor(found.check.project, found.check.id));
        (page, last)
    })
}

/// Returns the newest flip of a check that is down; `None` if it is not down, or if the flip is no
/// longer kept or cannot be read.
pub fn latest_downtime(handle: &Handle, check: &Check) -> Option<Flip> {
    if check.state.status != Status::Down {
        return None;
    }
    let logged = handle.flip(check.state.last_flip).ok().flatten()?;
    (logged.check == check.id).then_some(logged.flip)
}

/// Returns a check with its project and channels; `None` if its project is gone.
pub fn load_details(handle: &Handle, check: Check) -> Option<CheckDetails> {
    handle.with_state(|state| Some(check_details(state.project(check.project)?, check)))
}

fn check_details(project_state: &ProjectState, check: Check) -> CheckDetails {
    let channels = check
        .settings
        .channels
        .iter()
        .filter_map(|channel| project_state.channels.get(channel))
        .cloned()
        .collect();
    CheckDetails {
        project: Arc::clone(&project_state.project),
        channels,
        check,
    }
}

/// Returns the newest pings of a check, newest first: up to its log limit, at most 1000.
///
/// # Errors
/// If the file cannot be read.
pub async fn pings(handle: &Handle, check: Check) -> Result<Vec<Ping>, OperationError> {
    read_blocking(handle, move |handle| handle.pings(&check)).await
}

/// Returns the flips of a check, newest first.
///
/// # Errors
/// If the file cannot be read.
pub async fn flips(handle: &Handle, check: Check) -> Result<Vec<Flip>, OperationError> {
    read_blocking(handle, move |handle| {
        handle.flips(&check, Timestamp::from_micros(i64::MIN))
    })
    .await
}

fn list_projects(handle: &Handle, project: Option<ProjectId>) -> Vec<Arc<Project>> {
    handle.with_state(|state| {
        let projects = state.projects().map(|project_state| &project_state.project);
        projects
            .filter(|one| project.is_none_or(|project| one.id == project))
            .cloned()
            .collect()
    })
}
