//! Mails to several recipients: one mail for each, so that an error for one recipient does not
//! affect the others.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::UnsubscribeTarget;
use super::message_result::AttemptResult;
use super::scheduler::{Message, MessageItem};
use super::sender::MessageSender;
use crate::channels::{Alert, SendAttempt};
use crate::domain::alert::{
    AlertEvent, DeliveryRecord, DeliveryResult, OutboxRow, Recipient, RecipientResult,
};
use crate::domain::channel::ChannelSettings;
use crate::domain::project::Channel;
use crate::engine::command::SendOutcome;

/// Maximum number of results that are stored for one message, one for each recipient and row: see
/// [limits](crate::docs::limits). For a longer digest none are stored: all recipients get it again,
/// marked as a possible duplicate.
const MAX_RESULTS: usize = 20_000;
/// Maximum number of deliveries, of all checks, among which the alert of a downtime is looked for
/// when its end is sent: see [limits](crate::docs::limits).
const MAX_DELIVERIES_READ: usize = 5_000;

/// Stored result of a row for a recipient.
fn known_result<'r>(row: &'r OutboxRow, recipient: &str) -> Option<&'r RecipientResult> {
    row.recipients
        .iter()
        .find(|known| *known.address == *recipient)
        .map(|known| &known.result)
}

/// Final result for a recipient in these rows. `None` if a row is still to be sent.
fn settled_outcome(rows: &[Arc<OutboxRow>], recipient: &str) -> Option<RecipientOutcome> {
    let mut results = rows.iter().map(|row| known_result(row, recipient));
    let first = results
        .next()
        .flatten()
        .filter(|result| result.is_final())?;
    if !results.all(|result| result.is_some_and(RecipientResult::is_final)) {
        return None;
    }
    Some(if let RecipientResult::Refused(error) = first {
        RecipientOutcome::Refused(error.to_string())
    } else {
        RecipientOutcome::Delivered
    })
}

/// True if a recipient may have received one of these rows. A recipient that the channel has gained
/// since has not.
fn may_have_arrived(rows: &[Arc<OutboxRow>], recipient: &str) -> bool {
    let in_row = |row: &Arc<OutboxRow>| match known_result(row, recipient) {
        Some(result) => *result == RecipientResult::PossiblyDelivered,
        None => row.may_be_duplicate && row.recipients.is_empty(),
    };
    rows.iter().any(in_row)
}

/// Returns the results of an attempt for the recipients that had no final result before. Empty if
/// there are more than [`MAX_RESULTS`].
fn recipient_results(rows: &[Arc<OutboxRow>], sent: &[RecipientAttempt]) -> Arc<[Recipient]> {
    if rows.len() * sent.len() > MAX_RESULTS {
        return Arc::default();
    }
    let result = |sent: &RecipientAttempt| match &sent.result {
        RecipientOutcome::Delivered => RecipientResult::Accepted,
        RecipientOutcome::Refused(error) => {
            RecipientResult::Refused(DeliveryRecord::truncate_reason(error))
        }
        RecipientOutcome::Retry(_)
            if sent.may_have_arrived || may_have_arrived(rows, &sent.recipient) =>
        {
            RecipientResult::PossiblyDelivered
        }
        RecipientOutcome::Retry(_) => RecipientResult::Pending,
    };
    let attempted = sent
        .iter()
        .filter(|sent| settled_outcome(rows, &sent.recipient).is_none());
    attempted
        .map(|sent| Recipient {
            address: sent.recipient.as_str().into(),
            result: result(sent),
        })
        .collect()
}

/// Result for one recipient.
enum RecipientOutcome {
    Delivered,
    Refused(String),
    Retry(String),
}

/// Mail to one recipient after an attempt.
struct RecipientAttempt {
    recipient: String,
    result: RecipientOutcome,
    may_have_arrived: bool,
}

impl MessageSender {
    /// Returns the recipients that refused the alert of the downtime that this message ends. They
    /// do not get this message. Empty if that alert is not among the newest deliveries.
    pub(super) fn recipients_without_alert(&self, message: &Message) -> Vec<Box<str>> {
        let refused = &message.channel.health.refused;
        let [
            MessageItem {
                row,
                unnotified_down: None,
                ..
            },
        ] = message.items.as_slice()
        else {
            return Vec::new();
        };
        if refused.is_empty() || row.event != AlertEvent::Up {
            return Vec::new();
        }
        let Some(down) = self
            .handle
            .flip(row.flip)
            .ok()
            .flatten()
            .map(|logged| logged.previous)
        else {
            return Vec::new();
        };
        let is_alert = |delivery: &DeliveryRecord| {
            (delivery.channel, delivery.check, delivery.flip) == (row.channel, row.check, down)
                && (delivery.event, delivery.result)
                    == (AlertEvent::Down, DeliveryResult::Delivered)
        };
        let alert = self
            .handle
            .recent_deliveries(row.number, 1, MAX_DELIVERIES_READ, is_alert)
            .unwrap_or_default()
            .pop();
        let missed = |alert: DeliveryRecord| {
            refused
                .iter()
                .filter(move |refused| refused.since <= alert.finished)
        };
        alert
            .into_iter()
            .flat_map(missed)
            .map(|refused| refused.address.clone())
            .collect()
    }

    /// Sends a mail to each recipient that has not unsubscribed, is not in `excluded`, and has no
    /// final result for these rows.
    pub(super) async fn mail_recipients(
        &self,
        channel: &Arc<Channel>,
        settings: &ChannelSettings,
        alert: &Alert,
        attempt: &SendAttempt,
        rows: &[Arc<OutboxRow>],
        excluded: &[Box<str>],
    ) -> AttemptResult {
        let recipients = remaining_recipients(channel, settings, excluded);
        let [first, others @ ..] = recipients.as_slice() else {
            let reason = "every recipient has unsubscribed; enable the channel to send to all of \
                          them again"
                .into();
            return AttemptResult::new(SendOutcome::ChannelRejected(reason), 0);
        };
        // If the channel had several recipients before, this one may have received it.
        if others.is_empty() && rows.iter().all(|row| row.recipients.is_empty()) {
            let attempt_result = self
                .mail_recipient(channel, settings, first, alert, attempt, rows)
                .await;
            // A failure is that of the whole channel.
            let is_accepted = attempt_result.is_delivered();
            let accepted = || {
                Arc::from([Recipient {
                    address: first.as_str().into(),
                    result: RecipientResult::Accepted,
                }])
            };
            return AttemptResult {
                recipients: is_accepted.then(accepted),
                ..attempt_result
            };
        }
        let mut sent = Vec::with_capacity(recipients.len());
        let mut failures = Vec::new();
        let mut server_error = None;
        for recipient in recipients {
            // If the server does not answer, the other recipients need not wait for that too.
            let known = settled_outcome(rows, &recipient)
                .or_else(|| server_error.clone().map(RecipientOutcome::Retry));
            if let Some(result) = known {
                sent.push(RecipientAttempt {
                    recipient,
                    result,
                    may_have_arrived: false,
                });
                continue;
            }
            let attempt_result = self
                .mail_recipient(channel, settings, &recipient, alert, attempt, rows)
                .await;
            let may_have_arrived = attempt_result.may_have_arrived();
            let result = if attempt_result.is_delivered() {
                RecipientOutcome::Delivered
            } else {
                let error = attempt_result.result.reason().to_owned();
                server_error = attempt_result.is_unreachable.then(|| error.clone());
                failures.push((recipient.clone(), attempt_result));
                RecipientOutcome::Retry(error)
            };
            sent.push(RecipientAttempt {
                recipient,
                result,
                may_have_arrived,
            });
        }
        let is_accepted = sent
            .iter()
            .any(|sent| matches!(sent.result, RecipientOutcome::Delivered));
        if is_accepted {
            partly_accepted(rows, sent, &failures)
        } else {
            accepted_for_none(rows, &sent, failures)
        }
    }

    /// Sends a mail to one recipient, with its own id, thread and unsubscribe link.
    async fn mail_recipient(
        &self,
        channel: &Arc<Channel>,
        settings: &ChannelSettings,
        recipient: &str,
        alert: &Alert,
        attempt: &SendAttempt,
        rows: &[Arc<OutboxRow>],
    ) -> AttemptResult {
        let settings = match settings.with_value("to", recipient) {
            Ok(settings) => settings,
            Err(error) => {
                return AttemptResult::new(SendOutcome::Failed(error.to_string().into()), 0);
            }
        };
        let suffix: String = Sha256::digest(recipient)
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let may_be_duplicate = if rows.is_empty() {
            attempt.may_be_duplicate
        } else {
            may_have_arrived(rows, recipient)
        };
        let mut attempt = SendAttempt {
            may_be_duplicate,
            mail_id: format!("{}-{suffix}", attempt.mail_id),
            mail_in_reply_to: attempt
                .mail_in_reply_to
                .as_ref()
                .map(|id| format!("{id}-{suffix}")),
            unsubscribe_url: self
                .unsubscribe_link(UnsubscribeTarget::Channel(channel.uuid), recipient),
            ..attempt.clone()
        };
        self.run_requests(channel, settings, alert, &mut attempt)
            .await
    }
}

/// Recipients that have not unsubscribed and are not in `excluded`. If no other recipient is left,
/// the excluded ones get the message after all.
fn remaining_recipients(
    channel: &Channel,
    settings: &ChannelSettings,
    excluded: &[Box<str>],
) -> Vec<String> {
    let is_in = |list: &[Box<str>], recipient: &str| list.iter().any(|other| **other == *recipient);
    let unsubscribed = &channel.health.unsubscribed;
    let recipients: Vec<_> = settings
        .recipients()
        .filter(|recipient| !is_in(unsubscribed, recipient))
        .map(String::from)
        .collect();
    let pending = recipients
        .iter()
        .filter(|recipient| !is_in(excluded, recipient));
    let pending: Vec<_> = pending.cloned().collect();
    if pending.is_empty() {
        recipients
    } else {
        pending
    }
}

/// Result of a message that the server accepted for no recipient. The worst response applies to the
/// message, as if it had been sent to that recipient alone.
fn accepted_for_none(
    rows: &[Arc<OutboxRow>],
    sent: &[RecipientAttempt],
    failures: Vec<(String, AttemptResult)>,
) -> AttemptResult {
    let results = || failures.iter().map(|(_, attempt_result)| attempt_result);
    let retry_index = results().position(AttemptResult::is_retry);
    let reason = recipient_errors(sent, false).into_boxed_str();
    let may_have_arrived = results().any(AttemptResult::may_have_arrived);
    let worst = failures.into_iter().nth(retry_index.unwrap_or_default());
    let Some((_, attempt_result)) = worst else {
        return AttemptResult::new(SendOutcome::Failed(reason), 0);
    };
    let result = match attempt_result.result {
        SendOutcome::Retry { .. } => SendOutcome::Retry {
            reason,
            may_have_arrived,
        },
        SendOutcome::ChannelRejected(_) => SendOutcome::ChannelRejected(reason),
        _ => SendOutcome::Failed(reason),
    };
    AttemptResult {
        result,
        recipients: Some(recipient_results(rows, sent)),
        ..attempt_result
    }
}

/// Result of a message that the server accepted for some recipients. A permanent refusal of another
/// one therefore concerns that recipient, unless it came before the server had received one.
fn partly_accepted(
    rows: &[Arc<OutboxRow>],
    mut sent: Vec<RecipientAttempt>,
    failures: &[(String, AttemptResult)],
) -> AttemptResult {
    for sent in &mut sent {
        let failure = failures
            .iter()
            .find(|(recipient, _)| *recipient == sent.recipient)
            .map(|(_, attempt_result)| attempt_result);
        if let (RecipientOutcome::Retry(error), Some(attempt_result)) = (&sent.result, failure)
            && (!attempt_result.is_retry()
                || ((500..600).contains(&attempt_result.status) && !attempt_result.is_unreachable))
        {
            sent.result = RecipientOutcome::Refused(error.clone());
        }
    }
    let is_open = sent
        .iter()
        .any(|sent| matches!(sent.result, RecipientOutcome::Retry(_)));
    let status = failures
        .first()
        .map_or(250, |(_, attempt_result)| attempt_result.status);
    let reason = recipient_errors(&sent, true).into_boxed_str();
    let result = if is_open {
        SendOutcome::Retry {
            reason,
            may_have_arrived: true,
        }
    } else if reason.is_empty() {
        SendOutcome::Delivered
    } else {
        SendOutcome::PartlyDelivered(reason)
    };
    AttemptResult {
        is_partly_delivered: true,
        recipients: Some(recipient_results(rows, &sent)),
        ..AttemptResult::new(result, status)
    }
}

/// Recipients that have not accepted a message, with their errors.
fn recipient_errors(sent: &[RecipientAttempt], is_partly_delivered: bool) -> String {
    let error = |sent: &RecipientAttempt| match &sent.result {
        RecipientOutcome::Delivered => None,
        RecipientOutcome::Refused(error) | RecipientOutcome::Retry(error) => {
            Some(format!("{}: {error}", sent.recipient))
        }
    };
    let errors = sent.iter().filter_map(error).collect::<Vec<_>>().join("; ");
    if errors.is_empty() || !is_partly_delivered {
        errors
    } else {
        format!("not taken for {errors}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber};
    use crate::domain::timestamp::Timestamp;

    #[test]
    fn results_of_a_long_digest_are_dropped_and_all_of_it_may_be_a_duplicate() {
        let at = Timestamp::default();
        let row = |number| {
            let row = OutboxRow::new(
                DeliveryNumber(number),
                ChannelId(1),
                CheckId(number),
                FlipNumber(1),
                AlertEvent::Down,
                at,
                at,
            );
            Arc::new(OutboxRow {
                may_be_duplicate: true,
                ..row
            })
        };
        let sent = |name: &str, result| RecipientAttempt {
            recipient: name.to_owned(),
            result,
            may_have_arrived: false,
        };
        let sent = [
            sent("ann", RecipientOutcome::Delivered),
            sent("bob", RecipientOutcome::Retry("busy".into())),
        ];
        let mut rows: Vec<_> = (1..=MAX_RESULTS as u64 / 2).map(row).collect();
        assert_eq!(
            recipient_results(&rows, &sent)
                .iter()
                .map(|kept| &kept.result)
                .collect::<Vec<_>>(),
            [
                &RecipientResult::Accepted,
                // The rows do not say which recipients may have received them.
                &RecipientResult::PossiblyDelivered
            ]
        );
        let kept = OutboxRow {
            recipients: recipient_results(&rows, &sent),
            ..OutboxRow::clone(&rows[0])
        };
        assert!(matches!(
            settled_outcome(&[Arc::new(kept)], "ann"),
            Some(RecipientOutcome::Delivered)
        ));
        rows.push(row(0));
        assert!(
            recipient_results(&rows, &sent).is_empty()
                && settled_outcome(&rows, "ann").is_none()
                && may_have_arrived(&rows, "ann")
        );
    }
}
