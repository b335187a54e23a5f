//! What administrators do with projects, keys, channels, checks and users, once for every door that offers it.
//!
//! Names and secrets are drawn here. What a function makes or changes is on disk when it returns.

pub mod channel;
pub mod check;
pub mod delivery;
mod error;
pub mod import;
pub mod key;
pub mod project;
pub mod user;
pub mod window;

pub use error::ManageError;

use crate::engine::Handle;
use crate::engine::command::{Command, Outcome, Refusal, Unavailable};
use crate::store::StoreError;

/// Has the writer carry out a command, and waits until it is on disk.
async fn submit(handle: &Handle, command: Command) -> Result<Outcome, ManageError> {
    match handle.call(command).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(Refusal::ProjectNameTaken)) => Err(ManageError::ProjectNameTaken),
        Ok(Err(Refusal::NotFound)) => Err(ManageError::Gone),
        Ok(Err(Refusal::User(refusal))) => Err(ManageError::User(refusal)),
        Ok(Err(Refusal::Settings(error))) => Err(error.into()),
        Ok(Err(refusal)) => Err(ManageError::Refused(refusal)),
        Err(unavailable) => Err(ManageError::Unavailable(unavailable)),
    }
}

/// Reads from the file on a thread that may wait for the disk.
async fn read<T: Send + 'static>(
    handle: &Handle,
    read: impl FnOnce(&Handle) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ManageError> {
    let handle = handle.clone();
    match tokio::task::spawn_blocking(move || read(&handle)).await {
        Ok(read) => read.map_err(ManageError::Unreadable),
        // The process is about to end.
        Err(_) => Err(ManageError::Unavailable(Unavailable::Stopping)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
