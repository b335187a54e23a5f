//! Decides which flips are alerted to which channels, and what a deleted check leaves to send.

use std::sync::Arc;

use super::super::command::{CommandError, CommandOutcome};
use super::super::state::{Change, UnnotifiedReason};
use super::alert_hold::recheck_after_outage;
use super::outbox::CHECK_DELETED;
use super::{ApplyResult, WorkingState};
use crate::domain::alert::{
    AlertEvent, ChannelHealth, DeletedCheck, DeliveryResult, HoldReason, NotificationState,
    OutboxRow,
};
use crate::domain::check::{Check, CheckLabels};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::ids::{ChannelId, CheckId, FlipNumber, UniqueKey};
use crate::domain::project::Channel;
use crate::domain::recent_outcomes::RunOutcome;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;

impl WorkingState {
    /// Decides what a flip means for the channels of the check, and queues rows in the outbox, in
    /// the same transaction as the flip. `previous` is the flip before it.
    pub(super) fn decide_alert_for_flip(
        &mut self,
        check: &mut Check,
        flip: &Flip,
        previous: FlipNumber,
        now: Timestamp,
    ) {
        self.queue_or_hold_alerts(check, flip, previous, now);
        if !check.state.notification.is_notified() {
            check.alerted_labels = None;
        }
    }

    fn queue_or_hold_alerts(
        &mut self,
        check: &mut Check,
        flip: &Flip,
        previous: FlipNumber,
        now: Timestamp,
    ) {
        let before = std::mem::replace(&mut check.state.notification, NotificationState::NotNeeded);
        if flip.to == Status::Down {
            self.audience_states.remove_check(check.project, check.id);
            let outage = if flip.cause.is_deadline() {
                self.outage_covering(check, flip.at, now)
            } else {
                None
            };
            let hold = match outage.and_then(|outage| recheck_after_outage(check, outage, now)) {
                Some(at) => Some(NotificationState::Pending {
                    at: at.max(now),
                    reason: HoldReason::ServerOutage,
                }),
                None => {
                    // The same pings count as missed, whenever a passed deadline is noticed. New
                    // settings expect no pings in the past.
                    let misses_from = if flip.cause == FlipCause::SettingsChanged {
                        now
                    } else {
                        flip.at.min(now)
                    };
                    self.find_hold(check, None, misses_from, now)
                }
            };
            return self.alert_unless_held(hold, check, flip.at, now);
        }
        match before {
            NotificationState::Notified | NotificationState::Undelivered => {
                self.compare_audience_of(check, now);
                self.queue_alerts(
                    check,
                    if flip.to == Status::Up {
                        AlertEvent::Up
                    } else {
                        AlertEvent::Closed
                    },
                    flip.at,
                    now,
                );
            }
            NotificationState::Pending { reason, .. } => {
                let row = OutboxRow {
                    flip: previous,
                    ..self.new_outbox_row(ChannelId::NONE, check, AlertEvent::Down, flip.at, now)
                };
                self.log_delivery(
                    &row,
                    DeliveryResult::Skipped,
                    reason.skipped_text(flip.to),
                    now,
                );
            }
            NotificationState::NotNeeded => {}
        }
        self.audience_states.remove_check(check.project, check.id);
    }

    /// Queues the alert for a downtime that began at `at`, unless `hold` says that it is held.
    pub(super) fn alert_unless_held(
        &mut self,
        hold: Option<NotificationState>,
        check: &mut Check,
        at: Timestamp,
        now: Timestamp,
    ) {
        let is_full = self.state.outbox.is_full_for(check.project);
        check.state.notification = hold.unwrap_or(if is_full {
            NotificationState::Undelivered
        } else {
            NotificationState::Notified
        });
        if hold.is_none() && is_full {
            self.audience_states.record_outbox_full(check);
        }
        if hold.is_none() && !self.queue_alerts(check, AlertEvent::Down, at, now) {
            check.state.notification = NotificationState::Undelivered;
            self.record_unnotified(check, at, now);
        }
    }

    /// Logs that an alert for a downtime reaches no channel, and the reason.
    fn record_unnotified(&mut self, check: &Check, at: Timestamp, now: Timestamp) {
        let Some(unnotified) = self.state.unnotified_reason(check) else {
            return;
        };
        self.effects.unnotified_checks.push((check.id, unnotified));
        // Each disabled channel has a delivery of its own.
        if unnotified != UnnotifiedReason::Disabled {
            let row = self.new_outbox_row(ChannelId::NONE, check, AlertEvent::Down, at, now);
            self.log_delivery(
                &row,
                DeliveryResult::Skipped,
                &format!("nobody is notified: {}", unnotified.description()),
                now,
            );
        }
    }

    /// Queues alerts about an event at `at` for all channels of a check. Their flip is the newest
    /// one of the check. Returns true if at least one channel is not disabled.
    pub(super) fn queue_alerts(
        &mut self,
        check: &Check,
        event: AlertEvent,
        at: Timestamp,
        now: Timestamp,
    ) -> bool {
        let is_silent = check.state.outcomes.newest_first().next() == Some(RunOutcome::Missed);
        let during_outage = event == AlertEvent::Down
            && is_silent
            && self.outage_covering(check, at, now).is_some();
        let audience = self.state.audience(check, event);
        let is_reached = audience
            .values()
            .any(|channel| channel.health.disabled.is_none());
        for channel in audience.into_values() {
            if event != AlertEvent::Down && self.is_unnotified(check, &channel) {
                continue;
            }
            let row = OutboxRow {
                during_outage,
                ..self.new_outbox_row(channel.id, check, event, at, now)
            };
            self.queue_row(&channel, row, now);
        }
        is_reached
    }

    /// Queues a reminder. Its row belongs to no check: the text lists the checks that are down when
    /// it is sent.
    pub(super) fn queue_reminder(&mut self, id: ChannelId, now: Timestamp) -> ApplyResult {
        let channel = self
            .state
            .channel(id)
            .filter(|channel| channel.settings.handles_event(AlertEvent::StillDown))
            .cloned()
            .ok_or(CommandError::NotFound)?;
        if channel.health.disabled.is_none()
            && self
                .state
                .outbox
                .rows_of_pair(id, CheckId(0))
                .next()
                .is_none()
        {
            let row = OutboxRow::new(
                self.next_delivery_number(),
                id,
                CheckId(0),
                FlipNumber(0),
                AlertEvent::StillDown,
                now,
                now,
            );
            self.queue_row(&channel, row, now);
        }
        Ok(CommandOutcome::Completed)
    }

    /// Removes the rows of a deleted check, except for those being sent, and closes its incidents.
    /// A queued recovery is still sent to channels that keep incidents.
    pub(super) fn close_alerts(&mut self, check: &Check, now: Timestamp) {
        self.compare_audience_of(check, now);
        let deleted_check = Box::new(DeletedCheck {
            labels: CheckLabels::from_settings(&check.settings),
            unique_key: UniqueKey::of_check(check.uuid),
        });
        let outbox = &self.state.outbox;
        for row in outbox.rows_of_check(check.id).cloned().collect::<Vec<_>>() {
            let is_sending = self.state.outbox.is_sending(row.number);
            if self.ends_incident(&row) {
                let mut row = OutboxRow {
                    deleted_check: Some(deleted_check.clone()),
                    ..OutboxRow::clone(&row)
                };
                // A recovery that is being sent stays one until its next attempt.
                if !is_sending {
                    row.event = AlertEvent::Closed;
                    // An attempt may have been started before the last startup.
                    row.may_be_duplicate = row.may_have_arrived();
                    row.attempt_started = None;
                }
                self.record_change(Change::OutboxRow(Arc::new(row)));
            } else if !is_sending {
                self.finish_row(&row, DeliveryResult::Skipped, CHECK_DELETED, now);
            }
        }
        if check.state.is_alert_held() {
            let row = self.new_outbox_row(
                ChannelId::NONE,
                check,
                AlertEvent::Down,
                check.state.changed,
                now,
            );
            self.log_delivery(&row, DeliveryResult::Skipped, CHECK_DELETED, now);
        }
        if check.state.notification.is_notified() {
            for channel in self.state.audience(check, AlertEvent::Closed).into_values() {
                if self.is_unnotified(check, &channel) {
                    continue;
                }
                let row = OutboxRow {
                    deleted_check: Some(deleted_check.clone()),
                    ..self.new_outbox_row(channel.id, check, AlertEvent::Closed, now, now)
                };
                self.queue_row(&channel, row, now);
            }
        }
    }

    /// True if a row is the newest of its check and channel, and ends an incident at the receiver.
    fn ends_incident(&self, row: &OutboxRow) -> bool {
        let last = self
            .state
            .outbox
            .rows_of_pair(row.channel, row.check)
            .last();
        matches!(row.event, AlertEvent::Up | AlertEvent::Closed)
            && last.is_some_and(|last| last.number == row.number)
            && self
                .state
                .channel(row.channel)
                .is_some_and(|channel| channel.settings.handles_event(AlertEvent::Closed))
    }

    /// Keeps the labels under which a downtime was notified, if the check is about to be stored
    /// with others. A receiver that identifies incidents by their labels gets the end under the
    /// same ones.
    pub(super) fn keep_alerted_labels(&mut self, check: &mut Check) {
        let Some(old) = self
            .state
            .check(check.id)
            .filter(|old| old.state.notification.is_notified())
        else {
            return;
        };
        let labels = check
            .alerted_labels
            .take()
            .unwrap_or_else(|| Arc::new(CheckLabels::from_settings(&old.settings)));
        check.alerted_labels =
            Some(labels).filter(|labels| **labels != CheckLabels::from_settings(&check.settings));
        let identifies_by_labels =
            |channel: &Channel| crate::channels::needs_resend(&channel.settings);
        let rows = self
            .state
            .outbox
            .rows_of_check(check.id)
            .filter(|row| row.alerted_labels != check.alerted_labels);
        let rows = rows.filter(|row| {
            self.state
                .channel(row.channel)
                .is_some_and(|channel| identifies_by_labels(channel))
        });
        for row in rows.cloned().collect::<Vec<_>>() {
            let row = OutboxRow {
                alerted_labels: check.alerted_labels.clone(),
                ..OutboxRow::clone(&row)
            };
            self.record_change(Change::OutboxRow(Arc::new(row)));
        }
    }

    pub(super) fn update_health(&mut self, id: ChannelId, update: impl FnOnce(&mut ChannelHealth)) {
        let Some(channel) = self.state.channel(id) else {
            return;
        };
        let mut health = channel.health.clone();
        update(&mut health);
        if health != channel.health {
            let channel = Channel {
                health,
                ..Channel::clone(channel)
            };
            self.record_change(Change::Channel(Arc::new(channel)));
        }
    }
}

#[cfg(test)]
mod tests;
