//! Results of messages, as those who send report them.

use std::sync::Arc;

use crate::domain::alert::Recipient;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;

/// What has come of one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// To which channel it was sent.
    pub channel: ChannelId,
    /// The channel as it was then; `None`: it was not sent at all, so that the settings do not matter.
    pub sent_to: Option<Arc<Channel>>,
    /// What it told.
    pub rows: Vec<DeliveryNumber>,
    /// Which of them stands for the message.
    pub told_with: Option<DeliveryNumber>,
    /// What has come of it.
    pub sent: SendOutcome,
    /// The status of the answer, or 0.
    pub status: u16,
    /// Of a message to several recipients: the result for each of them, as far as it is known; `None`: what is known stays.
    pub recipients: Option<Arc<[Recipient]>>,
}

impl Report {
    /// The result of a test, which tells no row of the outbox.
    pub fn of_test(channel: ChannelId, sent: SendOutcome, status: u16) -> Self {
        Self { channel, sent_to: None, rows: Vec::new(), told_with: None, sent, status, recipients: None }
    }
}

/// What has come of sending something. Reasons are sentences without secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendOutcome {
    /// The channel took it.
    Delivered,
    /// The channel took it, but not for all of its recipients.
    DeliveredInPart(Box<str>),
    /// A later row tells it as well, or it was over before it was told.
    Superseded(Box<str>),
    /// This channel is told nothing of the kind.
    Skipped(Box<str>),
    /// It will never be taken, or was tried for long enough.
    Failed(Box<str>),
    /// The channel takes nothing until somebody changes something: it is disabled.
    Closed(Box<str>),
    /// It is to be sent again.
    Later {
        /// What went wrong; empty: nothing that the channel has to do with.
        reason: Box<str>,
        /// The request had gone out, so it may have arrived.
        doubtful: bool,
    },
}

impl SendOutcome {
    /// The same of settings that the channel has no more: what was not taken is tried again with those that it has now.
    pub fn under_old_settings(self) -> Self {
        match self {
            Self::Failed(reason) | Self::Closed(reason) => Self::Later { reason, doubtful: false },
            other => other,
        }
    }
}
