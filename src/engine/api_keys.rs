//! Lookup of API keys, and updates of their use. The updates are written in the background; no
//! request waits for them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::Handle;
use super::command::Command;
use crate::domain::ids::KeyId;
use crate::domain::legacy_keys::{LegacyKey, LegacySecrets};
use crate::domain::project::{KeyUse, ProjectKey, SecretHash};
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Updates of API keys that are not written yet, at most one of each kind for a key.
#[derive(Default)]
pub(super) struct KeyUpdates(Mutex<PendingKeyUpdates>);

#[derive(Default)]
struct PendingKeyUpdates {
    uses: HashMap<KeyId, KeyUse>,
    /// Hashes of keys that were so far known only by the digest of another server.
    hashes: HashMap<KeyId, SecretHash>,
}

impl KeyUpdates {
    /// Takes all updates, as commands.
    pub(super) fn take_commands(&self) -> impl Iterator<Item = Command> + use<> {
        let PendingKeyUpdates { uses, hashes } = std::mem::take(&mut *self.lock_pending());
        let uses = (!uses.is_empty()).then(|| Command::RecordKeyUses(uses.into_iter().collect()));
        hashes
            .into_iter()
            .map(|(key, hash)| Command::RehashKey(key, hash))
            .chain(uses)
    }

    fn lock_pending(&self) -> MutexGuard<'_, PendingKeyUpdates> {
        lock(&self.0)
    }
}

impl Handle {
    /// Finds the API key with this text. A key of another server gets a hash of our own, by which
    /// it is found from then on.
    pub fn find_api_key(&self, text: &[u8]) -> Option<Arc<ProjectKey>> {
        // The time of the lookup reveals at most how similar the hash of a guess is to a stored
        // hash. That does not help an attacker.
        let hash = SecretHash::of(text);
        let (key, legacy_secrets) = self.with_state(|state| {
            (
                state.key_by_hash(&hash).cloned(),
                Arc::clone(&state.legacy_secrets),
            )
        });
        if key.is_some() || legacy_secrets.is_empty() {
            return key;
        }
        // Runs without the lock, so that the writer does not wait.
        let candidates = legacy_key_candidates(&legacy_secrets, text);
        let key = self.with_state(|state| {
            // The key may have got its hash in the meantime.
            let key = state.key_by_hash(&hash).or_else(|| {
                candidates
                    .iter()
                    .find_map(|candidate| state.legacy_key(candidate))
            });
            key.cloned()
        })?;
        if key.is_unused_since_import() {
            self.0
                .key_updates
                .lock_pending()
                .hashes
                .insert(key.id, hash);
        }
        Some(key)
    }

    /// Records the use of an API key, at most once an hour.
    pub fn record_key_use(&self, key: &ProjectKey, from: impl FnOnce() -> IpAddr) {
        let at = self.now();
        if !key.is_use_recorded(at) {
            self.0
                .key_updates
                .lock_pending()
                .uses
                .entry(key.id)
                .or_insert_with(|| KeyUse { at, from: from() });
        }
    }
}

/// Digests by which another server would know a key with this text, one for each legacy secret.
fn legacy_key_candidates(legacy_secrets: &LegacySecrets, text: &[u8]) -> Vec<LegacyKey> {
    let Some(read_only) = LegacyKey::read_only_by_prefix(text) else {
        return Vec::new();
    };
    legacy_secrets
        .iter()
        .map(|(number, secret)| LegacyKey {
            read_only,
            secret_number: number,
            digest: secret.digest_key(text),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::legacy_keys::LegacySecret;

    #[test]
    fn a_wrong_key_costs_one_digest_for_each_secret_or_none() {
        let mut legacy_secrets = LegacySecrets::default();
        for number in 0..LegacySecrets::MAX_SECRETS {
            legacy_secrets = legacy_secrets
                .with_secret(&LegacySecret::parse(&number.to_string()).unwrap())
                .unwrap()
                .0;
        }
        for (text, expected) in [("hcw_wrong", 8), ("hcr_wrong", 8), ("wrong", 0), ("", 0)] {
            assert_eq!(
                legacy_key_candidates(&legacy_secrets, text.as_bytes()).len(),
                expected,
                "{text}"
            );
        }
    }
}
