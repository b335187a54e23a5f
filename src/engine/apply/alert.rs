//! What is to be told of flips, to whom; and what those who send have to say about it.

use std::sync::Arc;

use super::super::command::{Outcome, Refusal};
use super::super::state::{Change, Unnotified};
use super::delivery::delivery;
use super::{Applied, WorkingState};
use crate::domain::alert::{Away, ChannelHealth, DeliveryOutcome, Event, GoneCheck, Held, OutboxRow, Telling};
use crate::domain::check::{Check, NameSet};
use crate::domain::flip::Flip;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber, UniqueKey};
use crate::domain::moment::Moment;
use crate::domain::outcomes::RunOutcome;
use crate::domain::project::Channel;
use crate::domain::status::Status;

/// Rows that wait for one channel about one check: see [limits](crate::docs::limits).
const MOST_OF_A_PAIR: usize = 8;

/// So many seconds after a time without pings it is told which checks have not reported again, unless they are expected soon.
const AT_ONCE_SECS: i64 = 2 * 60;

/// What has become of a row before it was sent, in words.
pub(super) const DISABLED: &str = "the channel is disabled";
const ON_TRIAL: &str = "its project is on trial";
const TOO_MANY: &str = "too much waits to be sent";
const OVER: &str = "it was over before it was sent, and too much waits";
const OVERTAKEN: &str = "too many changes of this check wait for this channel";
pub(super) const CHECK_GONE: &str = "the check was deleted";

impl WorkingState {
    /// Decides what a flip of a check means to those who are to know: rows of the outbox, in the same transaction as the flip.
    /// `previous`: the flip before it.
    pub(super) fn tell(&mut self, check: &mut Check, flip: &Flip, previous: FlipNumber, now: Moment) {
        self.tell_flip(check, flip, previous, now);
        if !check.state.telling.is_told() {
            check.told_as = None;
        }
    }

    fn tell_flip(&mut self, check: &mut Check, flip: &Flip, previous: FlipNumber, now: Moment) {
        let told = std::mem::replace(&mut check.state.telling, Telling::Quiet);
        if flip.to == Status::Down {
            self.audience_notes.forget(check.project, check.id);
            let away = if flip.cause.is_by_time() { self.was_away(check, flip.at, now) } else { None };
            let held = match away.and_then(|away| chance(check, away, now)) {
                Some(at) => Some(Telling::Due { at: at.max(now), held: Held::Away }),
                None => self.held_back(check, None, now),
            };
            return self.tell_unless(held, check, flip.at, now);
        }
        match told {
            Telling::Told | Telling::Unheard => {
                self.compare_audience_of(check, now);
                self.queue_all(check, if flip.to == Status::Up { Event::Up } else { Event::Closed }, flip.at, now);
            }
            Telling::Due { held, .. } => {
                let row = OutboxRow { flip: previous, ..self.row(ChannelId(0), check, Event::Down, flip.at, now) };
                self.log_delivery(&row, DeliveryOutcome::Skipped, held.reason(flip.to), now);
            }
            Telling::Quiet => {}
        }
        self.audience_notes.forget(check.project, check.id);
    }

    /// Decides again whether the downtime is told, if that is due by now. `windows_may_differ`: since the last decision the settings of
    /// the check or the windows of its project may have changed; otherwise an open window is known to be open still.
    pub(super) fn tell_if_due(&mut self, check: &mut Check, windows_may_differ: bool, now: Moment) {
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
            _ if !matches!(held, Held::Failures | Held::Window | Held::Trial)
                && check.state.outcomes.newest_first().next() == Some(RunOutcome::Fail) =>
            {
                true
            }
            Held::Away => false,
            // It was removed, or the check has other tags.
            Held::Window => windows_may_differ && self.held_by_window(check, now).is_none(),
            Held::Trial => !self.is_held(check),
            Held::Parent => check.settings.parents.ids().is_empty(),
            Held::Behind(parent) => !check.settings.parents.ids().contains(&parent),
            Held::Failures => check.state.failures >= u16::from(check.settings.after.get()),
        };
        // No pings could be taken again, when it had the chance to report.
        let again = away.filter(|_| held == Held::Away && !now_or_never).and_then(|away| chance(check, away, now));
        if let Some(at) = again.filter(|again| *again > at) {
            check.state.telling = Telling::Due { at, held };
        } else if at <= now || now_or_never {
            let held = self.held_back(check, Some(held), now);
            self.tell_unless(held, check, check.state.changed, now);
        }
    }

    /// What holds back that a check is down, which was held back before for the given reason; `None`: nothing does.
    fn held_back(&mut self, check: &Check, before: Option<Held>, now: Moment) -> Option<Telling> {
        if self.is_held(check) {
            return Some(Telling::Due { at: now.plus_secs(Held::LOOK_SECS), held: Held::Trial });
        }
        if let Some(held) = Self::too_few_failures(check, now) {
            return Some(held);
        }
        if let Some(held) = self.held_by_window(check, now) {
            return Some(held);
        }
        self.held_by_parents(check, before, now)
    }

    /// Whether the project of a check is on trial.
    fn is_held(&self, check: &Check) -> bool {
        self.state.project(check.project).is_some_and(|project_state| project_state.project.is_held())
    }

    /// Tells a downtime that began at that moment, unless it is held back.
    fn tell_unless(&mut self, held: Option<Telling>, check: &mut Check, at: Moment, now: Moment) {
        let is_full = self.state.outbox.is_full_for(check.project);
        check.state.telling = held.unwrap_or(if is_full { Telling::Unheard } else { Telling::Told });
        if held.is_none() && is_full {
            self.audience_notes.set_refused(check);
        }
        if held.is_none() && !self.queue_all(check, Event::Down, at, now) {
            check.state.telling = Telling::Unheard;
            self.note_unnotified(check, at, now);
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
        let of_project = self.state.project(check.project).and_then(|project_state| project_state.project.import.as_ref()?.away);
        let all = of_project.iter().chain(self.state.away.iter().rev());
        all.filter_map(|away| away.until(now)).find(|away| away.touches(expected, deadline))
    }

    /// Logs that an alert about a downtime reaches no channel, and why.
    fn note_unnotified(&mut self, check: &Check, at: Moment, now: Moment) {
        let Some(unnotified) = self.state.unnotified(check) else { return };
        self.effects.unnotified.push((check.id, unnotified));
        // There is a delivery for each channel that is disabled.
        if unnotified != Unnotified::Disabled {
            let row = self.row(ChannelId(0), check, Event::Down, at, now);
            self.log_delivery(&row, DeliveryOutcome::Skipped, &format!("nobody is notified: {}", unnotified.text()), now);
        }
    }

    /// Has all channels of a check told of an event at that moment, as its newest flip. True if one of them is not disabled.
    pub(super) fn queue_all(&mut self, check: &Check, event: Event, at: Moment, now: Moment) -> bool {
        let is_silent = check.state.outcomes.newest_first().next() == Some(RunOutcome::Missed);
        let away = event == Event::Down && is_silent && self.was_away(check, at, now).is_some();
        let audience = self.state.audience(check, event);
        let is_reached = audience.values().any(|channel| channel.health.disabled.is_none());
        for channel in audience.into_values() {
            if event != Event::Down && self.is_unnotified(check, &channel) {
                continue;
            }
            let row = OutboxRow { away, ..self.row(channel.id, check, event, at, now) };
            self.queue(&channel, row, now);
        }
        is_reached
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

    pub(super) fn next_delivery(&mut self) -> DeliveryNumber {
        let number = DeliveryNumber(self.numbers.delivery);
        self.numbers.delivery += 1;
        number
    }

    /// A row about the newest flip of a check.
    pub(super) fn row(&mut self, channel: ChannelId, check: &Check, event: Event, at: Moment, now: Moment) -> OutboxRow {
        let told_as = check.told_as.clone();
        OutboxRow { told_as, ..OutboxRow::new(self.next_delivery(), channel, check.id, check.state.last_flip, event, at, now) }
    }

    pub(super) fn queue(&mut self, channel: &Channel, mut row: OutboxRow, now: Moment) {
        if channel.health.disabled.is_some() {
            self.note_unsent(&row, DeliveryOutcome::Skipped);
            return self.log_delivery(&row, DeliveryOutcome::Skipped, DISABLED, now);
        }
        if self.state.project(channel.project).is_some_and(|project_state| project_state.project.is_held()) {
            self.note_unsent(&row, DeliveryOutcome::Skipped);
            return self.log_delivery(&row, DeliveryOutcome::Skipped, ON_TRIAL, now);
        }
        if self.state.outbox.is_full_for(channel.project) && !self.has_place_for_end(channel, &row, now) {
            return;
        }
        let waiting: Vec<_> = self.state.outbox.of_pair(channel.id, row.check).cloned().collect();
        if waiting.len() >= MOST_OF_A_PAIR {
            // Down and up, or up and down: what is left still takes turns. What may have been announced keeps its end.
            let is_needless = |pair: &&[Arc<OutboxRow>]| match pair {
                [first, second] => [first, second].iter().all(|row| row.begun.is_none()) && !(first.event == Event::Down && first.doubtful),
                _ => false,
            };
            for old in waiting.windows(2).find(is_needless).into_iter().flatten() {
                row.skipped = row.skipped.saturating_add(1).saturating_add(old.skipped);
                self.finish(old, DeliveryOutcome::Superseded, OVERTAKEN, now);
            }
        }
        self.change(Change::Queued(Arc::new(row)));
    }

    /// True if a row is the end of a downtime of which the channel may know: that is queued although the outbox is full. There is at most
    /// one for each channel and check. Logs what becomes of every other row.
    fn has_place_for_end(&mut self, channel: &Channel, row: &OutboxRow, now: Moment) -> bool {
        if !matches!(row.event, Event::Up | Event::Closed) || !channel.settings.takes(Event::Down) {
            self.note_unsent(row, DeliveryOutcome::Failed);
            self.log_delivery(row, DeliveryOutcome::Failed, TOO_MANY, now);
            return false;
        }
        match self.state.outbox.of_pair(channel.id, row.check).last().cloned() {
            // The channel was not notified of the downtime, and now it is over. This makes room.
            Some(down) if down.event == Event::Down && down.attempts == 0 && !down.may_have_arrived() => {
                self.finish(&down, DeliveryOutcome::Superseded, OVER, now);
                self.log_delivery(row, DeliveryOutcome::Superseded, OVER, now);
                return false;
            }
            // One end is enough.
            Some(end) if end.event != Event::Down && end.begun.is_none() => {
                self.finish(&end, DeliveryOutcome::Superseded, OVERTAKEN, now);
            }
            Some(_) | None => {}
        }
        true
    }

    /// Removes what waits about a check that is deleted, apart from what is being sent, and closes its incidents. An end that waits is still
    /// sent to channels that keep incidents.
    pub(super) fn end_alerts(&mut self, check: &Check, now: Moment) {
        self.compare_audience_of(check, now);
        let gone = Box::new(GoneCheck { names: NameSet::of(&check.settings), unique_key: UniqueKey::of(check.uuid) });
        let outbox = &self.state.outbox;
        for row in outbox.of_check(check.id).filter(|row| !outbox.is_sending(row.number)).cloned().collect::<Vec<_>>() {
            let is_last = self.state.outbox.of_pair(row.channel, row.check).last().is_some_and(|last| last.number == row.number);
            let is_end = is_last && matches!(row.event, Event::Up | Event::Closed);
            if is_end && self.state.channel(row.channel).is_some_and(|channel| channel.settings.takes(Event::Closed)) {
                // Nobody is sending it, though an attempt may have begun before the last start.
                let (begun, doubtful) = (None, row.may_have_arrived());
                let row = OutboxRow { event: Event::Closed, gone: Some(gone.clone()), begun, doubtful, ..OutboxRow::clone(&row) };
                self.change(Change::Queued(Arc::new(row)));
            } else {
                self.finish(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
            }
        }
        if let Telling::Due { .. } = check.state.telling {
            let row = self.row(ChannelId(0), check, Event::Down, check.state.changed, now);
            self.log_delivery(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
        }
        if check.state.telling.is_told() {
            for channel in self.state.audience(check, Event::Closed).into_values() {
                if self.is_unnotified(check, &channel) {
                    continue;
                }
                let row = OutboxRow { gone: Some(gone.clone()), ..self.row(channel.id, check, Event::Closed, now, now) };
                self.queue(&channel, row, now);
            }
        }
    }

    /// Keeps the names under which a downtime was told, if the check is about to be stored with others: a receiver that knows incidents by
    /// their labels is sent the end under the same.
    pub(super) fn keep_names_told(&mut self, check: &mut Check) {
        let Some(old) = self.state.check(check.id).filter(|old| old.state.telling.is_told()) else { return };
        let told = check.told_as.take().unwrap_or_else(|| Arc::new(NameSet::of(&old.settings)));
        check.told_as = Some(told).filter(|told| **told != NameSet::of(&check.settings));
        let is_by_labels = |channel: &Channel| crate::channel::is_sustained(&channel.settings);
        let rows = self.state.outbox.of_check(check.id).filter(|row| row.told_as != check.told_as);
        let rows = rows.filter(|row| self.state.channel(row.channel).is_some_and(|channel| is_by_labels(channel)));
        for row in rows.cloned().collect::<Vec<_>>() {
            let row = OutboxRow { told_as: check.told_as.clone(), ..OutboxRow::clone(&row) };
            self.change(Change::Queued(Arc::new(row)));
        }
    }

    pub(super) fn finish(&mut self, row: &OutboxRow, outcome: DeliveryOutcome, reason: &str, now: Moment) {
        self.log_delivery(row, outcome, reason, now);
        self.change(Change::Unqueued(row.number));
    }

    pub(super) fn log_delivery(&mut self, row: &OutboxRow, outcome: DeliveryOutcome, reason: &str, now: Moment) {
        self.effects.alert_rows += 1;
        self.effects.deliveries.push(delivery(row, outcome, reason, now));
    }

    pub(super) fn note_health(&mut self, id: ChannelId, note: impl FnOnce(&mut ChannelHealth)) {
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

#[cfg(test)]
mod tests;
