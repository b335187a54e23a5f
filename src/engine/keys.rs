//! Who holds an API key, and what is learnt of keys while they are used: it is written beside the commands of others, and nobody waits for it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Handle;
use super::command::Command;
use crate::domain::adopted::{Adopted, HashedKey};
use crate::domain::ids::KeyId;
use crate::domain::project::{Key, KeyHash, KeyUse};

/// What is still to be written of API keys: of each at most one of both.
#[derive(Default)]
pub(super) struct KeyNews(Mutex<News>);

#[derive(Default)]
struct News {
    uses: HashMap<KeyId, KeyUse>,
    /// Hashes of keys that were known by the digest of another server.
    hashes: HashMap<KeyId, KeyHash>,
}

impl KeyNews {
    /// Takes it as commands.
    pub(super) fn take(&self) -> impl Iterator<Item = Command> + use<> {
        let News { uses, hashes } = std::mem::take(&mut *self.locked());
        let uses = (!uses.is_empty()).then(|| Command::NoteKeyUses(uses.into_iter().collect()));
        hashes.into_iter().map(|(key, hash)| Command::RehashKey(key, hash)).chain(uses)
    }

    fn locked(&self) -> MutexGuard<'_, News> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// The API key of this text. That of another server has its own hash written down, so that it is known by that from then on.
    pub fn api_key(&self, text: &[u8]) -> Option<Arc<Key>> {
        // The time of the lookup tells at most how near the hash of a guess is to a stored hash. That helps nobody to guess better.
        let hash = KeyHash::of(text);
        let (key, adopted) = self.with_state(|state| (state.key_by_hash(&hash).cloned(), Arc::clone(&state.adopted)));
        if key.is_some() || adopted.is_empty() {
            return key;
        }
        // The writer waits for none of this.
        let guesses = guesses(&adopted, text);
        let key = self.with_state(|state| {
            // It may have got its hash since.
            let key = state.key_by_hash(&hash).or_else(|| guesses.iter().find_map(|guess| state.hashed_key(guess)));
            key.cloned()
        })?;
        if key.is_unused_since_import() {
            self.0.key_news.locked().hashes.insert(key.id, hash);
        }
        Some(key)
    }

    /// Has the use of an API key written down, unless one in the same hour is written already.
    pub fn note_key_use(&self, key: &Key, from: impl FnOnce() -> IpAddr) {
        let at = self.now();
        if !key.is_noted(at) {
            self.0.key_news.locked().uses.entry(key.id).or_insert_with(|| KeyUse { at, from: from() });
        }
    }
}

/// What a key of this text would be known by if another server made it: one thing for each of the adopted secrets.
fn guesses(adopted: &Adopted, text: &[u8]) -> Vec<HashedKey> {
    let Some(read_only) = HashedKey::read_only(text) else { return Vec::new() };
    adopted.iter().map(|(secret, own)| HashedKey { read_only, secret, digest: own.digest(text) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::adopted::ForeignSecret;

    #[test]
    fn a_wrong_key_costs_one_digest_for_each_secret_or_none() {
        let mut adopted = Adopted::default();
        for number in 0..Adopted::MOST {
            adopted = adopted.with(&ForeignSecret::parse(&number.to_string()).unwrap()).unwrap().0;
        }
        for (text, most) in [("hcw_wrong", 8), ("hcr_wrong", 8), ("wrong", 0), ("", 0)] {
            assert_eq!(guesses(&adopted, text.as_bytes()).len(), most, "{text}");
        }
    }
}
