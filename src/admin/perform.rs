//! Carries out a request, for the socket and for a command that has the database to itself alike: it becomes a call of `manage`, and what
//! comes of that becomes a reply.

use super::request::{ChannelRow, CheckLimit, KeyRow, ProjectRow, Reply, Request};
use crate::domain::ids::ProjectId;
use crate::domain::moment::Moment;
use crate::domain::project::Secret;
use crate::engine::Handle;
use crate::manage::project::Changes;
use crate::manage::{self, ManageError};

/// Does what is asked and says what came of it.
pub async fn perform(handle: &Handle, request: Request) -> Reply {
    answer(handle, request).await.unwrap_or_else(|error| match error {
        ManageError::Settings(error) => Reply::Invalid(error.to_string()),
        error => Reply::Refused(error.to_string()),
    })
}

async fn answer(handle: &Handle, request: Request) -> Result<Reply, ManageError> {
    let id = |project: &str| manage::project::find(handle, project).map(|project| project.id);
    let any = |project: Option<String>| project.as_deref().map(id).transpose();
    let find_channel = |project, channel: &str| manage::channel::find(handle, any(project)?, channel);
    match request {
        Request::CreateProject { name, check_limit, ping_log_limit } => {
            let project = manage::project::create(handle, name, check_limit.get(), ping_log_limit).await?;
            Ok(Reply::Made(project.uuid.to_string()))
        }
        Request::SetProject { project, name, check_limit, ping_log_limit } => {
            let changes = Changes { name, check_limit: check_limit.map(CheckLimit::get), ping_log_limit };
            manage::project::set(handle, id(&project)?, changes).await.map(|()| Reply::Done)
        }
        Request::DeleteProject { project } => manage::project::delete(handle, id(&project)?).await.map(|()| Reply::Done),
        Request::ListProjects {} => Ok(list_projects(handle)),
        Request::CreateKey { project, access, label } => manage::key::create(handle, id(&project)?, access, label).await.map(Reply::Made),
        Request::RevokeKey { id } => manage::key::revoke(handle, id).await.map(|()| Reply::Done),
        Request::ListKeys { project, show_ping_keys } => Ok(list_keys(handle, any(project)?, show_ping_keys)),
        Request::CreateChannel { project, name, settings } => {
            let channel = manage::channel::create(handle, id(&project)?, name, settings).await?;
            Ok(Reply::Made(channel.uuid.to_string()))
        }
        Request::SetChannel { project, channel, name, settings } => {
            let channel = find_channel(project, &channel)?;
            manage::channel::set(handle, &channel, name, settings).await.map(|()| Reply::Done)
        }
        Request::DeleteChannel { project, channel } => {
            let channel = find_channel(project, &channel)?;
            manage::channel::delete(handle, channel.id).await.map(|()| Reply::Done)
        }
        Request::ListChannels { project, show_settings } => Ok(list_channels(handle, any(project)?, show_settings)),
    }
}

fn list_projects(handle: &Handle) -> Reply {
    let rows = manage::project::list(handle).into_iter().map(|(project, checks)| ProjectRow {
        uuid: project.uuid,
        name: project.name.as_str().into(),
        checks,
        check_limit: project.check_limit,
        ping_log_limit: project.ping_log_limit,
    });
    Reply::Projects(rows.collect())
}

fn list_keys(handle: &Handle, project: Option<ProjectId>, show_ping_keys: bool) -> Reply {
    let rows = manage::key::list(handle, project).into_iter().map(|(project, key)| KeyRow {
        id: key.id.0,
        project: project.name.as_str().into(),
        access: key.secret.access().name().into(),
        label: key.label.as_str().into(),
        hint: key.hint.as_ref().into(),
        created: written(key.created),
        used: key.used.map(|used| written(used.at)),
        used_from: key.used.map(|used| used.from),
        key: match &key.secret {
            Secret::Ping(key) if show_ping_keys => Some(key.as_str().into()),
            _ => None,
        },
    });
    Reply::Keys(rows.collect())
}

fn list_channels(handle: &Handle, project: Option<ProjectId>, show_settings: bool) -> Reply {
    let rows = manage::channel::list(handle, project).into_iter().map(|(project, channel)| ChannelRow {
        uuid: channel.uuid,
        project: project.name.as_str().into(),
        kind: channel.settings.kind().name.into(),
        name: channel.name.as_str().into(),
        settings: show_settings.then(|| channel.settings.masked().map(|(key, value)| (key.into(), value.into())).collect()),
    });
    Reply::Channels(rows.collect())
}

fn written(moment: Moment) -> String {
    let mut text = String::new();
    moment.write_seconds(&mut text);
    text
}

#[cfg(test)]
mod tests;
