//! Carries out a request, for the socket and for a command that has the database to itself alike: it becomes a call of `manage`, and what
//! comes of that becomes a reply.

mod channels;
mod checks;

use super::request::{CheckLimit, KeyRow, MadeKey, ProjectRow, Reply, Request};
use crate::domain::channel::GivenSettings;
use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::project::Secret;
use crate::engine::Handle;
use crate::manage::delivery::Wanted;
use crate::manage::project::Changes;
use crate::manage::{self, ManageError};
pub use checks::Listing;

/// A reply, and how a list goes on if this is only its first piece.
pub type Answer = (Reply, Option<Listing>);

/// Does what is asked and says what came of it.
pub async fn perform(handle: &Handle, request: Request) -> Answer {
    answer(handle, request).await.unwrap_or_else(|error| match error {
        ManageError::Settings(error) => (Reply::Invalid(error.to_string()), None),
        error => (Reply::Refused(error.to_string()), None),
    })
}

async fn answer(handle: &Handle, request: Request) -> Result<Answer, ManageError> {
    let id = |project: &str| manage::project::find(handle, project).map(|project| project.id);
    let any = |project: Option<String>| project.as_deref().map(id).transpose();
    let find_channel = |project, channel: &str| manage::channel::find(handle, any(project)?, channel);
    let reply = match request {
        Request::CreateProject { name, check_limit, ping_log_limit } => {
            let project = manage::project::create(handle, name, check_limit.get(), ping_log_limit).await?;
            Ok(Reply::Made(project.uuid))
        }
        Request::SetProject { project, name, check_limit, ping_log_limit } => {
            let changes = Changes { name, check_limit: check_limit.map(CheckLimit::get), ping_log_limit };
            manage::project::set(handle, id(&project)?, changes).await.map(|()| Reply::Done)
        }
        Request::DeleteProject { project } => manage::project::delete(handle, id(&project)?).await.map(|()| Reply::Done),
        Request::ListProjects {} => Ok(list_projects(handle)),
        Request::CreateKey { project, access, label } => {
            let (KeyId(id), key) = manage::key::create(handle, id(&project)?, access, label).await?;
            Ok(Reply::MadeKey(MadeKey { id, key }))
        }
        Request::RevokeKey { id } => manage::key::revoke(handle, id).await.map(|()| Reply::Done),
        Request::ListKeys { project, show_ping_keys } => Ok(list_keys(handle, any(project)?, show_ping_keys)),
        Request::CreateChannel { project, name, settings } => {
            let channel = manage::channel::create(handle, id(&project)?, name, settings).await?;
            Ok(Reply::Made(channel.uuid))
        }
        Request::SetChannel { project, channel, name, settings, keep } => {
            let channel = find_channel(project, &channel)?;
            let given = if keep { GivenSettings::beside_others } else { GivenSettings::new };
            manage::channel::set(handle, channel.id, name, settings.map(given)).await.map(|()| Reply::Done)
        }
        Request::DeleteChannel { project, channel } => {
            let channel = find_channel(project, &channel)?;
            manage::channel::delete(handle, channel.id).await.map(|()| Reply::Done)
        }
        Request::OfChannel { project, channel, what } => {
            let channel = find_channel(project, &channel)?;
            channels::answer(handle, &channel, what).await
        }
        Request::ListChannels { project, show_settings } => Ok(channels::list(handle, any(project)?, show_settings)),
        Request::ListDeliveries { project, channel, check, failed, limit } => {
            let project = any(project)?;
            let channel = channel.map(|channel| manage::channel::find(handle, project, &channel)).transpose()?.map(|channel| channel.id);
            let check = check.map(|check| manage::check::find(handle, project, &check)).transpose()?.map(|check| check.id);
            channels::deliveries(handle, Wanted { project, channel, check, failed }, limit).await
        }
        Request::RetryDelivery { number } => manage::delivery::retry(handle, number).await.map(Reply::Queued),
        Request::CreateCheck { project, edit, unique } => {
            let check = manage::check::create(handle, id(&project)?, *edit, unique).await?;
            Ok(Reply::Made(check.uuid))
        }
        Request::OfCheck { project, check, what } => {
            let check = manage::check::find(handle, any(project)?, &check)?;
            checks::answer(handle, check, what).await
        }
        Request::ListChecks { project, tags } => return Ok(Listing::new(any(project)?, tags).page(handle)),
    };
    reply.map(|reply| (reply, None))
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

fn written(moment: Moment) -> String {
    let mut text = String::new();
    moment.write_seconds(&mut text);
    text
}

#[cfg(test)]
mod tests;
