//! Channels: recipients of the notifications of a project.

use std::sync::Arc;

mod status;
mod test_message;

use serde::{Deserialize, Serialize};

use super::{OperationError, check, submit};
use crate::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use crate::domain::formatting::format_count;
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::project::{Channel, ChannelName, Project};
use crate::engine::Handle;
use crate::engine::command::{Command, NewChannel};
use crate::engine::state::State;
pub use status::{AlertingChannels, ChannelStatus, unnotified_reason};
pub use test_message::{ChannelTestResults, MemberTestResult, TEST_TIMEOUT, test, test_draft};

/// Reason that is logged for a channel that an operator disabled.
const DISABLED_REASON: &str = "it was disabled by the operator";
/// Number of checks that one command assigns. Pings are handled between commands.
const ASSIGN_BATCH_CHECKS: usize = 256;

/// Creates a channel.
///
/// # Errors
/// If the project is gone or has too many channels, the author may not make these settings, or the
/// writer does not answer.
pub async fn create(
    handle: &Handle,
    project: ProjectId,
    name: ChannelName,
    settings: ChannelSettings,
    author: SettingsAuthor,
) -> Result<Box<Channel>, OperationError> {
    let channel = NewChannel {
        uuid: handle.random().uuid(),
        project,
        name,
        settings,
        set_by_operator: author == SettingsAuthor::Operator,
    };
    submit(handle, Command::CreateChannel(Box::new(channel))).await
}

/// Changes a channel and returns it as it is now; `None` leaves a field as it is. The settings
/// replace all previous ones, of the same kind; in them [`MASK`](crate::domain::channel::MASK)
/// keeps a stored secret.
///
/// # Errors
/// If its kind does not take the settings, it is gone, or the writer does not answer.
pub async fn update(
    handle: &Handle,
    channel: ChannelId,
    name: Option<ChannelName>,
    settings: Option<SettingsUpdate>,
    author: SettingsAuthor,
) -> Result<Box<Channel>, OperationError> {
    let command = Command::UpdateChannel {
        channel,
        name,
        settings,
        author,
    };
    submit(handle, command).await
}

/// Deletes a channel, and removes it from all checks and groups.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, channel: ChannelId) -> Result<(), OperationError> {
    submit(handle, Command::DeleteChannel(channel)).await
}

/// Returns a warning for each group that loses a channel if it is deleted.
pub fn deletion_warnings(state: &State, channel: &Channel) -> Vec<String> {
    let warning = |group: &Arc<Channel>| {
        let remaining = state
            .members_of(group)
            .filter(|member| member.id != channel.id)
            .count();
        let name = Some(group.name.as_str())
            .filter(|name| !name.is_empty())
            .unwrap_or("without a name");
        match remaining {
            0 => format!("the group {name:?} will have no channels left and notify no one"),
            remaining => format!(
                "the group {name:?} will lose this channel and have {} left",
                format_count(remaining, "channel")
            ),
        }
    };
    state.groups_of(channel).map(warning).collect()
}

/// Enables a channel, regardless of the results of earlier attempts. Returns it as it is now.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn enable(handle: &Handle, channel: ChannelId) -> Result<Box<Channel>, OperationError> {
    submit(handle, Command::EnableChannel(channel)).await
}

/// Unsubscribes a recipient of a channel. A channel without other recipients is disabled.
///
/// # Errors
/// If the channel is gone, or the writer does not answer.
pub async fn unsubscribe(
    handle: &Handle,
    channel: ChannelId,
    recipient: &str,
) -> Result<(), OperationError> {
    let command = Command::Unsubscribe {
        channel,
        recipient: recipient.into(),
    };
    submit(handle, command).await
}

/// Disables a channel until it is enabled or a test of it arrives. Waiting messages are dropped.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn disable(handle: &Handle, channel: ChannelId) -> Result<(), OperationError> {
    let command = Command::DisableChannel {
        channel,
        reason: DISABLED_REASON.into(),
    };
    submit(handle, command).await
}

/// Selection of checks of a channel's project.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSelection {
    /// Every check.
    All,
    /// Checks that have all of these tags.
    Tagged(Vec<String>),
    /// Checks with these UUIDs, slugs or names.
    Named(Vec<String>),
}

/// Assigns checks to a channel or unassigns them. Returns the number of checks that this changed.
///
/// # Errors
/// If a named check does not exist, the channel is gone, or the writer does not answer. In the last
/// case some checks may be changed.
pub async fn assign(
    handle: &Handle,
    channel: &Channel,
    selection: CheckSelection,
    assigned: bool,
) -> Result<usize, OperationError> {
    let tags = match selection {
        CheckSelection::Named(names) => {
            let found = names
                .iter()
                .map(|name| check::find(handle, Some(channel.project), name).map(|check| check.id));
            let checks = found.collect::<Result<Vec<_>, _>>()?;
            return assign_checks(handle, channel.id, &checks, assigned).await;
        }
        CheckSelection::All => Vec::new(),
        CheckSelection::Tagged(tags) => tags,
    };
    let mut checks = Vec::new();
    handle.for_each_check(channel.project, |check| {
        if tags.iter().all(|tag| check.settings.tags.contains(tag)) {
            checks.push(check.id);
        }
    });
    assign_checks(handle, channel.id, &checks, assigned).await
}

/// Assigns these checks to a channel or unassigns them. Returns the number of checks that this
/// changed. Checks that do not exist or belong to another project are left out.
///
/// # Errors
/// If the channel is gone, or the writer does not answer. Some checks may have been changed.
pub async fn assign_checks(
    handle: &Handle,
    channel: ChannelId,
    checks: &[CheckId],
    assigned: bool,
) -> Result<usize, OperationError> {
    let mut count = 0;
    for checks in checks.chunks(ASSIGN_BATCH_CHECKS) {
        let command = Command::AssignChannel {
            channel,
            checks: checks.to_vec(),
            assigned,
        };
        count += submit::<usize>(handle, command).await?;
    }
    Ok(count)
}

/// Returns the one channel of this UUID or name, in one project or in all.
///
/// # Errors
/// If there is no such channel, or several have the name.
pub fn find(
    handle: &Handle,
    project: Option<ProjectId>,
    requested: &str,
) -> Result<Arc<Channel>, OperationError> {
    let channels = list(handle, project);
    let channels = || channels.iter().map(|(_, channel)| channel);
    if let Some(channel) = channels().find(|channel| channel.uuid.to_string() == requested) {
        return Ok(Arc::clone(channel));
    }
    let matching: Vec<_> = channels()
        .filter(|channel| channel.name.as_str() == requested)
        .collect();
    match matching.as_slice() {
        [channel] => Ok(Arc::clone(channel)),
        [] => Err(OperationError::UnknownChannel(requested.into())),
        several => Err(OperationError::AmbiguousChannel {
            requested: requested.into(),
            uuids: several.iter().map(|channel| channel.uuid).collect(),
        }),
    }
}

/// Returns the channels of a project or of all, each with its project; projects and channels oldest
/// first.
pub fn list(handle: &Handle, project: Option<ProjectId>) -> Vec<(Arc<Project>, Arc<Channel>)> {
    handle.with_state(|state| {
        let projects = state.projects().filter(|project_state| {
            project.is_none_or(|project| project_state.project.id == project)
        });
        projects
            .flat_map(|project_state| {
                project_state
                    .channels
                    .values()
                    .map(|channel| (Arc::clone(&project_state.project), Arc::clone(channel)))
            })
            .collect()
    })
}
