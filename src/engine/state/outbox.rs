//! Outbox: queued alerts, by number, by channel and by check.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::State;
use crate::domain::alert::OutboxRow;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId};

/// Maximum number of rows in total: see [limits](crate::docs::limits).
const MAX_OUTBOX_ROWS: usize = 200_000;

/// Queued alerts, one row for each event, check and channel.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    rows: BTreeMap<DeliveryNumber, Arc<OutboxRow>>,
    by_channel: BTreeSet<(ChannelId, DeliveryNumber)>,
    by_check: BTreeSet<(CheckId, ChannelId, DeliveryNumber)>,
    /// Rows whose attempts were started since startup and are not reported yet.
    sending: BTreeSet<DeliveryNumber>,
    /// Projects of the channels with queued rows, and the number of rows of each project.
    projects: BTreeMap<ChannelId, ProjectId>,
    row_counts: BTreeMap<ProjectId, usize>,
}

impl Outbox {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if a project may add no rows, since it has as many as are free. So every other project
    /// still has space.
    pub fn is_full_for(&self, project: ProjectId) -> bool {
        self.row_counts.get(&project).copied().unwrap_or_default()
            >= MAX_OUTBOX_ROWS.saturating_sub(self.len())
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Row with this number.
    pub fn get(&self, number: DeliveryNumber) -> Option<&Arc<OutboxRow>> {
        self.rows.get(&number)
    }

    /// True if this row is being sent and its result will be reported.
    pub fn is_sending(&self, number: DeliveryNumber) -> bool {
        self.sending.contains(&number)
    }

    /// All rows, oldest first.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &Arc<OutboxRow>> {
        self.rows.values()
    }

    /// Channels with queued rows.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> {
        let mut last = None;
        std::iter::from_fn(move || {
            let from = last.map_or((ChannelId(0), DeliveryNumber(0)), |ChannelId(id)| {
                (ChannelId(id + 1), DeliveryNumber(0))
            });
            last = self
                .by_channel
                .range(from..)
                .next()
                .map(|(channel, _)| *channel);
            last
        })
    }

    /// Rows of a channel, oldest first.
    pub fn rows_of_channel(
        &self,
        channel: ChannelId,
    ) -> impl DoubleEndedIterator<Item = &Arc<OutboxRow>> {
        let range = (channel, DeliveryNumber(0))..=(channel, DeliveryNumber(u64::MAX));
        self.by_channel
            .range(range)
            .filter_map(|(_, number)| self.get(*number))
    }

    /// Rows of a channel after the number `after`, oldest first.
    pub fn rows_of_channel_after(
        &self,
        channel: ChannelId,
        after: DeliveryNumber,
    ) -> impl Iterator<Item = &Arc<OutboxRow>> {
        let range = (
            Bound::Excluded((channel, after)),
            Bound::Included((channel, DeliveryNumber(u64::MAX))),
        );
        self.by_channel
            .range(range)
            .filter_map(|(_, number)| self.get(*number))
    }

    /// Number of rows of a channel.
    pub fn row_count_of(&self, channel: ChannelId) -> usize {
        self.by_channel
            .range((channel, DeliveryNumber(0))..=(channel, DeliveryNumber(u64::MAX)))
            .count()
    }

    /// Rows of a check, by channel, oldest first.
    pub fn rows_of_check(&self, check: CheckId) -> impl Iterator<Item = &Arc<OutboxRow>> {
        let range = (check, ChannelId(0), DeliveryNumber(0))
            ..=(check, ChannelId(u64::MAX), DeliveryNumber(u64::MAX));
        self.by_check
            .range(range)
            .filter_map(|(.., number)| self.get(*number))
    }

    /// Rows of a channel about a check, oldest first.
    pub fn rows_of_pair(
        &self,
        channel: ChannelId,
        check: CheckId,
    ) -> impl Iterator<Item = &Arc<OutboxRow>> {
        let range =
            (check, channel, DeliveryNumber(0))..=(check, channel, DeliveryNumber(u64::MAX));
        self.by_check
            .range(range)
            .filter_map(|(.., number)| self.get(*number))
    }

    /// Adds or replaces a row. `project` is that of the channel, or `None` if the channel was
    /// deleted.
    pub(super) fn put(&mut self, row: &Arc<OutboxRow>, project: Option<ProjectId>) {
        if self.by_channel.insert((row.channel, row.number)) {
            let project = self
                .projects
                .entry(row.channel)
                .or_insert(project.unwrap_or(ProjectId(0)));
            *self.row_counts.entry(*project).or_default() += 1;
        }
        self.by_check.insert((row.check, row.channel, row.number));
        let is_same_attempt = self
            .rows
            .get(&row.number)
            .is_some_and(|old| old.attempts == row.attempts);
        if row.attempt_started.is_none() {
            self.sending.remove(&row.number);
        } else if !is_same_attempt {
            self.sending.insert(row.number);
        }
        self.rows.insert(row.number, Arc::clone(row));
    }

    /// Removes a row and returns its channel.
    pub(super) fn remove(&mut self, number: DeliveryNumber) -> Option<ChannelId> {
        let row = self.rows.remove(&number)?;
        self.sending.remove(&number);
        self.by_channel.remove(&(row.channel, number));
        self.by_check.remove(&(row.check, row.channel, number));
        if let Some(count) = self
            .projects
            .get(&row.channel)
            .and_then(|project| self.row_counts.get_mut(project))
        {
            *count -= 1;
        }
        if self.rows_of_channel(row.channel).next().is_none() {
            self.projects.remove(&row.channel);
            self.row_counts.retain(|_, count| *count > 0);
        }
        Some(row.channel)
    }
}

impl State {
    /// Rows that will not be sent because their channel is deleted or disabled.
    pub fn unsendable_rows(&self) -> impl Iterator<Item = &Arc<OutboxRow>> {
        self.unsendable_channels
            .iter()
            .flat_map(|channel| self.idle_rows(*channel))
    }

    /// Rows of a channel, except for those being sent.
    fn idle_rows(&self, channel: ChannelId) -> impl Iterator<Item = &Arc<OutboxRow>> {
        self.outbox
            .rows_of_channel(channel)
            .filter(|row| !self.outbox.is_sending(row.number))
    }

    /// True if this channel exists and is enabled.
    pub fn is_sendable(&self, channel: ChannelId) -> bool {
        self.channel(channel)
            .is_some_and(|channel| channel.health.disabled.is_none())
    }

    /// Marks all rows as not being sent, after the file was read: no attempt in it is in progress.
    pub(in crate::engine) fn clear_sending(&mut self) {
        self.outbox.sending.clear();
        self.outbox
            .channels()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|channel| self.update_unsendable_channel(channel));
    }

    /// Updates the set of channels with rows that cannot be sent.
    pub(super) fn update_unsendable_channel(&mut self, id: ChannelId) {
        if self.is_sendable(id) || self.idle_rows(id).next().is_none() {
            self.unsendable_channels.remove(&id);
        } else {
            self.unsendable_channels.insert(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::alert::AlertEvent;
    use crate::domain::ids::FlipNumber;
    use crate::domain::timestamp::Timestamp;

    #[test]
    fn queued_rows_of_one_project_leave_space_for_the_others() {
        let mut outbox = Outbox::default();
        let mut next = 1;
        let mut put = |outbox: &mut Outbox, channel: u64, project: u64| {
            let number = DeliveryNumber(next);
            let at = Timestamp::default();
            let row = OutboxRow::new(
                number,
                ChannelId(channel),
                CheckId(next),
                FlipNumber(1),
                AlertEvent::Down,
                at,
                at,
            );
            outbox.put(&Arc::new(row), Some(ProjectId(project)));
            next += 1;
            number
        };
        let first = put(&mut outbox, 11, 1);
        while !outbox.is_full_for(ProjectId(1)) {
            put(&mut outbox, 11, 1);
        }
        assert_eq!(outbox.len(), MAX_OUTBOX_ROWS / 2);
        while !outbox.is_full_for(ProjectId(2)) {
            put(&mut outbox, 21, 2);
        }
        assert_eq!(outbox.len(), MAX_OUTBOX_ROWS * 3 / 4);
        assert!(!outbox.is_full_for(ProjectId(3)));
        // A row that is written again counts once.
        let row = OutboxRow::clone(outbox.get(first).unwrap());
        outbox.put(&Arc::new(row), Some(ProjectId(1)));
        assert_eq!(outbox.len(), MAX_OUTBOX_ROWS * 3 / 4);
        for row in outbox
            .rows_of_channel(ChannelId(11))
            .map(|row| row.number)
            .collect::<Vec<_>>()
        {
            assert_eq!(outbox.remove(row), Some(ChannelId(11)));
        }
        assert!(!outbox.is_full_for(ProjectId(2)));
        assert_eq!((outbox.projects.len(), outbox.row_counts.len()), (1, 1));
    }
}
