//! What waits to be sent, by number, by channel and by check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::alert::OutboxRow;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    rows: BTreeMap<DeliveryNumber, Arc<OutboxRow>>,
    by_channel: BTreeSet<(ChannelId, DeliveryNumber)>,
    by_check: BTreeSet<(CheckId, ChannelId, DeliveryNumber)>,
}

impl Outbox {
    /// How much waits.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row of this number.
    pub fn get(&self, number: DeliveryNumber) -> Option<&Arc<OutboxRow>> {
        self.rows.get(&number)
    }

    /// All rows, oldest first.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<OutboxRow>> {
        self.rows.values()
    }

    /// The channels for which something waits.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> {
        let mut last = None;
        std::iter::from_fn(move || {
            let from = last.map_or((ChannelId(0), DeliveryNumber(0)), |ChannelId(id)| (ChannelId(id + 1), DeliveryNumber(0)));
            last = self.by_channel.range(from..).next().map(|(channel, _)| *channel);
            last
        })
    }

    /// What waits for a channel, oldest first.
    pub fn of_channel(&self, channel: ChannelId) -> impl DoubleEndedIterator<Item = &Arc<OutboxRow>> {
        let range = (channel, DeliveryNumber(0))..=(channel, DeliveryNumber(u64::MAX));
        self.by_channel.range(range).filter_map(|(_, number)| self.get(*number))
    }

    /// How much waits for a channel.
    pub fn waiting_for(&self, channel: ChannelId) -> usize {
        self.by_channel.range((channel, DeliveryNumber(0))..=(channel, DeliveryNumber(u64::MAX))).count()
    }

    /// What waits about a check, channel by channel, oldest first.
    pub fn of_check(&self, check: CheckId) -> impl Iterator<Item = &Arc<OutboxRow>> {
        let range = (check, ChannelId(0), DeliveryNumber(0))..=(check, ChannelId(u64::MAX), DeliveryNumber(u64::MAX));
        self.by_check.range(range).filter_map(|(.., number)| self.get(*number))
    }

    /// What waits for a channel about a check, oldest first.
    pub fn of_pair(&self, channel: ChannelId, check: CheckId) -> impl Iterator<Item = &Arc<OutboxRow>> {
        let range = (check, channel, DeliveryNumber(0))..=(check, channel, DeliveryNumber(u64::MAX));
        self.by_check.range(range).filter_map(|(.., number)| self.get(*number))
    }

    pub(super) fn put(&mut self, row: &Arc<OutboxRow>) {
        self.by_channel.insert((row.channel, row.number));
        self.by_check.insert((row.check, row.channel, row.number));
        self.rows.insert(row.number, Arc::clone(row));
    }

    /// Removes a row; for whom it was.
    pub(super) fn remove(&mut self, number: DeliveryNumber) -> Option<ChannelId> {
        let row = self.rows.remove(&number)?;
        self.by_channel.remove(&(row.channel, number));
        self.by_check.remove(&(row.check, row.channel, number));
        Some(row.channel)
    }
}
