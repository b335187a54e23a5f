//! What each command does: it reads the state before it, decides, and only then changes; a refusal leaves nothing behind.
//!
//! Pure: no clock, no chance, no file. The same commands at the same times give the same state and the same [`Effects`].

mod alert;
mod audience;
mod check;
mod declare;
mod delivery;
#[cfg(test)]
mod fixture;
mod parents;
mod ping;
mod project;
mod stage;
mod user;
mod window;

pub use audience::{AudienceNotes, Note, is_end_held_back};
pub use ping::SEARCHED_BYTES;
pub use stage::{MOST_BODY_BYTES, MOST_ENTRIES};
pub(in crate::engine) use user::MOST_USERS;
pub(in crate::engine) use window::MOST_WINDOWS;

use std::collections::BTreeSet;

use bytes::Bytes;

use super::command::{Command, Outcome, Refusal};
use super::state::{Change, State, Unnotified};
use crate::domain::alert::Delivery;
use crate::domain::check::Check;
use crate::domain::flip::{Flip, LoggedFlip};
use crate::domain::ids::{Arrival, CheckId, FlipNumber, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::ping::Ping;
use crate::domain::status::Status;

/// What a batch has to write.
#[derive(Debug, Default)]
pub struct Effects {
    /// Steps of the state, in order.
    pub changes: Vec<Change>,
    /// Entries of the arrival log with their bodies.
    pub pings: Vec<(Arrival, Ping, Bytes)>,
    /// Entries of the log of flips.
    pub flips: Vec<(FlipNumber, LoggedFlip)>,
    /// Entries of logs that checks have which are being imported: no arrivals, and no news.
    pub staged_pings: Vec<(Ping, Bytes)>,
    /// The same of flips.
    pub staged_flips: Vec<(FlipNumber, LoggedFlip)>,
    /// The times of imported flips up to this one are not in order.
    pub flips_out_of_order: Option<FlipNumber>,
    /// Entries of the log of deliveries.
    pub deliveries: Vec<Delivery>,
    /// Number of rows that alerts take: those of the outbox that are written or removed, and deliveries.
    pub alert_rows: usize,
    /// Projects in which pings make no more checks from now on: nothing to write, but to tell.
    pub full: Vec<ProjectId>,
    /// Checks of which an alert reaches no channel: nothing to write, but to tell.
    pub unnotified: Vec<(CheckId, Unnotified)>,
    /// Projects that were imported or whose trial has ended: nothing to write, but to tell.
    pub imported: Vec<ProjectId>,
}

impl Effects {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.deliveries.is_empty()
    }
}

/// The next free numbers of the four sequences, and how much was logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The id of the next check, project, channel or key.
    pub id: u64,
    /// The place of the next ping.
    pub arrival: u64,
    /// The place of the next flip.
    pub flip: u64,
    /// The number of what is to be told next.
    pub delivery: u64,
    /// Bytes of all bodies that were ever logged, as far as they count as long: see [`long_bytes`](crate::domain::ping::long_bytes).
    pub bytes: u64,
}

/// The writer's state, ahead of the file by the batch it is working on.
#[derive(Debug)]
pub struct WorkingState {
    /// Everything in memory.
    pub state: State,
    /// The next free numbers.
    pub numbers: Numbers,
    /// What the batch has to write so far.
    pub effects: Effects,
    /// Bytes of an HTTP ping's body that are stored.
    pub body_limit: usize,
    /// A server runs: pings come meanwhile.
    pub is_served: bool,
    /// Bytes that one command puts into the log at the most; a body that comes to more is written ahead of it.
    pub large: usize,
    /// Rows for alerts (see [`Effects::alert_rows`]) after which a command leaves the rest to later ones, and a batch takes no further
    /// command of a project.
    pub most_alert_rows: usize,
    /// Channels that were not notified of a downtime, or have joined or left its audience.
    pub audience_notes: AudienceNotes,
    /// Rows for alerts that the batch had when the present command began.
    pub rows_before: usize,
    /// Projects in which a ping was to make a check and found no room. One has room again when a ping has made one.
    pub full: BTreeSet<ProjectId>,
}

type Applied = Result<Outcome, Refusal>;

impl WorkingState {
    /// Carries out a command at a time that is not earlier than that of the command before it, unless the clock was set back by 5 s or
    /// more.
    pub fn apply(&mut self, command: Command, now: Moment) -> Applied {
        self.rows_before = self.effects.alert_rows;
        // What earlier commands have left has its turn in every batch, not in every command.
        let is_own_turn = !self.audience_notes.is_moving() || matches!(command, Command::CompareAudiences);
        let applied = self.carry_out(command, now);
        if is_own_turn {
            self.compare_audiences(now);
        }
        applied
    }

    /// Commands that go on with what earlier ones have left.
    pub fn unfinished(&self) -> impl Iterator<Item = Command> {
        let orphans = self.state.has_orphans().then_some(Command::RemoveOrphans);
        orphans.into_iter().chain(self.audience_notes.is_moving().then_some(Command::CompareAudiences))
    }

    /// True if the present command may take more rows for alerts.
    fn has_alert_rows_left(&self) -> bool {
        self.effects.alert_rows.saturating_sub(self.rows_before) < self.most_alert_rows
    }

    fn carry_out(&mut self, command: Command, now: Moment) -> Applied {
        match command {
            Command::Ping(request) => self.ping_alone(*request, now),
            Command::Mail(pings) => Ok(self.mail(pings, now)),
            Command::CreateCheck(request) => self.create_check(*request, now),
            Command::UpdateCheck(id, edit) => self.update_check(id, *edit, now),
            Command::Pause(id) => self.pause(id, now),
            Command::Resume(id) => self.resume(id, now),
            Command::DeleteCheck(id) => self.delete_check(id, now),
            Command::Expire(ids) => Ok(self.expire(&ids, now)),
            Command::BringBack(ids) => Ok(self.bring_back(&ids, now)),
            Command::RemoveOrphans => Ok(self.remove_orphans(now)),
            // This is done at the end of the command.
            Command::CompareAudiences => Ok(Outcome::Done),
            Command::CreateProject(request) => self.create_project(*request),
            Command::SetProject { project, name, check_limit, ping_log_limit } => {
                self.set_project(project, name, check_limit, ping_log_limit)
            }
            Command::DeleteProject(id) => self.delete_project(id),
            Command::CreateKey(request) => self.create_key(*request, now),
            Command::NoteKeyUses(uses) => Ok(self.note_key_uses(uses)),
            Command::RehashKey(id, hash) => Ok(self.rehash_key(id, hash)),
            Command::ForgetSecrets => Ok(self.forget_secrets()),
            Command::SetKey(id, label) => self.set_key(id, label),
            Command::RevokeKey(id) => self.revoke_key(id),
            Command::CreateChannel(request) => self.create_channel(*request),
            Command::SetChannel { channel, name, settings, maker } => self.set_channel(channel, name, settings, maker),
            Command::AdoptSetting { sent_to, key, value } => self.adopt_setting(&sent_to, key, &value),
            Command::DeleteChannel(id) => self.delete_channel(id),
            Command::EnableChannel(id) => self.enable_channel(id),
            Command::DisableChannel { channel, reason } => self.disable_channel(channel, &reason, now),
            Command::Unsubscribe { channel, recipient } => self.unsubscribe(channel, recipient, now),
            Command::AssignChannel { channel, checks, assigned } => self.assign_channel(channel, checks, assigned, now),
            Command::Away(away) => Ok(self.note_away(away)),
            Command::ForgetAhead => Ok(self.forget_ahead(now)),
            Command::SetAlerting { check, after, parents } => self.set_alerting(check, after, parents, now),
            Command::CreateWindow(request) => self.create_window(*request, now),
            Command::DeleteWindow(project, id) => self.delete_window(project, id, now),
            Command::Remind(channel) => self.remind(channel, now),
            Command::BeginDeliveries(numbers, last) => Ok(self.begin_deliveries(numbers, last, now)),
            Command::ReportDeliveries(reports) => Ok(self.report_deliveries(reports, now)),
            Command::RetryDelivery { delivery, at } => self.retry_delivery(&delivery, at, now),
            Command::LogTest(report) => self.log_test(report, now),
            Command::User(command) => self.user_command(*command, now),
            Command::Declare(asked) => self.declare(&asked, now),
            Command::Stage(command) => self.stage(*command, now),
            Command::SetBadgeSecret(secret) => {
                self.change(Change::BadgeSecret(secret));
                Ok(Outcome::Done)
            }
            Command::SetInstance(instance) => {
                self.change(Change::Instance(instance));
                Ok(Outcome::Done)
            }
        }
    }

    fn next_id(&mut self) -> u64 {
        let id = self.numbers.id;
        self.numbers.id += 1;
        id
    }

    fn change(&mut self, change: Change) {
        self.effects.alert_rows += usize::from(matches!(change, Change::Queued(_) | Change::Unqueued(_)));
        match change {
            Change::CheckGone(id) => {
                let project = self.state.check(id).map(|check| check.project);
                project.into_iter().for_each(|project| self.audience_notes.forget(project, id));
            }
            Change::ChannelGone(id) => {
                let project = self.state.channel(id).map(|channel| channel.project);
                project.into_iter().for_each(|project| self.audience_notes.forget_channel(project, id));
            }
            _ => {}
        }
        self.state.apply(&change);
        self.effects.changes.push(change);
    }

    /// Logs what happened to a check, puts the numbers into its state, and has those told who are to know. `arrival`: the ping during
    /// which it happened, or 0.
    fn log_flips(&mut self, check: &mut Check, arrival: Arrival, flips: &[Flip], now: Moment) {
        let is_over = |flip: &Flip| flip.to == Status::Down;
        debug_assert!(!flips.iter().rev().skip(1).any(is_over), "a downtime ended before it was noticed: {flips:?}");
        if let Some(first) = flips.first() {
            self.notice_children(check.id, first.at, now);
        }
        for flip in flips {
            let number = FlipNumber(self.numbers.flip);
            self.numbers.flip += 1;
            let logged = LoggedFlip { check: check.id, previous: check.state.last_flip, arrival, flip: *flip };
            self.effects.flips.push((number, logged));
            check.state.last_flip = number;
            self.tell(check, flip, logged.previous, now);
        }
    }
}
