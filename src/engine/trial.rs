//! Requests to try a channel, which whoever sends carries out: doors ask, nobody imports those who send.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::Handle;
use super::command::Unavailable;
use crate::domain::ids::{ChannelId, ProjectId};

/// Requests that may wait. Those of one project take at most as many places as are free after them.
const MOST_WAITING: usize = 16;
/// Tests that are sent at the same time, of different projects: alerts need the places that requests go out by.
const MOST_AT_ONCE: usize = 4;

/// A request to send a test to a channel, whose turn has come.
pub struct Trial {
    /// To which.
    pub channel: ChannelId,
    /// Whether to try what is sent when a check is up again.
    pub up: bool,
    /// Who waits for what has come of it.
    pub reply: oneshot::Sender<Tried>,
    /// The next test of its project is sent when this is dropped.
    pub turn: Turn,
}

/// A request that waits.
struct Asked {
    project: ProjectId,
    channel: ChannelId,
    up: bool,
    reply: oneshot::Sender<Tried>,
}

#[derive(Default)]
struct Requests {
    waiting: VecDeque<Asked>,
    /// The projects of which one is being carried out.
    under_way: BTreeSet<ProjectId>,
}

/// The turn of a test. It ends when this is dropped.
pub struct Turn {
    handle: Handle,
    project: ProjectId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.handle.0.trials.requests().under_way.remove(&self.project);
        self.handle.0.trials.bell.notify_one();
    }
}

/// What has come of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// How long it took.
    pub took: Duration,
    /// The status of the answer, or 0.
    pub status: u16,
    /// Why nobody took it; `None`: somebody did.
    pub failed: Option<String>,
    /// How many of several recipients took it, and who did not and why; `None`: all did, or nobody.
    pub missed: Option<String>,
}

/// What those who ask and those who send share.
#[derive(Default)]
pub(super) struct Trials {
    requests: Mutex<Requests>,
    /// Rings when something waits: here, or in the outbox.
    pub(super) bell: Notify,
}

impl Trials {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// Asks for a test of a channel.
    ///
    /// # Errors
    /// When too many wait, of its project or in all.
    pub fn try_channel(&self, channel: ChannelId, up: bool) -> Result<oneshot::Receiver<Tried>, Unavailable> {
        let (reply, tried) = oneshot::channel();
        // One that is gone meanwhile is not tried, which whoever asked notices.
        let project = self.with_state(|state| state.channel(channel).map_or(ProjectId(0), |channel| channel.project));
        let mut requests = self.0.trials.requests();
        let own = requests.waiting.iter().filter(|asked| asked.project == project).count();
        if own >= MOST_WAITING.saturating_sub(requests.waiting.len()) {
            return Err(Unavailable::Busy);
        }
        requests.waiting.push_back(Asked { project, channel, up, reply });
        self.0.trials.bell.notify_one();
        Ok(tried)
    }

    /// The next request to try a channel whose turn it is. For the one who sends.
    pub fn next_trial(&self) -> Option<Trial> {
        let mut requests = self.0.trials.requests();
        let Requests { waiting, under_way } = &mut *requests;
        if under_way.len() >= MOST_AT_ONCE {
            return None;
        }
        let next = waiting.iter().position(|asked| !under_way.contains(&asked.project))?;
        let Asked { project, channel, up, reply } = waiting.remove(next)?;
        under_way.insert(project);
        Some(Trial { channel, up, reply, turn: Turn { handle: self.clone(), project } })
    }

    /// Waits until there may be something to send: rows of the outbox have changed, or a test was asked for. For the one who sends.
    pub async fn something_to_send(&self) {
        self.0.trials.bell.notified().await;
    }
}
