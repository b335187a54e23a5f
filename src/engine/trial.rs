//! Requests to try a channel, which whoever sends carries out: doors ask, nobody imports those who send.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::Handle;
use super::command::Unavailable;
use crate::domain::ids::ChannelId;

/// Requests that may wait.
const MOST_WAITING: usize = 16;

/// A request to send a test to a channel.
pub struct Trial {
    /// To which.
    pub channel: ChannelId,
    /// Whether to try what is sent when a check is up again.
    pub up: bool,
    /// Who waits for what has come of it.
    pub reply: oneshot::Sender<Tried>,
}

/// What has come of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// How long it took.
    pub took: Duration,
    /// The status of the answer, or 0.
    pub status: u16,
    /// Why it was not taken; `None`: it was.
    pub failed: Option<String>,
}

/// What those who ask and those who send share.
#[derive(Default)]
pub(super) struct Trials {
    waiting: Mutex<VecDeque<Trial>>,
    /// Rings when something waits: here, or in the outbox.
    pub(super) bell: Notify,
}

impl Handle {
    /// Asks for a test of a channel.
    ///
    /// # Errors
    /// When too many wait.
    pub fn try_channel(&self, channel: ChannelId, up: bool) -> Result<oneshot::Receiver<Tried>, Unavailable> {
        let (reply, tried) = oneshot::channel();
        let mut waiting = self.0.trials.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MOST_WAITING {
            return Err(Unavailable::Busy);
        }
        waiting.push_back(Trial { channel, up, reply });
        self.0.trials.bell.notify_one();
        Ok(tried)
    }

    /// The next request to try a channel. For the one who sends.
    pub fn next_trial(&self) -> Option<Trial> {
        self.0.trials.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits until there may be something to send: rows of the outbox have changed, or a test was asked for. For the one who sends.
    pub async fn something_to_send(&self) {
        self.0.trials.bell.notified().await;
    }
}
