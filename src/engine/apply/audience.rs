//! Channels that join or leave the audience of a check while it is down: one that was not notified of a downtime is not notified of its
//! end, and one that keeps incidents closes those of checks that it no longer hears of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::state::State;
use super::WorkingState;
use crate::domain::alert::{DeliveryOutcome, Event, OutboxRow};
use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::project::Channel;

/// Pairs of channels and checks that are compared when a channel changes; and rows that this may take. What is beyond is left as it is:
/// an incident is then closed by hand, and a channel may be notified of the end of a downtime alone.
const MOST_COMPARED: usize = 100_000;
const MOST_ROWS: usize = 1000;

/// Reason of the skipped delivery of a channel that joined late.
const JOINED_LATE: &str = "it was down already when the channel was assigned";

/// Pairs of one project that are kept. Channels beyond them are treated as notified.
const MOST_PAIRS: usize = 20_000;

/// Checks that are down, with channels of which something is known that their settings do not say.
#[derive(Clone, Debug, Default)]
pub struct AudienceNotes(BTreeMap<ProjectId, ProjectNotes>);

#[derive(Clone, Debug, Default)]
struct ProjectNotes {
    /// Channels that were not notified of the downtime, or have closed its incident.
    unnotified: BTreeSet<(CheckId, ChannelId)>,
    /// Channels that were notified and have left the audience since.
    left: BTreeSet<(CheckId, ChannelId)>,
}

impl AudienceNotes {
    /// Records that a channel was not notified of the downtime that a check is in.
    pub fn add_unnotified(&mut self, check: &Check, channel: ChannelId) {
        self.add(check, channel, |notes| &mut notes.unnotified);
    }

    /// Records that a channel was notified of the downtime that a check is in, and has left its audience.
    pub fn add_left(&mut self, check: &Check, channel: ChannelId) {
        self.add(check, channel, |notes| &mut notes.left);
    }

    fn add(&mut self, check: &Check, channel: ChannelId, pairs: impl FnOnce(&mut ProjectNotes) -> &mut BTreeSet<(CheckId, ChannelId)>) {
        let notes = self.0.entry(check.project).or_default();
        if notes.unnotified.len() + notes.left.len() < MOST_PAIRS {
            pairs(notes).insert((check.id, channel));
        }
    }

    /// True if a channel is known not to have been notified of the downtime that a check is in.
    pub(super) fn is_unnotified(&self, check: &Check, channel: ChannelId) -> bool {
        self.0.get(&check.project).is_some_and(|notes| notes.unnotified.contains(&(check.id, channel)))
    }

    /// Records that a channel was notified of the downtime that a check is in.
    pub(super) fn set_notified(&mut self, check: &Check, channel: ChannelId) {
        if let Some(notes) = self.0.get_mut(&check.project) {
            notes.unnotified.remove(&(check.id, channel));
        }
    }

    /// Removes the record that a channel has left the audience of a check. True if there was one.
    fn take_left(&mut self, check: &Check, channel: ChannelId) -> bool {
        self.0.get_mut(&check.project).is_some_and(|notes| notes.left.remove(&(check.id, channel)))
    }

    /// Removes the records about a check whose downtime is over or begins.
    pub(super) fn forget(&mut self, check: &Check) {
        let Some(notes) = self.0.get_mut(&check.project) else { return };
        let range = (check.id, ChannelId(0))..=(check.id, ChannelId(u64::MAX));
        for pairs in [&mut notes.unnotified, &mut notes.left] {
            let own: Vec<_> = pairs.range(range.clone()).copied().collect();
            own.iter().for_each(|pair| _ = pairs.remove(pair));
        }
        if notes.unnotified.is_empty() && notes.left.is_empty() {
            self.0.remove(&check.project);
        }
    }

    /// Removes the records about the checks of a project that is deleted.
    pub(super) fn forget_project(&mut self, project: ProjectId) {
        self.0.remove(&project);
    }
}

impl WorkingState {
    /// Records a row about the newest downtime of a check that is skipped before it was ever sent.
    pub(super) fn note_skipped(&mut self, row: &OutboxRow) {
        let is_newest = |check: &&Check| row.flip >= check.state.last_flip;
        if row.event == Event::Down
            && row.attempts == 0
            && let Some(check) = self.state.check(row.check).filter(is_newest)
        {
            self.audience_notes.add_unnotified(check, row.channel);
        }
    }

    /// A channel begins to hear of a check whose downtime was told before.
    fn join(&mut self, channel: &Channel, check: &Check, now: Moment) {
        let was_notified = self.audience_notes.take_left(check, channel.id);
        if channel.settings.takes(Event::Down) && !was_notified && !self.audience_notes.is_unnotified(check, channel.id) {
            self.audience_notes.add_unnotified(check, channel.id);
            let row = self.row(channel.id, check, Event::Down, check.state.changed, now);
            self.log_delivery(&row, DeliveryOutcome::Skipped, JOINED_LATE, now);
        }
    }

    /// A channel hears no longer of a check whose downtime was told.
    fn leave(&mut self, channel: &Channel, check: &Check, now: Moment) {
        if self.audience_notes.is_unnotified(check, channel.id) {
            return;
        }
        if channel.settings.takes(Event::Closed) {
            let row = self.row(channel.id, check, Event::Closed, now, now);
            self.queue(channel, row, now);
            self.audience_notes.add_unnotified(check, channel.id);
        } else {
            self.audience_notes.add_left(check, channel.id);
        }
    }

    /// Compares the audience of a check that is down and told with what it was; the check is about to be stored with other channels.
    pub(super) fn move_audience(&mut self, check: &Check, now: Moment) {
        let is_same = |old: &&Check| old.state.last_flip == check.state.last_flip && old.state.telling.is_told();
        let Some(old) = self.state.check(check.id).filter(is_same).filter(|old| old.settings.channels != check.settings.channels) else {
            return;
        };
        let both = |check: &Check| {
            let mut all = self.state.audience(check, Event::Down);
            all.extend(self.state.audience(check, Event::Closed));
            all
        };
        let (before, after) = (both(old), both(check));
        for (_, channel) in before.iter().filter(|(id, _)| !after.contains_key(id)) {
            self.leave(channel, check, now);
        }
        for (_, channel) in after.iter().filter(|(id, _)| !before.contains_key(id)) {
            self.join(channel, check, now);
        }
    }

    /// Changes, creates or deletes a channel, and compares which checks that are down and told it and its members hear of before and after.
    pub(super) fn change_channel(&mut self, channel: &Channel, now: Moment, change: impl FnOnce(&mut Self)) {
        let Some(project_state) = self.state.project(channel.project).filter(|project_state| !project_state.told_down().is_empty()) else {
            return change(self);
        };
        let told: Vec<_> = project_state.told_down().iter().copied().collect();
        // The groups of these alone can differ afterwards.
        let members = project_state.channels.get(&channel.id).into_iter().map(Arc::as_ref).chain([channel]);
        let members = members.flat_map(|group| self.state.members_of(group)).map(|member| member.id);
        let ids: BTreeSet<_> = members.chain([channel.id]).collect();
        let hearing = |state: &State, id| state.channel(id).map(|channel| state.hearing(channel));
        let before: Vec<_> = ids.into_iter().map(|id| (id, hearing(&self.state, id))).collect();
        change(self);
        let mut changed = Vec::new();
        for (id, old) in before {
            if let Some(channel) = self.state.channel(id) {
                let new = self.state.hearing(channel);
                if old.as_ref() != Some(&new) {
                    changed.push((Arc::clone(channel), old, new));
                }
            }
        }
        let rows = self.effects.alert_rows;
        let pairs = changed.iter().flat_map(|changed| told.iter().map(move |id| (changed, *id)));
        for ((channel, old, new), id) in pairs.take(MOST_COMPARED) {
            let Some(check) = self.state.check(id) else { continue };
            match (old.as_ref().is_some_and(|old| old.is_of(check)), new.is_of(check)) {
                (true, false) => self.leave(channel, &check.clone(), now),
                (false, true) => self.join(channel, &check.clone(), now),
                (true, true) | (false, false) => {}
            }
            if self.effects.alert_rows - rows >= MOST_ROWS {
                return;
            }
        }
    }
}
