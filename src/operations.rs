//! Service layer: the operations on projects, keys, channels, checks and users, shared by API,
//! dashboard and command line.
//!
//! UUIDs and secrets are generated here. When a function returns, its change is on disk.

pub mod audit;
pub mod channel;
pub mod check;
pub mod delivery;
mod error;
pub mod import;
pub mod instance;
pub mod key;
pub mod project;
pub mod status_page;
pub mod user;
pub mod window;

pub use error::OperationError;

use crate::engine::Handle;
use crate::engine::command::{
    Command, CommandError, CommandOutcome, Unavailable, UnexpectedOutcome,
};
use crate::store::StoreError;

/// Sends a command to the writer, waits until the change is on disk, and returns the outcome.
async fn submit<T>(handle: &Handle, command: Command) -> Result<T, OperationError>
where
    T: TryFrom<CommandOutcome, Error = UnexpectedOutcome>,
{
    match handle.call(command).await {
        Ok(Ok(outcome)) => T::try_from(outcome).map_err(OperationError::from),
        Ok(Err(CommandError::ProjectNameTaken)) => Err(OperationError::ProjectNameTaken),
        Ok(Err(CommandError::NotFound)) => Err(OperationError::Removed),
        Ok(Err(CommandError::User(refusal))) => Err(OperationError::User(refusal)),
        Ok(Err(CommandError::InvalidSettings(error))) => Err(error.into()),
        Ok(Err(refusal)) => Err(OperationError::Command(refusal)),
        Err(unavailable) => Err(OperationError::Unavailable(unavailable)),
    }
}

/// Reads from the file on a thread that may wait for the disk.
async fn read_blocking<T: Send + 'static>(
    handle: &Handle,
    read: impl FnOnce(&Handle) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, OperationError> {
    let handle = handle.clone();
    match tokio::task::spawn_blocking(move || read(&handle)).await {
        Ok(read) => read.map_err(OperationError::Store),
        // The process is about to end.
        Err(_) => Err(OperationError::Unavailable(Unavailable::Stopping)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
