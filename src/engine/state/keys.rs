//! Keys by their numbers, and by what each is recognised by.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::State;
use crate::domain::adopted::{Adopted, HashedKey};
use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::project::{Key, KeyHash, PingKey, Secret};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    keys: BTreeMap<KeyId, Arc<Key>>,
    by_hash: HashMap<KeyHash, KeyId>,
    by_ping_key: HashMap<PingKey, KeyId>,
    hashed: HashMap<HashedKey, KeyId>,
}

impl Keys {
    /// A key is new, or is recognised by something else from now on.
    pub(super) fn put(&mut self, key: &Arc<Key>) {
        if let Some(old) = self.keys.insert(key.id, Arc::clone(key)).filter(|old| old.secret != key.secret) {
            self.forget(&old);
        }
        match &key.secret {
            Secret::ReadWrite(hash) | Secret::ReadOnly(hash) => drop(self.by_hash.insert(*hash, key.id)),
            Secret::Ping(ping_key) => drop(self.by_ping_key.insert(ping_key.clone(), key.id)),
            Secret::Hashed(hashed) => drop(self.hashed.insert(*hashed, key.id)),
        }
    }

    /// The key that is gone.
    pub(super) fn remove(&mut self, id: KeyId) -> Option<Arc<Key>> {
        let key = self.keys.remove(&id)?;
        self.forget(&key);
        Some(key)
    }

    fn forget(&mut self, key: &Key) {
        match &key.secret {
            Secret::ReadWrite(hash) | Secret::ReadOnly(hash) => drop(self.by_hash.remove(hash)),
            Secret::Ping(ping_key) => drop(self.by_ping_key.remove(ping_key)),
            Secret::Hashed(hashed) => drop(self.hashed.remove(hashed)),
        }
    }
}

impl State {
    /// Every key, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.keys.keys.values()
    }

    /// A key by its number.
    pub fn key(&self, id: KeyId) -> Option<&Arc<Key>> {
        self.keys.keys.get(&id)
    }

    /// The API key of this hash.
    pub fn key_by_hash(&self, hash: &KeyHash) -> Option<&Arc<Key>> {
        self.key(*self.keys.by_hash.get(hash)?)
    }

    /// The API key of another server that is recognised by this, and that nobody has used here yet.
    pub fn hashed_key(&self, hashed: &HashedKey) -> Option<&Arc<Key>> {
        self.key(*self.keys.hashed.get(hashed)?)
    }

    /// The key that is this ping key.
    pub fn ping_key(&self, key: &PingKey) -> Option<&Arc<Key>> {
        self.key(*self.keys.by_ping_key.get(key)?)
    }

    /// The project that a ping key belongs to.
    pub fn project_by_ping_key(&self, key: &PingKey) -> Option<ProjectId> {
        self.ping_key(key).map(|key| key.project)
    }

    /// The adopted secrets that keys still need; `None`: all of them.
    pub fn secrets_to_keep(&self) -> Option<Adopted> {
        if self.adopted.is_empty() {
            return None;
        }
        let kept = self.adopted.only(&self.keys.hashed.keys().map(|hashed| hashed.secret).collect());
        (kept != *self.adopted).then_some(kept)
    }
}
