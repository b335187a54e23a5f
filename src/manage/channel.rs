//! Channels: whom a project notifies, and how.

use std::sync::Arc;

use super::{ManageError, submit};
use crate::domain::channel::{ChannelSettings, GivenSettings, Maker};
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::project::{Channel, ChannelName, Project};
use crate::engine::Handle;
use crate::engine::command::{Command, NewChannel, Outcome};

/// Makes a channel.
///
/// # Errors
/// When the project is gone, or the writer does not answer.
pub async fn create(
    handle: &Handle,
    project: ProjectId,
    name: ChannelName,
    settings: ChannelSettings,
) -> Result<Box<Channel>, ManageError> {
    let channel = NewChannel { uuid: handle.random().uuid(), project, name, settings, operator: true };
    match submit(handle, Command::CreateChannel(Box::new(channel))).await? {
        Outcome::Channel(channel) => Ok(channel),
        // That command comes to nothing else.
        _ => Err(ManageError::Gone),
    }
}

/// Changes a channel; what is `None` stays. The settings take the place of all that it had, of the same kind; in them
/// [`MASK`](crate::domain::channel::MASK) keeps a secret that is stored.
///
/// # Errors
/// When its kind does not take the settings, it is gone, or the writer does not answer.
pub async fn set(
    handle: &Handle,
    channel: ChannelId,
    name: Option<ChannelName>,
    settings: Option<GivenSettings>,
) -> Result<(), ManageError> {
    submit(handle, Command::SetChannel { channel, name, settings, maker: Some(Maker::Operator) }).await.map(drop)
}

/// Removes a channel, from all checks too.
///
/// # Errors
/// When it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, channel: ChannelId) -> Result<(), ManageError> {
    submit(handle, Command::DeleteChannel(channel)).await.map(drop)
}

/// The one channel of this UUID or name, in one project or in all.
///
/// # Errors
/// When there is no such channel, or several have the name.
pub fn find(handle: &Handle, project: Option<ProjectId>, wanted: &str) -> Result<Arc<Channel>, ManageError> {
    let channels = list(handle, project);
    let channels = || channels.iter().map(|(_, channel)| channel);
    if let Some(channel) = channels().find(|channel| channel.uuid.to_string() == wanted) {
        return Ok(Arc::clone(channel));
    }
    let named: Vec<_> = channels().filter(|channel| channel.name.as_str() == wanted).collect();
    match named.as_slice() {
        [channel] => Ok(Arc::clone(channel)),
        [] => Err(ManageError::NoChannel(wanted.into())),
        several => {
            Err(ManageError::AmbiguousChannel { wanted: wanted.into(), uuids: several.iter().map(|channel| channel.uuid).collect() })
        }
    }
}

/// The channels of a project or of all, each with its project; projects and channels oldest first.
pub fn list(handle: &Handle, project: Option<ProjectId>) -> Vec<(Arc<Project>, Arc<Channel>)> {
    let state = handle.state();
    let projects = state.projects().filter(|project_state| project.is_none_or(|project| project_state.project.id == project));
    projects
        .flat_map(|project_state| project_state.channels.values().map(|channel| (Arc::clone(&project_state.project), Arc::clone(channel))))
        .collect()
}
