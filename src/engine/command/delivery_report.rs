//! Results of messages, as those who send report them.

use std::sync::Arc;

use crate::domain::alert::Recipient;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;

/// What has come of one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryReport {
    /// To which channel it was sent.
    pub channel: ChannelId,
    /// The channel as it was then; `None`: it was not sent at all, so that the settings do not matter.
    pub sent_to: Option<Arc<Channel>>,
    /// What it told.
    pub rows: Vec<DeliveryNumber>,
    /// Which of them stands for the message.
    pub merged_into: Option<DeliveryNumber>,
    /// What has come of it.
    pub result: SendResult,
    /// The status of the answer, or 0.
    pub status: u16,
    /// Of a message to several recipients: the result for each of them, as far as it is known; `None`: what is known stays.
    pub recipients: Option<Arc<[Recipient]>>,
}

impl DeliveryReport {
    /// The result of a test, which tells no row of the outbox.
    pub fn of_test(channel: ChannelId, sent: SendResult, status: u16) -> Self {
        Self { channel, sent_to: None, rows: Vec::new(), merged_into: None, result: sent, status, recipients: None }
    }
}

/// What has come of sending something. Reasons are sentences without secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendResult {
    /// The channel took it.
    Delivered,
    /// The channel took it, but not for all of its recipients.
    PartlyDelivered(Box<str>),
    /// A later row tells it as well, or it was over before it was told.
    Superseded(Box<str>),
    /// This channel is told nothing of the kind.
    Skipped(Box<str>),
    /// It will never be taken, or was tried for long enough.
    Failed(Box<str>),
    /// The channel takes nothing until somebody changes something: it is disabled.
    ChannelRejected(Box<str>),
    /// It is to be sent again.
    Retry {
        /// What went wrong; empty: nothing that the channel has to do with.
        reason: Box<str>,
        /// The request had gone out, so it may have arrived.
        may_have_arrived: bool,
    },
}

impl SendResult {
    /// The same of settings that the channel has no more: what was not taken is tried again with those that it has now.
    pub fn with_outdated_settings(self) -> Self {
        match self {
            Self::Failed(reason) | Self::ChannelRejected(reason) => Self::Retry { reason, may_have_arrived: false },
            other => other,
        }
    }
}
