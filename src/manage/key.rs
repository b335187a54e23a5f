//! Keys: what a caller shows to use the API of a project, or to ping its checks by slug.

use std::sync::Arc;

use super::{ManageError, submit};
use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::project::{Access, Key, KeyHash, KeyLabel, PingKey, Project, Secret};
use crate::engine::Handle;
use crate::engine::command::{Command, NewKey, Outcome};
use crate::random::Random;

/// Makes a key and returns its number and the key itself. An API key cannot be had again: only its hash is kept.
///
/// # Errors
/// When the project is gone, or the writer does not answer.
pub async fn create(handle: &Handle, project: ProjectId, access: Access, label: KeyLabel) -> Result<(KeyId, String), ManageError> {
    let (secret, text) = draw(handle.random(), access).ok_or(ManageError::NotDrawn)?;
    let hint = text.chars().take(Key::HINT_LENGTH).collect::<String>().into();
    let key = NewKey { project, secret, label, hint };
    match submit(handle, Command::CreateKey(Box::new(key))).await? {
        Outcome::Key(key) => Ok((key.id, text)),
        // That command comes to nothing else.
        _ => Err(ManageError::Gone),
    }
}

/// A key as it is stored, and as its holder writes it.
fn draw(random: &Random, access: Access) -> Option<(Secret, String)> {
    let api_key = || random.url_safe::<{ KeyHash::KEY_LENGTH }>();
    match access {
        Access::ReadWrite => Some(api_key()).map(|text| (Secret::ReadWrite(KeyHash::of(text.as_bytes())), text)),
        Access::ReadOnly => Some(api_key()).map(|text| (Secret::ReadOnly(KeyHash::of(text.as_bytes())), text)),
        Access::Ping => {
            let text = random.url_safe::<{ PingKey::LENGTH }>();
            PingKey::parse(&text).map(|key| (Secret::Ping(key), text))
        }
    }
}

/// Removes the key of this number: from now on it opens nothing.
///
/// # Errors
/// When there is no such key, or the writer does not answer.
pub async fn revoke(handle: &Handle, id: u64) -> Result<(), ManageError> {
    let known = handle.with_state(|state| state.key(KeyId(id)).is_some());
    if !known {
        return Err(ManageError::NoKey(id));
    }
    submit(handle, Command::RevokeKey(KeyId(id))).await.map(drop)
}

/// The keys of a project or of all, each with its project, oldest first.
pub fn list(handle: &Handle, project: Option<ProjectId>) -> Vec<(Arc<Project>, Arc<Key>)> {
    handle.with_state(|state| {
        let keys = state.keys().filter(|key| project.is_none_or(|project| key.project == project));
        keys.filter_map(|key| Some((Arc::clone(&state.project(key.project)?.project), Arc::clone(key)))).collect()
    })
}
