//! Requests to try a channel, which whoever sends carries out: doors ask, nobody imports those who send.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::Handle;
use super::command::Unavailable;
use crate::domain::ids::{ChannelId, ProjectId};

/// Requests that may wait. Those of one project take at most as many places as are free after them.
const MAX_WAITING_TESTS: usize = 16;
/// Tests that are sent at the same time, of different projects: alerts need the places that requests go out by.
const MAX_RUNNING_TESTS: usize = 4;

/// A request to send a test to a channel, whose turn has come.
pub struct ChannelTest {
    /// To which.
    pub channel: ChannelId,
    /// Whether to try what is sent when a check is up again.
    pub is_up_message: bool,
    /// Who waits for what has come of it.
    pub reply: oneshot::Sender<ChannelTestResult>,
    /// The next test of its project is sent when this is dropped.
    pub permit: ChannelTestPermit,
}

/// A request that waits.
struct WaitingChannelTest {
    project: ProjectId,
    channel: ChannelId,
    is_up_message: bool,
    reply: oneshot::Sender<ChannelTestResult>,
}

#[derive(Default)]
struct ChannelTestRequests {
    waiting: VecDeque<WaitingChannelTest>,
    /// The projects of which one is being carried out.
    running: BTreeSet<ProjectId>,
}

/// The turn of a test. It ends when this is dropped.
pub struct ChannelTestPermit {
    handle: Handle,
    project: ProjectId,
}

impl Drop for ChannelTestPermit {
    fn drop(&mut self) {
        self.handle.0.channel_tests.lock_requests().running.remove(&self.project);
        self.handle.0.channel_tests.work_available.notify_one();
    }
}

/// What has come of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelTestResult {
    /// How long it took.
    pub duration: Duration,
    /// The status of the answer, or 0.
    pub status: u16,
    /// Why nobody took it; `None`: somebody did.
    pub error: Option<String>,
    /// How many of several recipients took it, and who did not and why; `None`: all did, or nobody.
    pub missed: Option<String>,
}

/// What those who ask and those who send share.
#[derive(Default)]
pub(super) struct ChannelTestQueue {
    requests: Mutex<ChannelTestRequests>,
    /// Rings when something waits: here, or in the outbox.
    pub(super) work_available: Notify,
}

impl ChannelTestQueue {
    fn lock_requests(&self) -> MutexGuard<'_, ChannelTestRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// Asks for a test of a channel.
    ///
    /// # Errors
    /// When too many wait, of its project or in all.
    pub fn request_channel_test(&self, channel: ChannelId, up: bool) -> Result<oneshot::Receiver<ChannelTestResult>, Unavailable> {
        let (reply, tried) = oneshot::channel();
        // One that is gone meanwhile is not tried, which whoever asked notices.
        let project = self.with_state(|state| state.channel(channel).map_or(ProjectId(0), |channel| channel.project));
        let mut requests = self.0.channel_tests.lock_requests();
        let own = requests.waiting.iter().filter(|asked| asked.project == project).count();
        if own >= MAX_WAITING_TESTS.saturating_sub(requests.waiting.len()) {
            return Err(Unavailable::Busy);
        }
        requests.waiting.push_back(WaitingChannelTest { project, channel, is_up_message: up, reply });
        self.0.channel_tests.work_available.notify_one();
        Ok(tried)
    }

    /// The next request to try a channel whose turn it is. For the one who sends.
    pub fn next_channel_test(&self) -> Option<ChannelTest> {
        let mut requests = self.0.channel_tests.lock_requests();
        let ChannelTestRequests { waiting, running: under_way } = &mut *requests;
        if under_way.len() >= MAX_RUNNING_TESTS {
            return None;
        }
        let next = waiting.iter().position(|asked| !under_way.contains(&asked.project))?;
        let WaitingChannelTest { project, channel, is_up_message: up, reply } = waiting.remove(next)?;
        under_way.insert(project);
        Some(ChannelTest { channel, is_up_message: up, reply, permit: ChannelTestPermit { handle: self.clone(), project } })
    }

    /// Waits until there may be something to send: rows of the outbox have changed, or a test was asked for. For the one who sends.
    pub async fn wait_for_outgoing(&self) {
        self.0.channel_tests.work_available.notified().await;
    }
}
