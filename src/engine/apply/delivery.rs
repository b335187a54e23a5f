//! Records delivery results, queues failed alerts again, and disables channels and recipients.

use std::sync::Arc;

use super::super::command::{CommandError, CommandOutcome, DeliveryReport, SendOutcome};
use super::super::state::Change;
use super::outbox::{CHANNEL_DISABLED, CHECK_DELETED};
use super::{ApplyResult, WorkingState};
use crate::domain::alert::{
    AlertEvent, DeliveryProof, DeliveryRecord, DeliveryResult, MessagePart, NotificationState,
    OutboxRow, Recipient,
};
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;

/// Number of times the server may stop during an attempt before the row fails.
const MAX_INTERRUPTIONS: u8 = 3;
/// Maximum number of rows of deleted or disabled channels that are removed in one batch.
const MAX_UNSENDABLE_ROWS: usize = 512;

/// Reasons for which a row was not sent.
const CHANNEL_DELETED: &str = "the channel was deleted";
const INTERRUPTED: &str = "sending it ended the server three times";

impl WorkingState {
    /// True if the check of a row was deleted while the row was being sent. It is not sent again,
    /// unless it announces the deletion.
    fn is_check_deleted(&self, row: &OutboxRow) -> bool {
        row.deleted_check.is_none()
            && row.check != CheckId(0)
            && self.state.check(row.check).is_none()
    }

    /// True if a row was started as part of a message whose last row was never started, so that
    /// nothing was sent.
    fn is_unsent_part(&self, row: &OutboxRow) -> bool {
        let last = |part: MessagePart| {
            self.state
                .outbox
                .get(part.last_row)
                .is_some_and(|last| last.attempts == part.attempts)
        };
        row.part.is_some_and(last)
    }

    /// Starts attempts: from now on, the messages may have arrived. Returns the rows that are to be
    /// sent. `last_row`: the row of their message that is started last, if the message takes
    /// several commands.
    pub(super) fn start_attempts(
        &mut self,
        rows: Vec<DeliveryNumber>,
        last_row: Option<DeliveryNumber>,
        now: Timestamp,
    ) -> CommandOutcome {
        let part = last_row.and_then(|last_row| {
            Some(MessagePart {
                last_row,
                attempts: self.state.outbox.get(last_row)?.attempts,
            })
        });
        let mut started_rows = Vec::with_capacity(rows.len());
        for number in rows {
            // Rows of a deleted or disabled channel are about to be removed.
            let Some(row) = self
                .state
                .outbox
                .get(number)
                .filter(|row| self.state.is_sendable(row.channel))
            else {
                continue;
            };
            let mut row = OutboxRow::clone(row);
            if row.attempt_started.is_some() && !self.is_unsent_part(&row) {
                // The result of an earlier attempt was never reported. If this process did not
                // start it, the server has stopped since.
                row.interruptions = row
                    .interruptions
                    .saturating_add(u8::from(!self.state.outbox.is_sending(number)));
                row.may_be_duplicate = true;
                row.recipients = row
                    .recipients
                    .iter()
                    .cloned()
                    .map(Recipient::after_interruption)
                    .collect();
            }
            if self.is_check_deleted(&row) {
                self.finish_row(&row, DeliveryResult::Skipped, CHECK_DELETED, now);
                continue;
            }
            if row.interruptions >= MAX_INTERRUPTIONS {
                self.finish_row(&row, DeliveryResult::Failed, INTERRUPTED, now);
                self.record_undelivered_alert(&row, now);
                continue;
            }
            if row.deleted_check.is_some() {
                row.event = AlertEvent::Closed;
            }
            row.attempts = row.attempts.saturating_add(1);
            (row.attempt_started, row.part) = (Some(now), part);
            let row = Arc::new(row);
            self.record_change(Change::OutboxRow(Arc::clone(&row)));
            started_rows.push(row);
        }
        CommandOutcome::AttemptsStarted(started_rows)
    }

    /// True if a channel still has the settings that a message was sent with. `None`: nothing was
    /// sent.
    fn is_current(&self, id: ChannelId, sent_to: Option<&Channel>) -> bool {
        sent_to.is_none_or(|sent_to| {
            self.state
                .channel(id)
                .is_some_and(|now| now.settings == sent_to.settings)
        })
    }

    /// Records the results of an attempt for those recipients that the channel still has.
    fn record_recipients(&mut self, id: ChannelId, results: &[Recipient], now: Timestamp) {
        let Some(channel) = self.state.channel(id).cloned() else {
            return;
        };
        let has_unsubscribed = |address: &str| {
            channel
                .health
                .unsubscribed
                .iter()
                .any(|other| **other == *address)
        };
        let is_recipient = |address: &str| {
            channel.settings.recipients().any(|other| other == address)
                && !has_unsubscribed(address)
        };
        let current = results
            .iter()
            .filter(|result| is_recipient(&result.address));
        self.update_health(id, |health| health.record_recipients(current, now));
    }

    /// Records the results of attempts.
    pub(super) fn record_delivery_reports(
        &mut self,
        reports: Vec<DeliveryReport>,
        now: Timestamp,
    ) -> CommandOutcome {
        for report in reports {
            let DeliveryReport {
                channel,
                sent_to,
                rows,
                merged_into,
                result,
                status,
                recipients,
            } = report;
            // The result says nothing about settings that the channel got in the meantime.
            let is_current = self.is_current(channel, sent_to.as_deref());
            let result = if is_current {
                result
            } else {
                result.with_outdated_settings()
            };
            if is_current && let Some(recipients) = &recipients {
                self.record_recipients(channel, recipients, now);
            }
            let rows: Vec<_> = rows
                .iter()
                .filter_map(|number| self.state.outbox.get(*number))
                .cloned()
                .collect();
            if let SendOutcome::Retry {
                reason,
                may_have_arrived,
            } = &result
            {
                self.requeue_rows(channel, rows, *may_have_arrived, recipients.as_ref(), now);
                if reason.is_empty() || !is_current {
                    // The result says nothing about the channel.
                    continue;
                }
                self.update_health(channel, |health| {
                    let since = health.failing.as_ref().map_or(now, |(since, _)| *since);
                    health.failing = Some((since, DeliveryRecord::truncate_reason(reason)));
                });
                continue;
            }
            let final_result = result.delivery_result();
            let reason = result.reason();
            for row in &rows {
                let mut delivery = new_delivery_record(row, final_result, reason, now);
                (delivery.status, delivery.merged_into) =
                    (status, merged_into.filter(|first| *first != row.number));
                self.effects.deliveries.push(delivery);
                self.record_change(Change::OutboxRowDeleted(row.number));
                if final_result == DeliveryResult::Failed {
                    self.record_undelivered_alert(row, now);
                }
                self.record_unsent(row, final_result);
                if final_result == DeliveryResult::Delivered && row.event == AlertEvent::StillDown {
                    self.set_notified_by_reminder(channel);
                }
            }
            match result {
                SendOutcome::Delivered | SendOutcome::PartlyDelivered(_) if is_current => {
                    self.update_health(channel, |health| {
                        (health.failing, health.proof) = (None, DeliveryProof::Delivered);
                    });
                }
                SendOutcome::ChannelRejected(reason) => self.disable(channel, &reason, now),
                _ => {}
            }
        }
        CommandOutcome::Completed
    }

    /// Keeps rows for another attempt after a failed one, except rows of deleted checks.
    /// `recipients`: results of the attempt, if the message had several recipients.
    fn requeue_rows(
        &mut self,
        channel: ChannelId,
        rows: Vec<Arc<OutboxRow>>,
        may_have_arrived: bool,
        recipients: Option<&Arc<[Recipient]>>,
        now: Timestamp,
    ) {
        for row in rows {
            if self.is_check_deleted(&row) {
                self.finish_row(&row, DeliveryResult::Skipped, CHECK_DELETED, now);
                continue;
            }
            let mut row = OutboxRow::clone(&row);
            (row.attempt_started, row.may_be_duplicate) =
                (None, row.may_be_duplicate || may_have_arrived);
            if let Some(results) = recipients {
                let settings = self.state.channel(channel).map(|channel| &channel.settings);
                let is_address = |address: &str| {
                    settings.is_some_and(|settings| settings.recipients().any(|to| to == address))
                };
                row.recipients = Recipient::after_attempt(&row.recipients, results, is_address);
            }
            if row.deleted_check.is_some() {
                row.event = AlertEvent::Closed;
            }
            self.record_change(Change::OutboxRow(Arc::new(row)));
        }
    }

    /// Handles a failed alert for a downtime. Unless another channel of the check works, the check
    /// no longer holds the alerts of its children.
    fn record_undelivered_alert(&mut self, row: &OutboxRow, now: Timestamp) {
        let Some(check) = self
            .state
            .check(row.check)
            .filter(|check| check.state.notification == NotificationState::Notified)
        else {
            return;
        };
        let works = |channel: &Channel| channel.id != row.channel && channel.health.is_healthy();
        if row.event != AlertEvent::Down
            || row.flip != check.state.last_flip
            || self
                .state
                .audience(check, AlertEvent::Down)
                .values()
                .any(|channel| works(channel))
        {
            return;
        }
        let mut check = check.clone();
        check.state.notification = NotificationState::Undelivered;
        let id = check.id;
        let project = check.project;
        self.record_change(Change::Check(Box::new(check)));
        self.release_children(project, id, now);
    }

    /// Queues a failed alert again, if its check and its channel still exist. People and channels
    /// that keep incidents get the current status only, so an alert about an older flip is refused
    /// for them.
    pub(super) fn retry_delivery(
        &mut self,
        delivery: &DeliveryRecord,
        at: Timestamp,
        now: Timestamp,
    ) -> ApplyResult {
        let check = self
            .state
            .check(delivery.check)
            .cloned()
            .ok_or(CommandError::NotFound)?;
        let channel = self
            .state
            .channel(delivery.channel)
            .cloned()
            .ok_or(CommandError::NotFound)?;
        if channel.health.disabled.is_some() {
            return Err(CommandError::ChannelDisabled);
        }
        // A warning is about a moment that has passed.
        if channel.settings.kind().class != ChannelClass::Machine
            && delivery.flip != check.state.last_flip
            || delivery.event.is_warning()
        {
            return Err(CommandError::Outdated);
        }
        // An attempt without a reply may have arrived. An attempt that was refused did not.
        let is_refused = matches!(delivery.status, 400..=407 | 409..=499);
        let may_be_duplicate = delivery.may_be_duplicate || delivery.attempts > 0 && !is_refused;
        let row = OutboxRow {
            flip: delivery.flip,
            may_be_duplicate,
            ..self.new_outbox_row(channel.id, &check, delivery.event, at, now)
        };
        let number = row.number;
        if row.event == AlertEvent::Down && row.flip == check.state.last_flip {
            self.audience_states.set_notified(&check, channel.id);
        }
        self.queue_row(&channel, row, now);
        Ok(CommandOutcome::DeliveryQueued(number))
    }

    /// Logs a test message. A test that arrived, even at some recipients only, shows that the
    /// channel works. A test that did not says nothing about settings that the channel got in the
    /// meantime.
    pub(super) fn record_channel_test(
        &mut self,
        report: DeliveryReport,
        now: Timestamp,
    ) -> ApplyResult {
        let DeliveryReport {
            channel,
            sent_to,
            result,
            status,
            recipients,
            ..
        } = report;
        self.state.channel(channel).ok_or(CommandError::NotFound)?;
        let is_current = self.is_current(channel, sent_to.as_deref());
        let number = self.next_delivery_number();
        let check = CheckId(0);
        let flip = FlipNumber(0);
        let final_result = result.delivery_result();
        let reason = result.reason();
        let event = AlertEvent::Test;
        let attempts = 1;
        let delivery = DeliveryRecord {
            number,
            channel,
            check,
            flip,
            event,
            queued: now,
            finished: now,
            result: final_result,
            attempts,
            status,
            reason: DeliveryRecord::truncate_reason(reason),
            merged_into: None,
            may_be_duplicate: false,
        };
        self.effects.deliveries.push(delivery);
        self.update_health(channel, |health| {
            if final_result == DeliveryResult::Delivered {
                (health.disabled, health.failing, health.proof) =
                    (None, None, DeliveryProof::Delivered);
            } else if is_current {
                health.proof = DeliveryProof::TestFailed(DeliveryRecord::truncate_reason(reason));
            }
        });
        if is_current {
            self.record_recipients(channel, recipients.as_deref().unwrap_or_default(), now);
        }
        Ok(CommandOutcome::Completed)
    }

    /// Enables a channel, with all of its recipients.
    pub(super) fn enable_channel(&mut self, id: ChannelId) -> ApplyResult {
        self.state.channel(id).ok_or(CommandError::NotFound)?;
        self.update_health(id, |health| {
            (health.disabled, health.failing) = (None, None);
            health.unsubscribed.clear();
            health.refused.clear();
        });
        let channel = self.state.channel(id).ok_or(CommandError::NotFound)?;
        Ok(CommandOutcome::Channel(Box::new(Channel::clone(channel))))
    }

    /// Disables a channel. Its queued rows are skipped.
    pub(super) fn disable_channel(
        &mut self,
        id: ChannelId,
        reason: &str,
        now: Timestamp,
    ) -> ApplyResult {
        self.state.channel(id).ok_or(CommandError::NotFound)?;
        self.disable(id, reason, now);
        let channel = self.state.channel(id).ok_or(CommandError::NotFound)?;
        Ok(CommandOutcome::Channel(Box::new(Channel::clone(channel))))
    }

    /// Unsubscribes a recipient. A channel without other recipients is disabled.
    pub(super) fn unsubscribe(
        &mut self,
        id: ChannelId,
        recipient: Box<str>,
        now: Timestamp,
    ) -> ApplyResult {
        let channel = Arc::clone(self.state.channel(id).ok_or(CommandError::NotFound)?);
        if !channel
            .settings
            .recipients()
            .any(|other| *other == *recipient)
        {
            return Err(CommandError::NotFound);
        }
        if !channel.health.unsubscribed.contains(&recipient) {
            self.update_health(id, |health| {
                health
                    .refused
                    .retain(|refused| refused.address != recipient);
                health.unsubscribed.push(recipient);
            });
        }
        let channel = Arc::clone(self.state.channel(id).ok_or(CommandError::NotFound)?);
        let has_subscribers = channel.settings.recipients().any(|other| {
            !channel
                .health
                .unsubscribed
                .iter()
                .any(|unsubscribed| **unsubscribed == *other)
        });
        if !has_subscribers && channel.health.disabled.is_none() {
            self.disable(id, "every recipient has unsubscribed", now);
        }
        let channel = self.state.channel(id).ok_or(CommandError::NotFound)?;
        Ok(CommandOutcome::Channel(Box::new(Channel::clone(channel))))
    }

    fn disable(&mut self, id: ChannelId, reason: &str, now: Timestamp) {
        self.update_health(id, |health| {
            health.disabled = Some((now, DeliveryRecord::truncate_reason(reason)));
        });
    }

    /// Removes rows that are never sent because their channel is deleted or disabled, a limited
    /// number at a time.
    pub(super) fn remove_unsendable(&mut self, now: Timestamp) {
        let rows: Vec<_> = self
            .state
            .unsendable_rows()
            .take(MAX_UNSENDABLE_ROWS)
            .cloned()
            .collect();
        for row in rows {
            let reason = if self.state.channel(row.channel).is_some() {
                CHANNEL_DISABLED
            } else {
                CHANNEL_DELETED
            };
            self.record_unsent(&row, DeliveryResult::Skipped);
            self.finish_row(&row, DeliveryResult::Skipped, reason, now);
        }
    }
}

pub(super) fn new_delivery_record(
    row: &OutboxRow,
    result: DeliveryResult,
    reason: &str,
    now: Timestamp,
) -> DeliveryRecord {
    DeliveryRecord {
        number: row.number,
        channel: row.channel,
        check: row.check,
        flip: row.flip,
        event: row.event,
        queued: row.queued,
        finished: now,
        result,
        attempts: row.attempts,
        status: 0,
        reason: DeliveryRecord::truncate_reason(reason),
        merged_into: None,
        may_be_duplicate: row.may_be_duplicate,
    }
}
