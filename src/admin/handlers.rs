//! Handles a request, both for the socket and for a command that opened the database itself: calls
//! `manage`, and converts the result to a reply.

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

use super::request::{AdminReply, AdminRequest, CheckLimit, CreatedKeyRow, KeyRow, ProjectRow};
use crate::backup;
use crate::domain::channel::{SettingsAuthor, SettingsUpdate};
use crate::domain::declared::ApplyOptions;
use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::project::KeySecret;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::command::Unavailable;
use crate::import;
use crate::operations::delivery::DeliveryFilter;
use crate::operations::project::ProjectChanges;
use crate::operations::{self, OperationError};
use checks::CheckListing;

/// A reply, and the stream of further replies if this is only the first.
pub type AdminResponse = (AdminReply, Option<ReplyStream>);

/// Remaining replies of an answer in pieces.
pub enum ReplyStream {
    /// A list of checks.
    Checks(CheckListing),
    /// A backup, or an export as lines, written on a thread of its own.
    Stream(ChunkReceiver),
}

/// See [`backup::stream_chunks`].
type ChunkReceiver = Receiver<Result<Vec<u8>, String>>;

impl ReplyStream {
    /// Returns the next piece, which is generated on demand.
    pub async fn next_reply(self, handle: &Handle) -> AdminResponse {
        match self {
            Self::Checks(listing) => listing.next_page(handle),
            Self::Stream(mut pieces) => match pieces.recv().await {
                Some(Ok(piece)) => (
                    AdminReply::Piece(STANDARD.encode(piece)),
                    Some(Self::Stream(pieces)),
                ),
                Some(Err(problem)) => (AdminReply::Refused(problem), None),
                None => (AdminReply::Done, None),
            },
        }
    }
}

/// Handles a request and returns its reply. `document`: parts that were sent before it.
pub async fn handle_request(
    handle: &Handle,
    request: AdminRequest,
    document: Vec<u8>,
) -> AdminResponse {
    dispatch(handle, request, document)
        .await
        .unwrap_or_else(|error| match error {
            OperationError::Settings(error) => (AdminReply::Invalid(error.to_string()), None),
            OperationError::Window(error) => (AdminReply::Invalid(error.to_string()), None),
            error => (AdminReply::Refused(error.to_string()), None),
        })
}

async fn dispatch(
    handle: &Handle,
    request: AdminRequest,
    document: Vec<u8>,
) -> Result<AdminResponse, OperationError> {
    let id = |project: &str| operations::project::find(handle, project).map(|project| project.id);
    let one = |project: Option<String>| {
        operations::project::find_or_only(handle, project.as_deref()).map(|project| project.id)
    };
    let any = |project: Option<String>| project.as_deref().map(id).transpose();
    let find_channel =
        |project, channel: &str| operations::channel::find(handle, any(project)?, channel);
    let reply = match request {
        AdminRequest::CreateProject {
            name,
            check_limit,
            ping_log_limit,
        } => {
            let project =
                operations::project::create(handle, name, check_limit.get(), ping_log_limit)
                    .await?;
            Ok(AdminReply::Made(project.uuid))
        }
        AdminRequest::SetProject {
            project,
            name,
            check_limit,
            ping_log_limit,
        } => {
            let changes = ProjectChanges {
                name,
                check_limit: check_limit.map(CheckLimit::get),
                ping_log_limit,
            };
            operations::project::update(handle, id(&project)?, changes)
                .await
                .map(|()| AdminReply::Done)
        }
        AdminRequest::DeleteProject { project } => {
            operations::project::delete(handle, id(&project)?)
                .await
                .map(|()| AdminReply::Done)
        }
        AdminRequest::ListProjects {} => Ok(list_projects(handle)),
        AdminRequest::CreateKey {
            project,
            access,
            label,
        } => {
            let (KeyId(id), key) =
                operations::key::create(handle, one(project)?, access, label).await?;
            Ok(AdminReply::MadeKey(CreatedKeyRow { id, key }))
        }
        AdminRequest::RevokeKey { id } => operations::key::revoke(handle, id)
            .await
            .map(|()| AdminReply::Done),
        AdminRequest::ListKeys {
            project,
            show_ping_keys,
        } => Ok(list_keys(handle, any(project)?, show_ping_keys)),
        AdminRequest::CreateChannel {
            project,
            name,
            settings,
        } => {
            let channel = operations::channel::create(
                handle,
                one(project)?,
                name,
                settings,
                SettingsAuthor::Operator,
            )
            .await?;
            Ok(AdminReply::Made(channel.uuid))
        }
        AdminRequest::SetChannel {
            project,
            channel,
            name,
            settings,
            keep,
        } => {
            let channel = find_channel(project, &channel)?;
            let given = if keep {
                SettingsUpdate::merge
            } else {
                SettingsUpdate::replace_all
            };
            let is_set = settings.is_some();
            operations::channel::update(
                handle,
                channel.id,
                name,
                settings.map(given),
                SettingsAuthor::Operator,
            )
            .await?;
            let warnings = handle.with_state(|state| {
                state
                    .channel(channel.id)
                    .filter(|_| is_set)
                    .map(|channel| channel.settings.warnings())
            });
            Ok(warnings
                .filter(|warnings| !warnings.is_empty())
                .map_or(AdminReply::Done, AdminReply::Warnings))
        }
        AdminRequest::DeleteChannel { project, channel } => {
            let channel = find_channel(project, &channel)?;
            let warnings =
                handle.with_state(|state| operations::channel::deletion_warnings(state, &channel));
            let done = operations::channel::delete(handle, channel.id).await;
            done.map(|()| {
                if warnings.is_empty() {
                    AdminReply::Done
                } else {
                    AdminReply::Warnings(warnings)
                }
            })
        }
        AdminRequest::OfChannel {
            project,
            channel,
            what,
        } => {
            let channel = find_channel(project, &channel)?;
            channels::handle_action(handle, &channel, what).await
        }
        AdminRequest::ListChannels {
            project,
            show_settings,
        } => Ok(channels::list(handle, any(project)?, show_settings)),
        AdminRequest::ListDeliveries {
            project,
            channel,
            check,
            failed,
            limit,
        } => {
            let project = any(project)?;
            let channel = channel
                .map(|channel| operations::channel::find(handle, project, &channel))
                .transpose()?
                .map(|channel| channel.id);
            let check = check
                .map(|check| operations::check::find(handle, project, &check))
                .transpose()?
                .map(|check| check.id);
            channels::list_deliveries(
                handle,
                DeliveryFilter {
                    project,
                    channel,
                    check,
                    only_failed: failed,
                },
                limit,
            )
            .await
        }
        AdminRequest::RetryDelivery { number } => operations::delivery::retry(handle, number)
            .await
            .map(AdminReply::Queued),
        AdminRequest::CreateWindow {
            project,
            name,
            tags,
            times,
        } => {
            let window =
                operations::window::create(handle, one(project)?, name, tags, times).await?;
            Ok(AdminReply::Made(window.uuid))
        }
        AdminRequest::ListWindows { project } => Ok(windows::list(handle, any(project)?)),
        AdminRequest::DeleteWindow { project, window } => {
            let window = operations::window::find(handle, any(project)?, &window)?;
            operations::window::delete(handle, &window)
                .await
                .map(|()| AdminReply::Done)
        }
        AdminRequest::CreateCheck {
            project,
            edit,
            unique,
        } => {
            let saved = operations::check::create(handle, one(project)?, *edit, unique).await?;
            Ok(AdminReply::Made(saved.check.uuid))
        }
        AdminRequest::OfCheck {
            project,
            check,
            what,
        } => {
            let check = operations::check::find(handle, any(project)?, &check)?;
            checks::handle_action(handle, check, what).await
        }
        AdminRequest::CreateUser {
            name,
            password,
            grant,
        } => users::create(handle, name, password, grant).await,
        AdminRequest::ListUsers {} => Ok(users::list(handle)),
        AdminRequest::OfUser { user, what } => {
            users::handle_action(handle, &*operations::user::find(handle, &user)?, what).await
        }
        AdminRequest::SetupLink {} => users::create_link(handle, None).await,
        // The caller that holds the connection stores the part.
        AdminRequest::Part(_) => Ok(AdminReply::Done),
        AdminRequest::Import(request) => imports::handle_request(handle, request, document).await,
        AdminRequest::Declare { prune, adopt, dry } => match String::from_utf8(document) {
            Ok(document) => {
                declare::handle_request(
                    handle,
                    document,
                    ApplyOptions {
                        prune_limit: prune,
                        adopt_unmanaged: adopt,
                    },
                    dry,
                )
                .await
            }
            Err(_) => Ok(AdminReply::Invalid("the document is not UTF-8 text".into())),
        },
        AdminRequest::Export { project, secrets } => {
            let handle = handle.clone();
            let project = any(project)?;
            let writing = tokio::task::spawn_blocking(move || {
                crate::config::export_config(&handle, project, secrets)
            });
            writing
                .await
                .map(AdminReply::Objects)
                .map_err(|_| OperationError::Unavailable(Unavailable::Stopping))
        }
        AdminRequest::Backup {} => {
            let write = |handle: Handle, out: &mut dyn Write| {
                backup::write_backup(&handle, out)
                    .map_err(|error| format!("the backup failed: {error}"))
            };
            return start_stream(handle, write).await;
        }
        AdminRequest::ExportLines { project, logs } => {
            let project = any(project)?;
            let write = move |handle: Handle, out: &mut dyn Write| {
                import::export_format::write_export(&handle, project, logs, out)
                    .map_err(|error| format!("the export failed: {error}"))
            };
            return start_stream(handle, write).await;
        }
        AdminRequest::ListChecks {
            project,
            tags,
            statuses,
        } => {
            return Ok(
                CheckListing::new(any(project)?, tags, statuses.unwrap_or_default())
                    .next_page(handle),
            );
        }
    };
    reply.map(|reply| (reply, None))
}

/// Returns the first piece of a stream, and the rest.
async fn start_stream(
    handle: &Handle,
    write: impl FnOnce(Handle, &mut dyn Write) -> Result<(), String> + Send + 'static,
) -> Result<AdminResponse, OperationError> {
    let writer_handle = handle.clone();
    let chunks = backup::stream_chunks(move |out| write(writer_handle, out))
        .map_err(|_| OperationError::Unavailable(Unavailable::Busy))?;
    Ok(ReplyStream::Stream(chunks).next_reply(handle).await)
}

fn list_projects(handle: &Handle) -> AdminReply {
    let rows = operations::project::list(handle)
        .into_iter()
        .map(|(project, checks)| ProjectRow {
            uuid: project.uuid,
            name: project.name.as_str().into(),
            checks,
            check_limit: project.check_limit,
            ping_log_limit: project.ping_log_limit,
            trial: project.is_on_trial(),
        });
    AdminReply::Projects(rows.collect())
}

fn list_keys(handle: &Handle, project: Option<ProjectId>, show_ping_keys: bool) -> AdminReply {
    let rows = operations::key::list(handle, project)
        .into_iter()
        .map(|(project, key)| KeyRow {
            id: key.id.0,
            project: project.name.as_str().into(),
            access: key.secret.access().name().into(),
            label: key.label.as_str().into(),
            hint: key.hint.as_ref().into(),
            created: format_timestamp(key.created),
            used: key.last_use.map(|used| format_timestamp(used.at)),
            used_from: key.last_use.map(|used| used.from),
            note: key
                .is_unused_since_import()
                .then(|| "not used since the import".into()),
            key: match &key.secret {
                KeySecret::Ping(key) if show_ping_keys => Some(key.as_str().into()),
                _ => None,
            },
        });
    AdminReply::Keys(rows.collect())
}

fn format_timestamp(at: Timestamp) -> String {
    let mut text = String::new();
    at.write_rfc3339_secs(&mut text);
    text
}

#[cfg(test)]
mod tests;
