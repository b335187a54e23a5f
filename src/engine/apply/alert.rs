//! What is to be told of flips, to whom; and what those who send have to say about it.

use std::sync::Arc;

use super::super::command::{Outcome, Refusal, Report, Sent};
use super::super::state::Change;
use super::{Applied, WorkingState};
use crate::domain::alert::{ChannelHealth, Delivery, DeliveryOutcome, Event, GoneCheck, OutboxRow, Telling};
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::ids::{ChannelId, DeliveryNumber, FlipNumber, UniqueKey};
use crate::domain::moment::Moment;
use crate::domain::project::Channel;
use crate::domain::status::Status;

/// Rows that wait for one channel about one check: see [limits](crate::docs::limits).
const MOST_OF_A_PAIR: usize = 8;
/// Rows that wait in all: see [limits](crate::docs::limits).
const MOST_WAITING: usize = 200_000;
/// How often the server may end while something is sent before it is given up.
const MOST_INTERRUPTED: u8 = 3;
/// Rows of a channel that is gone which are removed in one batch.
const MOST_ORPHANS: usize = 512;

/// What has become of a row before it was sent, in words.
const DISABLED: &str = "the channel is disabled";
const TOO_MANY: &str = "too much waits to be sent";
const OVERTAKEN: &str = "too many changes of this check wait for this channel";
const CHECK_GONE: &str = "the check was deleted";
const CHANNEL_GONE: &str = "the channel was deleted";
const INTERRUPTED: &str = "sending it ended the server three times";

impl WorkingState {
    /// Decides what a flip of a check means to those who are to know: rows of the outbox, in the same transaction as the flip.
    pub(super) fn tell(&mut self, check: &mut Check, number: FlipNumber, flip: &Flip, now: Moment) {
        let told = check.state.telling == Telling::Told;
        let event = match flip.to {
            Status::Down => Some(Event::Down),
            Status::Up if told => Some(Event::Up),
            Status::New | Status::Paused if told => Some(Event::Closed),
            Status::Up | Status::New | Status::Paused => None,
        };
        check.state.telling = if flip.to == Status::Down { Telling::Told } else { Telling::Quiet };
        if let Some(event) = event {
            for channel in self.audience(check, event) {
                self.queue(&channel, check, number, event, flip.at, None, now);
            }
        }
    }

    /// The channels that are to be told of an event, each once.
    fn audience(&self, check: &Check, event: Event) -> Vec<Arc<Channel>> {
        self.state.channels_of(check).filter(|channel| channel.settings.takes(event)).cloned().collect()
    }

    fn next_delivery(&mut self) -> DeliveryNumber {
        let number = DeliveryNumber(self.numbers.delivery);
        self.numbers.delivery += 1;
        number
    }

    #[allow(clippy::too_many_arguments, reason = "each is a field of the row")]
    fn queue(
        &mut self,
        channel: &Channel,
        check: &Check,
        flip: FlipNumber,
        event: Event,
        at: Moment,
        gone: Option<Box<GoneCheck>>,
        now: Moment,
    ) {
        let number = self.next_delivery();
        let mut row = OutboxRow {
            number,
            channel: channel.id,
            check: check.id,
            flip,
            event,
            at,
            queued: now,
            attempts: 0,
            begun: None,
            interrupted: 0,
            doubtful: false,
            skipped: 0,
            gone,
        };
        if channel.health.disabled.is_some() {
            return self.log_delivery(&row, DeliveryOutcome::Skipped, DISABLED, now);
        }
        if self.state.outbox.len() >= MOST_WAITING {
            return self.log_delivery(&row, DeliveryOutcome::Failed, TOO_MANY, now);
        }
        let waiting: Vec<_> = self.state.outbox.of_pair(channel.id, check.id).cloned().collect();
        if waiting.len() >= MOST_OF_A_PAIR {
            // Down and up, or up and down: what is left still takes turns.
            for old in waiting.iter().filter(|row| row.begun.is_none()).take(2) {
                row.skipped = row.skipped.saturating_add(1).saturating_add(old.skipped);
                self.finish(old, DeliveryOutcome::Superseded, OVERTAKEN, now);
            }
        }
        self.change(Change::Queued(Arc::new(row)));
    }

    /// What waits about a check that goes, goes with it. Those who keep incidents open and were told that it is down are told that it is
    /// over.
    pub(super) fn untell(&mut self, check: &Check, now: Moment) {
        for row in self.state.outbox.of_check(check.id).cloned().collect::<Vec<_>>() {
            self.finish(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
        }
        if check.state.telling == Telling::Told {
            let gone = GoneCheck { name: check.settings.name.as_str().into(), unique_key: UniqueKey::of(check.uuid) };
            for channel in self.audience(check, Event::Closed) {
                self.queue(&channel, check, check.state.last_flip, Event::Closed, now, Some(Box::new(gone.clone())), now);
            }
        }
    }

    /// Attempts begin: whatever happens from here on, it is known that they may have arrived. Answers those that are still to be sent.
    pub(super) fn begin_deliveries(&mut self, numbers: Vec<DeliveryNumber>, now: Moment) -> Outcome {
        let mut begun = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(row) = self.state.outbox.get(number) else { continue };
            let mut row = OutboxRow::clone(row);
            if row.begun.is_some() {
                // An earlier attempt was never reported: the server ended.
                row.interrupted = row.interrupted.saturating_add(1);
                row.doubtful = true;
            }
            if row.interrupted >= MOST_INTERRUPTED {
                self.finish(&row, DeliveryOutcome::Failed, INTERRUPTED, now);
                continue;
            }
            row.attempts = row.attempts.saturating_add(1);
            row.begun = Some(now);
            let row = Arc::new(row);
            self.change(Change::Queued(Arc::clone(&row)));
            begun.push(row);
        }
        Outcome::Begun(begun)
    }

    /// What has become of attempts.
    pub(super) fn report_deliveries(&mut self, reports: Vec<Report>, now: Moment) -> Outcome {
        for report in reports {
            let Report { channel, rows, sent, status } = report;
            let rows: Vec<_> = rows.iter().filter_map(|number| self.state.outbox.get(*number)).cloned().collect();
            let first = rows.first().map(|row| row.number);
            let told_with = |row: &OutboxRow| first.filter(|first| *first != row.number);
            let (outcome, reason) = match &sent {
                Sent::Delivered => (DeliveryOutcome::Delivered, ""),
                Sent::Superseded(reason) => (DeliveryOutcome::Superseded, &**reason),
                Sent::Skipped(reason) => (DeliveryOutcome::Skipped, &**reason),
                Sent::Failed(reason) | Sent::Closed(reason) => (DeliveryOutcome::Failed, &**reason),
                Sent::Later { reason, doubtful } => {
                    for row in rows {
                        let row = OutboxRow { begun: None, doubtful: row.doubtful || *doubtful, ..OutboxRow::clone(&row) };
                        self.change(Change::Queued(Arc::new(row)));
                    }
                    self.note_health(channel, |health| {
                        let since = health.failing.as_ref().map_or(now, |(since, _)| *since);
                        health.failing = Some((since, Delivery::reason(reason)));
                    });
                    continue;
                }
            };
            for row in &rows {
                let mut delivery = delivery(row, outcome, reason, now);
                (delivery.status, delivery.told_with) = (status, told_with(row));
                self.effects.deliveries.push(delivery);
                self.change(Change::Unqueued(row.number));
            }
            match sent {
                Sent::Delivered => self.note_health(channel, |health| health.failing = None),
                Sent::Closed(reason) => self.disable(channel, &reason, now),
                _ => {}
            }
        }
        Outcome::Done
    }

    /// Logs a message that was asked for as a test. One that arrived shows that the channel works.
    pub(super) fn log_test(&mut self, channel: ChannelId, failed: Option<&str>, status: u16, now: Moment) -> Applied {
        self.state.channel(channel).ok_or(Refusal::NotFound)?;
        let row = OutboxRow {
            number: self.next_delivery(),
            channel,
            check: crate::domain::ids::CheckId(0),
            flip: FlipNumber(0),
            event: Event::Test,
            at: now,
            queued: now,
            attempts: 1,
            begun: None,
            interrupted: 0,
            doubtful: false,
            skipped: 0,
            gone: None,
        };
        let outcome = if failed.is_some() { DeliveryOutcome::Failed } else { DeliveryOutcome::Delivered };
        self.effects.deliveries.push(Delivery { status, ..delivery(&row, outcome, failed.unwrap_or_default(), now) });
        if failed.is_none() {
            self.note_health(channel, |health| *health = ChannelHealth::default());
        }
        Ok(Outcome::Done)
    }

    /// Lets a channel be told again.
    pub(super) fn enable_channel(&mut self, id: ChannelId) -> Applied {
        self.state.channel(id).ok_or(Refusal::NotFound)?;
        self.note_health(id, |health| *health = ChannelHealth::default());
        let channel = self.state.channel(id).ok_or(Refusal::NotFound)?;
        Ok(Outcome::Channel(Box::new(Channel::clone(channel))))
    }

    /// Tells a channel nothing more; what waits for it is left out.
    pub(super) fn disable_channel(&mut self, id: ChannelId, reason: &str, now: Moment) -> Applied {
        self.state.channel(id).ok_or(Refusal::NotFound)?;
        self.disable(id, reason, now);
        let channel = self.state.channel(id).ok_or(Refusal::NotFound)?;
        Ok(Outcome::Channel(Box::new(Channel::clone(channel))))
    }

    fn disable(&mut self, id: ChannelId, reason: &str, now: Moment) {
        self.note_health(id, |health| health.disabled = Some((now, Delivery::reason(reason))));
    }

    /// Takes out rows that nobody sends any more, a few at a time: their channel is gone or disabled.
    pub(super) fn remove_unsendable(&mut self, now: Moment) {
        let gone: Vec<_> = self.state.unsendable().take(MOST_ORPHANS).cloned().collect();
        for row in gone {
            let reason = if self.state.channel(row.channel).is_some() { DISABLED } else { CHANNEL_GONE };
            self.finish(&row, DeliveryOutcome::Skipped, reason, now);
        }
    }

    fn finish(&mut self, row: &OutboxRow, outcome: DeliveryOutcome, reason: &str, now: Moment) {
        self.log_delivery(row, outcome, reason, now);
        self.change(Change::Unqueued(row.number));
    }

    fn log_delivery(&mut self, row: &OutboxRow, outcome: DeliveryOutcome, reason: &str, now: Moment) {
        self.effects.deliveries.push(delivery(row, outcome, reason, now));
    }

    fn note_health(&mut self, id: ChannelId, note: impl FnOnce(&mut ChannelHealth)) {
        let Some(channel) = self.state.channel(id) else { return };
        let mut health = channel.health.clone();
        note(&mut health);
        if health != channel.health {
            let channel = Channel { health, ..Channel::clone(channel) };
            self.change(Change::Channel(Arc::new(channel)));
        }
    }
}

fn delivery(row: &OutboxRow, outcome: DeliveryOutcome, reason: &str, now: Moment) -> Delivery {
    Delivery {
        number: row.number,
        channel: row.channel,
        check: row.check,
        flip: row.flip,
        event: row.event,
        queued: row.queued,
        finished: now,
        outcome,
        attempts: row.attempts,
        status: 0,
        reason: Delivery::reason(reason),
        told_with: None,
    }
}
