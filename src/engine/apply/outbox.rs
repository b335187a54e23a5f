//! Queues rows in the outbox within its limits, and logs the results of rows that are not sent.

use std::sync::Arc;

use super::super::state::Change;
use super::WorkingState;
use super::delivery::new_delivery_record;
use crate::domain::alert::{AlertEvent, DeliveryResult, OutboxRow};
use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;

/// Maximum number of rows that wait for one channel about one check: see
/// [limits](crate::docs::limits).
pub(super) const MAX_ROWS_PER_PAIR: usize = 8;

/// Reasons for which a row was not sent.
pub(super) const CHANNEL_DISABLED: &str = "the channel is disabled";
const PROJECT_ON_TRIAL: &str = "its project is on trial";
const OUTBOX_FULL: &str = "too much waits to be sent";
const ENDED_UNSENT: &str = "it was over before it was sent, and too much waits";
const TOO_MANY_CHANGES: &str = "too many changes of this check wait for this channel";
pub(super) const CHECK_DELETED: &str = "the check was deleted";

impl WorkingState {
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
        OutboxRow {
            alerted_labels: check.alerted_labels.clone(),
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
            self.record_unsent(&row, DeliveryResult::Skipped);
            return self.log_delivery(&row, DeliveryResult::Skipped, CHANNEL_DISABLED, now);
        }
        if self
            .state
            .project(channel.project)
            .is_some_and(|project_state| project_state.project.is_on_trial())
        {
            self.record_unsent(&row, DeliveryResult::Skipped);
            return self.log_delivery(&row, DeliveryResult::Skipped, PROJECT_ON_TRIAL, now);
        }
        if self.state.outbox.is_full_for(channel.project)
            && !self.make_room_for_end(channel, &row, now)
        {
            return;
        }
        // The number of warnings has a limit of its own.
        let waiting: Vec<_> = self
            .state
            .outbox
            .rows_of_pair(channel.id, row.check)
            .filter(|other| !row.event.is_warning() && !other.event.is_warning())
            .cloned()
            .collect();
        if waiting.len() >= MAX_ROWS_PER_PAIR {
            // Drops two consecutive rows, down and up or up and down: the remaining rows still
            // alternate. An alert that may have been delivered keeps its recovery.
            let is_droppable = |pair: &&[Arc<OutboxRow>]| match pair {
                [first, second] => {
                    [first, second]
                        .iter()
                        .all(|row| row.attempt_started.is_none())
                        && !(first.event == AlertEvent::Down && first.may_be_duplicate)
                }
                _ => false,
            };
            for old in waiting.windows(2).find(is_droppable).into_iter().flatten() {
                row.dropped_before = row
                    .dropped_before
                    .saturating_add(1)
                    .saturating_add(old.dropped_before);
                self.finish_row(old, DeliveryResult::Superseded, TOO_MANY_CHANGES, now);
            }
        }
        self.record_change(Change::OutboxRow(Arc::new(row)));
    }

    /// Decides about a row while the outbox is full. Returns true if the row is to be queued: it
    /// ends a downtime that the channel may have been notified of. At most one such row exists for
    /// each channel and check. Logs the result of every other row and returns false.
    fn make_room_for_end(&mut self, channel: &Channel, row: &OutboxRow, now: Timestamp) -> bool {
        if !matches!(row.event, AlertEvent::Up | AlertEvent::Closed)
            || !channel.settings.handles_event(AlertEvent::Down)
        {
            self.record_unsent(row, DeliveryResult::Failed);
            self.log_delivery(row, DeliveryResult::Failed, OUTBOX_FULL, now);
            return false;
        }
        match self
            .state
            .outbox
            .rows_of_pair(channel.id, row.check)
            .filter(|row| !row.event.is_warning())
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

    pub(super) fn finish_row(
        &mut self,
        row: &OutboxRow,
        result: DeliveryResult,
        reason: &str,
        now: Timestamp,
    ) {
        self.log_delivery(row, result, reason, now);
        self.record_change(Change::OutboxRowDeleted(row.number));
    }

    pub(super) fn log_delivery(
        &mut self,
        row: &OutboxRow,
        result: DeliveryResult,
        reason: &str,
        now: Timestamp,
    ) {
        self.effects.alert_rows += 1;
        self.effects
            .deliveries
            .push(new_delivery_record(row, result, reason, now));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Effects;
    use super::super::fixture::{
        NOW, add_channel, add_check, fill_outbox, send_ping, working_state,
    };
    use super::*;
    use crate::domain::ids::CheckId;
    use crate::domain::ping::PingKind;
    use crate::engine::command::Command;

    const CHECK: u128 = 7;

    /// Begins to send the newest row about a check.
    fn begin_newest_row(working: &mut WorkingState, check: CheckId) {
        let newest = working.state.outbox.rows_of_check(check).last().unwrap();
        let command = Command::StartAttempts {
            rows: vec![newest.number],
            last_row: None,
        };
        working.apply(command, NOW).unwrap();
    }

    /// The end of an alert that is resent regularly is queued even if its beginning found the
    /// outbox full.
    #[test]
    fn the_end_of_a_downtime_replaces_a_waiting_earlier_end_in_a_full_outbox() {
        let [down, up] = [AlertEvent::Down, AlertEvent::Up];
        let refused = (down, DeliveryResult::Failed, OUTBOX_FULL);
        let replaced = (up, DeliveryResult::Superseded, TOO_MANY_CHANGES);
        for (is_being_sent, expected_rows, expected_ends) in [
            (false, vec![down, up], vec![refused, replaced]),
            (true, vec![down, up, up], vec![refused]),
        ] {
            let mut working = working_state();
            let channel = add_channel(&mut working, "alertmanager", &[("url", "http://a/")]);
            let check = add_check(&mut working, CHECK);
            send_ping(&mut working, CHECK, PingKind::Fail, NOW);
            begin_newest_row(&mut working, check);
            send_ping(&mut working, CHECK, PingKind::Success, NOW);
            if is_being_sent {
                begin_newest_row(&mut working, check);
            }
            fill_outbox(&mut working, channel);
            working.effects = Effects::default();
            for (secs, kind) in [(60, PingKind::Fail), (61, PingKind::Success)] {
                send_ping(&mut working, CHECK, kind, NOW.plus_secs(secs));
            }
            let rows = working.state.outbox.rows_of_check(check);
            assert_eq!(rows.map(|row| row.event).collect::<Vec<_>>(), expected_rows);
            let ended = working.effects.deliveries.iter();
            let ended = ended.map(|delivery| (delivery.event, delivery.result, &*delivery.reason));
            assert_eq!(ended.collect::<Vec<_>>(), expected_ends, "{is_being_sent}");
        }
    }
}
