//! Restores the records about audiences of checks that are down from the outbox and the delivery
//! log.

use std::collections::{HashMap, HashSet};

use super::super::apply::{AudienceState, AudienceStates, skips_recovery};
use super::super::state::State;
use crate::domain::alert::{AlertEvent, DeliveryRecord, DeliveryResult};
use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
use crate::domain::timestamp::Timestamp;
use crate::store::{Snapshot, StoreError};

/// Reads which channels were not notified of the current downtime of a check, and which have left
/// its audience. If the incident of a channel that has left is still open, the next commands close
/// it.
pub(super) fn read_audience_states(
    snapshot: &Snapshot,
    state: &State,
) -> Result<AudienceStates, StoreError> {
    let audience_states = AudienceStates::default();
    let decided_pairs = HashSet::new();
    let unsent_alerts = Vec::new();
    let mut queued_rows = HashMap::new();
    let mut found = AudienceStatesBuilder {
        state,
        audience_states,
        decided_pairs,
        unsent_alerts,
    };
    if state
        .projects()
        .all(|project_state| project_state.notified_downtimes().is_empty())
    {
        return Ok(found.audience_states);
    }
    // Oldest first: a queued recovery is newer than the queued alert of its downtime.
    for row in state.outbox.rows() {
        if let Some(check) = found.find_current_downtime(row.check, row.flip) {
            queued_rows.insert((row.check, row.channel), (row.number, row.event, check));
        }
    }
    // Times of the last delivered reminders.
    let mut reminded_at = HashMap::<ChannelId, Timestamp>::new();
    // Newest first. An unreadable row is ignored, so the channel counts as notified.
    for delivery in snapshot.deliveries_before(DeliveryNumber(u64::MAX))? {
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(StoreError::InvalidRow { .. }) => continue,
            Err(_) => break,
        };
        if (delivery.event, delivery.result) == (AlertEvent::StillDown, DeliveryResult::Delivered) {
            let last = reminded_at
                .entry(delivery.channel)
                .or_insert(delivery.finished);
            *last = delivery.finished.max(*last);
        }
        // A recovery may have been delivered while the alert of the downtime is still being sent.
        let is_older =
            |(number, ..): &(DeliveryNumber, AlertEvent, &Check)| delivery.number < *number;
        if !queued_rows
            .get(&(delivery.check, delivery.channel))
            .is_some_and(is_older)
        {
            found.record_delivery(&delivery);
        }
    }
    for ((_, channel), (_, event, check)) in queued_rows {
        found.record(check, channel, event);
    }
    let AudienceStatesBuilder {
        mut audience_states,
        unsent_alerts,
        ..
    } = found;
    for (check, channel, finished) in unsent_alerts {
        // A reminder names all checks that are down. The file does not record which audiences the
        // channel belonged to at that time, so it counts as notified.
        if reminded_at
            .get(&channel)
            .is_none_or(|reminded_at| *reminded_at < finished)
        {
            audience_states.set(check, channel, AudienceState::Unnotified);
        } else if !is_in_audience(state, channel, check) {
            audience_states.set(check, channel, AudienceState::Left);
        }
    }
    Ok(audience_states)
}

fn is_in_audience(state: &State, channel: ChannelId, check: &Check) -> bool {
    state
        .channel(channel)
        .is_some_and(|channel| state.audience_membership(channel).includes(check))
}

struct AudienceStatesBuilder<'s> {
    state: &'s State,
    audience_states: AudienceStates,
    /// Pairs for which a newer record was found.
    decided_pairs: HashSet<(CheckId, ChannelId)>,
    /// Alerts that were never sent, with the time of that decision.
    unsent_alerts: Vec<(&'s Check, ChannelId, Timestamp)>,
}

impl<'s> AudienceStatesBuilder<'s> {
    /// Returns the check if `flip` began its current downtime, and the downtime was alerted.
    fn find_current_downtime(&self, id: CheckId, flip: FlipNumber) -> Option<&'s Check> {
        self.state
            .check(id)
            .filter(|check| check.state.notification.is_notified() && check.state.last_flip == flip)
    }

    fn record_delivery(&mut self, delivery: &DeliveryRecord) {
        let Some(check) = self.find_current_downtime(delivery.check, delivery.flip) else {
            return;
        };
        let is_unsent = delivery.event == AlertEvent::Down
            && delivery.attempts == 0
            && self
                .state
                .channel(delivery.channel)
                .is_some_and(|channel| skips_recovery(channel, delivery.result));
        if !is_unsent {
            self.record(check, delivery.channel, delivery.event);
        } else if self.decided_pairs.insert((check.id, delivery.channel)) {
            self.unsent_alerts
                .push((check, delivery.channel, delivery.finished));
        }
    }

    fn record(&mut self, check: &Check, id: ChannelId, event: AlertEvent) {
        if !matches!(event, AlertEvent::Down | AlertEvent::Closed)
            || !self.decided_pairs.insert((check.id, id))
        {
            return;
        }
        let Some(channel) = self.state.channel(id) else {
            return;
        };
        if event == AlertEvent::Closed {
            self.audience_states.set(check, id, AudienceState::Closed);
        } else if !is_in_audience(self.state, id, check) {
            if channel.settings.handles_event(AlertEvent::Closed) {
                self.audience_states
                    .record_membership_change(check, id, true);
            } else {
                self.audience_states.set(check, id, AudienceState::Left);
            }
        }
    }
}
