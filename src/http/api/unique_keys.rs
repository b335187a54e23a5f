//! Finds the check of a unique key. The key is a hash of the UUID, so a request with a key that is
//! not cached hashes all UUIDs.

use std::collections::HashMap;

use uuid::Uuid;

use crate::domain::ids::{ProjectId, UniqueKey};
use crate::engine::Handle;
use crate::util::sync::{Mutex, lock};

/// Maximum number of cached keys. When it is reached, the cache is cleared.
const MAX_CACHED: usize = 100_000;

/// Checks of keys that were searched. A key never names another check, so entries stay valid.
#[derive(Default)]
pub(crate) struct UniqueKeyCache(Mutex<HashMap<UniqueKey, Uuid>>);

impl UniqueKeyCache {
    /// Returns the UUID of the check, if it is cached and in this project.
    pub(super) fn get(&self, handle: &Handle, project: ProjectId, key: UniqueKey) -> Option<Uuid> {
        let uuid = *lock(&self.0).get(&key)?;
        handle.with_state(|state| {
            state
                .check_by_uuid(uuid)
                .is_some_and(|check| check.project == project)
                .then_some(uuid)
        })
    }

    /// Searches all checks of the project, which may take long, and caches the result.
    pub(super) fn search(
        &self,
        handle: &Handle,
        project: ProjectId,
        key: UniqueKey,
    ) -> Option<Uuid> {
        let mut found = None;
        let mut keys = Vec::new();
        handle.for_each_check(project, |check| {
            let check_key = UniqueKey::of_check(check.uuid);
            keys.push((check_key, check.uuid));
            if check_key == key {
                found = Some(check.uuid);
            }
        });
        // Only hits are cached, so that wrong guesses evict no entry.
        if found.is_some() {
            let mut cache = lock(&self.0);
            if cache.len() + keys.len() > MAX_CACHED {
                cache.clear();
            }
            cache.extend(keys.into_iter().take(MAX_CACHED));
        }
        found
    }
}
