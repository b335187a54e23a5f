//! Result of an attempt to send a message.

use std::sync::Arc;
use std::time::Duration;

use crate::channels::{Judgement, Verdict};
use crate::domain::alert::{DeliveryResult, Recipient};
use crate::engine::command::SendOutcome;

/// Result of an attempt to send a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AttemptResult {
    pub(super) result: SendOutcome,
    /// Status of the response, or 0.
    pub(super) status: u16,
    /// Delay before the next attempt that the receiver asks for.
    pub(super) retry_after: Option<Duration>,
    /// True if no response arrived, or if a mail server refused before it received a recipient.
    pub(super) is_unreachable: bool,
    /// True if some of several recipients have accepted it. It is sent again to the others only.
    pub(super) is_partly_delivered: bool,
    /// Results of this attempt for recipients that get a mail each. `None`: there are none.
    pub(super) recipients: Option<Arc<[Recipient]>>,
}

impl AttemptResult {
    /// Result of a message to the channel as a whole, without results for recipients.
    pub(super) fn new(result: SendOutcome, status: u16) -> Self {
        Self {
            result,
            status,
            retry_after: None,
            is_unreachable: false,
            is_partly_delivered: false,
            recipients: None,
        }
    }

    /// Failure for this reason; the message is sent again.
    pub(super) fn retry(reason: &str, may_have_arrived: bool) -> Self {
        let result = SendOutcome::Retry {
            reason: reason.into(),
            may_have_arrived,
        };
        Self::new(result, 0)
    }

    /// Result of a message whose last response has this meaning.
    pub(super) fn from_judgement(judged: Judgement, may_have_arrived: bool) -> Self {
        let reason = judged.error.into_boxed_str();
        let retry_after = match judged.verdict {
            Verdict::Retry { after } => after,
            _ => None,
        };
        let result = match judged.verdict {
            Verdict::Delivered if reason.is_empty() => SendOutcome::Delivered,
            Verdict::Delivered => SendOutcome::PartlyDelivered(reason),
            Verdict::MessageRejected => SendOutcome::Failed(reason),
            Verdict::ChannelRejected => SendOutcome::ChannelRejected(reason),
            // The last two are followed, as far as the number of requests allows.
            Verdict::Retry { .. } | Verdict::Continue(_) | Verdict::ChangeSetting { .. } => {
                SendOutcome::Retry {
                    reason,
                    may_have_arrived,
                }
            }
        };
        Self {
            retry_after,
            ..Self::new(result, judged.status)
        }
    }

    /// True if the channel accepted the message.
    pub(super) fn is_delivered(&self) -> bool {
        self.result.delivery_result() == DeliveryResult::Delivered
    }

    /// True if the message is sent again.
    pub(super) fn is_retry(&self) -> bool {
        matches!(self.result, SendOutcome::Retry { .. })
    }

    /// True if the message was not accepted, but may have arrived.
    pub(super) fn may_have_arrived(&self) -> bool {
        matches!(
            self.result,
            SendOutcome::Retry {
                may_have_arrived: true,
                ..
            }
        )
    }
}
