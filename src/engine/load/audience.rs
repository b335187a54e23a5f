//! What the outbox and the log of deliveries say of the audiences of checks that are down.

use std::collections::{HashMap, HashSet};

use super::super::apply::{AudienceNote, AudienceNotes, is_end_suppressed};
use super::super::state::State;
use crate::domain::alert::{AlertEvent, DeliveryRecord, DeliveryResult};
use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
use crate::domain::timestamp::Timestamp;
use crate::store::{Snapshot, StoreError};

/// Reads which channels were not notified of the downtime that a check is in, and which have left its audience. An incident of a channel
/// that has left and that nothing has closed is closed by the next commands.
pub(super) fn read_audience_notes(snapshot: &Snapshot, state: &State) -> Result<AudienceNotes, StoreError> {
    let (notes, known, unsent, mut waiting) = (AudienceNotes::default(), HashSet::new(), Vec::new(), HashMap::new());
    let mut found = AudienceNotesBuilder { state, notes, decided_pairs: known, unsent_alerts: unsent };
    if state.projects().all(|project_state| project_state.alerted_down().is_empty()) {
        return Ok(found.notes);
    }
    // Oldest first: an end that waits is newer than the downtime that waits with it.
    for row in state.outbox.rows() {
        if let Some(check) = found.find_current_downtime(row.check, row.flip) {
            waiting.insert((row.check, row.channel), (row.number, row.event, check));
        }
    }
    // When reminders were last delivered.
    let mut reminded = HashMap::<ChannelId, Timestamp>::new();
    // Newest first. A row that cannot be read says nothing: the channel counts as notified.
    for delivery in snapshot.deliveries_before(DeliveryNumber(u64::MAX))? {
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(StoreError::Corrupt { .. }) => continue,
            Err(_) => break,
        };
        if (delivery.event, delivery.result) == (AlertEvent::StillDown, DeliveryResult::Delivered) {
            let last = reminded.entry(delivery.channel).or_insert(delivery.finished);
            *last = delivery.finished.max(*last);
        }
        // An end may have been delivered while its downtime is still being sent.
        let is_older = |(number, ..): &(DeliveryNumber, AlertEvent, &Check)| delivery.number < *number;
        if !waiting.get(&(delivery.check, delivery.channel)).is_some_and(is_older) {
            found.note_delivery(&delivery);
        }
    }
    for ((_, channel), (_, event, check)) in waiting {
        found.note(check, channel, event);
    }
    let AudienceNotesBuilder { mut notes, unsent_alerts: unsent, .. } = found;
    for (check, channel, finished) in unsent {
        // A reminder names all checks that are down.
        if reminded.get(&channel).is_none_or(|reminded| *reminded < finished) {
            notes.set(check, channel, AudienceNote::Unnotified);
        }
    }
    Ok(notes)
}

struct AudienceNotesBuilder<'s> {
    state: &'s State,
    notes: AudienceNotes,
    /// Pairs of which something newer was found.
    decided_pairs: HashSet<(CheckId, ChannelId)>,
    /// Alerts that were never sent, with the time at which that was decided.
    unsent_alerts: Vec<(&'s Check, ChannelId, Timestamp)>,
}

impl<'s> AudienceNotesBuilder<'s> {
    /// The check, if the flip is the one by which it went down, and that was announced.
    fn find_current_downtime(&self, id: CheckId, flip: FlipNumber) -> Option<&'s Check> {
        self.state.check(id).filter(|check| check.state.notification.is_notified() && check.state.last_flip == flip)
    }

    fn note_delivery(&mut self, delivery: &DeliveryRecord) {
        let Some(check) = self.find_current_downtime(delivery.check, delivery.flip) else { return };
        let is_unsent = delivery.event == AlertEvent::Down
            && delivery.attempts == 0
            && self.state.channel(delivery.channel).is_some_and(|channel| is_end_suppressed(channel, delivery.result));
        if !is_unsent {
            self.note(check, delivery.channel, delivery.event);
        } else if self.decided_pairs.insert((check.id, delivery.channel)) {
            self.unsent_alerts.push((check, delivery.channel, delivery.finished));
        }
    }

    fn note(&mut self, check: &Check, id: ChannelId, event: AlertEvent) {
        if !matches!(event, AlertEvent::Down | AlertEvent::Closed) || !self.decided_pairs.insert((check.id, id)) {
            return;
        }
        let Some(channel) = self.state.channel(id) else { return };
        if event == AlertEvent::Closed {
            self.notes.set(check, id, AudienceNote::Closed);
        } else if !self.state.audience_membership(channel).includes(check) {
            if channel.settings.handles_event(AlertEvent::Closed) {
                self.notes.note_membership_change(check, id, true);
            } else {
                self.notes.set(check, id, AudienceNote::Left);
            }
        }
    }
}
