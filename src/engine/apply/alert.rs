//! What is to be told of flips, to whom; and what those who send have to say about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::command::{Outcome, Refusal, Report, Sent};
use super::super::state::Change;
use super::{Applied, WorkingState};
use crate::domain::alert::{Away, ChannelHealth, Delivery, DeliveryOutcome, Event, GoneCheck, Held, OutboxRow, Telling};
use crate::domain::channel::Class;
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber, UniqueKey};
use crate::domain::moment::Moment;
use crate::domain::outcomes::RunOutcome;
use crate::domain::project::Channel;
use crate::domain::status::Status;
use crate::domain::text::Failures;

/// Rows that wait for one channel about one check: see [limits](crate::docs::limits).
const MOST_OF_A_PAIR: usize = 8;
/// Rows that wait in all: see [limits](crate::docs::limits).
const MOST_WAITING: usize = 200_000;
/// How often the server may end while something is sent before it is given up.
const MOST_INTERRUPTED: u8 = 3;
/// Rows of a channel that is gone which are removed in one batch.
const MOST_ORPHANS: usize = 512;

/// So many seconds after a time without pings it is told which checks have not reported again, unless they are expected soon.
const AT_ONCE_SECS: i64 = 2 * 60;

/// What has become of a row before it was sent, in words.
const DISABLED: &str = "the channel is disabled";
const TOO_MANY: &str = "too much waits to be sent";
const OVERTAKEN: &str = "too many changes of this check wait for this channel";
const CHECK_GONE: &str = "the check was deleted";
const CHANNEL_GONE: &str = "the channel was deleted";
const INTERRUPTED: &str = "sending it ended the server three times";

impl WorkingState {
    /// Decides what a flip of a check means to those who are to know: rows of the outbox, in the same transaction as the flip.
    /// `previous`: the flip before it. `is_over`: the same command has changed the status again.
    pub(super) fn tell(&mut self, check: &mut Check, flip: &Flip, previous: FlipNumber, is_over: bool, now: Moment) {
        let told = std::mem::replace(&mut check.state.telling, Telling::Quiet);
        if flip.to == Status::Down {
            let away = if flip.cause.is_by_time() { self.was_away(check, flip.at, now) } else { None };
            let held = if let Some(at) = away.and_then(|away| chance(check, away, now)) {
                Some(Telling::Due { at: at.max(now), held: Held::Away })
            } else if is_over && check.settings.after != Failures::ONE {
                Some(Telling::Due { at: now, held: Held::Failures })
            } else if is_over {
                None
            } else {
                Self::too_few_failures(check, now)
            };
            return self.tell_unless(held, check, flip.at, now);
        }
        match told {
            Telling::Told => self.queue_all(check, if flip.to == Status::Up { Event::Up } else { Event::Closed }, flip.at, now),
            Telling::Due { held, .. } => {
                let row = OutboxRow { flip: previous, ..self.row(ChannelId(0), check, Event::Down, flip.at, now) };
                self.log_delivery(&row, DeliveryOutcome::Skipped, held.reason(flip.to), now);
            }
            Telling::Quiet => {}
        }
    }

    /// Decides again whether the downtime is told, if that is due by now.
    pub(super) fn tell_if_due(&mut self, check: &mut Check, now: Moment) {
        let Telling::Due { at, held } = check.state.telling else { return };
        if check.state.status != Status::Down {
            // It was put aside.
            check.state.telling = Telling::Quiet;
            return;
        }
        let away = if at <= now { self.was_away(check, at, now) } else { None };
        if at <= now && held == Held::Failures && away.is_none() && check.state.misses_ping(&check.settings, now) {
            // It cannot have been lost.
            check.state.note_missed();
        }
        let now_or_never = match held {
            // It has reported a failure since: that is news of its own.
            Held::Away => check.state.outcomes.newest_first().next() == Some(RunOutcome::Fail),
            Held::Failures => check.state.failures >= u16::from(check.settings.after.get()),
        };
        // No pings could be taken again, when it had the chance to report.
        let again = away.filter(|_| held == Held::Away && !now_or_never).and_then(|away| chance(check, away, now));
        if let Some(at) = again.filter(|again| *again > at) {
            check.state.telling = Telling::Due { at, held };
        } else if at <= now || now_or_never {
            let held = Self::too_few_failures(check, now);
            self.tell_unless(held, check, check.state.changed, now);
        }
    }

    /// Tells a downtime that began at that moment, unless it is held back.
    fn tell_unless(&mut self, held: Option<Telling>, check: &mut Check, at: Moment, now: Moment) {
        check.state.telling = held.unwrap_or(Telling::Told);
        if held.is_none() {
            self.queue_all(check, Event::Down, at, now);
        }
    }

    /// When the next ping will be missing of a check that has not failed often enough yet. One of which none is expected has.
    fn too_few_failures(check: &Check, now: Moment) -> Option<Telling> {
        if check.state.failures >= u16::from(check.settings.after.get()) {
            return None;
        }
        check.settings.missed_after(check.state.last_sign(), now).map(|at| Telling::Due { at, held: Held::Failures })
    }

    /// The latest time in which pings could not be taken and the one that a check went down for at that moment may have been lost.
    fn was_away(&self, check: &Check, deadline: Moment, now: Moment) -> Option<Away> {
        let expected = deadline.plus_secs(-check.settings.grace.get());
        self.state.away.iter().rev().filter_map(|away| away.until(now)).find(|away| away.touches(expected, deadline))
    }

    fn queue_all(&mut self, check: &Check, event: Event, at: Moment, now: Moment) {
        let is_silent = check.state.outcomes.newest_first().next() == Some(RunOutcome::Missed);
        let away = event == Event::Down && is_silent && self.was_away(check, at, now).is_some();
        for channel in self.audience(check, event).into_values() {
            let row = OutboxRow { away, ..self.row(channel.id, check, event, at, now) };
            self.queue(&channel, row, now);
        }
    }

    /// A row about no check: its text lists what is down when it is sent.
    pub(super) fn remind(&mut self, id: ChannelId, now: Moment) -> Applied {
        let channel = self.state.channel(id).filter(|channel| channel.settings.takes(Event::Still)).cloned().ok_or(Refusal::NotFound)?;
        if channel.health.disabled.is_none() && self.state.outbox.of_pair(id, CheckId(0)).next().is_none() {
            let row = OutboxRow::new(self.next_delivery(), id, CheckId(0), FlipNumber(0), Event::Still, now, now);
            self.queue(&channel, row, now);
        }
        Ok(Outcome::Done)
    }

    /// No pings could be taken for a while.
    pub(super) fn note_away(&mut self, away: Away) -> Outcome {
        let mut all = self.state.away.to_vec();
        let joined = all.pop_if(|last| last.joined(away).is_some()).and_then(|last| last.joined(away));
        all.push(joined.unwrap_or(away));
        let surplus = all.len().saturating_sub(Away::MOST);
        self.change(Change::Away(all.into_iter().skip(surplus).collect()));
        Outcome::Done
    }

    /// What was noted while the clock stood ahead is over by now.
    pub(super) fn forget_ahead(&mut self, now: Moment) -> Outcome {
        let past = self.state.away.iter().filter_map(|away| away.until(now)).collect();
        self.change(Change::Away(past));
        Outcome::Done
    }

    /// The channels that are to be told of an event, each once: those of the check, those for every check, and the members of groups
    /// among them.
    fn audience(&self, check: &Check, event: Event) -> BTreeMap<ChannelId, Arc<Channel>> {
        let own = self.state.channels_of(check);
        let channels = self.state.project(check.project).map(|project_state| &project_state.channels);
        let all = || channels.into_iter().flat_map(BTreeMap::values);
        let asked = own.chain(all().filter(|channel| channel.settings.common().every)).collect::<Vec<_>>();
        let named = asked.iter().flat_map(|channel| channel.settings.members());
        let members = named.flat_map(|name| all().filter(move |channel| channel.is_called(name)));
        let mut audience = BTreeMap::new();
        for channel in asked.iter().copied().chain(members).filter(|channel| channel.settings.takes(event)) {
            audience.insert(channel.id, Arc::clone(channel));
        }
        audience
    }

    fn next_delivery(&mut self) -> DeliveryNumber {
        let number = DeliveryNumber(self.numbers.delivery);
        self.numbers.delivery += 1;
        number
    }

    /// A row about the newest flip of a check.
    fn row(&mut self, channel: ChannelId, check: &Check, event: Event, at: Moment, now: Moment) -> OutboxRow {
        OutboxRow::new(self.next_delivery(), channel, check.id, check.state.last_flip, event, at, now)
    }

    fn queue(&mut self, channel: &Channel, mut row: OutboxRow, now: Moment) {
        if channel.health.disabled.is_some() {
            return self.log_delivery(&row, DeliveryOutcome::Skipped, DISABLED, now);
        }
        if self.state.outbox.len() >= MOST_WAITING {
            return self.log_delivery(&row, DeliveryOutcome::Failed, TOO_MANY, now);
        }
        let waiting: Vec<_> = self.state.outbox.of_pair(channel.id, row.check).cloned().collect();
        if waiting.len() >= MOST_OF_A_PAIR {
            // Down and up, or up and down: what is left still takes turns.
            for old in waiting.iter().filter(|row| row.begun.is_none()).take(2) {
                row.skipped = row.skipped.saturating_add(1).saturating_add(old.skipped);
                self.finish(old, DeliveryOutcome::Superseded, OVERTAKEN, now);
            }
        }
        self.change(Change::Queued(Arc::new(row)));
    }

    /// What waits about a check that goes, goes with it, apart from what is being sent. Those who keep incidents open and were told that it
    /// is down are told that it is over.
    pub(super) fn untell(&mut self, check: &Check, now: Moment) {
        let outbox = &self.state.outbox;
        for row in outbox.of_check(check.id).filter(|row| !outbox.is_sending(row.number)).cloned().collect::<Vec<_>>() {
            self.finish(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
        }
        if let Telling::Due { .. } = check.state.telling {
            let row = self.row(ChannelId(0), check, Event::Down, check.state.changed, now);
            self.log_delivery(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
        }
        if check.state.telling == Telling::Told {
            let gone = GoneCheck { name: check.settings.name.as_str().into(), unique_key: UniqueKey::of(check.uuid) };
            for channel in self.audience(check, Event::Closed).into_values() {
                let row = OutboxRow { gone: Some(Box::new(gone.clone())), ..self.row(channel.id, check, Event::Closed, now, now) };
                self.queue(&channel, row, now);
            }
        }
    }

    /// Whether the check of a row was deleted while it was being sent. It is sent no more, unless it says just that.
    fn lacks_check(&self, row: &OutboxRow) -> bool {
        row.gone.is_none() && row.check != CheckId(0) && self.state.check(row.check).is_none()
    }

    /// Attempts begin: whatever happens from here on, it is known that they may have arrived. Answers those that are still to be sent.
    pub(super) fn begin_deliveries(&mut self, numbers: Vec<DeliveryNumber>, now: Moment) -> Outcome {
        let mut begun = Vec::with_capacity(numbers.len());
        for number in numbers {
            // What is for a channel that is gone or disabled is removed in a moment.
            let Some(row) = self.state.outbox.get(number).filter(|row| self.state.is_sendable(row.channel)) else { continue };
            let mut row = OutboxRow::clone(row);
            if row.begun.is_some() {
                // An earlier attempt was never reported. If this process has not begun it, the server ended meanwhile.
                row.interrupted = row.interrupted.saturating_add(u8::from(!self.state.outbox.is_sending(number)));
                row.doubtful = true;
            }
            if self.lacks_check(&row) {
                self.finish(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
                continue;
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
            let Report { channel, rows, told_with, sent, status } = report;
            let rows: Vec<_> = rows.iter().filter_map(|number| self.state.outbox.get(*number)).cloned().collect();
            let (outcome, reason) = match &sent {
                Sent::Delivered => (DeliveryOutcome::Delivered, ""),
                Sent::Superseded(reason) => (DeliveryOutcome::Superseded, &**reason),
                Sent::Skipped(reason) => (DeliveryOutcome::Skipped, &**reason),
                Sent::Failed(reason) | Sent::Closed(reason) => (DeliveryOutcome::Failed, &**reason),
                Sent::Later { reason, doubtful } => {
                    for row in rows {
                        if self.lacks_check(&row) {
                            self.finish(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
                            continue;
                        }
                        let row = OutboxRow { begun: None, doubtful: row.doubtful || *doubtful, ..OutboxRow::clone(&row) };
                        self.change(Change::Queued(Arc::new(row)));
                    }
                    if reason.is_empty() {
                        // It says nothing about the channel.
                        continue;
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
                (delivery.status, delivery.told_with) = (status, told_with.filter(|first| *first != row.number));
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

    /// Has sent again what was given up, if its check and its channel are still there. People and keepers of incidents are told what is
    /// true now, so of a check that has changed since they are told nothing.
    pub(super) fn retry_delivery(&mut self, delivery: &Delivery, at: Moment, now: Moment) -> Applied {
        let check = self.state.check(delivery.check).cloned().ok_or(Refusal::NotFound)?;
        let channel = self.state.channel(delivery.channel).cloned().ok_or(Refusal::NotFound)?;
        if channel.health.disabled.is_some() {
            return Err(Refusal::ChannelDisabled);
        }
        if channel.settings.kind().class != Class::Machine && delivery.flip != check.state.last_flip {
            return Err(Refusal::Outdated);
        }
        let row = OutboxRow { flip: delivery.flip, ..self.row(channel.id, &check, delivery.event, at, now) };
        let number = row.number;
        self.queue(&channel, row, now);
        Ok(Outcome::Queued(number))
    }

    /// Logs a message that was asked for as a test. One that arrived shows that the channel works.
    pub(super) fn log_test(&mut self, channel: ChannelId, failed: Option<&str>, status: u16, now: Moment) -> Applied {
        self.state.channel(channel).ok_or(Refusal::NotFound)?;
        let number = self.next_delivery();
        let (check, flip) = (CheckId(0), FlipNumber(0));
        let outcome = if failed.is_some() { DeliveryOutcome::Failed } else { DeliveryOutcome::Delivered };
        let (event, attempts, reason, told_with) = (Event::Test, 1, failed.unwrap_or_default(), None);
        let delivery = Delivery {
            number,
            channel,
            check,
            flip,
            event,
            queued: now,
            finished: now,
            outcome,
            attempts,
            status,
            reason: Delivery::reason(reason),
            told_with,
        };
        self.effects.deliveries.push(delivery);
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

/// When a check whose ping may have been lost is looked at again: when it has had the chance to report once more, if that is soon.
/// `None`: the time without pings is long enough ago that what came since counts.
fn chance(check: &Check, away: Away, now: Moment) -> Option<Moment> {
    let end = away.to.plus_secs(Away::CHANCE_SECS);
    if now >= end {
        return None;
    }
    let from = check.state.last_sign();
    let expected = if check.settings.schedule.is_some() {
        check.settings.expected_after(away.to)
    } else {
        Some(away.to.plus_secs(check.settings.timeout.get()))
    };
    let chance = expected.filter(|_| from <= away.to).map(|expected| expected.plus_secs(check.settings.grace.get()));
    Some(chance.filter(|chance| *chance < end).unwrap_or(away.to.plus_secs(AT_ONCE_SECS)))
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
