//! Index of keys by number and by secret.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::State;
use crate::domain::ids::{KeyId, ProjectId};
use crate::domain::legacy_keys::{LegacyKey, LegacySecrets};
use crate::domain::project::{KeySecret, PingKey, ProjectKey, SecretHash};

/// Keys by number and by secret.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyIndex {
    keys: BTreeMap<KeyId, Arc<ProjectKey>>,
    by_hash: HashMap<SecretHash, KeyId>,
    by_ping_key: HashMap<PingKey, KeyId>,
    by_legacy_key: HashMap<LegacyKey, KeyId>,
}

impl KeyIndex {
    /// Adds a key, or updates its secret.
    pub(super) fn put(&mut self, key: &Arc<ProjectKey>) {
        if let Some(old) = self
            .keys
            .insert(key.id, Arc::clone(key))
            .filter(|old| old.secret != key.secret)
        {
            self.remove_lookups(&old);
        }
        match &key.secret {
            KeySecret::ReadWrite(hash) | KeySecret::ReadOnly(hash) => {
                self.by_hash.insert(*hash, key.id)
            }
            KeySecret::Ping(ping_key) => self.by_ping_key.insert(ping_key.clone(), key.id),
            KeySecret::Legacy(hashed) => self.by_legacy_key.insert(*hashed, key.id),
        };
    }

    /// Removes and returns a key.
    pub(super) fn remove(&mut self, id: KeyId) -> Option<Arc<ProjectKey>> {
        let key = self.keys.remove(&id)?;
        self.remove_lookups(&key);
        Some(key)
    }

    fn remove_lookups(&mut self, key: &ProjectKey) {
        match &key.secret {
            KeySecret::ReadWrite(hash) | KeySecret::ReadOnly(hash) => self.by_hash.remove(hash),
            KeySecret::Ping(ping_key) => self.by_ping_key.remove(ping_key),
            KeySecret::Legacy(hashed) => self.by_legacy_key.remove(hashed),
        };
    }
}

impl State {
    /// All keys, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<ProjectKey>> {
        self.keys.keys.values()
    }

    /// Key with this number.
    pub fn key(&self, id: KeyId) -> Option<&Arc<ProjectKey>> {
        self.keys.keys.get(&id)
    }

    /// API key with this hash.
    pub fn key_by_hash(&self, hash: &SecretHash) -> Option<&Arc<ProjectKey>> {
        self.key(*self.keys.by_hash.get(hash)?)
    }

    /// API key of another server that has not been used here yet.
    pub fn legacy_key(&self, hashed: &LegacyKey) -> Option<&Arc<ProjectKey>> {
        self.key(*self.keys.by_legacy_key.get(hashed)?)
    }

    /// Key record of this ping key.
    pub fn key_by_ping_key(&self, key: &PingKey) -> Option<&Arc<ProjectKey>> {
        self.key(*self.keys.by_ping_key.get(key)?)
    }

    /// Project of a ping key.
    pub fn project_by_ping_key(&self, key: &PingKey) -> Option<ProjectId> {
        self.key_by_ping_key(key).map(|key| key.project)
    }

    /// Legacy secrets that keys still need. `None` if all are needed.
    pub fn legacy_secrets_in_use(&self) -> Option<LegacySecrets> {
        if self.legacy_secrets.is_empty() {
            return None;
        }
        let kept = self.legacy_secrets.retain_numbers(
            &self
                .keys
                .by_legacy_key
                .keys()
                .map(|hashed| hashed.secret_number)
                .collect(),
        );
        (kept != *self.legacy_secrets).then_some(kept)
    }
}
