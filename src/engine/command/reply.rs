//! What whoever hands over a command gets.

use super::{CommandError, CommandOutcome};

/// Why there is no answer from the writer. The command may or may not have been carried out unless it was never taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unavailable {
    /// The queue is full: the command was not taken.
    Busy,
    /// The database cannot be written at the moment.
    StorageFailed,
    /// The service is stopping.
    Stopping,
}

/// What a caller gets.
pub type CommandReply = Result<Result<CommandOutcome, CommandError>, Unavailable>;
