//! How often somebody may try a password, so that guessing leads nowhere.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::accept::network;

/// What is counted at once. Beyond it what began longest ago is forgotten.
const MOST_COUNTED: usize = 30_000;

/// What attempts are counted by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Tried {
    /// One name from one address.
    Both(Box<str>, IpAddr),
    /// A name from anywhere.
    Name(Box<str>),
    /// Any name from one address, of IPv6 from a network of 64 bits.
    Address(IpAddr),
}

impl Tried {
    /// So many attempts, within so long.
    fn most(&self) -> (u32, Duration) {
        const HOUR: Duration = Duration::from_secs(3600);
        match self {
            Self::Both(..) => (10, Duration::from_secs(300)),
            Self::Name(_) => (100, HOUR),
            Self::Address(_) => (60, HOUR),
        }
    }
}

/// Attempts since a moment.
#[derive(Clone, Copy)]
struct Counted {
    since: Duration,
    attempts: u32,
}

/// Attempts that failed, or are under way. In memory: a restart forgets them.
#[derive(Default)]
pub(super) struct Throttle(Mutex<HashMap<Tried, Counted>>);

/// An attempt under way. It counts as one that failed, unless it [succeeds](Throttle::succeeded).
pub(super) struct Attempt([Tried; 3]);

impl Throttle {
    /// Counts an attempt, or says how long to wait. `is_known`: whoever has this name is signed in from the same network, and does not wait
    /// for what others have tried by it. Times are uptimes.
    pub(super) fn begin(&self, name: &str, address: IpAddr, is_known: bool, now: Duration) -> Result<Attempt, Duration> {
        let address = network(address);
        let tried = [Tried::Both(name.into(), address), Tried::Name(name.into()), Tried::Address(address)];
        let mut counts = self.locked();
        let wait = tried.iter().filter(|tried| !is_known || !matches!(tried, Tried::Name(_))).filter_map(|tried| {
            let (most, within) = tried.most();
            let counted = counts.get(tried).filter(|counted| counted.attempts >= most)?;
            (counted.since + within).checked_sub(now).filter(|wait| !wait.is_zero())
        });
        if let Some(wait) = wait.max() {
            return Err(wait);
        }
        for tried in &tried {
            make_room(&mut counts, now);
            let counted = counts.entry(tried.clone()).or_insert(Counted { since: now, attempts: 0 });
            if now >= counted.since + tried.most().1 {
                *counted = Counted { since: now, attempts: 0 };
            }
            counted.attempts += 1;
        }
        Ok(Attempt(tried))
    }

    /// The password was right: the attempt does not count, nor do those before it by the same name from the same address.
    pub(super) fn succeeded(&self, Attempt([both, name, address]): Attempt) {
        let mut counts = self.locked();
        let before = counts.remove(&both).map_or(1, |counted| counted.attempts);
        for tried in [name, address] {
            if let Some(counted) = counts.get_mut(&tried) {
                counted.attempts = counted.attempts.saturating_sub(before);
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Tried, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets what is over; if that is nothing, the half that began longest ago.
fn make_room(counts: &mut HashMap<Tried, Counted>, now: Duration) {
    if counts.len() < MOST_COUNTED {
        return;
    }
    counts.retain(|tried, counted| now < counted.since + tried.most().1);
    if counts.len() >= MOST_COUNTED {
        let mut begun: Vec<_> = counts.values().map(|counted| counted.since).collect();
        begun.sort_unstable();
        let middle = begun.get(begun.len() / 2).copied().unwrap_or_default();
        counts.retain(|_, counted| counted.since > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(throttle.begin("ann", address(1), false, secs(second)).is_ok());
        }
        assert_eq!(throttle.begin("ann", address(1), false, secs(100)).err(), Some(secs(200)));
        // Other names and other addresses do not.
        assert!(throttle.begin("bob", address(1), false, secs(100)).is_ok() && throttle.begin("ann", address(2), false, secs(100)).is_ok());
        assert!(throttle.begin("ann", address(1), false, secs(300)).is_ok());
        assert!(throttle.begin("ann", address(1), false, secs(301)).is_ok(), "a window that is over counts no more");
    }

    #[test]
    fn a_name_and_an_address_have_limits_of_their_own() {
        let throttle = Throttle::default();
        for from in 0..100 {
            assert!(throttle.begin("ann", address(from), false, secs(0)).is_ok(), "{from}");
        }
        assert_eq!(throttle.begin("ann", address(200), false, secs(600)).err(), Some(secs(3000)));
        let throttle = Throttle::default();
        let of_network = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, host]);
        for number in 0..60 {
            assert!(throttle.begin(&format!("user {number}"), of_network(number), false, secs(0)).is_ok(), "{number}");
        }
        assert_eq!(throttle.begin("ann", of_network(99), false, secs(0)).err(), Some(secs(3600)));
    }

    #[test]
    fn whoever_is_signed_in_from_there_does_not_wait_for_others() {
        let throttle = Throttle::default();
        for from in 0..100 {
            assert!(throttle.begin("ann", address(from), false, secs(0)).is_ok(), "{from}");
        }
        for _ in 0..10 {
            assert!(throttle.begin("ann", address(200), true, secs(1)).is_ok());
        }
        // What is tried from there counts as ever.
        assert_eq!(throttle.begin("ann", address(200), true, secs(1)).err(), Some(secs(300)));
        assert_eq!(throttle.begin("ann", address(201), false, secs(1)).err(), Some(secs(3599)));
    }

    #[test]
    fn the_right_password_counts_for_nothing_and_takes_back_what_was_mistyped() {
        let throttle = Throttle::default();
        for round in 0..50 {
            for _ in 0..8 {
                throttle.begin("ann", address(1), false, secs(round)).ok().unwrap();
            }
            let attempt = throttle.begin("ann", address(1), false, secs(round)).ok().unwrap();
            throttle.succeeded(attempt);
        }
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let throttle = Throttle::default();
        for number in 0..2 * MOST_COUNTED as u32 {
            let _ = throttle.begin("ann", IpAddr::from(number.to_be_bytes()), false, secs(u64::from(number)));
            let _ = throttle.begin(&number.to_string(), IpAddr::from(number.to_be_bytes()), false, secs(u64::from(number)));
        }
        assert!(throttle.locked().len() <= MOST_COUNTED);
    }
}
