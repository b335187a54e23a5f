//! How often somebody may try a password, so that guessing leads nowhere, and so that those who guess keep nobody else out.
//!
//! A stranger's attempts are counted by name, by address, and by both. A session that asks for its own password, and a browser in which the
//! user signed in before, have counters of their own: what others try does not concern them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::accept::network;
use crate::domain::ids::{SessionId, UserId};
use crate::domain::project::KeyHash;

/// What is counted at once. Beyond it what began longest ago is forgotten, but never the counters of names that users have.
const MOST_COUNTED: usize = 30_000;
/// Wrong passwords of a name in an hour, from anywhere, up to which it counts as one that nobody attacks.
const FEW: u32 = 3;
/// Attempts from one address in an hour, in all. Up to it, names that nobody attacks may be tried.
const MOST_OF_ADDRESS: u32 = 600;
/// Counters of the browsers that are known of one user. Each mark is counted in one of them, so more marks give no more attempts.
const BROWSERS_OF_USER: u8 = 8;

/// What attempts are counted by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Tried {
    /// One name from one address.
    Both(Box<str>, IpAddr),
    /// A name from anywhere.
    Name(Box<str>),
    /// Any name from one address, of IPv6 from a network of 64 bits.
    Address(IpAddr),
    /// The user of a session, by that session.
    Session(SessionId),
    /// A user, by a browser in which they signed in before: one of [`BROWSERS_OF_USER`] counters.
    Browser(UserId, u8),
}

impl Tried {
    /// Returns how many attempts there may be, and within which time.
    fn most(&self) -> (u32, Duration) {
        const HOUR: Duration = Duration::from_secs(3600);
        match self {
            Self::Both(..) => (10, Duration::from_secs(300)),
            Self::Name(_) => (100, HOUR),
            Self::Address(_) => (60, HOUR),
            Self::Session(_) | Self::Browser(..) => (10, Duration::from_secs(900)),
        }
    }

    /// Returns which counters are forgotten first where there are too many: 0, then 1, never 2.
    fn rank(&self, is_user: bool) -> u8 {
        match self {
            Self::Name(_) if is_user => 2,
            Self::Session(_) | Self::Browser(..) => 1,
            _ => 0,
        }
    }
}

/// Who makes an attempt, as far as that is known before the password is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// Anybody.
    Stranger {
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
struct Counted {
    since: Duration,
    attempts: u32,
    rank: u8,
}

/// Attempts that failed, or are under way. In memory: a restart forgets them.
#[derive(Default)]
pub(super) struct Throttle(Mutex<HashMap<Tried, Counted>>);

/// An attempt under way. It counts as one that failed, unless it [succeeds](Throttle::succeeded).
pub(super) struct Attempt(Counters);

enum Counters {
    Own(Tried),
    Shared([Tried; 3]),
}

impl Throttle {
    /// Counts an attempt, or says how long to wait. Times are uptimes.
    pub(super) fn begin(&self, name: &str, address: IpAddr, by: By, now: Duration) -> Result<Attempt, Duration> {
        let mut counts = self.locked();
        let (is_user, is_near) = match by {
            By::Session(session) => {
                let own = Tried::Session(session);
                return wait(&counts, &own, own.most().0, now).map_or(Ok(()), Err).map(|()| {
                    count(&mut counts, &own, 1, now);
                    Attempt(Counters::Own(own))
                });
            }
            By::Browser { user, mark: KeyHash([first, ..]), is_near } => {
                let own = Tried::Browser(user, first % BROWSERS_OF_USER);
                if wait(&counts, &own, own.most().0, now).is_none() {
                    count(&mut counts, &own, 1, now);
                    return Ok(Attempt(Counters::Own(own)));
                }
                // A browser that guesses is a stranger's.
                (true, is_near)
            }
            By::Stranger { is_user, is_near } => (is_user, is_near),
        };
        let address = network(address);
        let tried @ [both, of_name, of_address] = &[Tried::Both(name.into(), address), Tried::Name(name.into()), Tried::Address(address)];
        // Where somebody tries name after name, those whom they do not try still get in.
        let is_attacked = attempts(&counts, of_name, now) >= FEW;
        let waits = [
            wait(&counts, both, both.most().0, now),
            wait(&counts, of_name, of_name.most().0, now).filter(|_| !is_near),
            wait(&counts, of_address, if is_attacked { of_address.most().0 } else { MOST_OF_ADDRESS }, now),
        ];
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Err(wait);
        }
        for tried in tried {
            count(&mut counts, tried, tried.rank(is_user), now);
        }
        Ok(Attempt(Counters::Shared(tried.clone())))
    }

    /// The password was right: the attempt does not count, nor do those before it by the same name from the same address.
    pub(super) fn succeeded(&self, Attempt(counters): Attempt) {
        let mut counts = self.locked();
        let [both, name, address] = match counters {
            Counters::Own(own) => {
                counts.remove(&own);
                return;
            }
            Counters::Shared(tried) => tried,
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

    fn locked(&self) -> MutexGuard<'_, HashMap<Tried, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the attempts of the window that is open.
fn attempts(counts: &HashMap<Tried, Counted>, tried: &Tried, now: Duration) -> u32 {
    counts.get(tried).filter(|counted| now < counted.since + tried.most().1).map_or(0, |counted| counted.attempts)
}

/// Returns how long to wait where there are as many attempts as there may be.
fn wait(counts: &HashMap<Tried, Counted>, tried: &Tried, most: u32, now: Duration) -> Option<Duration> {
    let counted = counts.get(tried).filter(|counted| counted.attempts >= most)?;
    (counted.since + tried.most().1).checked_sub(now).filter(|wait| !wait.is_zero())
}

fn count(counts: &mut HashMap<Tried, Counted>, tried: &Tried, rank: u8, now: Duration) {
    make_room(counts, now);
    let begun = Counted { since: now, attempts: 0, rank };
    let counted = counts.entry(tried.clone()).or_insert(begun);
    if now >= counted.since + tried.most().1 {
        *counted = begun;
    }
    counted.attempts += 1;
    counted.rank = counted.rank.max(rank);
}

/// Forgets what is over; if that is nothing, the half that began longest ago of what may be forgotten first.
fn make_room(counts: &mut HashMap<Tried, Counted>, now: Duration) {
    if counts.len() < MOST_COUNTED {
        return;
    }
    counts.retain(|tried, counted| now < counted.since + tried.most().1);
    for rank in 0..2 {
        if counts.len() < MOST_COUNTED {
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

    const STRANGER: By = By::Stranger { is_user: true, is_near: false };
    const NOBODY: By = By::Stranger { is_user: false, is_near: false };
    const NEAR: By = By::Stranger { is_user: true, is_near: true };

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn the_eleventh_wrong_password_of_a_name_from_an_address_has_to_wait() {
        let throttle = Throttle::default();
        for second in 0..10 {
            assert!(throttle.begin("ann", address(1), STRANGER, secs(second)).is_ok());
        }
        assert_eq!(throttle.begin("ann", address(1), STRANGER, secs(100)).err(), Some(secs(200)));
        // Other names and other addresses do not.
        assert!(throttle.begin("bob", address(1), STRANGER, secs(100)).is_ok());
        assert!(throttle.begin("ann", address(2), STRANGER, secs(100)).is_ok());
        assert!(throttle.begin("ann", address(1), STRANGER, secs(300)).is_ok());
        assert!(throttle.begin("ann", address(1), STRANGER, secs(301)).is_ok(), "a window that is over counts no more");
    }

    #[test]
    fn a_name_and_an_address_have_limits_of_their_own() {
        let throttle = Throttle::default();
        for from in 0..100 {
            assert!(throttle.begin("ann", address(from), STRANGER, secs(0)).is_ok(), "{from}");
        }
        assert_eq!(throttle.begin("ann", address(200), STRANGER, secs(600)).err(), Some(secs(3000)));
        let throttle = Throttle::default();
        let of_network = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, host]);
        for number in 0..60 {
            assert!(throttle.begin(&format!("user {}", number % 7), of_network(number), STRANGER, secs(0)).is_ok(), "{number}");
        }
        assert_eq!(throttle.begin("user 3", of_network(99), STRANGER, secs(0)).err(), Some(secs(3600)));
    }

    #[test]
    fn those_whom_nobody_attacks_get_in_where_others_are_attacked_up_to_a_limit() {
        let throttle = Throttle::default();
        for number in 0..60 {
            assert!(throttle.begin(&format!("user {}", number % 7), address(1), STRANGER, secs(0)).is_ok(), "{number}");
        }
        // Names that nobody has are answered as those that somebody has.
        for (name, by) in [("ann", STRANGER), ("nobody", NOBODY)] {
            for _ in 0..FEW {
                assert!(throttle.begin(name, address(1), by, secs(1)).is_ok(), "{name}");
            }
            assert_eq!(throttle.begin(name, address(1), by, secs(1)).err(), Some(secs(3599)), "{name}");
        }
        for number in 66..MOST_OF_ADDRESS {
            assert!(throttle.begin(&number.to_string(), address(1), NOBODY, secs(2)).is_ok(), "{number}");
        }
        assert_eq!(throttle.begin("bob", address(1), STRANGER, secs(2)).err(), Some(secs(3598)));
        assert!(throttle.begin("bob", address(2), STRANGER, secs(2)).is_ok());
    }

    #[test]
    fn sessions_and_browsers_that_are_known_have_counters_of_their_own() {
        let throttle = Throttle::default();
        for number in 0..600 {
            let _ = throttle.begin(&format!("user {}", number % 7), address(1), STRANGER, secs(0));
        }
        let (session, browser) = (By::Session(SessionId(1)), By::Browser { user: UserId(1), mark: KeyHash([1; 32]), is_near: false });
        for by in [session, browser] {
            assert!(throttle.begin("user 1", address(1), STRANGER, secs(0)).is_err());
            for _ in 0..10 {
                assert!(throttle.begin("user 1", address(1), by, secs(0)).is_ok(), "{by:?}");
            }
            assert!(throttle.begin("user 1", address(1), by, secs(899)).is_err(), "{by:?}");
            let attempt = throttle.begin("user 1", address(1), by, secs(900)).ok().unwrap();
            throttle.succeeded(attempt);
            for _ in 0..10 {
                assert!(throttle.begin("user 1", address(1), by, secs(901)).is_ok(), "a right password ends it: {by:?}");
            }
        }
        assert!(throttle.begin("user 1", address(1), By::Session(SessionId(2)), secs(901)).is_ok());
        // A browser that has tried too much is a stranger's: it may still go on where a stranger may.
        assert!(throttle.begin("user 1", address(2), browser, secs(901)).is_ok());
    }

    #[test]
    fn the_counters_of_known_browsers_of_a_user_are_bounded() {
        let throttle = Throttle::default();
        for from in 0..100 {
            assert!(throttle.begin("ann", address(from), STRANGER, secs(0)).is_ok(), "{from}");
        }
        let by = |user: u64, mark: u16| By::Browser { user: UserId(user), mark: KeyHash::of(&mark.to_le_bytes()), is_near: false };
        let tries = (0..2000).filter(|number| throttle.begin("ann", address(200), by(1, number % 200), secs(1)).is_ok());
        assert_eq!(tries.count(), 10 * usize::from(BROWSERS_OF_USER));
        assert!(throttle.begin("bob", address(200), by(2, 0), secs(1)).is_ok(), "another user has counters of their own");
    }

    #[test]
    fn whoever_is_signed_in_from_there_does_not_wait_for_others() {
        let throttle = Throttle::default();
        for from in 0..100 {
            assert!(throttle.begin("ann", address(from), STRANGER, secs(0)).is_ok(), "{from}");
        }
        for _ in 0..10 {
            assert!(throttle.begin("ann", address(200), NEAR, secs(1)).is_ok());
        }
        // What is tried from there counts as ever.
        assert_eq!(throttle.begin("ann", address(200), NEAR, secs(1)).err(), Some(secs(300)));
        assert_eq!(throttle.begin("ann", address(201), STRANGER, secs(1)).err(), Some(secs(3599)));
    }

    #[test]
    fn the_right_password_counts_for_nothing_and_takes_back_what_was_mistyped() {
        let throttle = Throttle::default();
        for round in 0..50 {
            for _ in 0..8 {
                throttle.begin("ann", address(1), STRANGER, secs(round)).ok().unwrap();
            }
            let attempt = throttle.begin("ann", address(1), STRANGER, secs(round)).ok().unwrap();
            throttle.succeeded(attempt);
        }
    }

    #[test]
    fn credit_is_given_once() {
        let throttle = Throttle::default();
        for number in 0..50 {
            throttle.begin(&format!("user {}", number % 7), address(1), STRANGER, secs(0)).ok().unwrap();
        }
        // Ten right passwords of one user are under way at once.
        let under_way: Vec<_> = (0..10).map(|_| throttle.begin("mel", address(1), STRANGER, secs(0)).ok().unwrap()).collect();
        under_way.into_iter().for_each(|attempt| throttle.succeeded(attempt));
        let more = (0..60).filter(|number| throttle.begin(&format!("user {}", number % 7), address(1), STRANGER, secs(0)).is_ok());
        assert_eq!(more.count(), 10);
        // Nor is credit from one window taken off the next.
        let throttle = Throttle::default();
        throttle.begin("other", address(1), STRANGER, secs(0)).ok().unwrap();
        for _ in 0..9 {
            throttle.begin("mel", address(1), STRANGER, secs(3599)).ok().unwrap();
        }
        for number in 0..50 {
            throttle.begin(&format!("user {}", number % 7), address(1), STRANGER, secs(3600)).ok().unwrap();
        }
        let attempt = throttle.begin("mel", address(1), STRANGER, secs(3600)).ok().unwrap();
        throttle.succeeded(attempt);
        assert_eq!(attempts(&throttle.locked(), &Tried::Address(address(1)), secs(3600)), 51);
    }

    #[test]
    fn what_is_counted_is_bounded_and_users_are_not_forgotten() {
        let throttle = Throttle::default();
        for from in 0..100 {
            throttle.begin("ann", address(from), STRANGER, secs(0)).ok().unwrap();
        }
        for number in 0..2 * MOST_COUNTED as u32 {
            let now = secs(u64::from(number / 100));
            let _ = throttle.begin(&number.to_string(), IpAddr::from(number.to_be_bytes()), NOBODY, now);
        }
        assert!(throttle.locked().len() <= MOST_COUNTED);
        assert!(throttle.begin("ann", address(200), STRANGER, secs(700)).is_err());
    }
}
