//! Implements each command. A command reads the state, decides, and only then changes it, so a
//! refused command has no effect.
//!
//! Pure: uses no clock, no randomness and no file. The same commands at the same times give the
//! same state and the same [`Effects`].

mod alert;
mod alert_hold;
mod apply_config;
mod audience;
mod audit;
mod check;
mod delivery;
#[cfg(test)]
mod fixture;
mod import;
mod outbox;
mod parents;
mod ping;
mod project;
mod status_page;
mod user;
mod warning;
mod window;

pub use audience::{AudienceState, AudienceStates, skips_recovery};
pub use import::{MAX_IMPORT_BODY_BYTES, MAX_IMPORT_ENTRIES};
pub use ping::KEYWORD_SEARCH_BYTES;
pub(in crate::engine) use user::MAX_USERS;
pub(in crate::engine) use window::MAX_WINDOWS;

use std::collections::BTreeSet;

use bytes::Bytes;

use super::command::{Command, CommandError, CommandOutcome};
use super::state::{Change, State, UnnotifiedReason};
use crate::domain::alert::DeliveryRecord;
use crate::domain::check::Check;
use crate::domain::flip::{Flip, LoggedFlip};
use crate::domain::ids::{Arrival, CheckId, FlipNumber, ProjectId};
use crate::domain::ping::Ping;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;

/// Data that a batch has to write.
#[derive(Debug, Default)]
pub struct Effects {
    /// Changes of the state, in order.
    pub changes: Vec<Change>,
    /// Entries of the arrival log with their bodies.
    pub pings: Vec<(Arrival, Ping, Bytes)>,
    /// Entries of the log of flips.
    pub flips: Vec<(FlipNumber, LoggedFlip)>,
    /// Log entries of pings of checks that are being imported. They are neither arrivals nor
    /// published.
    pub imported_pings: Vec<(Ping, Bytes)>,
    /// Log entries of flips of checks that are being imported.
    pub imported_flips: Vec<(FlipNumber, LoggedFlip)>,
    /// Set if the times of imported flips up to this one are not in order.
    pub flips_out_of_order: Option<FlipNumber>,
    /// Entries of the delivery log.
    pub deliveries: Vec<DeliveryRecord>,
    /// Number of rows that alerts take: rows of the outbox that are written or removed, and
    /// deliveries.
    pub alert_rows: usize,
    /// Projects that have reached the limit, so that pings create no checks there. Only logged, not
    /// stored.
    pub projects_at_check_limit: Vec<ProjectId>,
    /// Checks with an alert that reaches no channel. Only logged, not stored.
    pub unnotified_checks: Vec<(CheckId, UnnotifiedReason)>,
    /// Projects that were imported or whose trial has ended. Only logged, not stored.
    pub imported_projects: Vec<ProjectId>,
}

impl Effects {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.deliveries.is_empty()
    }
}

/// Next free numbers of the four sequences, and the number of logged bytes of bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceNumbers {
    /// Id of the next object of any kind: check, project, channel, key, window, user, session or
    /// link.
    pub id: u64,
    /// Number of the next ping in the arrival log.
    pub arrival: u64,
    /// Number of the next flip.
    pub flip: u64,
    /// Number of the next delivery.
    pub delivery: u64,
    /// Bytes of all bodies ever logged, beyond the first 1,024 of each: see
    /// [`excess_body_bytes_of`](crate::domain::ping::excess_body_bytes_of).
    pub body_bytes: u64,
}

/// State of the writer, ahead of the file by the current batch.
#[derive(Debug)]
pub struct WorkingState {
    /// All data in memory.
    pub state: State,
    /// Next free numbers.
    pub numbers: SequenceNumbers,
    /// Data that the batch has to write so far.
    pub effects: Effects,
    /// Maximum number of bytes stored of an HTTP ping's body.
    pub ping_body_limit: usize,
    /// True if a server runs and receives pings.
    pub accepts_pings: bool,
    /// Bytes of bodies of a command above which its body is uploaded before it.
    pub upload_threshold_bytes: usize,
    /// Maximum number of rows for alerts (see [`Effects::alert_rows`]). Beyond it a command leaves
    /// the rest to later commands, and a batch takes no further command of the project.
    pub max_alert_rows: usize,
    /// Channels that were not notified of a downtime, or have joined or left its audience.
    pub audience_states: AudienceStates,
    /// Rows for alerts that the batch had when the current command began.
    pub alert_rows_before: usize,
    /// Checks that the last evaluation of due checks has left to the next one, because the batch
    /// had no rows for alerts left.
    pub unevaluated_checks: Vec<CheckId>,
    /// Projects in which a ping could not create a check because the limit was reached. A project
    /// is removed when a ping has created a check again.
    pub projects_at_check_limit: BTreeSet<ProjectId>,
}

type ApplyResult = Result<CommandOutcome, CommandError>;

impl WorkingState {
    /// Applies a command. `now` is not earlier than the time of the previous command, unless the
    /// clock was set back by 5 s or more.
    pub fn apply(&mut self, command: Command, now: Timestamp) -> ApplyResult {
        self.alert_rows_before = self.effects.alert_rows;
        // Work left by earlier commands continues once per batch, not in every command.
        let compares_audiences =
            !self.audience_states.has_pending() || matches!(command, Command::CompareAudiences);
        let result = self.apply_audited(command, now);
        if compares_audiences {
            self.compare_audiences(now);
        }
        result
    }

    /// Commands that continue the work that earlier commands have left.
    pub fn continuation_commands(&self) -> impl Iterator<Item = Command> {
        let orphans = self
            .state
            .has_rows_to_remove()
            .then_some(Command::RemoveOrphans);
        orphans.into_iter().chain(
            self.audience_states
                .has_pending()
                .then_some(Command::CompareAudiences),
        )
    }

    /// True if the current command may add more rows for alerts.
    fn has_alert_rows_left(&self) -> bool {
        self.effects
            .alert_rows
            .saturating_sub(self.alert_rows_before)
            < self.max_alert_rows
    }

    fn dispatch(&mut self, command: Command, now: Timestamp) -> ApplyResult {
        match command {
            // `apply_audited` has taken the author.
            Command::Attributed(_, command) => self.dispatch(*command, now),
            Command::Ping(request) => self.apply_ping(*request, now),
            Command::Mail(pings) => Ok(self.apply_mail(pings, now)),
            Command::CreateCheck(request) => self.create_check(*request, now),
            Command::UpdateCheck(id, edit) => self.update_check(id, *edit, now),
            Command::PauseCheck(id, until) => self.pause_check(id, until, now),
            Command::RestoreCheck(restoration) => self.restore_check(*restoration, now),
            Command::ResumeCheck(id) => self.resume_check(id, now),
            Command::DeleteCheck(id) => self.delete_check(id, now),
            Command::EvaluateChecks(ids) => Ok(self.evaluate_checks(&ids, now)),
            Command::ClampFutureTimes(ids) => Ok(self.clamp_future_times(&ids, now)),
            Command::RemoveOrphans => Ok(self.remove_orphans(now)),
            // `apply` compares the audiences after this command.
            Command::CompareAudiences => Ok(CommandOutcome::Completed),
            Command::CreateProject(request) => self.create_project(*request),
            Command::UpdateProject {
                project,
                name,
                check_limit,
                ping_log_limit,
                allows_ping_settings,
            } => self.update_project(
                project,
                name,
                check_limit,
                ping_log_limit,
                allows_ping_settings,
            ),
            Command::DeleteProject(id) => self.delete_project(id),
            Command::CreateKey(request) => self.create_key(*request, now),
            Command::RecordKeyUses(uses) => Ok(self.record_key_uses(uses)),
            Command::RehashKey(id, hash) => Ok(self.rehash_key(id, hash)),
            Command::PruneLegacySecrets => Ok(self.prune_legacy_secrets()),
            Command::RenameKey(id, label) => self.rename_key(id, label),
            Command::RevokeKey(id) => self.revoke_key(id),
            Command::CreateChannel(request) => self.create_channel(*request),
            Command::UpdateChannel {
                channel,
                name,
                settings,
                author,
            } => self.update_channel(channel, name, settings, author),
            Command::AdoptSetting {
                sent_to,
                key,
                value,
            } => self.adopt_setting(&sent_to, key, &value),
            Command::DeleteChannel(id) => self.delete_channel(id),
            Command::EnableChannel(id) => self.enable_channel(id),
            Command::DisableChannel { channel, reason } => {
                self.disable_channel(channel, &reason, now)
            }
            Command::Unsubscribe { channel, recipient } => {
                self.unsubscribe(channel, recipient, now)
            }
            Command::AssignChannel {
                channel,
                checks,
                assigned,
            } => self.assign_channel(channel, checks, assigned, now),
            Command::RecordOutage(outage) => Ok(self.record_outage(outage)),
            Command::DropFutureOutages => Ok(self.drop_future_outages(now)),
            Command::UpdateAlertSettings {
                check,
                failure_threshold,
                parents,
            } => self.update_alert_settings(check, failure_threshold, parents, now),
            Command::CreateWindow(request) => self.create_window(*request, now),
            Command::DeleteWindow(project, id) => self.delete_window(project, id, now),
            Command::PutStatusPage(project, page) => self.put_status_page(project, *page),
            Command::DeleteStatusPage(project, page) => self.delete_status_page(project, page),
            Command::QueueReminder(channel) => self.queue_reminder(channel, now),
            Command::StartAttempts { rows, last_row } => {
                Ok(self.start_attempts(rows, last_row, now))
            }
            Command::RecordDeliveryReports(reports) => {
                Ok(self.record_delivery_reports(reports, now))
            }
            Command::RetryDelivery { delivery, at } => self.retry_delivery(&delivery, at, now),
            Command::RecordChannelTest(report) => self.record_channel_test(report, now),
            Command::User(command) => self.apply_user_command(*command, now),
            Command::ApplyConfig(request) => self.apply_config(&request, now),
            Command::Import(command) => self.apply_import_step(*command, now),
            Command::SetBadgeSecret(secret) => {
                self.record_change(Change::BadgeSecret(secret));
                Ok(CommandOutcome::Completed)
            }
            Command::SetInstance(instance) => {
                self.record_change(Change::Instance(instance));
                Ok(CommandOutcome::Completed)
            }
        }
    }

    fn next_id(&mut self) -> u64 {
        let id = self.numbers.id;
        self.numbers.id += 1;
        id
    }

    fn record_change(&mut self, change: Change) {
        self.effects.alert_rows += usize::from(matches!(
            change,
            Change::OutboxRow(_) | Change::OutboxRowDeleted(_)
        ));
        match change {
            Change::CheckDeleted(id) => {
                let project = self.state.check(id).map(|check| check.project);
                project
                    .into_iter()
                    .for_each(|project| self.audience_states.remove_check(project, id));
            }
            Change::ChannelDeleted(id) => {
                let project = self.state.channel(id).map(|channel| channel.project);
                project
                    .into_iter()
                    .for_each(|project| self.audience_states.remove_channel(project, id));
            }
            _ => {}
        }
        self.state.apply(&change);
        self.effects.changes.push(change);
    }

    /// Logs the flips of a check, sets their numbers in its state, and alerts its channels.
    /// `arrival` is the ping that caused them, or 0.
    fn record_flips(
        &mut self,
        check: &mut Check,
        arrival: Arrival,
        flips: &[Flip],
        now: Timestamp,
    ) {
        let begins_downtime = |flip: &Flip| flip.to == Status::Down;
        debug_assert!(
            !flips.iter().rev().skip(1).any(begins_downtime),
            "a downtime ended before it was noticed: {flips:?}"
        );
        if let Some(first) = flips.first() {
            self.evaluate_children_before_flip(check.id, first.at, now);
        }
        for flip in flips {
            let number = FlipNumber(self.numbers.flip);
            self.numbers.flip += 1;
            let logged = LoggedFlip {
                check: check.id,
                previous: check.state.last_flip,
                arrival,
                flip: *flip,
            };
            self.effects.flips.push((number, logged));
            check.state.last_flip = number;
            self.decide_alert_for_flip(check, flip, logged.previous, now);
        }
    }
}
