//! Decides which flips are alerted to which channels, and records the delivery results.

use std::sync::Arc;

use super::super::command::{CommandError, CommandOutcome};
use super::super::state::{Change, UnnotifiedReason};
use super::delivery::finished_delivery;
use super::{ApplyResult, WorkingState};
use crate::domain::alert::{
    AlertEvent, ChannelHealth, DeletedCheck, DeliveryResult, HoldReason, NotificationState, Outage,
    OutboxRow,
};
use crate::domain::check::{Check, NameSet};
use crate::domain::flip::Flip;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber, UniqueKey};
use crate::domain::project::Channel;
use crate::domain::recent_outcomes::RunOutcome;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;

/// Maximum number of rows that wait for one channel about one check: see
/// [limits](crate::docs::limits).
const MAX_ROWS_PER_PAIR: usize = 8;

/// Seconds after an outage of the server at which alerts for checks that still have not reported
/// are decided again, unless their ping is expected soon.
const OUTAGE_RECHECK_SECS: i64 = 2 * 60;

/// Reasons for which a row was not sent.
pub(super) const CHANNEL_DISABLED: &str = "the channel is disabled";
const PROJECT_ON_TRIAL: &str = "its project is on trial";
const OUTBOX_FULL: &str = "too much waits to be sent";
const ENDED_UNSENT: &str = "it was over before it was sent, and too much waits";
const TOO_MANY_CHANGES: &str = "too many changes of this check wait for this channel";
pub(super) const CHECK_GONE: &str = "the check was deleted";

impl WorkingState {
    /// Decides what a flip means for the channels of the check, and queues rows in the outbox, in
    /// the same transaction as the flip. `previous` is the flip before it.
    pub(super) fn handle_flip(
        &mut self,
        check: &mut Check,
        flip: &Flip,
        previous: FlipNumber,
        now: Timestamp,
    ) {
        self.queue_or_hold_alerts(check, flip, previous, now);
        if !check.state.notification.is_notified() {
            check.alerted_names = None;
        }
    }

    fn queue_or_hold_alerts(
        &mut self,
        check: &mut Check,
        flip: &Flip,
        previous: FlipNumber,
        now: Timestamp,
    ) {
        let told = std::mem::replace(&mut check.state.notification, NotificationState::NotNeeded);
        if flip.to == Status::Down {
            self.audience_notes.remove_check(check.project, check.id);
            let away = if flip.cause.is_deadline() {
                self.outage_covering(check, flip.at, now)
            } else {
                None
            };
            let held = match away.and_then(|away| recheck_after_outage(check, away, now)) {
                Some(at) => Some(NotificationState::Pending {
                    at: at.max(now),
                    reason: HoldReason::ServerOutage,
                }),
                None => self.find_hold(check, None, now),
            };
            return self.alert_unless_held(held, check, flip.at, now);
        }
        match told {
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
            NotificationState::Pending { reason: held, .. } => {
                let row = OutboxRow {
                    flip: previous,
                    ..self.new_outbox_row(ChannelId(0), check, AlertEvent::Down, flip.at, now)
                };
                self.log_delivery(
                    &row,
                    DeliveryResult::Skipped,
                    held.skipped_text(flip.to),
                    now,
                );
            }
            NotificationState::NotNeeded => {}
        }
        self.audience_notes.remove_check(check.project, check.id);
    }

    /// Decides again whether a held alert for a downtime is sent, if that is due at `now`.
    /// `windows_may_differ`: the settings of the check or the windows of its project may have
    /// changed since the last decision. Otherwise an open window is known to be still open.
    pub(super) fn reconsider_held_alert(
        &mut self,
        check: &mut Check,
        windows_may_differ: bool,
        now: Timestamp,
    ) {
        let NotificationState::Pending { at, reason: held } = check.state.notification else {
            return;
        };
        if check.state.status != Status::Down {
            // The check is no longer down.
            check.state.notification = NotificationState::NotNeeded;
            return;
        }
        let away = if at <= now {
            self.outage_covering(check, at, now)
        } else {
            None
        };
        if at <= now
            && held == HoldReason::BelowThreshold
            && away.is_none()
            && check.state.has_missed_ping(&check.settings, now)
        {
            // This ping cannot have been lost during an outage of the server.
            check.state.count_missed_ping();
        }
        let now_or_never = match held {
            // The check has reported a failure since, which is an event of its own.
            _ if !matches!(
                held,
                HoldReason::BelowThreshold | HoldReason::MaintenanceWindow | HoldReason::Trial
            ) && check.state.outcomes.newest_first().next() == Some(RunOutcome::Fail) =>
            {
                true
            }
            HoldReason::ServerOutage => false,
            // The window was deleted, or the check has other tags.
            HoldReason::MaintenanceWindow => {
                windows_may_differ && self.hold_for_window(check, now).is_none()
            }
            HoldReason::Trial => !self.is_project_on_trial(check),
            HoldReason::ParentPending => check.settings.parents.ids().is_empty(),
            HoldReason::ParentDown(parent) => !check.settings.parents.ids().contains(&parent),
            HoldReason::BelowThreshold => {
                check.state.failures >= u16::from(check.settings.failure_threshold.get())
            }
        };
        // Another outage of the server covered the time in which the check could have reported.
        let again = away
            .filter(|_| held == HoldReason::ServerOutage && !now_or_never)
            .and_then(|away| recheck_after_outage(check, away, now));
        if let Some(at) = again.filter(|again| *again > at) {
            check.state.notification = NotificationState::Pending { at, reason: held };
        } else if at <= now || now_or_never {
            let held = self.find_hold(check, Some(held), now);
            self.alert_unless_held(held, check, check.state.changed, now);
        }
    }

    /// Reason to hold the alert for a downtime. `before` is the reason for which it was held so
    /// far. `None` if the alert is not held.
    fn find_hold(
        &mut self,
        check: &Check,
        before: Option<HoldReason>,
        now: Timestamp,
    ) -> Option<NotificationState> {
        if self.is_project_on_trial(check) {
            return Some(NotificationState::Pending {
                at: now.plus_secs(HoldReason::RECHECK_SECS),
                reason: HoldReason::Trial,
            });
        }
        if let Some(held) = Self::hold_for_failures(check, now) {
            return Some(held);
        }
        if let Some(held) = self.hold_for_window(check, now) {
            return Some(held);
        }
        self.hold_for_parents(check, before, now)
    }

    /// True if the project of a check is on trial.
    fn is_project_on_trial(&self, check: &Check) -> bool {
        self.state
            .project(check.project)
            .is_some_and(|project_state| project_state.project.is_on_trial())
    }

    /// Alerts a downtime that began at `at`, unless it is held.
    fn alert_unless_held(
        &mut self,
        held: Option<NotificationState>,
        check: &mut Check,
        at: Timestamp,
        now: Timestamp,
    ) {
        let is_full = self.state.outbox.is_full_for(check.project);
        check.state.notification = held.unwrap_or(if is_full {
            NotificationState::Undelivered
        } else {
            NotificationState::Notified
        });
        if held.is_none() && is_full {
            self.audience_notes.set_undelivered(check);
        }
        if held.is_none() && !self.queue_alerts(check, AlertEvent::Down, at, now) {
            check.state.notification = NotificationState::Undelivered;
            self.log_unnotified(check, at, now);
        }
    }

    /// While a check is below its failure threshold, the time at which its next ping would be
    /// overdue. `None` if the threshold is reached or no ping is expected.
    fn hold_for_failures(check: &Check, now: Timestamp) -> Option<NotificationState> {
        if check.state.failures >= u16::from(check.settings.failure_threshold.get()) {
            return None;
        }
        check
            .settings
            .next_miss_after(check.state.last_activity(), now)
            .map(|at| NotificationState::Pending {
                at,
                reason: HoldReason::BelowThreshold,
            })
    }

    /// Latest outage of the server during which the ping that is missing at `deadline` may have
    /// been lost.
    fn outage_covering(
        &self,
        check: &Check,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Option<Outage> {
        let expected = deadline.plus_secs(-check.settings.grace.get());
        let of_project = self
            .state
            .project(check.project)
            .and_then(|project_state| project_state.project.import.as_ref()?.outage);
        let all = of_project.iter().chain(self.state.outages.iter().rev());
        all.filter_map(|away| away.clip_to(now))
            .find(|away| away.overlaps(expected, deadline))
    }

    /// Logs that an alert for a downtime reaches no channel, and the reason.
    fn log_unnotified(&mut self, check: &Check, at: Timestamp, now: Timestamp) {
        let Some(unnotified) = self.state.unnotified_reason(check) else {
            return;
        };
        self.effects.unnotified_checks.push((check.id, unnotified));
        // Each disabled channel has a delivery of its own.
        if unnotified != UnnotifiedReason::Disabled {
            let row = self.new_outbox_row(ChannelId(0), check, AlertEvent::Down, at, now);
            self.log_delivery(
                &row,
                DeliveryResult::Skipped,
                &format!("nobody is notified: {}", unnotified.description()),
                now,
            );
        }
    }

    /// Queues alerts about an event at `at` for all channels of a check, as its newest flip. True
    /// if at least one of them is not disabled.
    pub(super) fn queue_alerts(
        &mut self,
        check: &Check,
        event: AlertEvent,
        at: Timestamp,
        now: Timestamp,
    ) -> bool {
        let is_silent = check.state.outcomes.newest_first().next() == Some(RunOutcome::Missed);
        let away = event == AlertEvent::Down
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
                during_outage: away,
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

    /// Records an outage of the server, during which no pings could be received.
    pub(super) fn record_outage(&mut self, away: Outage) -> CommandOutcome {
        let mut all = self.state.outages.to_vec();
        let joined = all
            .pop_if(|last| last.merge(away).is_some())
            .and_then(|last| last.merge(away));
        all.push(joined.unwrap_or(away));
        let surplus = all.len().saturating_sub(Outage::MAX_REMEMBERED);
        self.record_change(Change::Outages(all.into_iter().skip(surplus).collect()));
        CommandOutcome::Completed
    }

    /// Removes the future part of outages, which was recorded while the clock was ahead.
    pub(super) fn drop_future_outages(&mut self, now: Timestamp) -> CommandOutcome {
        let past = self
            .state
            .outages
            .iter()
            .filter_map(|away| away.clip_to(now))
            .collect();
        self.record_change(Change::Outages(past));
        CommandOutcome::Completed
    }

    pub(super) fn next_delivery_number(&mut self) -> DeliveryNumber {
        let number = DeliveryNumber(self.numbers.delivery);
        self.numbers.delivery += 1;
        number
    }

    /// Creates a row about the newest flip of a check.
    pub(super) fn new_outbox_row(
        &mut self,
        channel: ChannelId,
        check: &Check,
        event: AlertEvent,
        at: Timestamp,
        now: Timestamp,
    ) -> OutboxRow {
        let told_as = check.alerted_names.clone();
        OutboxRow {
            alerted_names: told_as,
            ..OutboxRow::new(
                self.next_delivery_number(),
                channel,
                check.id,
                check.state.last_flip,
                event,
                at,
                now,
            )
        }
    }

    pub(super) fn queue_row(&mut self, channel: &Channel, mut row: OutboxRow, now: Timestamp) {
        if channel.health.disabled.is_some() {
            self.note_unsent(&row, DeliveryResult::Skipped);
            return self.log_delivery(&row, DeliveryResult::Skipped, CHANNEL_DISABLED, now);
        }
        if self
            .state
            .project(channel.project)
            .is_some_and(|project_state| project_state.project.is_on_trial())
        {
            self.note_unsent(&row, DeliveryResult::Skipped);
            return self.log_delivery(&row, DeliveryResult::Skipped, PROJECT_ON_TRIAL, now);
        }
        if self.state.outbox.is_full_for(channel.project)
            && !self.has_room_for_end(channel, &row, now)
        {
            return;
        }
        let waiting: Vec<_> = self
            .state
            .outbox
            .rows_of_pair(channel.id, row.check)
            .cloned()
            .collect();
        if waiting.len() >= MAX_ROWS_PER_PAIR {
            // Drops a pair of down and up, or of up and down: the remaining rows still alternate.
            // An alert that may have been delivered keeps its recovery.
            let is_needless = |pair: &&[Arc<OutboxRow>]| match pair {
                [first, second] => {
                    [first, second]
                        .iter()
                        .all(|row| row.attempt_started.is_none())
                        && !(first.event == AlertEvent::Down && first.may_be_duplicate)
                }
                _ => false,
            };
            for old in waiting.windows(2).find(is_needless).into_iter().flatten() {
                row.dropped_before = row
                    .dropped_before
                    .saturating_add(1)
                    .saturating_add(old.dropped_before);
                self.finish_row(old, DeliveryResult::Superseded, TOO_MANY_CHANGES, now);
            }
        }
        self.record_change(Change::Queued(Arc::new(row)));
    }

    /// True if a row is the end of a downtime that the channel may know: it is queued although the
    /// outbox is full. At most one such row exists for each channel and check. Logs the result of
    /// every other row.
    fn has_room_for_end(&mut self, channel: &Channel, row: &OutboxRow, now: Timestamp) -> bool {
        if !matches!(row.event, AlertEvent::Up | AlertEvent::Closed)
            || !channel.settings.handles_event(AlertEvent::Down)
        {
            self.note_unsent(row, DeliveryResult::Failed);
            self.log_delivery(row, DeliveryResult::Failed, OUTBOX_FULL, now);
            return false;
        }
        match self
            .state
            .outbox
            .rows_of_pair(channel.id, row.check)
            .last()
            .cloned()
        {
            // The channel was not notified of the downtime, which has ended. Removing both rows
            // frees space.
            Some(down)
                if down.event == AlertEvent::Down
                    && down.attempts == 0
                    && !down.may_have_arrived() =>
            {
                self.finish_row(&down, DeliveryResult::Superseded, ENDED_UNSENT, now);
                self.log_delivery(row, DeliveryResult::Superseded, ENDED_UNSENT, now);
                return false;
            }
            // One row for the end is enough.
            Some(end) if end.event != AlertEvent::Down && end.attempt_started.is_none() => {
                self.finish_row(&end, DeliveryResult::Superseded, TOO_MANY_CHANGES, now);
            }
            Some(_) | None => {}
        }
        true
    }

    /// Removes the rows of a deleted check, except for those being sent, and closes its incidents.
    /// A queued recovery is still sent to channels that keep incidents.
    pub(super) fn close_alerts(&mut self, check: &Check, now: Timestamp) {
        self.compare_audience_of(check, now);
        let deleted_check = Box::new(DeletedCheck {
            names: NameSet::from_settings(&check.settings),
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
                    // An attempt may have begun before the last start.
                    row.may_be_duplicate = row.may_have_arrived();
                    row.attempt_started = None;
                }
                self.record_change(Change::Queued(Arc::new(row)));
            } else if !is_sending {
                self.finish_row(&row, DeliveryResult::Skipped, CHECK_GONE, now);
            }
        }
        if let NotificationState::Pending { .. } = check.state.notification {
            let row = self.new_outbox_row(
                ChannelId(0),
                check,
                AlertEvent::Down,
                check.state.changed,
                now,
            );
            self.log_delivery(&row, DeliveryResult::Skipped, CHECK_GONE, now);
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

    /// Keeps the names under which a downtime was alerted, if the check is about to be stored with
    /// other names. A receiver that identifies incidents by their labels gets the end under the
    /// same names.
    pub(super) fn keep_alerted_names(&mut self, check: &mut Check) {
        let Some(old) = self
            .state
            .check(check.id)
            .filter(|old| old.state.notification.is_notified())
        else {
            return;
        };
        let told = check
            .alerted_names
            .take()
            .unwrap_or_else(|| Arc::new(NameSet::from_settings(&old.settings)));
        check.alerted_names =
            Some(told).filter(|told| **told != NameSet::from_settings(&check.settings));
        let is_by_labels = |channel: &Channel| crate::channels::needs_resend(&channel.settings);
        let rows = self
            .state
            .outbox
            .rows_of_check(check.id)
            .filter(|row| row.alerted_names != check.alerted_names);
        let rows = rows.filter(|row| {
            self.state
                .channel(row.channel)
                .is_some_and(|channel| is_by_labels(channel))
        });
        for row in rows.cloned().collect::<Vec<_>>() {
            let row = OutboxRow {
                alerted_names: check.alerted_names.clone(),
                ..OutboxRow::clone(&row)
            };
            self.record_change(Change::Queued(Arc::new(row)));
        }
    }

    pub(super) fn finish_row(
        &mut self,
        row: &OutboxRow,
        outcome: DeliveryResult,
        reason: &str,
        now: Timestamp,
    ) {
        self.log_delivery(row, outcome, reason, now);
        self.record_change(Change::Unqueued(row.number));
    }

    pub(super) fn log_delivery(
        &mut self,
        row: &OutboxRow,
        outcome: DeliveryResult,
        reason: &str,
        now: Timestamp,
    ) {
        self.effects.alert_rows += 1;
        self.effects
            .deliveries
            .push(finished_delivery(row, outcome, reason, now));
    }

    pub(super) fn update_health(&mut self, id: ChannelId, note: impl FnOnce(&mut ChannelHealth)) {
        let Some(channel) = self.state.channel(id) else {
            return;
        };
        let mut health = channel.health.clone();
        note(&mut health);
        if health != channel.health {
            let channel = Channel {
                health,
                ..Channel::clone(channel)
            };
            self.record_change(Change::Channel(Arc::new(channel)));
        }
    }
}

/// Time to decide again about a check whose ping may have been lost: its next chance to report, if
/// that is soon. `None` if the outage of the server is so long past that the pings since then
/// count.
fn recheck_after_outage(check: &Check, away: Outage, now: Timestamp) -> Option<Timestamp> {
    let end = away.to.plus_secs(Outage::CATCH_UP_SECS);
    if now >= end {
        return None;
    }
    let from = check.state.last_activity();
    let expected = if check.settings.schedule.is_some() {
        check.settings.next_ping_after(away.to)
    } else {
        Some(away.to.plus_secs(check.settings.timeout.get()))
    };
    let chance = expected
        .filter(|_| from <= away.to)
        .map(|expected| expected.plus_secs(check.settings.grace.get()));
    Some(
        chance
            .filter(|chance| *chance < end)
            .unwrap_or(away.to.plus_secs(OUTAGE_RECHECK_SECS)),
    )
}

#[cfg(test)]
mod tests;
