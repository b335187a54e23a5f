//! What becomes of what waits: those who send report it, and people ask that it is sent again, or that a channel is told nothing more.

use std::sync::Arc;

use super::super::command::{Outcome, Refusal, Report, SendOutcome};
use super::super::state::Change;
use super::alert::{CHECK_GONE, DISABLED};
use super::{Applied, WorkingState};
use crate::domain::alert::{Delivery, DeliveryOutcome, DeliveryProof, Event, OutboxRow, Part, Recipient, Telling};
use crate::domain::channel::Class;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
use crate::domain::moment::Moment;
use crate::domain::project::Channel;

/// How often the server may end while something is sent before it is given up.
const MOST_INTERRUPTED: u8 = 3;
/// Rows of a channel that is gone which are removed in one batch.
const MOST_ORPHANS: usize = 512;

/// What has become of a row before it was sent, in words.
const CHANNEL_GONE: &str = "the channel was deleted";
const INTERRUPTED: &str = "sending it ended the server three times";

impl WorkingState {
    /// Whether the check of a row was deleted while it was being sent. It is sent no more, unless it says just that.
    fn lacks_check(&self, row: &OutboxRow) -> bool {
        row.gone.is_none() && row.check != CheckId(0) && self.state.check(row.check).is_none()
    }

    /// True if a row began as a part of a message whose last row never did, so that nothing was sent.
    fn is_unsent_part(&self, row: &OutboxRow) -> bool {
        let last = |part: Part| self.state.outbox.get(part.last).is_some_and(|last| last.attempts == part.attempts);
        row.part.is_some_and(last)
    }

    /// Attempts begin: whatever happens from here on, it is known that they may have arrived. Answers those that are still to be sent.
    /// `last`: the row that begins last of their message, if that takes several commands.
    pub(super) fn begin_deliveries(&mut self, numbers: Vec<DeliveryNumber>, last: Option<DeliveryNumber>, now: Moment) -> Outcome {
        let part = last.and_then(|last| Some(Part { last, attempts: self.state.outbox.get(last)?.attempts }));
        let mut begun = Vec::with_capacity(numbers.len());
        for number in numbers {
            // What is for a channel that is gone or disabled is removed in a moment.
            let Some(row) = self.state.outbox.get(number).filter(|row| self.state.is_sendable(row.channel)) else { continue };
            let mut row = OutboxRow::clone(row);
            if row.begun.is_some() && !self.is_unsent_part(&row) {
                // An earlier attempt was never reported. If this process has not begun it, the server ended meanwhile.
                row.interrupted = row.interrupted.saturating_add(u8::from(!self.state.outbox.is_sending(number)));
                row.doubtful = true;
                row.recipients = row.recipients.iter().cloned().map(Recipient::interrupted).collect();
            }
            if self.lacks_check(&row) {
                self.finish(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
                continue;
            }
            if row.interrupted >= MOST_INTERRUPTED {
                self.finish(&row, DeliveryOutcome::Failed, INTERRUPTED, now);
                self.note_unheard(&row, now);
                continue;
            }
            row.attempts = row.attempts.saturating_add(1);
            (row.begun, row.part) = (Some(now), part);
            let row = Arc::new(row);
            self.change(Change::Queued(Arc::clone(&row)));
            begun.push(row);
        }
        Outcome::Begun(begun)
    }

    /// What has become of attempts.
    pub(super) fn report_deliveries(&mut self, reports: Vec<Report>, now: Moment) -> Outcome {
        for report in reports {
            let Report { channel, sent_to, rows, told_with, sent, status, recipients } = report;
            // It shows nothing about settings that the channel was given meanwhile.
            let is_current = sent_to.is_none_or(|sent_to| self.state.channel(channel).is_some_and(|now| now.settings == sent_to.settings));
            let sent = if is_current { sent } else { sent.under_old_settings() };
            if is_current && let Some(recipients) = &recipients {
                self.note_health(channel, |health| health.note_recipients(recipients, now));
            }
            let rows: Vec<_> = rows.iter().filter_map(|number| self.state.outbox.get(*number)).cloned().collect();
            if let SendOutcome::Later { reason, doubtful } = &sent {
                for row in rows {
                    if self.lacks_check(&row) {
                        self.finish(&row, DeliveryOutcome::Skipped, CHECK_GONE, now);
                        continue;
                    }
                    let mut row = OutboxRow::clone(&row);
                    (row.begun, row.doubtful) = (None, row.doubtful || *doubtful);
                    row.recipients = recipients.clone().unwrap_or(row.recipients);
                    self.change(Change::Queued(Arc::new(row)));
                }
                if reason.is_empty() || !is_current {
                    // It says nothing about the channel.
                    continue;
                }
                self.note_health(channel, |health| {
                    let since = health.failing.as_ref().map_or(now, |(since, _)| *since);
                    health.failing = Some((since, Delivery::reason(reason)));
                });
                continue;
            }
            let (outcome, reason) = outcome_of(&sent);
            for row in &rows {
                let mut delivery = delivery(row, outcome, reason, now);
                (delivery.status, delivery.told_with) = (status, told_with.filter(|first| *first != row.number));
                self.effects.deliveries.push(delivery);
                self.change(Change::Unqueued(row.number));
                if outcome == DeliveryOutcome::Failed {
                    self.note_unheard(row, now);
                }
                self.note_unsent(row, outcome);
                if outcome == DeliveryOutcome::Delivered && row.event == Event::Still {
                    self.note_reminded(channel);
                }
            }
            match sent {
                SendOutcome::Delivered | SendOutcome::DeliveredInPart(_) if is_current => {
                    self.note_health(channel, |health| (health.failing, health.proof) = (None, DeliveryProof::Arrived));
                }
                SendOutcome::Closed(reason) => self.disable(channel, &reason, now),
                _ => {}
            }
        }
        Outcome::Done
    }

    /// It was given up to tell a channel that a check is down. If no other one has taken it for all that is known, nothing hides behind
    /// that check.
    fn note_unheard(&mut self, row: &OutboxRow, now: Moment) {
        let Some(check) = self.state.check(row.check).filter(|check| check.state.telling == Telling::Told) else { return };
        let works = |channel: &Channel| channel.id != row.channel && channel.health.is_well();
        if row.event != Event::Down
            || row.flip != check.state.last_flip
            || self.state.audience(check, Event::Down).values().any(|channel| works(channel))
        {
            return;
        }
        let mut check = check.clone();
        check.state.telling = Telling::Unheard;
        let (id, project) = (check.id, check.project);
        self.change(Change::Check(Box::new(check)));
        self.release_children(project, id, now);
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
        // What was tried may have arrived, although no answer came. What every attempt was refused for has not.
        let is_refused = matches!(delivery.status, 400..=407 | 409..=499);
        let doubtful = delivery.doubtful || delivery.attempts > 0 && !is_refused;
        let row = OutboxRow { flip: delivery.flip, doubtful, ..self.row(channel.id, &check, delivery.event, at, now) };
        let number = row.number;
        if row.event == Event::Down && row.flip == check.state.last_flip {
            self.audience_notes.set_notified(&check, channel.id);
        }
        self.queue(&channel, row, now);
        Ok(Outcome::Queued(number))
    }

    /// Logs a message that was asked for as a test. One that arrived, if only at some of the recipients, shows that the channel works.
    pub(super) fn log_test(&mut self, report: Report, now: Moment) -> Applied {
        let Report { channel, sent, status, recipients, .. } = report;
        self.state.channel(channel).ok_or(Refusal::NotFound)?;
        let number = self.next_delivery();
        let (check, flip) = (CheckId(0), FlipNumber(0));
        let (outcome, reason) = outcome_of(&sent);
        let (event, attempts, told_with) = (Event::Test, 1, None);
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
            doubtful: false,
        };
        self.effects.deliveries.push(delivery);
        self.note_health(channel, |health| {
            if outcome == DeliveryOutcome::Delivered {
                (health.disabled, health.failing, health.proof) = (None, None, DeliveryProof::Arrived);
            } else {
                health.proof = DeliveryProof::TestFailed(Delivery::reason(reason));
            }
            health.note_recipients(recipients.as_deref().unwrap_or_default(), now);
        });
        Ok(Outcome::Done)
    }

    /// Enables a channel, with all of its recipients.
    pub(super) fn enable_channel(&mut self, id: ChannelId) -> Applied {
        self.state.channel(id).ok_or(Refusal::NotFound)?;
        self.note_health(id, |health| {
            (health.disabled, health.failing) = (None, None);
            health.unsubscribed.clear();
            health.refused.clear();
        });
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

    /// Silences a recipient. A channel without any other is disabled.
    pub(super) fn unsubscribe(&mut self, id: ChannelId, recipient: Box<str>, now: Moment) -> Applied {
        let channel = Arc::clone(self.state.channel(id).ok_or(Refusal::NotFound)?);
        if !channel.settings.recipients().any(|other| *other == *recipient) {
            return Err(Refusal::NotFound);
        }
        if !channel.health.unsubscribed.contains(&recipient) {
            self.note_health(id, |health| {
                health.refused.retain(|refused| refused.address != recipient);
                health.unsubscribed.push(recipient);
            });
        }
        let channel = Arc::clone(self.state.channel(id).ok_or(Refusal::NotFound)?);
        let is_left = channel.settings.recipients().any(|other| !channel.health.unsubscribed.iter().any(|gone| **gone == *other));
        if !is_left && channel.health.disabled.is_none() {
            self.disable(id, "every recipient has unsubscribed", now);
        }
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
            self.note_unsent(&row, DeliveryOutcome::Skipped);
            self.finish(&row, DeliveryOutcome::Skipped, reason, now);
        }
    }
}

/// The outcome and the reason that are logged.
fn outcome_of(sent: &SendOutcome) -> (DeliveryOutcome, &str) {
    match sent {
        SendOutcome::Delivered => (DeliveryOutcome::Delivered, ""),
        SendOutcome::DeliveredInPart(reason) => (DeliveryOutcome::Delivered, reason),
        SendOutcome::Superseded(reason) => (DeliveryOutcome::Superseded, reason),
        SendOutcome::Skipped(reason) => (DeliveryOutcome::Skipped, reason),
        SendOutcome::Failed(reason) | SendOutcome::Closed(reason) | SendOutcome::Later { reason, .. } => (DeliveryOutcome::Failed, reason),
    }
}

pub(super) fn delivery(row: &OutboxRow, outcome: DeliveryOutcome, reason: &str, now: Moment) -> Delivery {
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
        doubtful: row.doubtful,
    }
}
