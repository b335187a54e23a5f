//! Which checks of a project have changed, for those who look at it while it changes. The writer notes what it has published and waits
//! for nobody; what is noted is bounded; while nobody looks, it costs one look at a number.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

// For numbers that we have counted ourselves.
use foldhash::fast::RandomState;
use tokio::sync::{Notify, watch};

use super::Handle;
use super::state::{Change, State, UserChange};
use crate::domain::ids::{CheckId, ProjectId};

/// Checks that are noted until somebody takes them: see [limits](crate::docs::limits). Beyond that all may have changed.
const MAX_CHANGES: usize = 4096;

/// What has changed in a project since it was asked for last.
#[derive(Debug, Default)]
pub struct ChangeSet {
    /// Checks that are new, have changed or are gone. Some may belong to other projects.
    pub checks: HashSet<CheckId, RandomState>,
    /// Every check may have changed.
    pub is_everything: bool,
}

impl ChangeSet {
    /// Whether nothing has changed.
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

/// What is noted for one who looks.
#[derive(Default)]
struct Subscriber {
    changes: Mutex<ChangeSet>,
    /// Rings when something is noted where nothing was.
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

/// What those who look and the writer share.
pub(super) struct ChangeFeed {
    /// How many look.
    subscriber_count: AtomicUsize,
    subscribers: Mutex<HashMap<ProjectId, Vec<Arc<Subscriber>>, RandomState>>,
    /// Changes whenever a session ended, or what somebody may do was changed.
    access_version: watch::Sender<u64>,
    /// Held by the writer from before it publishes changes until they are noted.
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
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a publication, which ends when the guard is dropped, after [`Self::note`].
    pub(super) fn begin_publication(&self) -> MutexGuard<'_, ()> {
        self.publication.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what has been published; `state` is as it is after that.
    pub(super) fn notify_subscribers(&self, changes: &[Change], state: &State) {
        if changes.iter().any(may_revoke_access) {
            self.access_version.send_modify(|version| *version = version.wrapping_add(1));
        }
        if self.subscriber_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let pads = self.subscribers();
        for change in changes {
            let id = match change {
                Change::Pinged { id, .. } => *id,
                Change::Check(check) => check.id,
                // Nobody knows any more whose it was.
                Change::CheckGone(id) => {
                    pads.values().flatten().for_each(|pad| pad.update(|noted| noted.add(*id)));
                    continue;
                }
                Change::ProjectGone(_) | Change::ChannelGone(_) => {
                    pads.values().flatten().for_each(|pad| pad.update(ChangeSet::mark_everything));
                    continue;
                }
                _ => continue,
            };
            let project = state.check(id).map(|check| check.project);
            let own = project.and_then(|project| pads.get(&project));
            own.into_iter().flatten().for_each(|pad| pad.update(|noted| noted.add(id)));
        }
    }

    /// Memory was read anew: everything may be other than it was.
    pub(super) fn notify_of_everything(&self) {
        self.subscribers().values().flatten().for_each(|pad| pad.update(ChangeSet::mark_everything));
        self.access_version.send_modify(|version| *version = version.wrapping_add(1));
    }
}

/// Whether somebody may see less than before.
fn may_revoke_access(change: &Change) -> bool {
    matches!(change, Change::User(UserChange::User(_) | UserChange::UserGone(_) | UserChange::SessionGone(_)) | Change::ProjectGone(_))
}

/// Somebody looks at a project, until this is dropped.
pub struct ProjectSubscription {
    // Not the engine: whoever looks does not keep its file open.
    feed: Arc<ChangeFeed>,
    project: ProjectId,
    subscriber: Arc<Subscriber>,
}

impl ProjectSubscription {
    /// Waits until something is noted, which stays noted until it is taken.
    pub async fn changed(&self) {
        while self.subscriber.lock_changes().is_empty() {
            self.subscriber.changed.notified().await;
        }
    }

    /// Takes what is noted.
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
    /// Has the writer note from now on which checks of a project change. What was published before this call is not noted; what is
    /// published after it is.
    pub fn subscribe_to_project(&self, project: ProjectId) -> ProjectSubscription {
        let (feed, pad) = (Arc::clone(&self.0.feed), Arc::<Subscriber>::default());
        let mut pads = feed.subscribers();
        pads.entry(project).or_default().push(Arc::clone(&pad));
        feed.subscriber_count.fetch_add(1, Ordering::Relaxed);
        drop(pads);
        ProjectSubscription { feed, project, subscriber: pad }
    }

    /// Waits until every change that [`Self::with_state`] has shown is noted. The writer notes changes shortly after it publishes them.
    pub fn wait_for_publication(&self) {
        drop(self.0.feed.begin_publication());
    }

    /// Changes whenever a session ended, or what somebody may do was changed: whoever lets people look for long asks again.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.0.feed.access_version.subscribe()
    }
}
