//! Limits attempts to sign in, so that guessing passwords does not succeed and does not lock out
//! other users.
//!
//! Attempts of unknown clients are counted by name, by address, and by both. A session that asks
//! for its own password and a known browser of the user have separate counters, which the attempts
//! of others do not affect.
//!
//! A counter is no token bucket: it counts from the first attempt to the end of its window, and a
//! correct password takes back what its client has counted, at all three keys.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::domain::ids::{SessionId, UserId};
use crate::domain::project::SecretHash;
use crate::util::client_network::ClientNetwork;
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Maximum number of counters. Above it the oldest are dropped, but never the counters of existing
/// users' names.
const MAX_COUNTERS: usize = 30_000;
/// Number of wrong passwords of a name in an hour, from any address, from which the name counts as
/// attacked.
const ATTACK_THRESHOLD: u32 = 3;
/// Maximum number of attempts from one address in an hour, for all names together. It applies to
/// names that are not attacked. For attacked names the limit of [`AttemptKey::Address`] applies.
const MAX_ATTEMPTS_PER_ADDRESS: u32 = 600;
/// Number of counters for the known browsers of a user. Each mark belongs to one of them, so more
/// marks do not allow more attempts.
const BROWSER_COUNTERS_PER_USER: u8 = 8;

/// Key of a counter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum AttemptKey {
    /// One name from one address.
    NameAndAddress(Box<str>, ClientNetwork),
    /// One name from any address.
    Name(Box<str>),
    /// Any name from one address. An IPv6 network of 64 bits counts as one address.
    Address(ClientNetwork),
    /// A session that confirms its password.
    Session(SessionId),
    /// A known browser of a user: one of [`BROWSER_COUNTERS_PER_USER`] counters.
    Browser(UserId, u8),
}

impl AttemptKey {
    /// Maximum number of attempts, and the window in which they count.
    fn max_attempts(&self) -> (u32, Duration) {
        const HOUR: Duration = Duration::from_secs(3600);
        match self {
            Self::NameAndAddress(..) => (10, Duration::from_secs(300)),
            Self::Name(_) => (100, HOUR),
            Self::Address(_) => (60, HOUR),
            Self::Session(_) | Self::Browser(..) => (10, Duration::from_secs(900)),
        }
    }

    /// Order in which counters are dropped if there are too many: 0, then 1, never 2.
    fn eviction_rank(&self, is_user: bool) -> u8 {
        match self {
            Self::Name(_) if is_user => 2,
            Self::Session(_) | Self::Browser(..) => 1,
            _ => 0,
        }
    }
}

/// Source of an attempt, known before the password is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AttemptSource {
    /// A client without a session and without a known browser of the user.
    Unknown {
        /// True if a user has the name.
        is_user: bool,
        /// True if that user is signed in from the same network.
        is_near: bool,
    },
    /// A known browser of the user with the name.
    Browser {
        /// User with the name.
        user: UserId,
        /// Hash of the mark of the browser.
        mark: SecretHash,
        /// True if the user is signed in from the same network.
        is_near: bool,
    },
    /// A session that confirms the password of its own user.
    Session(SessionId),
}

/// Attempts in a window that began at `since`.
#[derive(Clone, Copy)]
struct AttemptCounter {
    since: Duration,
    attempts: u32,
    rank: u8,
}

/// Attempts that failed or are in progress. In memory: a restart resets the counters.
#[derive(Default)]
pub(super) struct SignInLimit(Mutex<HashMap<AttemptKey, AttemptCounter>>);

/// Attempt in progress. It counts as failed, unless it [succeeds](SignInLimit::record_success).
pub(super) struct SignInAttempt(CountedKeys);

enum CountedKeys {
    Single(AttemptKey),
    Shared([AttemptKey; 3]),
}

impl SignInLimit {
    /// Counts an attempt, or returns the time to wait. Times are uptimes.
    pub(super) fn begin_attempt(
        &self,
        name: &str,
        address: IpAddr,
        by: AttemptSource,
        now: Duration,
    ) -> Result<SignInAttempt, Duration> {
        let mut counts = self.lock();
        let (is_user, is_near) = match by {
            AttemptSource::Session(session) => {
                let own = AttemptKey::Session(session);
                return remaining_wait(&counts, &own, own.max_attempts().0, now)
                    .map_or(Ok(()), Err)
                    .map(|()| {
                        count_attempt(&mut counts, &own, 1, now);
                        SignInAttempt(CountedKeys::Single(own))
                    });
            }
            AttemptSource::Browser {
                user,
                mark: SecretHash([first, ..]),
                is_near,
            } => {
                let own = AttemptKey::Browser(user, first % BROWSER_COUNTERS_PER_USER);
                if remaining_wait(&counts, &own, own.max_attempts().0, now).is_none() {
                    count_attempt(&mut counts, &own, 1, now);
                    return Ok(SignInAttempt(CountedKeys::Single(own)));
                }
                // A browser that has used up its own attempts is treated like an unknown client.
                (true, is_near)
            }
            AttemptSource::Unknown { is_user, is_near } => (is_user, is_near),
        };
        let network = ClientNetwork::from(address);
        let keys @ [both, of_name, of_address] = &[
            AttemptKey::NameAndAddress(name.into(), network),
            AttemptKey::Name(name.into()),
            AttemptKey::Address(network),
        ];
        // If an address tries name after name, other users of that address can still sign in.
        let is_attacked = attempts_in_window(&counts, of_name, now) >= ATTACK_THRESHOLD;
        let waits = [
            remaining_wait(&counts, both, both.max_attempts().0, now),
            remaining_wait(&counts, of_name, of_name.max_attempts().0, now).filter(|_| !is_near),
            remaining_wait(
                &counts,
                of_address,
                if is_attacked {
                    of_address.max_attempts().0
                } else {
                    MAX_ATTEMPTS_PER_ADDRESS
                },
                now,
            ),
        ];
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Err(wait);
        }
        for key in keys {
            count_attempt(&mut counts, key, key.eviction_rank(is_user), now);
        }
        Ok(SignInAttempt(CountedKeys::Shared(keys.clone())))
    }

    /// Records a correct password: this attempt and earlier ones with the same name from the same
    /// address are no longer counted.
    pub(super) fn record_success(&self, SignInAttempt(counters): SignInAttempt) {
        let mut counts = self.lock();
        let [both, name, address] = match counters {
            CountedKeys::Single(own) => {
                counts.remove(&own);
                return;
            }
            CountedKeys::Shared(tried) => tried,
        };
        // A missing counter means that a parallel attempt has already given the credit.
        let Some(credit) = counts.remove(&both) else {
            return;
        };
        for tried in [name, address] {
            // Attempts of an earlier window are not subtracted from this one.
            if let Some(counted) = counts
                .get_mut(&tried)
                .filter(|counted| counted.since <= credit.since)
            {
                counted.attempts = counted.attempts.saturating_sub(credit.attempts);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptKey, AttemptCounter>> {
        lock(&self.0)
    }
}

/// Number of attempts in the current window.
fn attempts_in_window(
    counts: &HashMap<AttemptKey, AttemptCounter>,
    tried: &AttemptKey,
    now: Duration,
) -> u32 {
    counts
        .get(tried)
        .filter(|counted| now < counted.since + tried.max_attempts().1)
        .map_or(0, |counted| counted.attempts)
}

/// Returns the time to wait if the maximum is reached.
fn remaining_wait(
    counts: &HashMap<AttemptKey, AttemptCounter>,
    tried: &AttemptKey,
    most: u32,
    now: Duration,
) -> Option<Duration> {
    let counted = counts
        .get(tried)
        .filter(|counted| counted.attempts >= most)?;
    (counted.since + tried.max_attempts().1)
        .checked_sub(now)
        .filter(|wait| !wait.is_zero())
}

fn count_attempt(
    counts: &mut HashMap<AttemptKey, AttemptCounter>,
    tried: &AttemptKey,
    rank: u8,
    now: Duration,
) {
    evict_counters(counts, now);
    let begun = AttemptCounter {
        since: now,
        attempts: 0,
        rank,
    };
    let counted = counts.entry(tried.clone()).or_insert(begun);
    if now >= counted.since + tried.max_attempts().1 {
        *counted = begun;
    }
    counted.attempts += 1;
    counted.rank = counted.rank.max(rank);
}

/// Drops expired counters. If there are none, drops the older half of those with the lowest rank.
fn evict_counters(counts: &mut HashMap<AttemptKey, AttemptCounter>, now: Duration) {
    if counts.len() < MAX_COUNTERS {
        return;
    }
    counts.retain(|tried, counted| now < counted.since + tried.max_attempts().1);
    for rank in 0..2 {
        if counts.len() < MAX_COUNTERS {
            return;
        }
        let mut begun: Vec<_> = counts
            .values()
            .filter(|counted| counted.rank == rank)
            .map(|counted| counted.since)
            .collect();
        begun.sort_unstable();
        let middle = begun.get(begun.len() / 2).copied().unwrap_or_default();
        counts.retain(|_, counted| counted.rank != rank || counted.since > middle);
    }
}

#[cfg(test)]
mod tests;
