//! Carries out a request, for the socket and for a command that has the database to itself alike: it becomes a call of `manage`, and what
//! comes of that becomes a reply.

mod channels;
mod checks;
mod declare;
mod imports;
mod users;
mod windows;

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::mpsc::Receiver;

use super::request::{CheckLimit, KeyRow, MadeKey, ProjectRow, Reply, Request};
use crate::backup;
use crate::domain::channel::GivenSettings;
use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::project::Secret;
use crate::domain::wanted::Manner;
use crate::engine::Handle;
use crate::engine::command::Unavailable;
use crate::import;
use crate::manage::delivery::Wanted;
use crate::manage::project::Changes;
use crate::manage::{self, ManageError};
use checks::Listing;

/// A reply, and how the answer goes on if this is only its first piece.
pub type Answer = (Reply, Option<Rest>);

/// The rest of an answer that goes in pieces.
pub enum Rest {
    /// A list of checks.
    Checks(Listing),
    /// A backup, or everything as lines: what is written on a thread of its own.
    Stream(Pieces),
}

/// See [`backup::stream_of`].
type Pieces = Receiver<Result<Vec<u8>, String>>;

impl Rest {
    /// The next piece, which is made when it is asked for.
    pub async fn next(self, handle: &Handle) -> Answer {
        match self {
            Self::Checks(listing) => listing.page(handle),
            Self::Stream(mut pieces) => match pieces.recv().await {
                Some(Ok(piece)) => (Reply::Piece(STANDARD.encode(piece)), Some(Self::Stream(pieces))),
                Some(Err(problem)) => (Reply::Refused(problem), None),
                None => (Reply::Done, None),
            },
        }
    }
}

/// Does what is asked and says what came of it. `document`: what parts came before it.
pub async fn perform(handle: &Handle, request: Request, document: Vec<u8>) -> Answer {
    answer(handle, request, document).await.unwrap_or_else(|error| match error {
        ManageError::Settings(error) => (Reply::Invalid(error.to_string()), None),
        ManageError::Window(error) => (Reply::Invalid(error.to_string()), None),
        error => (Reply::Refused(error.to_string()), None),
    })
}

async fn answer(handle: &Handle, request: Request, document: Vec<u8>) -> Result<Answer, ManageError> {
    let id = |project: &str| manage::project::find(handle, project).map(|project| project.id);
    let one = |project: Option<String>| manage::project::find_or_only(handle, project.as_deref()).map(|project| project.id);
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
            let (KeyId(id), key) = manage::key::create(handle, one(project)?, access, label).await?;
            Ok(Reply::MadeKey(MadeKey { id, key }))
        }
        Request::RevokeKey { id } => manage::key::revoke(handle, id).await.map(|()| Reply::Done),
        Request::ListKeys { project, show_ping_keys } => Ok(list_keys(handle, any(project)?, show_ping_keys)),
        Request::CreateChannel { project, name, settings } => {
            let channel = manage::channel::create(handle, one(project)?, name, settings).await?;
            Ok(Reply::Made(channel.uuid))
        }
        Request::SetChannel { project, channel, name, settings, keep } => {
            let channel = find_channel(project, &channel)?;
            let given = if keep { GivenSettings::beside_others } else { GivenSettings::new };
            let is_set = settings.is_some();
            manage::channel::set(handle, channel.id, name, settings.map(given)).await?;
            let warnings =
                handle.with_state(|state| state.channel(channel.id).filter(|_| is_set).map(|channel| channel.settings.warnings()));
            Ok(warnings.filter(|warnings| !warnings.is_empty()).map_or(Reply::Done, Reply::Warnings))
        }
        Request::DeleteChannel { project, channel } => {
            let channel = find_channel(project, &channel)?;
            let warnings = handle.with_state(|state| manage::channel::warnings_of_deletion(state, &channel));
            let done = manage::channel::delete(handle, channel.id).await;
            done.map(|()| if warnings.is_empty() { Reply::Done } else { Reply::Warnings(warnings) })
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
        Request::CreateWindow { project, name, tags, times } => {
            let window = manage::window::create(handle, one(project)?, name, tags, times).await?;
            Ok(Reply::Made(window.uuid))
        }
        Request::ListWindows { project } => Ok(windows::list(handle, any(project)?)),
        Request::DeleteWindow { project, window } => {
            let window = manage::window::find(handle, any(project)?, &window)?;
            manage::window::delete(handle, &window).await.map(|()| Reply::Done)
        }
        Request::CreateCheck { project, edit, unique } => {
            let check = manage::check::create(handle, one(project)?, *edit, unique).await?;
            Ok(Reply::Made(check.uuid))
        }
        Request::OfCheck { project, check, what } => {
            let check = manage::check::find(handle, any(project)?, &check)?;
            checks::answer(handle, check, what).await
        }
        Request::CreateUser { name, password, grant } => users::create(handle, name, password, grant).await,
        Request::ListUsers {} => Ok(users::list(handle)),
        Request::OfUser { user, what } => users::answer(handle, &*manage::user::find(handle, &user)?, what).await,
        Request::SetupLink {} => users::link(handle, None).await,
        // Whoever holds the connection keeps it.
        Request::Part(_) => Ok(Reply::Done),
        Request::Import(request) => imports::answer(handle, request, document).await,
        Request::Declare { prune, adopt, dry } => match String::from_utf8(document) {
            Ok(document) => declare::answer(handle, document, Manner { prune, adopts: adopt }, dry).await,
            Err(_) => Ok(Reply::Invalid("the document is no text (UTF-8)".into())),
        },
        Request::Export { project, secrets } => {
            let (handle, project) = (handle.clone(), any(project)?);
            let writing = tokio::task::spawn_blocking(move || crate::declare::export(&handle, project, secrets));
            writing.await.map(Reply::Objects).map_err(|_| ManageError::Unavailable(Unavailable::Stopping))
        }
        Request::Backup {} => {
            let write = |handle: Handle, out: &mut dyn Write| {
                backup::write(&handle, out).map_err(|error| format!("no backup can be made: {error}"))
            };
            return streamed(handle, write).await;
        }
        Request::ExportLines { project, logs } => {
            let project = any(project)?;
            let write = move |handle: Handle, out: &mut dyn Write| {
                import::overdue::write(&handle, project, logs, out).map_err(|error| format!("not all can be exported: {error}"))
            };
            return streamed(handle, write).await;
        }
        Request::ListChecks { project, tags, statuses } => {
            return Ok(Listing::new(any(project)?, tags, statuses.unwrap_or_default()).page(handle));
        }
    };
    reply.map(|reply| (reply, None))
}

/// The first piece of what is written, and the rest.
async fn streamed(
    handle: &Handle,
    write: impl FnOnce(Handle, &mut dyn Write) -> Result<(), String> + Send + 'static,
) -> Result<Answer, ManageError> {
    let own = handle.clone();
    let pieces = backup::stream_of(move |out| write(own, out)).map_err(|_| ManageError::Unavailable(Unavailable::Busy))?;
    Ok(Rest::Stream(pieces).next(handle).await)
}

fn list_projects(handle: &Handle) -> Reply {
    let rows = manage::project::list(handle).into_iter().map(|(project, checks)| ProjectRow {
        uuid: project.uuid,
        name: project.name.as_str().into(),
        checks,
        check_limit: project.check_limit,
        ping_log_limit: project.ping_log_limit,
        trial: project.is_held(),
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
        note: key.is_unused_since_import().then(|| "not used since the import".into()),
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
