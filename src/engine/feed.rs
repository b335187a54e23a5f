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
const MOST_NOTED: usize = 4096;

/// What has changed in a project since it was asked for last.
#[derive(Debug, Default)]
pub struct Noted {
    /// Checks that are new, have changed or are gone. Some may belong to other projects.
    pub checks: HashSet<CheckId, RandomState>,
    /// Every check may have changed.
    pub whole: bool,
}

impl Noted {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && !self.whole
    }

    fn note(&mut self, id: CheckId) {
        if self.whole {
            return;
        }
        if self.checks.len() < MOST_NOTED {
            self.checks.insert(id);
        } else {
            self.everything();
        }
    }

    fn everything(&mut self) {
        self.checks.clear();
        self.whole = true;
    }
}

/// What is noted for one who looks.
#[derive(Default)]
struct Pad {
    noted: Mutex<Noted>,
    /// Rings when something is noted where nothing was.
    bell: Notify,
}

impl Pad {
    fn locked(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Noted)) {
        let mut noted = self.locked();
        let was_empty = noted.is_empty();
        change(&mut noted);
        let rings = was_empty && !noted.is_empty();
        drop(noted);
        if rings {
            self.bell.notify_one();
        }
    }
}

/// What those who look and the writer share.
pub(super) struct Feed {
    /// How many look.
    count: AtomicUsize,
    pads: Mutex<HashMap<ProjectId, Vec<Arc<Pad>>, RandomState>>,
    /// Changes whenever a session ended, or what somebody may do was changed.
    people: watch::Sender<u64>,
    /// Held by the writer from before it publishes changes until they are noted.
    publication: Mutex<()>,
}

impl Default for Feed {
    fn default() -> Self {
        Self { count: AtomicUsize::new(0), pads: Mutex::default(), people: watch::Sender::new(0), publication: Mutex::default() }
    }
}

impl Feed {
    fn pads(&self) -> MutexGuard<'_, HashMap<ProjectId, Vec<Arc<Pad>>, RandomState>> {
        self.pads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a publication, which ends when the guard is dropped, after [`Self::note`].
    pub(super) fn publication(&self) -> MutexGuard<'_, ()> {
        self.publication.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what has been published; `state` is as it is after that.
    pub(super) fn note(&self, changes: &[Change], state: &State) {
        if changes.iter().any(concerns_access) {
            self.people.send_modify(|version| *version = version.wrapping_add(1));
        }
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let pads = self.pads();
        for change in changes {
            let id = match change {
                Change::Pinged { id, .. } => *id,
                Change::Check(check) => check.id,
                // Nobody knows any more whose it was.
                Change::CheckGone(id) => {
                    pads.values().flatten().for_each(|pad| pad.change(|noted| noted.note(*id)));
                    continue;
                }
                Change::ProjectGone(_) | Change::ChannelGone(_) => {
                    pads.values().flatten().for_each(|pad| pad.change(Noted::everything));
                    continue;
                }
                _ => continue,
            };
            let project = state.check(id).map(|check| check.project);
            let own = project.and_then(|project| pads.get(&project));
            own.into_iter().flatten().for_each(|pad| pad.change(|noted| noted.note(id)));
        }
    }

    /// Memory was read anew: everything may be other than it was.
    pub(super) fn note_everything(&self) {
        self.pads().values().flatten().for_each(|pad| pad.change(Noted::everything));
        self.people.send_modify(|version| *version = version.wrapping_add(1));
    }
}

/// Whether somebody may see less than before.
fn concerns_access(change: &Change) -> bool {
    matches!(change, Change::User(UserChange::User(_) | UserChange::UserGone(_) | UserChange::SessionGone(_)) | Change::ProjectGone(_))
}

/// Somebody looks at a project, until this is dropped.
pub struct Watch {
    // Not the engine: whoever looks does not keep its file open.
    feed: Arc<Feed>,
    project: ProjectId,
    pad: Arc<Pad>,
}

impl Watch {
    /// Waits until something is noted, which stays noted until it is taken.
    pub async fn changed(&self) {
        while self.pad.locked().is_empty() {
            self.pad.bell.notified().await;
        }
    }

    /// Takes what is noted.
    pub fn take(&self) -> Noted {
        std::mem::take(&mut self.pad.locked())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut pads = self.feed.pads();
        if let Some(own) = pads.get_mut(&self.project) {
            own.retain(|pad| !Arc::ptr_eq(pad, &self.pad));
            if own.is_empty() {
                pads.remove(&self.project);
            }
        }
        self.feed.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handle {
    /// Has the writer note from now on which checks of a project change. What was published before this call is not noted; what is
    /// published after it is.
    pub fn watch_project(&self, project: ProjectId) -> Watch {
        let (feed, pad) = (Arc::clone(&self.0.feed), Arc::<Pad>::default());
        let mut pads = feed.pads();
        pads.entry(project).or_default().push(Arc::clone(&pad));
        feed.count.fetch_add(1, Ordering::Relaxed);
        drop(pads);
        Watch { feed, project, pad }
    }

    /// Waits until every change that [`Self::with_state`] has shown is noted. The writer notes changes shortly after it publishes them.
    pub fn wait_for_notes(&self) {
        drop(self.0.feed.publication());
    }

    /// Changes whenever a session ended, or what somebody may do was changed: whoever lets people look for long asks again.
    pub fn people(&self) -> watch::Receiver<u64> {
        self.0.feed.people.subscribe()
    }
}
