//! Keys: authorize a caller to use the API of a project, or to ping its checks by slug.

use std::sync::Arc;

use super::{OperationError, submit};
use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::project::{
    KeyAccess, KeyLabel, KeySecret, PingKey, Project, ProjectKey, SecretHash,
};
use crate::engine::Handle;
use crate::engine::command::{Command, NewKey};
use crate::util::random::Random;

/// Creates a key and returns its number and the key itself. An API key cannot be read again: only
/// its hash is stored.
///
/// # Errors
/// If the project is gone, or the writer does not answer.
pub async fn create(
    handle: &Handle,
    project: ProjectId,
    access: KeyAccess,
    label: KeyLabel,
) -> Result<(KeyId, String), OperationError> {
    let (secret, text) =
        generate_key(handle.random(), access).ok_or(OperationError::InvalidGeneratedKey)?;
    let hint = text
        .chars()
        .take(ProjectKey::HINT_LENGTH)
        .collect::<String>()
        .into();
    let key = NewKey {
        project,
        secret,
        label,
        hint,
    };
    let key: Box<ProjectKey> = submit(handle, Command::CreateKey(Box::new(key))).await?;
    Ok((key.id, text))
}

/// Generates a key. Returns its stored form and its text form.
fn generate_key(random: &Random, access: KeyAccess) -> Option<(KeySecret, String)> {
    let api_key = || random.url_safe::<{ KeySecret::KEY_LENGTH }>();
    match access {
        KeyAccess::ReadWrite => Some(api_key())
            .map(|text| (KeySecret::ReadWrite(SecretHash::of(text.as_bytes())), text)),
        KeyAccess::ReadOnly => {
            Some(api_key()).map(|text| (KeySecret::ReadOnly(SecretHash::of(text.as_bytes())), text))
        }
        KeyAccess::Ping => {
            let text = random.url_safe::<{ PingKey::GENERATED_LENGTH }>();
            PingKey::parse(&text).map(|key| (KeySecret::Ping(key), text))
        }
    }
}

/// Deletes the key of this number. It is no longer accepted.
///
/// # Errors
/// If there is no such key, or the writer does not answer.
pub async fn revoke(handle: &Handle, id: u64) -> Result<(), OperationError> {
    let exists = handle.with_state(|state| state.key(KeyId(id)).is_some());
    if !exists {
        return Err(OperationError::UnknownKey(id));
    }
    submit(handle, Command::RevokeKey(KeyId(id))).await
}

/// Changes the label of a key.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn rename(handle: &Handle, key: KeyId, label: KeyLabel) -> Result<(), OperationError> {
    submit(handle, Command::RenameKey(key, label)).await
}

/// Returns the keys of a project or of all, each with its project, oldest first.
pub fn list(handle: &Handle, project: Option<ProjectId>) -> Vec<(Arc<Project>, Arc<ProjectKey>)> {
    handle.with_state(|state| {
        let keys = state
            .keys()
            .filter(|key| project.is_none_or(|project| key.project == project));
        keys.filter_map(|key| {
            Some((
                Arc::clone(&state.project(key.project)?.project),
                Arc::clone(key),
            ))
        })
        .collect()
    })
}
