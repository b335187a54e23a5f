//! Queue of commands for the writer. It is bounded in commands and in bytes: with a slow disk,
//! callers wait or are refused, and memory does not grow.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use super::command::{Command, CommandReply, PingSignal, Unavailable};
use super::replies::ReplyRouteId;
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::util::sync::{Condvar, Mutex, MutexGuard, ignore_poison, lock};

/// Maximum number of waiting commands.
pub(super) const MAX_COMMANDS: usize = 8192;
/// Maximum number of commands that a batch may defer to the next one. Lower than the length of the
/// queue, so that new commands still fit.
const MAX_DEFERRED_COMMANDS: usize = MAX_COMMANDS / 4;
/// Maximum number of bytes of small commands that wait. Light ones are accepted beyond it.
const MAX_SMALL_BYTES: usize = 64 << 20;
/// Maximum number of bytes of small commands that the writer takes at once, so that no commit takes
/// long: several batches of this size fit in the journal. Light commands are taken in addition.
const MAX_BATCH_BYTES: usize = 256 << 10;
/// Maximum number of bytes of a light command.
const LIGHT_COMMAND_BYTES: usize = 4 << 10;
/// Maximum number of bytes of large commands that wait. A larger one is accepted if no other large
/// one waits.
const MAX_LARGE_BYTES: usize = 64 << 20;

/// Caller that waits for a reply, and the route to it.
pub(super) type ReplyTarget = (Option<ReplyRouteId>, oneshot::Sender<CommandReply>);

/// Command that waits for the writer, with the caller that waits for its reply.
pub(super) struct QueuedCommand {
    pub(super) command: Command,
    pub(super) reply: oneshot::Sender<CommandReply>,
    pub(super) route: Option<ReplyRouteId>,
}

#[derive(Default)]
struct QueueContents {
    small: Vec<QueuedCommand>,
    small_bytes: usize,
    /// Large commands, each with its size in bytes.
    large: VecDeque<(usize, QueuedCommand)>,
    large_bytes: usize,
    closed: bool,
    /// True if pings are not accepted.
    refuses_pings: bool,
    is_woken: bool,
}

pub(super) struct CommandQueue {
    contents: Mutex<QueueContents>,
    arrived: Condvar,
    /// Size above which a command is large, by the bytes that it holds or adds to the log. Most
    /// large commands are mails. Large commands have a limit of their own, so that small ones
    /// always fit, and the writer takes one at a time.
    large_command_bytes: usize,
}

/// Commands that the writer takes at once.
pub(super) struct TakenCommands {
    pub(super) small: Vec<QueuedCommand>,
    /// At most one large command.
    pub(super) large: Option<QueuedCommand>,
    /// True if the queue is closed.
    pub(super) closed: bool,
}

impl QueueContents {
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    /// Takes as many small commands as fit in a batch. If not all fit, each owner of commands that
    /// are not light gets an equal part of the bytes, and may exceed it by one command. Owners that
    /// get none are first in the next batch.
    fn take_small<O: Copy + Eq + Hash>(
        &mut self,
        owner_of: impl Fn(&Command) -> O,
    ) -> Vec<QueuedCommand> {
        let small = std::mem::take(&mut self.small);
        if self.small_bytes <= MAX_BATCH_BYTES {
            self.small_bytes = 0;
            return small;
        }
        let mut bytes_of_owner = HashMap::<O, usize, RandomState>::default();
        let entries: Vec<_> = small
            .into_iter()
            .map(|entry| {
                let bytes = approximate_bytes(&entry.command);
                let owner = (bytes > LIGHT_COMMAND_BYTES).then(|| owner_of(&entry.command));
                bytes_of_owner.extend(owner.map(|owner| (owner, 0)));
                (entry, bytes, owner)
            })
            .collect();
        let max_owner_bytes = MAX_BATCH_BYTES / bytes_of_owner.len().max(1);
        let mut batch_bytes = 0;
        let (batch, mut remaining): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(_, bytes, owner)| {
                let owner_bytes = owner.and_then(|owner| bytes_of_owner.get_mut(&owner));
                let Some(owner_bytes) = owner_bytes else {
                    return true;
                };
                let fits = batch_bytes < MAX_BATCH_BYTES && *owner_bytes < max_owner_bytes;
                if fits {
                    *owner_bytes += bytes;
                    batch_bytes += bytes;
                }
                fits
            });
        let is_in_batch = |owner: O| bytes_of_owner.get(&owner).is_some_and(|bytes| *bytes > 0);
        // The sort is stable: the commands of an owner keep their order.
        remaining.sort_by_key(|(.., owner)| owner.is_some_and(is_in_batch));
        self.small_bytes = remaining.iter().map(|(_, bytes, _)| bytes).sum();
        self.small = remaining.into_iter().map(|(entry, ..)| entry).collect();
        batch.into_iter().map(|(entry, ..)| entry).collect()
    }
}

impl TakenCommands {
    /// Replies to all of them that they were not applied.
    pub(super) fn refuse_all(self, unavailable: Unavailable) {
        self.small
            .into_iter()
            .chain(self.large)
            .for_each(|entry| drop(entry.reply.send(Err(unavailable))));
    }
}

impl CommandQueue {
    /// Creates an empty queue. A command is large above `large_command_bytes` bytes.
    pub(super) fn new(large_command_bytes: usize) -> Self {
        Self {
            contents: Mutex::default(),
            arrived: Condvar::new(),
            large_command_bytes,
        }
    }

    /// Queues a command, or returns the reason why it cannot.
    pub(super) fn push(
        &self,
        command: Command,
        route: Option<ReplyRouteId>,
    ) -> Result<oneshot::Receiver<CommandReply>, Unavailable> {
        let bytes = approximate_bytes(&command);
        let mut contents = self.lock_contents();
        if contents.closed {
            return Err(Unavailable::Stopping);
        }
        if contents.refuses_pings && matches!(command, Command::Ping(_) | Command::Mail(_)) {
            return Err(Unavailable::StorageFailed);
        }
        let is_large = bytes.max(logged_body_bytes(&command)) > self.large_command_bytes;
        let is_full = if is_large {
            contents.large_bytes > 0 && contents.large_bytes + bytes > MAX_LARGE_BYTES
        } else {
            contents.small.len() >= MAX_COMMANDS
                || bytes > LIGHT_COMMAND_BYTES && contents.small_bytes + bytes > MAX_SMALL_BYTES
        };
        if is_full {
            return Err(Unavailable::QueueFull);
        }
        let was_empty = contents.is_empty();
        let (reply, receiver) = oneshot::channel();
        let entry = QueuedCommand {
            command,
            reply,
            route,
        };
        if is_large {
            contents.large_bytes += bytes;
            contents.large.push_back((bytes, entry));
        } else {
            contents.small_bytes += bytes;
            contents.small.push(entry);
        }
        drop(contents);
        if was_empty {
            self.arrived.notify_one();
        }
        Ok(receiver)
    }

    /// Takes the small commands that fit in a batch and, if the writer `takes_large`, the first
    /// large one. If the queue is empty, waits for the first command, a wake-up or the end of
    /// `timeout`. `owner_of` returns the owner of a command: a batch is divided among the owners.
    pub(super) fn take<O: Copy + Eq + Hash>(
        &self,
        timeout: Duration,
        takes_large: bool,
        owner_of: impl Fn(&Command) -> O,
    ) -> TakenCommands {
        let is_idle = |contents: &mut QueueContents| {
            contents.is_empty() && !contents.closed && !contents.is_woken
        };
        let mut contents = ignore_poison(self.arrived.wait_timeout_while(
            self.lock_contents(),
            timeout,
            is_idle,
        ))
        .0;
        contents.is_woken = false;
        let entries = contents.take_small(owner_of);
        let large = if takes_large {
            contents.large.pop_front()
        } else {
            None
        };
        contents.large_bytes -= large.as_ref().map_or(0, |(bytes, _)| *bytes);
        TakenCommands {
            small: entries,
            large: large.map(|(_, entry)| entry),
            closed: contents.closed,
        }
    }

    /// Puts deferred commands back before the waiting ones. Those above [`MAX_DEFERRED_COMMANDS`]
    /// are refused.
    pub(super) fn put_back(&self, mut entries: Vec<QueuedCommand>) {
        if entries.is_empty() {
            return;
        }
        let surplus = entries.split_off(entries.len().min(MAX_DEFERRED_COMMANDS));
        let mut contents = self.lock_contents();
        contents.small_bytes += entries
            .iter()
            .map(|entry| approximate_bytes(&entry.command))
            .sum::<usize>();
        entries.append(&mut contents.small);
        contents.small = entries;
        drop(contents);
        surplus
            .into_iter()
            .for_each(|entry| drop(entry.reply.send(Err(Unavailable::QueueFull))));
    }

    /// Number of waiting commands, and the approximate bytes that they hold.
    pub(super) fn depth_and_bytes(&self) -> (u64, u64) {
        let contents = self.lock_contents();
        // A usize fits a u64 on every target.
        (
            (contents.small.len() + contents.large.len()) as u64,
            (contents.small_bytes + contents.large_bytes) as u64,
        )
    }

    /// Replies to all waiting commands that they were not applied.
    pub(super) fn refuse_all(&self, unavailable: Unavailable) {
        let mut contents = self.lock_contents();
        (contents.small_bytes, contents.large_bytes) = (0, 0);
        let small = std::mem::take(&mut contents.small);
        let large = std::mem::take(&mut contents.large);
        drop(contents);
        small
            .into_iter()
            .chain(large.into_iter().map(|(_, entry)| entry))
            .for_each(|entry| drop(entry.reply.send(Err(unavailable))));
    }

    /// Waits for the duration of `pause`, or until the queue is closed. Commands stay in the queue.
    pub(super) fn wait_until_closed(&self, pause: Duration) {
        drop(
            self.arrived
                .wait_timeout_while(self.lock_contents(), pause, |contents| !contents.closed),
        );
    }

    /// Wakes the writer, so that it checks the time.
    pub(super) fn wake(&self) {
        self.lock_contents().is_woken = true;
        self.arrived.notify_one();
    }

    /// Refuses pings from now on, or accepts them again.
    pub(super) fn set_refuses_pings(&self, refuses_pings: bool) {
        self.lock_contents().refuses_pings = refuses_pings;
    }

    /// True if pings are refused.
    pub(super) fn refuses_pings(&self) -> bool {
        self.lock_contents().refuses_pings
    }

    /// Closes the queue: commands are no longer accepted.
    pub(super) fn close(&self) {
        self.lock_contents().closed = true;
        self.arrived.notify_one();
    }

    fn lock_contents(&self) -> MutexGuard<'_, QueueContents> {
        lock(&self.contents)
    }
}

fn pairs_bytes<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    pairs.map(|(key, value)| key.len() + value.len()).sum()
}

/// Maximum number of body bytes that a command adds to the log.
fn logged_body_bytes(command: &Command) -> usize {
    match command {
        Command::Ping(request) => request.body.len(),
        Command::Mail(pings) => pings
            .first()
            .map_or(0, |ping| ping.body.len().saturating_mul(pings.len())),
        _ => 0,
    }
}

/// Bytes that a command may hold in addition to its own size.
fn approximate_bytes(command: &Command) -> usize {
    match command {
        Command::Attributed(_, command) => size_of_val(&**command) + approximate_bytes(command),
        Command::Ping(request) => request.body.len() + text_bytes(&request.signal),
        // Its pings share the long texts.
        Command::Mail(pings) => {
            let long = pings
                .first()
                .map_or(0, |ping| ping.body.len() + text_bytes(&ping.signal));
            long + size_of_val(&**pings)
        }
        Command::CreateCheck(request) => edit_bytes(&request.edit),
        Command::UpdateCheck(_, edit) => edit_bytes(edit),
        Command::CreateChannel(request) => pairs_bytes(request.settings.pairs()),
        Command::UpdateChannel { settings, .. } => settings
            .as_ref()
            .map_or(0, |settings| pairs_bytes(settings.pairs())),
        Command::AdoptSetting { value, .. } => value.len(),
        Command::ApplyConfig(request) => request.approximate_bytes(),
        Command::Import(command) => command.approximate_bytes(),
        Command::RecordKeyUses(uses) => size_of_val(&**uses),
        Command::EvaluateChecks(checks)
        | Command::ClampFutureTimes(checks)
        | Command::AssignChannel { checks, .. } => size_of_val(&**checks),
        Command::StartAttempts { rows: numbers, .. } => size_of_val(&**numbers),
        Command::RecordDeliveryReports(reports) => reports
            .iter()
            .map(|report| size_of_val(report) + size_of_val(&*report.rows))
            .sum(),
        Command::PauseCheck(..)
        | Command::RestoreCheck(_)
        | Command::ResumeCheck(_)
        | Command::DeleteCheck(_)
        | Command::RemoveOrphans
        | Command::CompareAudiences
        | Command::CreateProject(_)
        | Command::UpdateProject { .. }
        | Command::DeleteProject(_)
        | Command::CreateKey(_)
        | Command::RehashKey(..)
        | Command::PruneLegacySecrets
        | Command::RenameKey(..)
        | Command::RevokeKey(_)
        | Command::User(_)
        | Command::DeleteChannel(_)
        | Command::EnableChannel(_)
        | Command::QueueReminder(_)
        | Command::DisableChannel { .. }
        | Command::Unsubscribe { .. }
        | Command::RecordChannelTest(_)
        | Command::RecordOutage(_)
        | Command::RetryDelivery { .. }
        | Command::DropFutureOutages
        | Command::UpdateAlertSettings { .. }
        | Command::CreateWindow(_)
        | Command::DeleteWindow(..)
        | Command::PutStatusPage(..)
        | Command::DeleteStatusPage(..)
        | Command::SetBadgeSecret(_)
        | Command::SetInstance(_) => 0,
    }
}

fn text_bytes(signal: &PingSignal) -> usize {
    match signal {
        PingSignal::Http(_) | PingSignal::Exit(_) => 0,
        PingSignal::Email { subject, text, .. } => subject.len() + text.len(),
    }
}

/// Bytes of the long fields: a list of channels is limited only by the size of the request, a
/// description may have 64 KiB.
fn edit_bytes(edit: &CheckEdit) -> usize {
    let channels = match &edit.channels {
        Some(ChannelSelection::Listed(items)) => items
            .iter()
            .map(|item| size_of_val(item) + item.len())
            .sum(),
        Some(ChannelSelection::All) | None => 0,
    };
    edit.desc.as_ref().map_or(0, |desc| desc.as_str().len())
        + edit.tags.as_ref().map_or(0, |tags| tags.as_str().len())
        + channels
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::ids::CheckId;
    use crate::domain::ping::{PingMethod, PingOrigin, PingScheme};
    use crate::engine::command::{PingRequest, PingTarget};

    const LARGE: usize = 256 << 10;

    #[test]
    fn a_full_queue_refuses_commands_until_it_is_emptied() {
        let queue = CommandQueue::new(LARGE);
        let receivers: Vec<_> = (0..MAX_COMMANDS)
            .map(|_| {
                queue
                    .push(Command::PauseCheck(CheckId(1), None), None)
                    .unwrap()
            })
            .collect();
        assert_eq!(
            queue
                .push(Command::PauseCheck(CheckId(1), None), None)
                .err(),
            Some(Unavailable::QueueFull)
        );
        assert_eq!(
            queue.take(Duration::ZERO, true, |_| ()).small.len(),
            receivers.len()
        );
        assert!(
            queue
                .push(Command::PauseCheck(CheckId(1), None), None)
                .is_ok()
        );
    }

    #[test]
    fn a_closed_queue_still_returns_its_commands() {
        let queue = CommandQueue::new(LARGE);
        let _receiver = queue
            .push(Command::PauseCheck(CheckId(1), None), None)
            .unwrap();
        queue.close();
        assert_eq!(
            queue
                .push(Command::PauseCheck(CheckId(1), None), None)
                .err(),
            Some(Unavailable::Stopping)
        );
        queue.wait_until_closed(Duration::MAX);
        let taken = queue.take(Duration::MAX, true, |_| ());
        assert!(taken.closed && taken.small.len() == 1);
    }

    /// Returns a mail for a check, with a body of this number of bytes.
    fn mail_to(check: Uuid, bytes: usize) -> Command {
        let signal = PingSignal::Email {
            subject: "".into(),
            text: "".into(),
            precomputed: None,
        };
        let origin = PingOrigin {
            scheme: PingScheme::Email,
            method: PingMethod::None,
            remote_addr: None,
            user_agent: "".into(),
        };
        Command::Mail(vec![PingRequest {
            target: PingTarget::Uuid(check),
            signal,
            origin,
            rid: None,
            body: vec![0; bytes].into(),
        }])
    }

    fn mail(bytes: usize) -> Command {
        mail_to(Uuid::nil(), bytes)
    }

    fn owner_of(command: &Command) -> u128 {
        match command {
            Command::Mail(pings) => match pings[0].target {
                PingTarget::Uuid(uuid) => uuid.as_u128(),
                PingTarget::Slug { .. } => panic!("all have a UUID"),
            },
            _ => panic!("light commands need no owner"),
        }
    }

    /// Queues half of the possible bytes for greedy owners in turns, then three mails of a quiet
    /// one and a light command. Takes batches until the mails of the quiet owner have been taken.
    /// Returns their sizes, and the sizes of all mails in each of the batches.
    fn batches_with_greedy_owners(greedy: u128, bytes: usize) -> (Vec<usize>, Vec<Vec<usize>>) {
        let queue = CommandQueue::new(LARGE);
        let push = |command| queue.push(command, None).unwrap();
        let of_greedy = (0..MAX_SMALL_BYTES / 2 / bytes)
            .map(|number| mail_to(Uuid::from_u128(1 + number as u128 % greedy), bytes));
        let of_quiet = (1..=3).map(|number| mail_to(Uuid::nil(), bytes + number));
        let _receivers: Vec<_> = of_greedy.chain(of_quiet).map(push).collect();
        let _receiver = push(Command::PauseCheck(CheckId(1), None));
        let mut batches = Vec::new();
        let mut quiet = Vec::new();
        while quiet.len() < 3 {
            let taken = queue.take(Duration::ZERO, false, owner_of).small;
            assert!(!taken.is_empty());
            let is_light = |entry: &QueuedCommand| !matches!(entry.command, Command::Mail(_));
            assert_eq!(
                taken.iter().any(is_light),
                batches.is_empty(),
                "the light command is in the first batch"
            );
            let sizes: Vec<_> = taken
                .iter()
                .filter_map(|entry| match &entry.command {
                    Command::Mail(pings) => Some(pings[0].body.len()),
                    _ => None,
                })
                .collect();
            quiet.extend(sizes.iter().filter(|size| **size > bytes));
            batches.push(sizes);
        }
        while !queue.take(Duration::ZERO, false, owner_of).small.is_empty() {}
        assert_eq!(queue.depth_and_bytes(), (0, 0));
        (quiet, batches)
    }

    #[test]
    fn a_batch_is_divided_among_owners() {
        for (greedy, bytes, most_batches) in [(1, 40_000, 1), (3, 100_000, 6), (20, 100_000, 24)] {
            let (quiet, batches) = batches_with_greedy_owners(greedy, bytes);
            assert_eq!(quiet, [bytes + 1, bytes + 2, bytes + 3], "in their order");
            let count = batches.len();
            assert!(
                count <= most_batches,
                "{greedy} greedy owners: {count} batches"
            );
            for sizes in batches {
                let total = sizes.iter().sum::<usize>();
                assert!(total < MAX_BATCH_BYTES + bytes + 3, "{sizes:?}");
            }
        }
    }

    #[test]
    fn large_commands_leave_space_for_small_ones() {
        let queue = CommandQueue::new(LARGE);
        let large: Vec<_> = std::iter::repeat_with(|| queue.push(mail(30 << 20), None))
            .take_while(Result::is_ok)
            .collect();
        assert_eq!(large.len(), 2);
        let small: Vec<_> = std::iter::repeat_with(|| queue.push(mail(100_000), None))
            .take_while(Result::is_ok)
            .collect();
        assert_eq!(
            small.len(),
            MAX_SMALL_BYTES / (100_000 + size_of::<PingRequest>())
        );
        assert!(queue.push(mail(LIGHT_COMMAND_BYTES / 2), None).is_ok());
        // A command above the limit is accepted if it is the only large one. Small ones form no
        // long commit together, and light ones do not wait for it.
        assert!(
            queue
                .push(Command::PauseCheck(CheckId(1), None), None)
                .is_ok()
        );
        let batches = std::iter::repeat_with(|| queue.take(Duration::ZERO, false, |_| ()))
            .take_while(|taken| !taken.small.is_empty());
        let batches: Vec<_> = batches
            .map(|taken| (taken.small, taken.large.is_some()))
            .collect();
        assert!(
            batches
                .iter()
                .all(|(entries, large)| entries.len() <= MAX_BATCH_BYTES / 100_000 + 3 && !large)
        );
        assert_eq!(
            batches
                .iter()
                .map(|(entries, _)| entries.len())
                .sum::<usize>(),
            small.len() + 2
        );
        assert!(
            batches[0]
                .0
                .iter()
                .any(|entry| matches!(entry.command, Command::PauseCheck(..)))
        );
        assert!((0..2).all(|_| queue.take(Duration::ZERO, true, |_| ()).large.is_some()));
        assert!(
            queue.push(mail(MAX_LARGE_BYTES + 1), None).is_ok()
                && queue.push(mail(LARGE + 1), None).is_err()
        );
        assert!(queue.push(mail(1), None).is_ok());
    }
}
