//! Mails to several recipients: one for each, so that what happens to one of them changes nothing for the others.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::plan::{Item, Job};
use super::sending::{Exchange, MessageSender};
use crate::channel::{Alert, Attempt, Judged, Verdict};
use crate::domain::alert::{Delivery, DeliveryOutcome, Event, OutboxRow, Recipient, RecipientResult};
use crate::domain::channel::ChannelSettings;
use crate::domain::project::Channel;

/// Results that are kept of one message, one for each recipient in each row: see [limits](crate::docs::limits). Of a longer digest none are
/// kept: all recipients get it again, marked as a possible repeat.
const MOST_KEPT: usize = 20_000;

/// What is known of a recipient of a row; `None`: nothing.
fn known<'r>(row: &'r OutboxRow, recipient: &str) -> Option<&'r RecipientResult> {
    row.recipients.iter().find(|known| *known.address == *recipient).map(|known| &known.result)
}

/// What is settled for a recipient in each of these rows: `None` if a row is still to be sent.
fn settled(rows: &[Arc<OutboxRow>], recipient: &str) -> Option<Settled> {
    let mut results = rows.iter().map(|row| known(row, recipient));
    let first = results.next().flatten().filter(|result| result.is_settled())?;
    if !results.all(|result| result.is_some_and(RecipientResult::is_settled)) {
        return None;
    }
    Some(if let RecipientResult::Refused(error) = first { Settled::Refused(error.to_string()) } else { Settled::Taken })
}

/// True if a recipient may have got one of these rows. One that the channel has been given since has not.
fn is_doubtful(rows: &[Arc<OutboxRow>], recipient: &str) -> bool {
    let in_row = |row: &Arc<OutboxRow>| match known(row, recipient) {
        Some(result) => *result == RecipientResult::Doubtful,
        None => row.doubtful && row.recipients.is_empty(),
    };
    rows.iter().any(in_row)
}

/// The results of a try, for the rows of the message; none if these are too many.
fn results(rows: &[Arc<OutboxRow>], sent: &[Sent]) -> Arc<[Recipient]> {
    if rows.len() * sent.len() > MOST_KEPT {
        return Arc::default();
    }
    let result = |sent: &Sent| match &sent.result {
        Settled::Taken => RecipientResult::Taken,
        Settled::Refused(error) => RecipientResult::Refused(Delivery::reason(error)),
        Settled::Later(_) if sent.doubtful || is_doubtful(rows, &sent.recipient) => RecipientResult::Doubtful,
        Settled::Later(_) => RecipientResult::Open,
    };
    sent.iter().map(|sent| Recipient { address: sent.recipient.as_str().into(), result: result(sent) }).collect()
}

/// The result for one recipient.
enum Settled {
    Taken,
    Refused(String),
    Later(String),
}

/// A mail to one recipient, after it was tried.
struct Sent {
    recipient: String,
    result: Settled,
    doubtful: bool,
}

impl MessageSender {
    /// The recipients that were refused when the downtime was told whose end a message tells: they are not sent the end.
    pub(super) fn without_alert(&self, job: &Job) -> Vec<Box<str>> {
        let refused = &job.channel.health.refused;
        let [Item { row, untold: None, .. }] = job.items.as_slice() else { return Vec::new() };
        if refused.is_empty() || row.event != Event::Up {
            return Vec::new();
        }
        let Some(down) = self.handle.flip(row.flip).ok().flatten().map(|logged| logged.previous) else { return Vec::new() };
        let is_alert = |delivery: &Delivery| {
            (delivery.channel, delivery.check, delivery.flip) == (row.channel, row.check, down)
                && (delivery.event, delivery.outcome) == (Event::Down, DeliveryOutcome::Delivered)
        };
        let alert = self.handle.deliveries(row.number, 1, is_alert).unwrap_or_default().pop();
        let missed = |alert: Delivery| refused.iter().filter(move |refused| refused.since <= alert.finished);
        alert.into_iter().flat_map(missed).map(|refused| refused.address.clone()).collect()
    }

    /// Sends a mail to each recipient that has not unsubscribed, is not in `without`, and has not settled these rows before.
    pub(super) async fn mail_each(
        &self,
        channel: &Arc<Channel>,
        settings: &ChannelSettings,
        alert: &Alert,
        attempt: &Attempt,
        rows: &[Arc<OutboxRow>],
        without: &[Box<str>],
    ) -> Exchange {
        let is_silent = |recipient: &&str| channel.health.unsubscribed.iter().any(|other| **other == **recipient);
        let recipients: Vec<String> = settings.recipients().filter(|recipient| !is_silent(recipient)).map(String::from).collect();
        let is_left = |recipient: &&String| !without.iter().any(|other| **other == ***recipient);
        let left: Vec<String> = recipients.iter().filter(is_left).cloned().collect();
        // If nobody else is left, they are better than nobody.
        let recipients = if left.is_empty() { recipients } else { left };
        let [first, others @ ..] = recipients.as_slice() else {
            let error = "every recipient has unsubscribed; enable the channel to send to all of them again".into();
            return Exchange::of(Judged { verdict: Verdict::Closed, error, status: 0 });
        };
        // Of several that it had before, this one may have got it.
        if others.is_empty() && rows.iter().all(|row| row.recipients.is_empty()) {
            return self.mail_one(channel, settings, first, alert, attempt, rows).await;
        }
        let mut sent = Vec::with_capacity(recipients.len());
        let mut failures: Vec<(String, Exchange)> = Vec::new();
        let mut silence = None;
        for recipient in &recipients {
            if let Some(result) = settled(rows, recipient) {
                sent.push(Sent { recipient: recipient.clone(), result, doubtful: false });
                continue;
            }
            if let Some(error) = &silence {
                // Nobody answers: the others need not wait for that as well.
                sent.push(Sent { recipient: recipient.clone(), result: Settled::Later(String::clone(error)), doubtful: false });
                continue;
            }
            let exchange = self.mail_one(channel, settings, recipient, alert, attempt, rows).await;
            let Judged { verdict, error, .. } = &exchange.judged;
            let doubtful = exchange.doubtful;
            if *verdict == Verdict::Delivered {
                sent.push(Sent { recipient: recipient.clone(), result: Settled::Taken, doubtful });
                continue;
            }
            silence = exchange.is_unreachable.then(|| error.clone());
            sent.push(Sent { recipient: recipient.clone(), result: Settled::Later(error.clone()), doubtful });
            failures.push((recipient.clone(), exchange));
        }
        let is_taken = sent.iter().any(|sent| matches!(sent.result, Settled::Taken));
        if !is_taken {
            // Nobody has got it: the worst answer is that of the message, as if it had gone to that recipient alone.
            let later = failures.iter().position(|(_, exchange)| matches!(exchange.judged.verdict, Verdict::Later { .. }));
            let error = told(&sent, false);
            let doubtful = failures.iter().any(|(_, exchange)| exchange.doubtful);
            let Some((_, exchange)) = failures.into_iter().nth(later.unwrap_or_default()) else {
                return Exchange::of(Judged { verdict: Verdict::Unsendable, error, status: 0 });
            };
            let judged = Judged { error, ..exchange.judged };
            return Exchange { judged, doubtful, recipients: Some(results(rows, &sent)), ..exchange };
        }
        // Others have taken it, so a lasting refusal is about the recipient, unless it came before the server was given one.
        for sent in &mut sent {
            let failure = failures.iter().find(|(recipient, _)| *recipient == sent.recipient).map(|(_, exchange)| exchange);
            if let (Settled::Later(error), Some(Exchange { judged: Judged { verdict, status, .. }, is_unreachable, .. })) =
                (&sent.result, failure)
                && (!matches!(verdict, Verdict::Later { .. }) || ((500..600).contains(status) && !is_unreachable))
            {
                sent.result = Settled::Refused(error.clone());
            }
        }
        let is_open = sent.iter().any(|sent| matches!(sent.result, Settled::Later(_)));
        let status = failures.first().map_or(250, |(_, exchange)| exchange.judged.status);
        let verdict = if is_open { Verdict::Later { after: None } } else { Verdict::Delivered };
        Exchange {
            judged: Judged { verdict, error: told(&sent, true), status },
            doubtful: is_open,
            is_unreachable: false,
            is_taken_by_some: true,
            recipients: Some(results(rows, &sent)),
        }
    }

    /// Sends a mail to one recipient, with an id, a thread and an unsubscribe link of its own.
    async fn mail_one(
        &self,
        channel: &Arc<Channel>,
        settings: &ChannelSettings,
        recipient: &str,
        alert: &Alert,
        attempt: &Attempt,
        rows: &[Arc<OutboxRow>],
    ) -> Exchange {
        let own = match settings.with("to", recipient) {
            Ok(own) => own,
            Err(error) => return Exchange::of(Judged { verdict: Verdict::Unsendable, error: error.to_string(), status: 0 }),
        };
        let suffix: String = Sha256::digest(recipient).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let doubtful = if rows.is_empty() { attempt.doubtful } else { is_doubtful(rows, recipient) };
        let mut attempt = Attempt {
            doubtful,
            mail_id: format!("{}-{suffix}", attempt.mail_id),
            mail_answers: attempt.mail_answers.as_ref().map(|id| format!("{id}-{suffix}")),
            unsubscribe: self.unsubscribe_link(channel, recipient),
            ..attempt.clone()
        };
        self.tell_one(channel, own, alert, &mut attempt).await
    }
}

/// The recipients that have not taken a message, with their errors.
fn told(sent: &[Sent], is_taken: bool) -> String {
    let error = |sent: &Sent| match &sent.result {
        Settled::Taken => None,
        Settled::Refused(error) | Settled::Later(error) => Some(format!("{}: {error}", sent.recipient)),
    };
    let errors = sent.iter().filter_map(error).collect::<Vec<_>>().join("; ");
    if errors.is_empty() || !is_taken { errors } else { format!("not taken for {errors}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
    use crate::domain::moment::Moment;

    #[test]
    fn results_of_a_long_digest_are_not_kept_and_all_of_it_may_be_a_repeat() {
        let at = Moment::default();
        let row = |number| {
            let row = OutboxRow::new(DeliveryNumber(number), ChannelId(1), CheckId(number), FlipNumber(1), Event::Down, at, at);
            Arc::new(OutboxRow { doubtful: true, ..row })
        };
        let sent = |name: &str, result| Sent { recipient: name.to_owned(), result, doubtful: false };
        let sent = [sent("ann", Settled::Taken), sent("bob", Settled::Later("busy".into()))];
        let mut rows: Vec<_> = (1..=MOST_KEPT as u64 / 2).map(row).collect();
        assert_eq!(
            results(&rows, &sent).iter().map(|kept| &kept.result).collect::<Vec<_>>(),
            [
                &RecipientResult::Taken,
                // The rows do not say who may have got them.
                &RecipientResult::Doubtful
            ]
        );
        let kept = OutboxRow { recipients: results(&rows, &sent), ..OutboxRow::clone(&rows[0]) };
        assert!(matches!(settled(&[Arc::new(kept)], "ann"), Some(Settled::Taken)));
        rows.push(row(0));
        assert!(results(&rows, &sent).is_empty() && settled(&rows, "ann").is_none() && is_doubtful(&rows, "ann"));
    }
}
