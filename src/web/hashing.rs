//! Hashes of passwords on the threads for what takes long: two at a time, so that guessing leaves threads and memory to others.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::domain::user::{Password, PasswordHash};
use crate::password::{self, Checked};
use crate::random::Random;
use crate::wire::outgoing::Outgoing;
use crate::wire::reply::Fault;

/// Hashes that are made at the same time.
const AT_ONCE: usize = 2;
/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Hashing {
    turns: Semaphore,
    outgoing: Outgoing,
    random: Random,
}

impl Hashing {
    pub(super) fn new(outgoing: Outgoing, random: Random) -> Self {
        Self { turns: Semaphore::new(AT_ONCE), outgoing, random }
    }

    /// Whether a password is that of a hash. Without a hash it takes as long.
    pub(super) async fn check(&self, typed: &str, hash: Option<PasswordHash>) -> Result<Checked, Fault> {
        let typed = typed.as_bytes().to_vec();
        self.in_turn(move || password::check(&typed, hash.as_ref())).await
    }

    /// The hash of a password.
    pub(super) async fn hash(&self, password: Password) -> Result<PasswordHash, Fault> {
        let salt = self.random.bytes();
        self.in_turn(move || password::hash(&password, salt)).await?.map_err(|_| Fault::Unavailable)
    }

    async fn in_turn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        let _turn = timeout(PATIENCE, self.turns.acquire()).await.map_err(|_| Fault::Unavailable)?.map_err(|_| Fault::Unavailable)?;
        self.outgoing.run(work).await
    }
}
