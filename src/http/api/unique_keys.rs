//! Which check a unique key names. It is a hash of the UUID, so whoever asks for one that was not asked for before has all hashed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::domain::ids::{ProjectId, UniqueKey};
use crate::engine::Handle;

/// Keys that are kept. When there are as many, they are searched anew.
const MAX_CACHED: usize = 100_000;

/// The checks of keys that were searched. A key never names another check, so what was found stays right.
#[derive(Default)]
pub(crate) struct UniqueKeyCache(Mutex<HashMap<UniqueKey, Uuid>>);

impl UniqueKeyCache {
    /// The UUID of the check, if it is known and in this project.
    pub(super) fn get(&self, handle: &Handle, project: ProjectId, key: UniqueKey) -> Option<Uuid> {
        let uuid = *self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?;
        handle.with_state(|state| state.check_by_uuid(uuid).is_some_and(|check| check.project == project).then_some(uuid))
    }

    /// Looks at every check of the project, which may take long, and keeps their keys.
    pub(super) fn search(&self, handle: &Handle, project: ProjectId, key: UniqueKey) -> Option<Uuid> {
        let mut found = None;
        let mut keys = Vec::new();
        handle.for_each_check(project, |check| {
            let own = UniqueKey::of_check(check.uuid);
            keys.push((own, check.uuid));
            if own == key {
                found = Some(check.uuid);
            }
        });
        // A wrong guess is to push nobody out.
        if found.is_some() {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() + keys.len() > MAX_CACHED {
                kept.clear();
            }
            kept.extend(keys.into_iter().take(MAX_CACHED));
        }
        found
    }
}
