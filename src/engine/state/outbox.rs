//! What waits to be sent, by number, by channel and by check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::State;
use crate::domain::alert::OutboxRow;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    rows: BTreeMap<DeliveryNumber, Arc<OutboxRow>>,
    by_channel: BTreeSet<(ChannelId, DeliveryNumber)>,
    by_check: BTreeSet<(CheckId, ChannelId, DeliveryNumber)>,
    /// Attempts that began since the start, and are still to be reported.
    sending: BTreeSet<DeliveryNumber>,
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

    /// Whether somebody is sending this row, and will report what comes of it.
    pub fn is_sending(&self, number: DeliveryNumber) -> bool {
        self.sending.contains(&number)
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
        if row.begun.is_some() {
            self.sending.insert(row.number);
        } else {
            self.sending.remove(&row.number);
        }
        self.rows.insert(row.number, Arc::clone(row));
    }

    /// Removes a row; for whom it was.
    pub(super) fn remove(&mut self, number: DeliveryNumber) -> Option<ChannelId> {
        let row = self.rows.remove(&number)?;
        self.sending.remove(&number);
        self.by_channel.remove(&(row.channel, number));
        self.by_check.remove(&(row.check, row.channel, number));
        Some(row.channel)
    }
}

impl State {
    /// What waits although nobody sends it: its channel is gone or disabled.
    pub fn unsendable(&self) -> impl Iterator<Item = &Arc<OutboxRow>> {
        self.silent.iter().flat_map(|channel| self.idle_rows(*channel))
    }

    /// What waits for a channel, apart from what is being sent.
    fn idle_rows(&self, channel: ChannelId) -> impl Iterator<Item = &Arc<OutboxRow>> {
        self.outbox.of_channel(channel).filter(|row| !self.outbox.is_sending(row.number))
    }

    /// Whether this channel is there and enabled.
    pub fn is_sendable(&self, channel: ChannelId) -> bool {
        self.channel(channel).is_some_and(|channel| channel.health.disabled.is_none())
    }

    /// What the file says to be sent is sent by nobody: whoever did has ended.
    pub(in crate::engine) fn nobody_sends(&mut self) {
        self.outbox.sending.clear();
        self.outbox.channels().collect::<Vec<_>>().into_iter().for_each(|channel| self.note_silence(channel));
    }

    /// Keeps track of the channels for which something waits in vain.
    pub(super) fn note_silence(&mut self, id: ChannelId) {
        if self.is_sendable(id) || self.idle_rows(id).next().is_none() {
            self.silent.remove(&id);
        } else {
            self.silent.insert(id);
        }
    }
}
