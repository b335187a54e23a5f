//! Reply to a command.

use super::{CommandError, CommandOutcome};

/// Reason for the lack of a reply from the writer. Unless the command was never accepted, it may or
/// may not have been applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unavailable {
    /// The queue is full: the command was not accepted.
    QueueFull,
    /// The database cannot currently be written.
    StorageFailed,
    /// The service is stopping.
    Stopping,
}

/// Reply that a caller gets.
pub type CommandReply = Result<Result<CommandOutcome, CommandError>, Unavailable>;
