//! Channels that join or leave the audience of a check while it is down.
//!
//! - A channel that people or programs read is notified of the end of a downtime only if it was
//!   notified of the downtime.
//! - A channel that keeps incidents is always notified of the end: an unneeded one does no harm,
//!   but a missing one leaves an incident open. When the channel leaves the audience, its incident
//!   is closed. When it joins again, it is notified of the downtime again.
//! - A channel whose alerts are resent regularly needs no alert of its own when it joins.
//!
//! Commands record the channels that join and leave. At the end of a command these audiences are
//! compared with the earlier ones, as far as the rows for alerts allow; later commands compare the
//! rest. Startup finds incidents that are still to be closed in the delivery log.

mod audience_states;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub use audience_states::{AudienceState, AudienceStates};

use super::super::state::State;
use super::WorkingState;
use crate::channels;
use crate::domain::alert::{AlertEvent, DeliveryResult, OutboxRow};
use crate::domain::check::Check;
use crate::domain::ids::ChannelId;
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;

/// Maximum number of pairs of channel and check that are compared when a channel changes. Further
/// pairs stay as they are: an incident must then be closed by hand, and a channel may be notified
/// of the end of a downtime without its beginning.
const MAX_COMPARED_PAIRS: usize = 100_000;

/// Reason of the skipped delivery of a channel that joined late.
const JOINED_LATE: &str = "it was down already when the channel was assigned";

impl WorkingState {
    /// True if a channel was not notified of the current downtime of a check. Then it is not
    /// notified of its end.
    pub(super) fn is_unnotified(&self, check: &Check, channel: &Channel) -> bool {
        // An alert that is resent regularly needs no delivery.
        !channels::needs_resend(&channel.settings)
            && self.audience_states.is_unnotified(check, channel.id)
    }

    /// Records that a channel was not notified of the newest downtime of a check: the row ended
    /// with `result` before it was ever sent.
    pub(super) fn record_unsent(&mut self, row: &OutboxRow, result: DeliveryResult) {
        if row.event != AlertEvent::Down || row.attempts > 0 {
            return;
        }
        let Some(channel) = self.state.channel(row.channel) else {
            return;
        };
        if !skips_recovery(channel, result) {
            return;
        }
        let is_newest = |check: &&Check| row.flip >= check.state.last_flip;
        if let Some(check) = self.state.check(row.check).filter(is_newest)
            && !self.audience_states.is_unnotified(check, row.channel)
        {
            self.audience_states
                .set(check, row.channel, AudienceState::Unnotified);
        }
    }

    /// Records that a channel was notified of all checks of its audience that are down, by a
    /// reminder that names them.
    pub(super) fn set_notified_by_reminder(&mut self, id: ChannelId) {
        let Some(channel) = self.state.channel(id) else {
            return;
        };
        let unnotified = self.audience_states.unnotified_of(channel.project, id);
        if unnotified.is_empty() {
            return;
        }
        let membership = self.state.audience_membership(channel);
        for check in unnotified
            .into_iter()
            .filter_map(|id| self.state.check(id))
            .filter(|check| membership.includes(check))
        {
            self.audience_states.set_notified(check, id);
        }
    }

    /// Handles a channel that joins the audience of a check after its downtime was notified.
    fn join_audience(&mut self, channel: &Channel, check: &Check, now: Timestamp) {
        match self.audience_states.get(check, channel.id) {
            Some(AudienceState::Left) => self.audience_states.set_notified(check, channel.id),
            Some(AudienceState::Closed) => {
                self.audience_states.set_notified(check, channel.id);
                if channel.settings.handles_event(AlertEvent::Down) {
                    let row = self.new_outbox_row(
                        channel.id,
                        check,
                        AlertEvent::Down,
                        check.state.changed,
                        now,
                    );
                    self.queue_row(channel, row, now);
                }
            }
            Some(AudienceState::Unnotified | AudienceState::Notified) => {}
            None if !channel.settings.handles_event(AlertEvent::Down)
                || channels::needs_resend(&channel.settings) => {}
            None => {
                let row = self.new_outbox_row(
                    channel.id,
                    check,
                    AlertEvent::Down,
                    check.state.changed,
                    now,
                );
                self.record_unsent(&row, DeliveryResult::Skipped);
                self.log_delivery(&row, DeliveryResult::Skipped, JOINED_LATE, now);
            }
        }
    }

    /// Handles a channel that leaves the audience of a check after its downtime was notified.
    fn leave_audience(&mut self, channel: &Channel, check: &Check, now: Timestamp) {
        if self.is_unnotified(check, channel) {
            return;
        }
        if channel.settings.handles_event(AlertEvent::Closed) {
            let row = self.new_outbox_row(channel.id, check, AlertEvent::Closed, now, now);
            self.queue_row(channel, row, now);
            self.audience_states
                .set(check, channel.id, AudienceState::Closed);
        } else {
            self.audience_states
                .set(check, channel.id, AudienceState::Left);
        }
    }

    /// Records the channels that join and leave the audience of a check that is down, before the
    /// check gets other settings.
    pub(super) fn record_audience_of(&mut self, check: &Check) {
        let Some(old) = self
            .state
            .check(check.id)
            .filter(|old| old.state.notification.is_notified())
        else {
            return;
        };
        let old_ids = &old.settings.channels;
        let ids = &check.settings.channels;
        if old_ids == ids {
            return;
        }
        let changed = old_ids
            .iter()
            .filter(|id| !ids.contains(id))
            .chain(ids.iter().filter(|id| !old_ids.contains(id)));
        let changed = changed.filter_map(|id| self.state.channel(*id));
        let channels: BTreeSet<_> = changed
            .flat_map(|channel| with_members(&self.state, channel))
            .collect();
        for channel in channels.into_iter().filter_map(|id| self.state.channel(id)) {
            let membership = self.state.audience_membership(channel);
            let was_in = membership.includes(old);
            if was_in != membership.includes(check) {
                self.audience_states
                    .record_membership_change(check, channel.id, was_in);
            }
        }
    }

    /// Changes, creates or deletes a channel. Records which audiences of checks that are down the
    /// channel and the members of its group join and leave.
    pub(super) fn change_channel(&mut self, channel: &Channel, change: impl FnOnce(&mut Self)) {
        let Some(project_state) = self
            .state
            .project(channel.project)
            .filter(|project_state| !project_state.notified_downtimes().is_empty())
        else {
            return change(self);
        };
        let notified_checks: Vec<_> = project_state.notified_downtimes().iter().copied().collect();
        // Only the audiences of these channels can differ afterwards.
        let groups = project_state
            .channels
            .get(&channel.id)
            .into_iter()
            .map(Arc::as_ref)
            .chain([channel]);
        let ids: BTreeSet<_> = groups
            .flat_map(|group| with_members(&self.state, group))
            .collect();
        let membership = |state: &State, id| {
            state
                .channel(id)
                .map(|channel| state.audience_membership(channel))
        };
        let before: Vec<_> = ids
            .into_iter()
            .map(|id| (id, membership(&self.state, id)))
            .collect();
        change(self);
        let mut changed = Vec::new();
        for (id, old) in before {
            changed.extend(
                membership(&self.state, id)
                    .filter(|new| old.as_ref() != Some(new))
                    .map(|new| (id, old, new)),
            );
        }
        let pairs = changed
            .iter()
            .flat_map(|changed| notified_checks.iter().map(move |check| (changed, *check)));
        for ((channel, old, new), check) in pairs.take(MAX_COMPARED_PAIRS) {
            let Some(check) = self.state.check(check) else {
                continue;
            };
            let was_in = old.as_ref().is_some_and(|old| old.includes(check));
            if was_in != new.includes(check) {
                self.audience_states
                    .record_membership_change(check, *channel, was_in);
            }
        }
    }

    /// Compares the changed audiences, as far as the rows for alerts of this command allow.
    pub(super) fn compare_audiences(&mut self, now: Timestamp) {
        let mut known = HashMap::new();
        while self.has_alert_rows_left()
            && let Some((check, channel, was_in)) = self.audience_states.take_next_pending()
        {
            let found = self
                .state
                .check(check)
                .filter(|check| check.state.notification.is_notified())
                .cloned();
            let (Some(check), Some(channel)) = (found, self.state.channel(channel).cloned()) else {
                continue;
            };
            let membership = known
                .entry(channel.id)
                .or_insert_with(|| self.state.audience_membership(&channel));
            let is_in = membership.includes(&check);
            self.compare_membership(&channel, &check, was_in, is_in, now);
        }
    }

    /// Compares the audience of a check whose downtime is about to end. `check` is the check as it
    /// will be stored.
    pub(super) fn compare_audience_of(&mut self, check: &Check, now: Timestamp) {
        let pending = self.audience_states.take_pending_of(check);
        // The rows are about the flip at which it went down.
        let Some(old) = self.state.check(check.id).filter(|_| !pending.is_empty()) else {
            return;
        };
        let check = Check {
            state: old.state,
            ..check.clone()
        };
        for (channel, was_in) in pending {
            if let Some(channel) = self.state.channel(channel).cloned() {
                let is_in = self.state.audience_membership(&channel).includes(&check);
                self.compare_membership(&channel, &check, was_in, is_in, now);
            }
        }
    }

    fn compare_membership(
        &mut self,
        channel: &Channel,
        check: &Check,
        was_in: bool,
        is_in: bool,
        now: Timestamp,
    ) {
        match (was_in, is_in) {
            (true, false) => self.leave_audience(channel, check, now),
            (false, true) => self.join_audience(channel, check, now),
            (true, true) | (false, false) => {}
        }
    }
}

/// True if a channel is not notified of the end of a downtime, since its alert ended with `result`
/// before it was ever sent.
pub fn skips_recovery(channel: &Channel, result: DeliveryResult) -> bool {
    match result {
        // The incident may have been opened through another channel with the same key.
        DeliveryResult::Skipped => !channel.settings.handles_event(AlertEvent::Closed),
        DeliveryResult::Failed => true,
        DeliveryResult::Delivered | DeliveryResult::Superseded => false,
    }
}

/// Numbers of a channel and, if it is a group, of its members.
fn with_members<'a>(
    state: &'a State,
    channel: &'a Channel,
) -> impl Iterator<Item = ChannelId> + 'a {
    state
        .members_of(channel)
        .map(|member| member.id)
        .chain([channel.id])
}
