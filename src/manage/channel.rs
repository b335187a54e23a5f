//! Channels: whom a project notifies, and how.

use std::sync::Arc;

mod status;
mod test;

use super::{ManageError, check, submit};
use crate::domain::channel::{ChannelSettings, GivenSettings, Maker};
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::project::{Channel, ChannelName, Project};
use crate::domain::words::count;
use crate::engine::Handle;
use crate::engine::command::{Command, NewChannel, Outcome};
use crate::engine::state::State;
pub use status::{ChannelStatus, unnotified};
pub use test::{MemberTest, TEST_TIME, Tested, test};

/// What is logged of a channel that was disabled here.
const DISABLED: &str = "it was disabled by the operator";
/// Checks that are assigned in one command: pings go in between.
const AT_ONCE: usize = 256;

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
    submit(handle, Command::SetChannel { channel, name, settings, maker: Maker::Operator }).await.map(drop)
}

/// Removes a channel, from all checks and groups too.
///
/// # Errors
/// When it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, channel: ChannelId) -> Result<(), ManageError> {
    submit(handle, Command::DeleteChannel(channel)).await.map(drop)
}

/// Sentences about the groups that lose a channel if it is deleted.
pub fn warnings_of_deletion(state: &State, channel: &Channel) -> Vec<String> {
    let warning = |group: &Arc<Channel>| {
        let left = state.members_of(group).filter(|member| member.id != channel.id).count();
        let name = Some(group.name.as_str()).filter(|name| !name.is_empty()).unwrap_or("without a name");
        match left {
            0 => format!("the group {name:?} has no channel then, and notifies nobody"),
            left => format!("the group {name:?} loses it and has {} left", count(left, "channel")),
        }
    };
    state.groups_of(channel).map(warning).collect()
}

/// Lets a channel be told again, whatever sending to it has shown so far.
///
/// # Errors
/// When it is gone, or the writer does not answer.
pub async fn enable(handle: &Handle, channel: ChannelId) -> Result<(), ManageError> {
    submit(handle, Command::EnableChannel(channel)).await.map(drop)
}

/// Tells a channel nothing more until it is enabled or a test of it arrives; what waits for it is left out.
///
/// # Errors
/// When it is gone, or the writer does not answer.
pub async fn disable(handle: &Handle, channel: ChannelId) -> Result<(), ManageError> {
    submit(handle, Command::DisableChannel { channel, reason: DISABLED.into() }).await.map(drop)
}

/// Which checks of a channel's project.
pub enum Chosen {
    /// Every one.
    All,
    /// Those that have all of these tags.
    Tagged(Vec<String>),
    /// Those of these UUIDs, slugs or names.
    Named(Vec<String>),
}

/// Assigns checks to a channel, or no more; how many that changed.
///
/// # Errors
/// When a check that is named is not there, the channel is gone, or the writer does not answer. In the last case some may be changed.
pub async fn assign(handle: &Handle, channel: &Channel, chosen: Chosen, assigned: bool) -> Result<usize, ManageError> {
    let tags = match chosen {
        Chosen::Named(names) => {
            let found = names.iter().map(|name| check::find(handle, Some(channel.project), name).map(|check| check.id));
            return assign_all(handle, channel.id, &found.collect::<Result<Vec<_>, _>>()?, assigned).await;
        }
        Chosen::All => Vec::new(),
        Chosen::Tagged(tags) => tags,
    };
    let mut checks = Vec::new();
    handle.each_check(channel.project, |check| {
        if tags.iter().all(|tag| check.settings.tags.contains(tag)) {
            checks.push(check.id);
        }
    });
    assign_all(handle, channel.id, &checks, assigned).await
}

async fn assign_all(handle: &Handle, channel: ChannelId, checks: &[CheckId], assigned: bool) -> Result<usize, ManageError> {
    let mut count = 0;
    for checks in checks.chunks(AT_ONCE) {
        let Outcome::Assigned(changed) = submit(handle, Command::AssignChannel { channel, checks: checks.to_vec(), assigned }).await?
        else {
            // That command comes to nothing else.
            return Err(ManageError::Gone);
        };
        count += changed;
    }
    Ok(count)
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
    handle.with_state(|state| {
        let projects = state.projects().filter(|project_state| project.is_none_or(|project| project_state.project.id == project));
        projects
            .flat_map(|project_state| {
                project_state.channels.values().map(|channel| (Arc::clone(&project_state.project), Arc::clone(channel)))
            })
            .collect()
    })
}
