//! Cache of the counts for badges of tags and projects. Anyone may request a badge, and each count
//! examines every check.

use std::collections::HashMap;

use super::BadgeCounts;
use crate::domain::ids::ProjectId;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Maximum number of badges whose counts are cached. When it is reached, the cache is cleared.
const MAX_CACHED: usize = 1024;

/// Counts of badges, valid until something changes.
#[derive(Default)]
pub(crate) struct BadgeCountCache(Mutex<BadgeCountMap>);

/// Counts by project and tag.
type BadgeCountMap = HashMap<(ProjectId, Option<Box<str>>), BadgeCountEntry>;

struct BadgeCountEntry {
    counts: BadgeCounts,
    /// Version of the project that was counted.
    version: (u64, u64),
    counted_at: Timestamp,
    /// Time at which the counts change without an event.
    valid_until: Option<Timestamp>,
}

impl BadgeCountCache {
    /// Returns the cached counts, if they are still valid.
    pub(super) fn get(
        &self,
        handle: &Handle,
        project: ProjectId,
        tag: Option<&str>,
    ) -> Option<BadgeCounts> {
        let version = project_version(handle, project)?;
        let now = handle.now();
        let cache = self.lock();
        let entry = cache.get(&(project, tag.map(Box::from)))?;
        let is_valid = entry.version == version
            && entry.counted_at <= now
            && entry.valid_until.is_none_or(|until| now < until);
        is_valid.then_some(entry.counts)
    }

    /// Counts the checks, which may take long, and caches the result.
    pub(super) fn count(
        &self,
        handle: &Handle,
        project: ProjectId,
        tag: Option<Box<str>>,
    ) -> BadgeCounts {
        let before = project_version(handle, project);
        let now = handle.now();
        let mut counts = BadgeCounts::default();
        let mut until = None::<Timestamp>;
        handle.for_each_check(project, |check| {
            if tag
                .as_ref()
                .is_none_or(|tag| check.settings.tags.contains(tag))
            {
                counts.add(&check, now);
                let change = check.state.next_change(&check.settings, now);
                until = until.into_iter().chain(change).min();
            }
        });
        if let Some(version) = before.filter(|_| before == project_version(handle, project)) {
            let mut cache = self.lock();
            if cache.len() >= MAX_CACHED {
                cache.clear();
            }
            cache.insert(
                (project, tag),
                BadgeCountEntry {
                    counts,
                    version,
                    counted_at: now,
                    valid_until: until,
                },
            );
        }
        counts
    }

    fn lock(&self) -> MutexGuard<'_, BadgeCountMap> {
        lock(&self.0)
    }
}

/// Returns a version that changes whenever anything in the project does.
fn project_version(handle: &Handle, project: ProjectId) -> Option<(u64, u64)> {
    handle.with_state(|state| Some((state.epoch, state.project(project)?.version)))
}
