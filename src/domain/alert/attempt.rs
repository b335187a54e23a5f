//! State that an outbox row keeps of earlier attempts to send it.

use std::sync::Arc;

use crate::domain::ids::DeliveryNumber;
use crate::domain::timestamp::Timestamp;

/// Membership of a row in a message whose rows are started one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessagePart {
    /// Row that is started last. The message is not sent before.
    pub last_row: DeliveryNumber,
    /// Number of earlier attempts of that row.
    pub attempts: u16,
}

/// Recipient of a message that is sent again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// Address of the recipient.
    pub address: Box<str>,
    /// Result of the attempts so far.
    pub result: RecipientResult,
}

impl Recipient {
    /// Returns the recipient after an attempt whose result was not reported.
    pub fn after_interruption(self) -> Self {
        match self.result {
            RecipientResult::Pending => Self {
                result: RecipientResult::PossiblyDelivered,
                ..self
            },
            _ => self,
        }
    }

    /// Returns the results to store after another attempt: its own, and the final results of
    /// earlier attempts for the other addresses of the channel. An attempt without results leaves
    /// none.
    pub fn after_attempt(
        earlier_recipients: &[Self],
        results: &Arc<[Self]>,
        is_address: impl Fn(&str) -> bool,
    ) -> Arc<[Self]> {
        let is_attempted = |address: &str| results.iter().any(|result| *result.address == *address);
        let is_kept = |earlier: &&Self| {
            earlier.result.is_final()
                && is_address(&earlier.address)
                && !is_attempted(&earlier.address)
        };
        if results.is_empty() || !earlier_recipients.iter().any(|earlier| is_kept(&earlier)) {
            return Arc::clone(results);
        }
        earlier_recipients
            .iter()
            .filter(is_kept)
            .chain(results.iter())
            .cloned()
            .collect()
    }
}

/// Result of the attempts to send a message to one of its recipients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecipientResult {
    /// The message was accepted.
    Accepted,
    /// The message was permanently refused with this error, of at most
    /// [`DeliveryRecord::MAX_REASON_BYTES`](super::DeliveryRecord::MAX_REASON_BYTES) bytes.
    Refused(Box<str>),
    /// The message may have arrived.
    PossiblyDelivered,
    /// The message has not arrived yet.
    Pending,
}

impl RecipientResult {
    /// True if nothing more is sent to the recipient.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Accepted | Self::Refused(_))
    }
}

/// Recipient of a channel that is permanently refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRecipient {
    /// Address of the recipient.
    pub address: Box<str>,
    /// Time of the first refusal after the last accepted mail.
    pub since: Timestamp,
    /// Reason of the last refusal, of at most
    /// [`DeliveryRecord::MAX_REASON_BYTES`](super::DeliveryRecord::MAX_REASON_BYTES) bytes.
    pub reason: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipients(results: &[(&str, RecipientResult)]) -> Arc<[Recipient]> {
        results
            .iter()
            .map(|(address, result)| Recipient {
                address: (*address).into(),
                result: result.clone(),
            })
            .collect()
    }

    #[test]
    fn an_attempt_keeps_the_final_results_of_the_other_addresses() {
        use RecipientResult::{Accepted, Pending, PossiblyDelivered, Refused};
        let earlier = recipients(&[
            ("ann", Accepted),
            ("bob", Pending),
            ("carl", PossiblyDelivered),
            ("eve", Refused("550".into())),
            ("left", Accepted),
        ]);
        let after = |results: &[_]| {
            Recipient::after_attempt(&earlier, &recipients(results), |address| address != "left")
        };
        assert_eq!(
            after(&[("bob", Accepted), ("eve", Accepted)]),
            recipients(&[("ann", Accepted), ("bob", Accepted), ("eve", Accepted)])
        );
        assert!(after(&[]).is_empty());
        assert!(Accepted.is_final() && !PossiblyDelivered.is_final() && !Pending.is_final());
    }
}
