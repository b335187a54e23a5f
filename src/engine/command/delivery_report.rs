//! Delivery results of messages, as the notifier reports them.

use std::sync::Arc;

use crate::domain::alert::{DeliveryResult, Recipient};
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;

/// Delivery result of one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryReport {
    /// Channel of the message.
    pub channel: ChannelId,
    /// Channel as it was when the message was sent. `None` if nothing was sent, so that the
    /// settings do not matter.
    pub sent_to: Option<Arc<Channel>>,
    /// Rows of the outbox that the message covers.
    pub rows: Vec<DeliveryNumber>,
    /// Row that represents the message in the log.
    pub merged_into: Option<DeliveryNumber>,
    /// Result of sending.
    pub result: SendOutcome,
    /// Status of the response, or 0.
    pub status: u16,
    /// Results of this attempt for each recipient it was mailed to. Empty: the rows store none.
    /// `None` keeps the stored results.
    pub recipients: Option<Arc<[Recipient]>>,
}

impl DeliveryReport {
    /// Report of a test, which has no row in the outbox.
    pub fn of_test(channel: ChannelId, result: SendOutcome, status: u16) -> Self {
        Self {
            channel,
            sent_to: None,
            rows: Vec::new(),
            merged_into: None,
            result,
            status,
            recipients: None,
        }
    }

    /// Results for the recipients of a message without a row in the outbox. The report says nothing
    /// else about the channel.
    pub fn of_recipients(sent_to: &Arc<Channel>, recipients: Arc<[Recipient]>) -> Self {
        let nothing_else = SendOutcome::Retry {
            reason: "".into(),
            may_have_arrived: false,
        };
        Self {
            sent_to: Some(Arc::clone(sent_to)),
            recipients: Some(recipients),
            ..Self::of_test(sent_to.id, nothing_else, 0)
        }
    }
}

/// Result of sending a message. Reasons are sentences without secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendOutcome {
    /// The channel accepted it.
    Delivered,
    /// The channel accepted it, but not for all recipients.
    PartlyDelivered(Box<str>),
    /// A later message covers it, or the downtime ended before it was sent.
    Superseded(Box<str>),
    /// The channel does not get messages of this kind.
    Skipped(Box<str>),
    /// The channel refuses it permanently, or the time for attempts is over.
    Failed(Box<str>),
    /// The channel accepts nothing until a user changes something, so it is disabled.
    ChannelRejected(Box<str>),
    /// The message is sent again later.
    Retry {
        /// Reason of the failure. Empty if the channel has nothing to do with it.
        reason: Box<str>,
        /// True if the request was sent, so that it may have arrived.
        may_have_arrived: bool,
    },
}

impl SendOutcome {
    /// Result for the log. An attempt that is repeated has failed.
    pub fn delivery_result(&self) -> DeliveryResult {
        match self {
            Self::Delivered | Self::PartlyDelivered(_) => DeliveryResult::Delivered,
            Self::Superseded(_) => DeliveryResult::Superseded,
            Self::Skipped(_) => DeliveryResult::Skipped,
            Self::Failed(_) | Self::ChannelRejected(_) | Self::Retry { .. } => {
                DeliveryResult::Failed
            }
        }
    }

    /// Reason of a result other than [`Delivered`](Self::Delivered), for which it is empty.
    pub fn reason(&self) -> &str {
        match self {
            Self::Delivered => "",
            Self::PartlyDelivered(reason)
            | Self::Superseded(reason)
            | Self::Skipped(reason)
            | Self::Failed(reason)
            | Self::ChannelRejected(reason)
            | Self::Retry { reason, .. } => reason,
        }
    }

    /// Result for settings that have changed in the meantime: a refused message is retried with the
    /// new settings.
    pub fn with_outdated_settings(self) -> Self {
        match self {
            Self::Failed(reason) | Self::ChannelRejected(reason) => Self::Retry {
                reason,
                may_have_arrived: false,
            },
            other => other,
        }
    }
}
