//! Queue of channel tests: API and CLI enqueue, the notifier executes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::Handle;
use super::command::Unavailable;
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::project::Channel;
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore};
use crate::util::sync::{Mutex, lock};

/// Maximum number of waiting tests. The tests of one project may take at most as many slots as
/// remain free after them.
const MAX_WAITING_TESTS: usize = 16;
/// Maximum number of tests that run at the same time, of different projects. The limit leaves
/// outgoing connections for alerts.
const MAX_RUNNING_TESTS: usize = 4;

/// Channel of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TestedChannel {
    /// Stored channel. The result is recorded.
    Stored(ChannelId),
    /// Channel as a form describes it, which is not stored. Nothing is recorded.
    Draft(Arc<Channel>),
}

impl TestedChannel {
    /// Returns the channel. `None`: it was deleted.
    pub fn find(&self, handle: &Handle) -> Option<Arc<Channel>> {
        match self {
            Self::Stored(id) => handle.with_state(|state| state.channel(*id).cloned()),
            Self::Draft(channel) => Some(Arc::clone(channel)),
        }
    }

    /// True if the channel is not stored yet, so that its messages are not counted.
    pub fn is_new(&self, handle: &Handle) -> bool {
        match self {
            Self::Stored(_) => false,
            Self::Draft(channel) => handle.with_state(|state| state.channel(channel.id).is_none()),
        }
    }
}

/// Test of a channel that may now be sent.
pub struct ChannelTest {
    /// Channel to test.
    pub channel: TestedChannel,
    /// True if the message for a recovery is tested, instead of the one for a downtime.
    pub is_up_message: bool,
    /// Receives the result.
    pub reply: oneshot::Sender<ChannelTestResult>,
    /// Dropping it permits the next test of the project.
    pub permit: ChannelTestPermit,
}

/// Test that waits.
struct WaitingChannelTest {
    project: ProjectId,
    channel: TestedChannel,
    is_up_message: bool,
    reply: oneshot::Sender<ChannelTestResult>,
}

/// Permission to run a test, until it is dropped.
pub struct ChannelTestPermit {
    // Dropped in this order: the notifier wakes when the permit is free.
    _permit: KeyedPermit,
    _wake_up: NotifierWakeUp,
}

/// Wakes the notifier when it is dropped.
struct NotifierWakeUp(Handle);

impl Drop for NotifierWakeUp {
    fn drop(&mut self) {
        self.0.0.channel_tests.work_available.notify_one();
    }
}

/// Result of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelTestResult {
    /// Time that the test took.
    pub duration: Duration,
    /// Status of the response, or 0.
    pub status: u16,
    /// Error, if no recipient accepted the message.
    pub error: Option<String>,
    /// Summary of a partial delivery: number of recipients that accepted it, and the others with
    /// reasons. `None` if all or no recipients accepted it.
    pub missed: Option<String>,
}

/// Data that callers and the notifier share.
pub(super) struct ChannelTestQueue {
    waiting: Mutex<VecDeque<WaitingChannelTest>>,
    /// One running test of each project.
    running: KeyedSemaphore<ProjectId>,
    /// Wakes the notifier when there is work, in this queue or in the outbox.
    pub(super) work_available: Notify,
}

impl Default for ChannelTestQueue {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            running: KeyedSemaphore::per_key(1).with_total(MAX_RUNNING_TESTS),
            work_available: Notify::new(),
        }
    }
}

impl Handle {
    /// Requests a test of a stored channel. `is_up_message`: tests the message for a recovery.
    ///
    /// # Errors
    /// If too many tests wait, of the project or in total.
    pub fn request_channel_test(
        &self,
        channel: ChannelId,
        is_up_message: bool,
    ) -> Result<oneshot::Receiver<ChannelTestResult>, Unavailable> {
        self.queue_channel_test(TestedChannel::Stored(channel), is_up_message)
    }

    /// Requests a test of a channel, stored or not.
    ///
    /// # Errors
    /// As for [`request_channel_test`](Self::request_channel_test).
    pub fn queue_channel_test(
        &self,
        channel: TestedChannel,
        is_up_message: bool,
    ) -> Result<oneshot::Receiver<ChannelTestResult>, Unavailable> {
        let (reply, result) = oneshot::channel();
        // A channel that is deleted in the meantime is not tested; the caller notices that.
        let project = channel
            .find(self)
            .map_or(ProjectId(0), |channel| channel.project);
        let mut waiting = lock(&self.0.channel_tests.waiting);
        let project_tests = waiting
            .iter()
            .filter(|test| test.project == project)
            .count();
        if project_tests >= MAX_WAITING_TESTS.saturating_sub(waiting.len()) {
            return Err(Unavailable::QueueFull);
        }
        waiting.push_back(WaitingChannelTest {
            project,
            channel,
            is_up_message,
            reply,
        });
        self.0.channel_tests.work_available.notify_one();
        Ok(result)
    }

    /// Next test that may run. For the notifier.
    pub fn next_channel_test(&self) -> Option<ChannelTest> {
        let tests = &self.0.channel_tests;
        let mut waiting = lock(&tests.waiting);
        let (next, permit) = waiting.iter().enumerate().find_map(|(index, test)| {
            let permit = tests.running.try_acquire(test.project).ok()?;
            Some((index, permit))
        })?;
        let WaitingChannelTest {
            channel,
            is_up_message,
            reply,
            ..
        } = waiting.remove(next)?;
        Some(ChannelTest {
            channel,
            is_up_message,
            reply,
            permit: ChannelTestPermit {
                _permit: permit,
                _wake_up: NotifierWakeUp(self.clone()),
            },
        })
    }

    /// Waits until there may be something to send: changed rows of the outbox, or a requested test.
    /// For the notifier.
    pub async fn wait_for_outgoing(&self) {
        self.0.channel_tests.work_available.notified().await;
    }
}
