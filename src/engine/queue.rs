//! The one way to the writer: bounded in commands and in bytes, so that a slow disk makes callers wait or be refused, never memory grow.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::command::{Answer, Command, Signal, Unavailable};
use super::replies::RouteId;
use crate::domain::edit::{ChannelChoice, Edit};

/// Commands that may wait.
const MOST_COMMANDS: usize = 8192;
/// Bytes of texts that may wait.
const MOST_BYTES: usize = 64 << 20;
/// A command of more bytes is large: a mail, as a rule. Large ones have a room of their own, so that small ones find theirs, and the
/// writer takes one at a time.
const LARGE: usize = 256 << 10;
/// Bytes of large commands that may wait; one larger than this is taken when no other large one waits.
const MOST_LARGE_BYTES: usize = 64 << 20;

/// Who waits for an answer, and the way there.
pub(super) type Caller = (Option<RouteId>, oneshot::Sender<Answer>);

/// A command that waits for the writer, and the caller that waits for its answer.
pub(super) struct Entry {
    pub(super) command: Command,
    pub(super) reply: oneshot::Sender<Answer>,
    pub(super) route: Option<RouteId>,
}

#[derive(Default)]
struct Waiting {
    small: Vec<Entry>,
    small_bytes: usize,
    /// Each with its bytes.
    large: VecDeque<(usize, Entry)>,
    large_bytes: usize,
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

impl Waiting {
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }
}

impl Queue {
    /// Puts a command in, or says why not.
    pub(super) fn push(&self, command: Command, route: Option<RouteId>) -> Result<oneshot::Receiver<Answer>, Unavailable> {
        let bytes = weight(&command);
        let mut waiting = self.locked();
        if waiting.closed {
            return Err(Unavailable::Stopping);
        }
        let is_large = bytes > LARGE;
        let is_full = if is_large {
            waiting.large_bytes > 0 && waiting.large_bytes + bytes > MOST_LARGE_BYTES
        } else {
            waiting.small.len() >= MOST_COMMANDS || waiting.small_bytes + bytes > MOST_BYTES
        };
        if is_full {
            return Err(Unavailable::Busy);
        }
        let first = waiting.is_empty();
        let (reply, answer) = oneshot::channel();
        let entry = Entry { command, reply, route };
        if is_large {
            waiting.large_bytes += bytes;
            waiting.large.push_back((bytes, entry));
        } else {
            waiting.small_bytes += bytes;
            waiting.small.push(entry);
        }
        drop(waiting);
        if first {
            self.arrived.notify_one();
        }
        Ok(answer)
    }

    /// Takes the small commands that wait and one of the large. With nothing there it waits for the first command, a nudge or the end of
    /// `patience`.
    pub(super) fn take(&self, patience: Duration) -> Taken {
        let idle = |waiting: &mut Waiting| waiting.is_empty() && !waiting.closed && !waiting.nudged;
        let mut waiting = self.arrived.wait_timeout_while(self.locked(), patience, idle).unwrap_or_else(PoisonError::into_inner).0;
        waiting.nudged = false;
        waiting.small_bytes = 0;
        let mut entries = std::mem::take(&mut waiting.small);
        if let Some((bytes, large)) = waiting.large.pop_front() {
            waiting.large_bytes -= bytes;
            entries.push(large);
        }
        Taken { entries, closed: waiting.closed }
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

fn pairs_weight<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    pairs.map(|(key, value)| key.len() + value.len()).sum()
}

/// Gives all of them the same answer: that there is none.
pub(super) fn answer_all(entries: Vec<Entry>, unavailable: Unavailable) {
    entries.into_iter().for_each(|entry| drop(entry.reply.send(Err(unavailable))));
}

/// Bytes that a command may hold besides its own size.
fn weight(command: &Command) -> usize {
    match command {
        Command::Ping(request) => request.body.len() + text_weight(&request.signal),
        // Its pings share what is long.
        Command::Mail(pings) => {
            let long = pings.first().map_or(0, |ping| ping.body.len() + text_weight(&ping.signal));
            long + size_of_val(&**pings)
        }
        Command::CreateCheck(request) => edit_weight(&request.edit),
        Command::UpdateCheck(_, edit) => edit_weight(edit),
        Command::CreateChannel(request) => pairs_weight(request.settings.pairs()),
        Command::SetChannel { settings, .. } => settings.as_ref().map_or(0, |settings| pairs_weight(settings.pairs())),
        Command::NoteKeyUses(uses) => size_of_val(&**uses),
        Command::Expire(checks) | Command::BringBack(checks) | Command::AssignChannel { checks, .. } => size_of_val(&**checks),
        Command::BeginDeliveries(numbers) => size_of_val(&**numbers),
        Command::ReportDeliveries(reports) => reports.iter().map(|report| size_of_val(report) + size_of_val(&*report.rows)).sum(),
        Command::Pause(_)
        | Command::Resume(_)
        | Command::DeleteCheck(_)
        | Command::RemoveOrphans
        | Command::CreateProject(_)
        | Command::SetProject { .. }
        | Command::DeleteProject(_)
        | Command::CreateKey(_)
        | Command::RevokeKey(_)
        | Command::DeleteChannel(_)
        | Command::EnableChannel(_)
        | Command::Remind(_)
        | Command::DisableChannel { .. }
        | Command::LogTest { .. }
        | Command::Away(_)
        | Command::RetryDelivery { .. }
        | Command::ForgetAhead
        | Command::SetAlerting { .. }
        | Command::SetBadgeSecret(_)
        | Command::SetInstance(_) => 0,
    }
}

fn text_weight(signal: &Signal) -> usize {
    match signal {
        Signal::Http(_) | Signal::Exit(_) => 0,
        Signal::Email { subject, text, .. } => subject.len() + text.len(),
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
    use crate::domain::ping::{Method, Origin, Scheme};
    use crate::engine::command::{PingRequest, Target};

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

    #[test]
    fn small_commands_find_room_beside_large_ones() {
        let queue = Queue::default();
        let mail = |bytes: usize| {
            let (target, signal) = (Target::Uuid(uuid::Uuid::nil()), Signal::Email { subject: "".into(), text: "".into(), said: None });
            let origin = Origin { scheme: Scheme::Email, method: Method::None, remote_addr: None, ua: "".into() };
            Command::Mail(vec![PingRequest { target, signal, origin, rid: None, body: vec![0; bytes].into() }])
        };
        let large: Vec<_> = std::iter::repeat_with(|| queue.push(mail(30 << 20), None)).take_while(Result::is_ok).collect();
        assert_eq!(large.len(), 2);
        let small: Vec<_> = std::iter::repeat_with(|| queue.push(mail(100_000), None)).take_while(Result::is_ok).collect();
        assert_eq!(small.len(), MOST_BYTES / (100_000 + size_of::<PingRequest>()));
        // One that is larger than all room is taken, too, when it is the only large one.
        assert_eq!(queue.take(Duration::ZERO).entries.len(), small.len() + 1);
        assert_eq!(queue.take(Duration::ZERO).entries.len(), 1);
        assert!(queue.push(mail(MOST_LARGE_BYTES + 1), None).is_ok() && queue.push(mail(LARGE + 1), None).is_err());
        assert!(queue.push(mail(1), None).is_ok());
    }
}
