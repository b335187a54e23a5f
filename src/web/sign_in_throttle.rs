//! How often somebody may try a password, so that guessing leads nowhere, and so that those who guess keep nobody else out.
//!
//! A stranger's attempts are counted by name, by address, and by both. A session that asks for its own password, and a browser in which the
//! user signed in before, have counters of their own: what others try does not concern them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::accept::client_network;
use crate::domain::ids::{SessionId, UserId};
use crate::domain::project::KeyHash;

/// What is counted at once. Beyond it what began longest ago is forgotten, but never the counters of names that users have.
const MAX_COUNTERS: usize = 30_000;
/// Wrong passwords of a name in an hour, from anywhere, up to which it counts as one that nobody attacks.
const ATTACK_THRESHOLD: u32 = 3;
/// Attempts from one address in an hour, in all. Up to it, names that nobody attacks may be tried.
const MAX_ATTEMPTS_PER_ADDRESS: u32 = 600;
/// Counters of the browsers that are known of one user. Each mark is counted in one of them, so more marks give no more attempts.
const BROWSER_COUNTERS_PER_USER: u8 = 8;

/// What attempts are counted by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum AttemptKey {
    /// One name from one address.
    NameAndAddress(Box<str>, IpAddr),
    /// A name from anywhere.
    Name(Box<str>),
    /// Any name from one address, of IPv6 from a network of 64 bits.
    Address(IpAddr),
    /// The user of a session, by that session.
    Session(SessionId),
    /// A user, by a browser in which they signed in before: one of [`BROWSER_COUNTERS_PER_USER`] counters.
    Browser(UserId, u8),
}

impl AttemptKey {
    /// Returns how many attempts there may be, and within which time.
    fn max_attempts(&self) -> (u32, Duration) {
        const HOUR: Duration = Duration::from_secs(3600);
        match self {
            Self::NameAndAddress(..) => (10, Duration::from_secs(300)),
            Self::Name(_) => (100, HOUR),
            Self::Address(_) => (60, HOUR),
            Self::Session(_) | Self::Browser(..) => (10, Duration::from_secs(900)),
        }
    }

    /// Returns which counters are forgotten first where there are too many: 0, then 1, never 2.
    fn eviction_rank(&self, is_user: bool) -> u8 {
        match self {
            Self::Name(_) if is_user => 2,
            Self::Session(_) | Self::Browser(..) => 1,
            _ => 0,
        }
    }
}

/// Who makes an attempt, as far as that is known before the password is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AttemptSource {
    /// Anybody.
    Unknown {
        /// A user has the name.
        is_user: bool,
        /// That user is signed in from the same network.
        is_near: bool,
    },
    /// A browser in which the user of the name signed in before.
    Browser {
        /// The user.
        user: UserId,
        /// The hash of its mark.
        mark: KeyHash,
        /// As of a stranger.
        is_near: bool,
    },
    /// A session, for its own user.
    Session(SessionId),
}

/// Attempts since a moment.
#[derive(Clone, Copy)]
struct AttemptCounter {
    since: Duration,
    attempts: u32,
    rank: u8,
}

/// Attempts that failed, or are under way. In memory: a restart forgets them.
#[derive(Default)]
pub(super) struct SignInThrottle(Mutex<HashMap<AttemptKey, AttemptCounter>>);

/// An attempt under way. It counts as one that failed, unless it [succeeds](Throttle::succeeded).
pub(super) struct SignInAttempt(CountedKeys);

enum CountedKeys {
    Single(AttemptKey),
    Shared([AttemptKey; 3]),
}

impl SignInThrottle {
    /// Counts an attempt, or says how long to wait. Times are uptimes.
    pub(super) fn begin_attempt(&self, name: &str, address: IpAddr, by: AttemptSource, now: Duration) -> Result<SignInAttempt, Duration> {
        let mut counts = self.lock();
        let (is_user, is_near) = match by {
            AttemptSource::Session(session) => {
                let own = AttemptKey::Session(session);
                return remaining_wait(&counts, &own, own.max_attempts().0, now).map_or(Ok(()), Err).map(|()| {
                    count_attempt(&mut counts, &own, 1, now);
                    SignInAttempt(CountedKeys::Single(own))
                });
            }
            AttemptSource::Browser { user, mark: KeyHash([first, ..]), is_near } => {
                let own = AttemptKey::Browser(user, first % BROWSER_COUNTERS_PER_USER);
                if remaining_wait(&counts, &own, own.max_attempts().0, now).is_none() {
                    count_attempt(&mut counts, &own, 1, now);
                    return Ok(SignInAttempt(CountedKeys::Single(own)));
                }
                // A browser that guesses is a stranger's.
                (true, is_near)
            }
            AttemptSource::Unknown { is_user, is_near } => (is_user, is_near),
        };
        let address = client_network(address);
        let tried @ [both, of_name, of_address] =
            &[AttemptKey::NameAndAddress(name.into(), address), AttemptKey::Name(name.into()), AttemptKey::Address(address)];
        // Where somebody tries name after name, those whom they do not try still get in.
        let is_attacked = attempts_in_window(&counts, of_name, now) >= ATTACK_THRESHOLD;
        let waits = [
            remaining_wait(&counts, both, both.max_attempts().0, now),
            remaining_wait(&counts, of_name, of_name.max_attempts().0, now).filter(|_| !is_near),
            remaining_wait(&counts, of_address, if is_attacked { of_address.max_attempts().0 } else { MAX_ATTEMPTS_PER_ADDRESS }, now),
        ];
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Err(wait);
        }
        for tried in tried {
            count_attempt(&mut counts, tried, tried.eviction_rank(is_user), now);
        }
        Ok(SignInAttempt(CountedKeys::Shared(tried.clone())))
    }

    /// The password was right: the attempt does not count, nor do those before it by the same name from the same address.
    pub(super) fn record_success(&self, SignInAttempt(counters): SignInAttempt) {
        let mut counts = self.lock();
        let [both, name, address] = match counters {
            CountedKeys::Single(own) => {
                counts.remove(&own);
                return;
            }
            CountedKeys::Shared(tried) => tried,
        };
        // Who finds no counter has been given credit by another attempt that was under way.
        let Some(credit) = counts.remove(&both) else { return };
        for tried in [name, address] {
            // What a window does not hold is not taken off it.
            if let Some(counted) = counts.get_mut(&tried).filter(|counted| counted.since <= credit.since) {
                counted.attempts = counted.attempts.saturating_sub(credit.attempts);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptKey, AttemptCounter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the attempts of the window that is open.
fn attempts_in_window(counts: &HashMap<AttemptKey, AttemptCounter>, tried: &AttemptKey, now: Duration) -> u32 {
    counts.get(tried).filter(|counted| now < counted.since + tried.max_attempts().1).map_or(0, |counted| counted.attempts)
}

/// Returns how long to wait where there are as many attempts as there may be.
fn remaining_wait(counts: &HashMap<AttemptKey, AttemptCounter>, tried: &AttemptKey, most: u32, now: Duration) -> Option<Duration> {
    let counted = counts.get(tried).filter(|counted| counted.attempts >= most)?;
    (counted.since + tried.max_attempts().1).checked_sub(now).filter(|wait| !wait.is_zero())
}

fn count_attempt(counts: &mut HashMap<AttemptKey, AttemptCounter>, tried: &AttemptKey, rank: u8, now: Duration) {
    evict_counters(counts, now);
    let begun = AttemptCounter { since: now, attempts: 0, rank };
    let counted = counts.entry(tried.clone()).or_insert(begun);
    if now >= counted.since + tried.max_attempts().1 {
        *counted = begun;
    }
    counted.attempts += 1;
    counted.rank = counted.rank.max(rank);
}

/// Forgets what is over; if that is nothing, the half that began longest ago of what may be forgotten first.
fn evict_counters(counts: &mut HashMap<AttemptKey, AttemptCounter>, now: Duration) {
    if counts.len() < MAX_COUNTERS {
        return;
    }
    counts.retain(|tried, counted| now < counted.since + tried.max_attempts().1);
    for rank in 0..2 {
        if counts.len() < MAX_COUNTERS {
            return;
        }
        let mut begun: Vec<_> = counts.values().filter(|counted| counted.rank == rank).map(|counted| counted.since).collect();
        begun.sort_unstable();
        let middle = begun.get(begun.len() / 2).copied().unwrap_or_default();
        counts.retain(|_, counted| counted.rank != rank || counted.since > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: AttemptSource = AttemptSource::Unknown { is_user: true, is_near: false };
    const NOBODY: AttemptSource = AttemptSource::Unknown { is_user: false, is_near: false };
    const NEAR: AttemptSource = AttemptSource::Unknown { is_user: true, is_near: true };

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn the_eleventh_wrong_password_of_a_name_from_an_address_has_to_wait() {
        let throttle = SignInThrottle::default();
        for second in 0..10 {
            assert!(throttle.begin_attempt("ann", address(1), STRANGER, secs(second)).is_ok());
        }
        assert_eq!(throttle.begin_attempt("ann", address(1), STRANGER, secs(100)).err(), Some(secs(200)));
        // Other names and other addresses do not.
        assert!(throttle.begin_attempt("bob", address(1), STRANGER, secs(100)).is_ok());
        assert!(throttle.begin_attempt("ann", address(2), STRANGER, secs(100)).is_ok());
        assert!(throttle.begin_attempt("ann", address(1), STRANGER, secs(300)).is_ok());
        assert!(throttle.begin_attempt("ann", address(1), STRANGER, secs(301)).is_ok(), "a window that is over counts no more");
    }

    #[test]
    fn a_name_and_an_address_have_limits_of_their_own() {
        let throttle = SignInThrottle::default();
        for from in 0..100 {
            assert!(throttle.begin_attempt("ann", address(from), STRANGER, secs(0)).is_ok(), "{from}");
        }
        assert_eq!(throttle.begin_attempt("ann", address(200), STRANGER, secs(600)).err(), Some(secs(3000)));
        let throttle = SignInThrottle::default();
        let of_network = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, host]);
        for number in 0..60 {
            assert!(throttle.begin_attempt(&format!("user {}", number % 7), of_network(number), STRANGER, secs(0)).is_ok(), "{number}");
        }
        assert_eq!(throttle.begin_attempt("user 3", of_network(99), STRANGER, secs(0)).err(), Some(secs(3600)));
    }

    #[test]
    fn those_whom_nobody_attacks_get_in_where_others_are_attacked_up_to_a_limit() {
        let throttle = SignInThrottle::default();
        for number in 0..60 {
            assert!(throttle.begin_attempt(&format!("user {}", number % 7), address(1), STRANGER, secs(0)).is_ok(), "{number}");
        }
        // Names that nobody has are answered as those that somebody has.
        for (name, by) in [("ann", STRANGER), ("nobody", NOBODY)] {
            for _ in 0..ATTACK_THRESHOLD {
                assert!(throttle.begin_attempt(name, address(1), by, secs(1)).is_ok(), "{name}");
            }
            assert_eq!(throttle.begin_attempt(name, address(1), by, secs(1)).err(), Some(secs(3599)), "{name}");
        }
        for number in 66..MAX_ATTEMPTS_PER_ADDRESS {
            assert!(throttle.begin_attempt(&number.to_string(), address(1), NOBODY, secs(2)).is_ok(), "{number}");
        }
        assert_eq!(throttle.begin_attempt("bob", address(1), STRANGER, secs(2)).err(), Some(secs(3598)));
        assert!(throttle.begin_attempt("bob", address(2), STRANGER, secs(2)).is_ok());
    }

    #[test]
    fn sessions_and_browsers_that_are_known_have_counters_of_their_own() {
        let throttle = SignInThrottle::default();
        for number in 0..600 {
            let _ = throttle.begin_attempt(&format!("user {}", number % 7), address(1), STRANGER, secs(0));
        }
        let (session, browser) =
            (AttemptSource::Session(SessionId(1)), AttemptSource::Browser { user: UserId(1), mark: KeyHash([1; 32]), is_near: false });
        for by in [session, browser] {
            assert!(throttle.begin_attempt("user 1", address(1), STRANGER, secs(0)).is_err());
            for _ in 0..10 {
                assert!(throttle.begin_attempt("user 1", address(1), by, secs(0)).is_ok(), "{by:?}");
            }
            assert!(throttle.begin_attempt("user 1", address(1), by, secs(899)).is_err(), "{by:?}");
            let attempt = throttle.begin_attempt("user 1", address(1), by, secs(900)).ok().unwrap();
            throttle.record_success(attempt);
            for _ in 0..10 {
                assert!(throttle.begin_attempt("user 1", address(1), by, secs(901)).is_ok(), "a right password ends it: {by:?}");
            }
        }
        assert!(throttle.begin_attempt("user 1", address(1), AttemptSource::Session(SessionId(2)), secs(901)).is_ok());
        // A browser that has tried too much is a stranger's: it may still go on where a stranger may.
        assert!(throttle.begin_attempt("user 1", address(2), browser, secs(901)).is_ok());
    }

    #[test]
    fn the_counters_of_known_browsers_of_a_user_are_bounded() {
        let throttle = SignInThrottle::default();
        for from in 0..100 {
            assert!(throttle.begin_attempt("ann", address(from), STRANGER, secs(0)).is_ok(), "{from}");
        }
        let by = |user: u64, mark: u16| AttemptSource::Browser {
            user: UserId(user),
            mark: KeyHash::of_key(&mark.to_le_bytes()),
            is_near: false,
        };
        let tries = (0..2000).filter(|number| throttle.begin_attempt("ann", address(200), by(1, number % 200), secs(1)).is_ok());
        assert_eq!(tries.count(), 10 * usize::from(BROWSER_COUNTERS_PER_USER));
        assert!(throttle.begin_attempt("bob", address(200), by(2, 0), secs(1)).is_ok(), "another user has counters of their own");
    }

    #[test]
    fn whoever_is_signed_in_from_there_does_not_wait_for_others() {
        let throttle = SignInThrottle::default();
        for from in 0..100 {
            assert!(throttle.begin_attempt("ann", address(from), STRANGER, secs(0)).is_ok(), "{from}");
        }
        for _ in 0..10 {
            assert!(throttle.begin_attempt("ann", address(200), NEAR, secs(1)).is_ok());
        }
        // What is tried from there counts as ever.
        assert_eq!(throttle.begin_attempt("ann", address(200), NEAR, secs(1)).err(), Some(secs(300)));
        assert_eq!(throttle.begin_attempt("ann", address(201), STRANGER, secs(1)).err(), Some(secs(3599)));
    }

    #[test]
    fn the_right_password_counts_for_nothing_and_takes_back_what_was_mistyped() {
        let throttle = SignInThrottle::default();
        for round in 0..50 {
            for _ in 0..8 {
                throttle.begin_attempt("ann", address(1), STRANGER, secs(round)).ok().unwrap();
            }
            let attempt = throttle.begin_attempt("ann", address(1), STRANGER, secs(round)).ok().unwrap();
            throttle.record_success(attempt);
        }
    }

    #[test]
    fn credit_is_given_once() {
        let throttle = SignInThrottle::default();
        for number in 0..50 {
            throttle.begin_attempt(&format!("user {}", number % 7), address(1), STRANGER, secs(0)).ok().unwrap();
        }
        // Ten right passwords of one user are under way at once.
        let under_way: Vec<_> = (0..10).map(|_| throttle.begin_attempt("mel", address(1), STRANGER, secs(0)).ok().unwrap()).collect();
        under_way.into_iter().for_each(|attempt| throttle.record_success(attempt));
        let more = (0..60).filter(|number| throttle.begin_attempt(&format!("user {}", number % 7), address(1), STRANGER, secs(0)).is_ok());
        assert_eq!(more.count(), 10);
        // Nor is credit from one window taken off the next.
        let throttle = SignInThrottle::default();
        throttle.begin_attempt("other", address(1), STRANGER, secs(0)).ok().unwrap();
        for _ in 0..9 {
            throttle.begin_attempt("mel", address(1), STRANGER, secs(3599)).ok().unwrap();
        }
        for number in 0..50 {
            throttle.begin_attempt(&format!("user {}", number % 7), address(1), STRANGER, secs(3600)).ok().unwrap();
        }
        let attempt = throttle.begin_attempt("mel", address(1), STRANGER, secs(3600)).ok().unwrap();
        throttle.record_success(attempt);
        assert_eq!(attempts_in_window(&throttle.lock(), &AttemptKey::Address(address(1)), secs(3600)), 51);
    }

    #[test]
    fn what_is_counted_is_bounded_and_users_are_not_forgotten() {
        let throttle = SignInThrottle::default();
        for from in 0..100 {
            throttle.begin_attempt("ann", address(from), STRANGER, secs(0)).ok().unwrap();
        }
        for number in 0..2 * MAX_COUNTERS as u32 {
            let now = secs(u64::from(number / 100));
            let _ = throttle.begin_attempt(&number.to_string(), IpAddr::from(number.to_be_bytes()), NOBODY, now);
        }
        assert!(throttle.lock().len() <= MAX_COUNTERS);
        assert!(throttle.begin_attempt("ann", address(200), STRANGER, secs(700)).is_err());
    }
}
