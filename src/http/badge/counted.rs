//! What was counted for badges of tags and projects: anyone may ask for one, and each asks for a look at every check.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Counts;
use crate::domain::ids::ProjectId;
use crate::domain::moment::Moment;
use crate::engine::Handle;

/// Badges whose counts are kept. When there are as many, all are counted anew.
const MOST_KEPT: usize = 1024;

/// The counts of badges, as long as nothing changes.
#[derive(Default)]
pub(crate) struct Counted(Mutex<Kept>);

/// By project and tag.
type Kept = HashMap<(ProjectId, Option<Box<str>>), Entry>;

struct Entry {
    counts: Counts,
    /// What they were counted in.
    version: (u64, u64),
    from: Moment,
    /// When time alone changes them.
    until: Option<Moment>,
}

impl Counted {
    /// The counts, if they are still right.
    pub(super) fn get(&self, handle: &Handle, project: ProjectId, tag: Option<&str>) -> Option<Counts> {
        let (version, now) = (version(handle, project)?, handle.now());
        let kept = self.locked();
        let entry = kept.get(&(project, tag.map(Box::from)))?;
        let right = entry.version == version && entry.from <= now && entry.until.is_none_or(|until| now < until);
        right.then_some(entry.counts)
    }

    /// Counts, which may take long.
    pub(super) fn count(&self, handle: &Handle, project: ProjectId, tag: Option<Box<str>>) -> Counts {
        let (before, now) = (version(handle, project), handle.now());
        let (mut counts, mut until) = (Counts::default(), None::<Moment>);
        handle.each_check(project, |check| {
            if tag.as_ref().is_none_or(|tag| check.settings.tags.contains(tag)) {
                counts.add(&check, now);
                let change = check.state.next_change(&check.settings, now);
                until = until.into_iter().chain(change).min();
            }
        });
        if let Some(version) = before.filter(|_| before == version(handle, project)) {
            let mut kept = self.locked();
            if kept.len() >= MOST_KEPT {
                kept.clear();
            }
            kept.insert((project, tag), Entry { counts, version, from: now, until });
        }
        counts
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes whenever something of the project does.
fn version(handle: &Handle, project: ProjectId) -> Option<(u64, u64)> {
    handle.with_state(|state| Some((state.epoch, state.project(project)?.version)))
}
