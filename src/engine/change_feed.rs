//! Feed of changed checks of a project, for live pages. The writer records published changes and
//! never waits for subscribers. The record has a bounded size. Without subscribers it costs one
//! read of a counter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

// For numbers that the server itself has assigned.
use foldhash::fast::RandomState;
use tokio::sync::{Notify, watch};

use super::Handle;
use super::state::{Change, State, UserChange};
use crate::domain::ids::{CheckId, ProjectId};
use crate::util::sync::atomic::{AtomicUsize, Ordering};
use crate::util::sync::{Mutex, MutexGuard, lock};

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
        lock(&self.changes)
    }

    fn update(&self, change: impl FnOnce(&mut ChangeSet)) {
        let mut changes = self.lock_changes();
        let was_empty = changes.is_empty();
        change(&mut changes);
        let should_notify = was_empty && !changes.is_empty();
        drop(changes);
        if should_notify {
            self.changed.notify_one();
        }
    }
}

/// Data that the subscribers and the writer share.
pub(super) struct ChangeFeed {
    /// Number of subscribers.
    subscriber_count: AtomicUsize,
    subscribers: Mutex<HashMap<ProjectId, Vec<Arc<Subscriber>>, RandomState>>,
    /// Changes whenever a session has ended or the permissions of a user have changed.
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
        lock(&self.subscribers)
    }

    /// Begins a publication. It ends when the guard is dropped, after [`Self::notify_subscribers`].
    pub(super) fn begin_publication(&self) -> MutexGuard<'_, ()> {
        lock(&self.publication)
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
        let subscribers = self.subscribers();
        for change in changes {
            let id = match change {
                Change::CheckState { id, .. } => *id,
                Change::Check(check) => check.id,
                // The project of a deleted check is no longer known.
                Change::CheckDeleted(id) => {
                    subscribers
                        .values()
                        .flatten()
                        .for_each(|subscriber| subscriber.update(|change_set| change_set.add(*id)));
                    continue;
                }
                Change::ProjectDeleted(_) | Change::ChannelDeleted(_) => {
                    subscribers
                        .values()
                        .flatten()
                        .for_each(|subscriber| subscriber.update(ChangeSet::mark_everything));
                    continue;
                }
                _ => continue,
            };
            let project = state.check(id).map(|check| check.project);
            let project_subscribers = project.and_then(|project| subscribers.get(&project));
            project_subscribers
                .into_iter()
                .flatten()
                .for_each(|subscriber| subscriber.update(|change_set| change_set.add(id)));
        }
    }

    /// Records that every check may have changed, after the state was read from the file again.
    pub(super) fn notify_of_everything(&self) {
        self.subscribers()
            .values()
            .flatten()
            .for_each(|subscriber| subscriber.update(ChangeSet::mark_everything));
        self.access_version
            .send_modify(|version| *version = version.wrapping_add(1));
    }
}

/// True if the change may revoke access of a user.
fn may_revoke_access(change: &Change) -> bool {
    matches!(
        change,
        Change::User(
            UserChange::User(_) | UserChange::UserDeleted(_) | UserChange::SessionDeleted(_)
        ) | Change::ProjectDeleted(_)
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
        let mut subscribers = self.feed.subscribers();
        if let Some(project_subscribers) = subscribers.get_mut(&self.project) {
            project_subscribers.retain(|subscriber| !Arc::ptr_eq(subscriber, &self.subscriber));
            if project_subscribers.is_empty() {
                subscribers.remove(&self.project);
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
        let subscriber = Arc::<Subscriber>::default();
        let mut subscribers = feed.subscribers();
        subscribers
            .entry(project)
            .or_default()
            .push(Arc::clone(&subscriber));
        feed.subscriber_count.fetch_add(1, Ordering::Relaxed);
        drop(subscribers);
        ProjectSubscription {
            feed,
            project,
            subscriber,
        }
    }

    /// Waits until every change visible in [`Self::with_state`] is recorded. The writer records
    /// changes shortly after it publishes them.
    pub fn wait_for_publication(&self) {
        drop(self.0.feed.begin_publication());
    }

    /// Changes whenever a session has ended or the permissions of a user have changed. Long-running
    /// responses then check access again.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.0.feed.access_version.subscribe()
    }
}
