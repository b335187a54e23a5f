//! Mails to several recipients: one for each, so that what happens to one of them changes nothing for the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::sending::{Exchange, MessageSender};
use crate::channel::{Alert, Attempt, Judged, Verdict};
use crate::domain::alert::OutboxRow;
use crate::domain::channel::ChannelSettings;
use crate::domain::ids::DeliveryNumber;
use crate::domain::project::Channel;

/// Rows that are remembered before those that no longer wait are looked for.
const MOST_REMEMBERED: usize = 1_000;

/// What is known of the recipients of messages that some of them have taken and others are to be sent again. A start forgets it: then all
/// get the message again, under the same `Message-ID` and marked as a possible repeat.
#[derive(Default)]
pub(super) struct RecipientProgress(HashMap<DeliveryNumber, RowProgress>);

/// What is known of the recipients of one row.
#[derive(Clone, Default)]
struct RowProgress {
    /// Recipients that need no further try, and the error of those that refused it for good.
    settled: BTreeMap<Box<str>, Option<String>>,
    /// Recipients that may have got it although no answer came.
    doubtful: BTreeSet<Box<str>>,
}

impl RecipientProgress {
    /// What is settled for a recipient in each of these rows: `None` if a row is still to be sent.
    fn settled(&self, rows: &[Arc<OutboxRow>], recipient: &str) -> Option<Option<String>> {
        let settled = |row: &Arc<OutboxRow>| self.0.get(&row.number)?.settled.get(recipient).cloned();
        let all: Option<Vec<_>> = rows.iter().map(settled).collect();
        all?.into_iter().next()
    }

    /// True if a recipient may have got one of these rows.
    fn is_doubtful(&self, rows: &[Arc<OutboxRow>], recipient: &str) -> bool {
        rows.iter().any(|row| self.0.get(&row.number).map_or(row.doubtful, |progress| progress.doubtful.contains(recipient)))
    }

    /// Remembers the results of a try of a message that is to be sent again.
    fn note(&mut self, rows: &[Arc<OutboxRow>], sent: &[Sent]) {
        for row in rows {
            let progress = self.0.entry(row.number).or_default();
            for Sent { recipient, result, doubtful } in sent {
                if *doubtful {
                    progress.doubtful.insert(recipient.as_str().into());
                }
                if let Settled::Taken | Settled::Refused(_) = result {
                    let error = if let Settled::Refused(error) = result { Some(error.clone()) } else { None };
                    progress.settled.insert(recipient.as_str().into(), error);
                }
            }
        }
    }
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
    /// Sends a mail to each recipient that has not unsubscribed and has not settled these rows before.
    pub(super) async fn mail_each(
        &self,
        channel: &Arc<Channel>,
        settings: &ChannelSettings,
        alert: &Alert,
        attempt: &Attempt,
        rows: &[Arc<OutboxRow>],
    ) -> Exchange {
        let is_silent = |recipient: &&str| channel.health.unsubscribed.iter().any(|other| **other == **recipient);
        let recipients: Vec<String> = settings.recipients().filter(|recipient| !is_silent(recipient)).map(String::from).collect();
        let [first, others @ ..] = recipients.as_slice() else {
            let error = "every recipient has unsubscribed; enable the channel to send to all of them again".into();
            return Exchange::of(Judged { verdict: Verdict::Closed, error, status: 0 });
        };
        if others.is_empty() && self.recipients.borrow().settled(rows, first).is_none() {
            return self.mail_one(channel, settings, first, alert, attempt, rows).await;
        }
        let mut sent = Vec::with_capacity(recipients.len());
        let mut failures: Vec<(String, Exchange)> = Vec::new();
        let mut silence = None;
        for recipient in &recipients {
            if let Some(error) = self.recipients.borrow().settled(rows, recipient) {
                sent.push(Sent { recipient: recipient.clone(), result: error.map_or(Settled::Taken, Settled::Refused), doubtful: false });
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
            self.remember(rows, &sent, later.is_some());
            let Some((_, mut exchange)) = failures.into_iter().nth(later.unwrap_or_default()) else {
                return Exchange::of(Judged { verdict: Verdict::Unsendable, error, status: 0 });
            };
            exchange.judged.error = error;
            exchange.doubtful = sent.iter().any(|sent| sent.doubtful);
            return exchange;
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
        self.remember(rows, &sent, is_open);
        let status = failures.first().map_or(250, |(_, exchange)| exchange.judged.status);
        let verdict = if is_open { Verdict::Later { after: None } } else { Verdict::Delivered };
        Exchange {
            judged: Judged { verdict, error: told(&sent, true), status },
            // After a start it is not known who has got it.
            doubtful: is_open,
            is_unreachable: false,
            is_taken_by_some: true,
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
        let doubtful = if rows.is_empty() { attempt.doubtful } else { self.recipients.borrow().is_doubtful(rows, recipient) };
        let mut attempt = Attempt {
            doubtful,
            mail_id: format!("{}-{suffix}", attempt.mail_id),
            mail_answers: attempt.mail_answers.as_ref().map(|id| format!("{id}-{suffix}")),
            unsubscribe: self.unsubscribe_link(channel, recipient),
            ..attempt.clone()
        };
        self.tell_one(channel, own, alert, &mut attempt).await
    }

    /// Keeps what is known of the recipients of rows that are sent again, and forgets that of all others.
    fn remember(&self, rows: &[Arc<OutboxRow>], sent: &[Sent], is_open: bool) {
        let mut progress = self.recipients.borrow_mut();
        if !is_open {
            rows.iter().for_each(|row| _ = progress.0.remove(&row.number));
            return;
        }
        progress.note(rows, sent);
        if progress.0.len() > MOST_REMEMBERED {
            self.handle.with_state(|state| progress.0.retain(|number, _| state.outbox.get(*number).is_some()));
        }
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
