//! Feed of changed checks of a project, for live pages. The writer records published changes and
//! never waits for subscribers. The record has a bounded size. Without subscribers it costs one
//! read of a counter.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

// For numbers that the server itself has assigned.
use foldhash::fast::RandomState;
use tokio::sync::{Notify, watch};

use super::Handle;
use super::state::{Change, State, UserChange};
use crate::domain::ids::{CheckId, ProjectId};

/// Maximum number of changed checks that are kept until they are taken: see
/// [limits](crate::docs::limits). Beyond it every check counts as changed.
const MAX_CHANGES: usize = 4096;

/// Changes in a project since they were last taken.
#[derive(Debug, Default)]
pub struct ChangeSet {
    /// Checks that were created, changed or deleted. Some may belong to other projects.
    pub checks: HashSet<CheckId, RandomState>,
    /// True if every check may have changed.
    pub is_everything: bool,
}

impl ChangeSet {
    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && !self.is_everything
    }

    fn add(&mut self, id: CheckId) {
        if self.is_everything {
            return;
        }
        if self.checks.len() < MAX_CHANGES {
            self.checks.insert(id);
        } else {
            self.mark_everything();
        }
    }

    fn mark_everything(&mut self) {
        self.checks.clear();
        self.is_everything = true;
    }
}

/// Changes recorded for one subscriber.
#[derive(Default)]
struct Subscriber {
    changes: Mutex<ChangeSet>,
    /// Wakes the subscriber at the first change.
    changed: Notify,
}

impl Subscriber {
    fn lock_changes(&self) -> MutexGuard<'_, ChangeSet> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut ChangeSet)) {
        let mut noted = self.lock_changes();
        let was_empty = noted.is_empty();
        change(&mut noted);
        let rings = was_empty && !noted.is_empty();
        drop(noted);
        if rings {
            self.changed.notify_one();
        }
    }
}

/// Data that the subscribers and the writer share.
pub(super) struct ChangeFeed {
    /// Number of subscribers.
    subscriber_count: AtomicUsize,
    subscribers: Mutex<HashMap<ProjectId, Vec<Arc<Subscriber>>, RandomState>>,
    /// Changes whenever a session has ended or the rights of a user have changed.
    access_version: watch::Sender<u64>,
    /// Held by the writer from before it publishes changes until they are recorded.
    publication: Mutex<()>,
}

impl Default for ChangeFeed {
    fn default() -> Self {
        Self {
            subscriber_count: AtomicUsize::new(0),
            subscribers: Mutex::default(),
            access_version: watch::Sender::new(0),
            publication: Mutex::default(),
        }
    }
}

impl ChangeFeed {
    fn subscribers(&self) -> MutexGuard<'_, HashMap<ProjectId, Vec<Arc<Subscriber>>, RandomState>> {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a publication. It ends when the guard is dropped, after [`Self::notify_subscribers`].
    pub(super) fn begin_publication(&self) -> MutexGuard<'_, ()> {
        self.publication
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Records published changes. `state` is the state after them.
    pub(super) fn notify_subscribers(&self, changes: &[Change], state: &State) {
        if changes.iter().any(may_revoke_access) {
            self.access_version
                .send_modify(|version| *version = version.wrapping_add(1));
        }
        if self.subscriber_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let pads = self.subscribers();
        for change in changes {
            let id = match change {
                Change::Pinged { id, .. } => *id,
                Change::Check(check) => check.id,
                // The project of a deleted check is no longer known.
                Change::CheckGone(id) => {
                    pads.values()
                        .flatten()
                        .for_each(|pad| pad.update(|noted| noted.add(*id)));
                    continue;
                }
                Change::ProjectGone(_) | Change::ChannelGone(_) => {
                    pads.values()
                        .flatten()
                        .for_each(|pad| pad.update(ChangeSet::mark_everything));
                    continue;
                }
                _ => continue,
            };
            let project = state.check(id).map(|check| check.project);
            let own = project.and_then(|project| pads.get(&project));
            own.into_iter()
                .flatten()
                .for_each(|pad| pad.update(|noted| noted.add(id)));
        }
    }

    /// Records that every check may have changed, after the state was read from the file again.
    pub(super) fn notify_of_everything(&self) {
        self.subscribers()
            .values()
            .flatten()
            .for_each(|pad| pad.update(ChangeSet::mark_everything));
        self.access_version
            .send_modify(|version| *version = version.wrapping_add(1));
    }
}

/// True if the change may revoke access of a user.
fn may_revoke_access(change: &Change) -> bool {
    matches!(
        change,
        Change::User(UserChange::User(_) | UserChange::UserGone(_) | UserChange::SessionGone(_))
            | Change::ProjectGone(_)
    )
}

/// Subscription to the changes of a project, until it is dropped.
pub struct ProjectSubscription {
    // Not the engine: a subscriber does not keep the file open.
    feed: Arc<ChangeFeed>,
    project: ProjectId,
    subscriber: Arc<Subscriber>,
}

impl ProjectSubscription {
    /// Waits until there are changes. They stay until they are taken.
    pub async fn changed(&self) {
        while self.subscriber.lock_changes().is_empty() {
            self.subscriber.changed.notified().await;
        }
    }

    /// Takes the changes.
    pub fn take_changes(&self) -> ChangeSet {
        std::mem::take(&mut self.subscriber.lock_changes())
    }
}

impl Drop for ProjectSubscription {
    fn drop(&mut self) {
        let mut pads = self.feed.subscribers();
        if let Some(own) = pads.get_mut(&self.project) {
            own.retain(|pad| !Arc::ptr_eq(pad, &self.subscriber));
            if own.is_empty() {
                pads.remove(&self.project);
            }
        }
        self.feed.subscriber_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handle {
    /// Subscribes to the changed checks of a project. Changes published before this call are not
    /// recorded, later ones are.
    pub fn subscribe_to_project(&self, project: ProjectId) -> ProjectSubscription {
        let feed = Arc::clone(&self.0.feed);
        let pad = Arc::<Subscriber>::default();
        let mut pads = feed.subscribers();
        pads.entry(project).or_default().push(Arc::clone(&pad));
        feed.subscriber_count.fetch_add(1, Ordering::Relaxed);
        drop(pads);
        ProjectSubscription {
            feed,
            project,
            subscriber: pad,
        }
    }

    /// Waits until every change visible in [`Self::with_state`] is recorded. The writer records
    /// changes shortly after it publishes them.
    pub fn wait_for_publication(&self) {
        drop(self.0.feed.begin_publication());
    }

    /// Changes whenever a session has ended or the rights of a user have changed. Long-running
    /// responses then check access again.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.0.feed.access_version.subscribe()
    }
}
