//! The one way to the writer: bounded in commands and in bytes, so that a slow disk makes callers wait or be refused, never memory grow.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::command::{Answer, Command, Signal, Unavailable};
use super::replies::RouteId;
use crate::domain::edit::{ChannelChoice, Edit};

/// Commands that may wait.
const MOST_COMMANDS: usize = 8192;
/// Bytes of texts that may wait; a command larger than this is taken when nothing else waits.
const MOST_BYTES: usize = 64 << 20;

/// A command that waits for the writer, and the caller that waits for its answer.
pub(super) struct Entry {
    pub(super) command: Command,
    pub(super) reply: oneshot::Sender<Answer>,
    pub(super) route: Option<RouteId>,
}

#[derive(Default)]
struct Waiting {
    entries: Vec<Entry>,
    bytes: usize,
    closed: bool,
    nudged: bool,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

/// What the writer finds when it looks.
pub(super) struct Taken {
    pub(super) entries: Vec<Entry>,
    /// Nothing more will come.
    pub(super) closed: bool,
}

impl Queue {
    /// Puts a command in, or says why not.
    pub(super) fn push(&self, command: Command, route: Option<RouteId>) -> Result<oneshot::Receiver<Answer>, Unavailable> {
        let bytes = weight(&command);
        let mut waiting = self.locked();
        if waiting.closed {
            return Err(Unavailable::Stopping);
        }
        if waiting.entries.len() >= MOST_COMMANDS || (waiting.bytes > 0 && waiting.bytes + bytes > MOST_BYTES) {
            return Err(Unavailable::Busy);
        }
        let (reply, answer) = oneshot::channel();
        waiting.bytes += bytes;
        waiting.entries.push(Entry { command, reply, route });
        let first = waiting.entries.len() == 1;
        drop(waiting);
        if first {
            self.arrived.notify_one();
        }
        Ok(answer)
    }

    /// Takes all that waits. With nothing there it waits for the first command, a nudge or the end of `patience`.
    pub(super) fn take(&self, patience: Duration) -> Taken {
        let idle = |waiting: &mut Waiting| waiting.entries.is_empty() && !waiting.closed && !waiting.nudged;
        let mut waiting = self.arrived.wait_timeout_while(self.locked(), patience, idle).unwrap_or_else(PoisonError::into_inner).0;
        waiting.nudged = false;
        waiting.bytes = 0;
        Taken { entries: std::mem::take(&mut waiting.entries), closed: waiting.closed }
    }

    /// Leaves what waits or comes where it is for a while, or until nothing more will come.
    pub(super) fn rest(&self, pause: Duration) {
        drop(self.arrived.wait_timeout_while(self.locked(), pause, |waiting| !waiting.closed));
    }

    /// Lets the writer look at the time.
    pub(super) fn nudge(&self) {
        self.locked().nudged = true;
        self.arrived.notify_one();
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.locked().closed = true;
        self.arrived.notify_one();
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a command may hold besides its own size.
fn weight(command: &Command) -> usize {
    match command {
        Command::Ping(request) => {
            let read = match &request.signal {
                Signal::Http(_) | Signal::Exit(_) => 0,
                Signal::Email { subject, text } => subject.len() + text.len(),
            };
            request.body.len() + read
        }
        Command::CreateCheck(request) => edit_weight(&request.edit),
        Command::UpdateCheck(_, edit) => edit_weight(edit),
        _ => 0,
    }
}

/// The long fields: a list of channels has no limit but that of the request, a description may have 64 KiB.
fn edit_weight(edit: &Edit) -> usize {
    let channels = match &edit.channels {
        Some(ChannelChoice::Listed(items)) => items.iter().map(|item| size_of_val(item) + item.len()).sum(),
        Some(ChannelChoice::All) | None => 0,
    };
    edit.desc.as_ref().map_or(0, |desc| desc.as_str().len()) + edit.tags.as_ref().map_or(0, |tags| tags.as_str().len()) + channels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::CheckId;

    #[test]
    fn a_full_queue_refuses_and_an_emptied_one_takes_again() {
        let queue = Queue::default();
        let waiting: Vec<_> = (0..MOST_COMMANDS).map(|_| queue.push(Command::Pause(CheckId(1)), None).unwrap()).collect();
        assert_eq!(queue.push(Command::Pause(CheckId(1)), None).err(), Some(Unavailable::Busy));
        assert_eq!(queue.take(Duration::ZERO).entries.len(), waiting.len());
        assert!(queue.push(Command::Pause(CheckId(1)), None).is_ok());
    }

    #[test]
    fn a_closed_queue_hands_out_what_it_has() {
        let queue = Queue::default();
        let _answer = queue.push(Command::Pause(CheckId(1)), None).unwrap();
        queue.close();
        assert_eq!(queue.push(Command::Pause(CheckId(1)), None).err(), Some(Unavailable::Stopping));
        queue.rest(Duration::MAX);
        let taken = queue.take(Duration::MAX);
        assert!(taken.closed && taken.entries.len() == 1);
    }
}
