//! Gives warnings about checks that are not down: queues them for the channels that want them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::state::Change;
use super::WorkingState;
use super::outbox::MAX_ROWS_PER_PAIR;
use crate::domain::alert::{AlertEvent, DeliveryResult, OutboxRow};
use crate::domain::check::{Check, Warning, WarningKind};
use crate::domain::ids::{ChannelId, CheckId};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;

/// Maximum number of warnings that wait for one channel about one check: see
/// [limits](crate::docs::limits). The rest of its rows is for changes of status.
const MAX_WARNINGS_PER_PAIR: usize = MAX_ROWS_PER_PAIR / 2;

/// Reasons for which a warning was not sent.
const NEWER_WARNINGS: &str = "newer warnings about this check wait for this channel";
const LOST_PING: &str = "its ping may have been lost while the server could not receive pings";
const WINDOW_OPEN: &str = "a maintenance window was open";
const PARENT_DOWN: &str = "a parent was down";

impl WorkingState {
    /// Gives the warnings about a check that fell due by `until` and that a channel wants. The
    /// state of the check records them: each is given once.
    pub(super) fn give_due_warnings(&mut self, id: CheckId, until: Timestamp, now: Timestamp) {
        let Ok(mut check) = self.find_check(id) else {
            return;
        };
        let given = check.state.given_warnings;
        let due = check.state.due_warnings(&check.settings, now).into_iter();
        for warning in due.take_while(|warning| warning.at <= until) {
            if self.give_warning(&check, warning, now) {
                check.state.given_warnings.insert(warning.kind);
            }
        }
        if check.state.given_warnings != given {
            self.record_change(Change::Check(Box::new(check)));
        }
    }

    /// Gives the warning about a run of a check that was too short. Its parents may be down already
    /// without having been evaluated.
    pub(super) fn give_short_run_warning(&mut self, id: CheckId, warning: Warning, now: Timestamp) {
        self.evaluate_with_parents(id, &[], now);
        if let Some(check) = self.state.check(id).cloned() {
            self.give_warning(&check, warning, now);
        }
    }

    /// Queues a warning for the channels that want it, or logs why it is not sent. Returns false if
    /// no channel wants it.
    fn give_warning(&mut self, check: &Check, warning: Warning, now: Timestamp) -> bool {
        let event = AlertEvent::Warning(warning.kind);
        let audience = self.state.audience(check, event);
        if audience.is_empty() {
            return false;
        }
        if let Some(reason) = self.reason_against(check, warning, now) {
            let row = self.new_warning_row(ChannelId::NONE, check, warning, now);
            self.log_delivery(&row, DeliveryResult::Skipped, reason, now);
        } else {
            self.queue_warning(audience, check, warning, now);
        }
        true
    }

    fn new_warning_row(
        &mut self,
        channel: ChannelId,
        check: &Check,
        warning: Warning,
        now: Timestamp,
    ) -> OutboxRow {
        let event = AlertEvent::Warning(warning.kind);
        OutboxRow {
            limit: warning.limit,
            ..self.new_outbox_row(channel, check, event, warning.at, now)
        }
    }

    fn queue_warning(
        &mut self,
        audience: BTreeMap<ChannelId, Arc<Channel>>,
        check: &Check,
        warning: Warning,
        now: Timestamp,
    ) {
        for channel in audience.into_values() {
            // A disabled channel gets no newer warning instead.
            let is_replaced =
                |row: &OutboxRow| row.event.is_warning() && channel.health.disabled.is_none();
            let waiting: Vec<_> = self
                .state
                .outbox
                .rows_of_pair(channel.id, check.id)
                .filter(|row| is_replaced(row))
                .cloned()
                .collect();
            let surplus = (waiting.len() + 1).saturating_sub(MAX_WARNINGS_PER_PAIR);
            let mut row = self.new_warning_row(channel.id, check, warning, now);
            let removable = waiting.iter().filter(|row| row.attempt_started.is_none());
            for old in removable.take(surplus) {
                row.dropped_before = row
                    .dropped_before
                    .saturating_add(1)
                    .saturating_add(old.dropped_before);
                self.finish_row(old, DeliveryResult::Superseded, NEWER_WARNINGS, now);
            }
            self.queue_row(&channel, row, now);
        }
    }

    /// Reason for which a warning is not sent, in words. Unlike an alert for a downtime it is not
    /// held: it would be outdated.
    fn reason_against(
        &mut self,
        check: &Check,
        warning: Warning,
        now: Timestamp,
    ) -> Option<&'static str> {
        let Warning { kind, from, at, .. } = warning;
        if kind != WarningKind::RanShort && self.outage_between(check, from, at, now).is_some() {
            return Some(LOST_PING);
        }
        if self.hold_for_window(check, now).is_some() {
            return Some(WINDOW_OPEN);
        }
        self.holding_parent(check).map(|_| PARENT_DOWN)
    }
}
