//! Limits wrong codes of second factors. A client that enters codes knows the password, so wrong
//! codes are counted until the user signs in, and guessing soon takes too long to succeed. A token
//! bucket would allow more of them with time; here each wait is longer than the one before.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::ids::UserId;
use crate::domain::timestamp::Timestamp;
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Number of wrong codes in a row after which a user has to wait: see
/// [limits](crate::docs::limits).
const CODES_BEFORE_WAIT: u32 = 10;
/// Duration of the first wait. Each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(3600);
/// Maximum duration of a wait.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of users with a counter: see [limits](crate::docs::limits). Above it the oldest
/// counters are dropped.
const MAX_COUNTERS: usize = 20_000;

/// Wrong codes of one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WrongCodeCount {
    /// Number of wrong codes.
    pub(super) codes: u32,
    /// Time of the first wrong code.
    pub(super) since: Timestamp,
}

#[derive(Clone, Copy)]
struct WrongCodeCounter {
    count: WrongCodeCount,
    /// Uptime before which no further code is accepted.
    blocked_until: Duration,
}

/// Codes of each user that were wrong since the last sign-in, or that are being checked. Known
/// browsers of the user are counted separately, so that another client does not lock them out. In
/// memory: a restart resets the counters.
#[derive(Default)]
pub(super) struct SecondFactorLimit(Mutex<HashMap<(UserId, bool), WrongCodeCounter>>);

impl SecondFactorLimit {
    /// Counts a code as wrong until [`record_success`](Self::record_success) is called, or returns
    /// the time to wait. `uptime` is that of `now`.
    pub(super) fn begin_attempt(
        &self,
        user: UserId,
        is_known_browser: bool,
        now: Timestamp,
        uptime: Duration,
    ) -> Result<(), Duration> {
        let mut all = self.lock();
        let oldest = || {
            all.iter()
                .min_by_key(|(_, counted)| counted.count.since)
                .map(|(key, _)| *key)
        };
        if let Some(oldest) = (all.len() >= MAX_COUNTERS).then(oldest).flatten() {
            all.remove(&oldest);
        }
        let first = WrongCodeCounter {
            count: WrongCodeCount {
                codes: 0,
                since: now,
            },
            blocked_until: Duration::ZERO,
        };
        let counted = all.entry((user, is_known_browser)).or_insert(first);
        if let Some(wait) = counted
            .blocked_until
            .checked_sub(uptime)
            .filter(|wait| !wait.is_zero())
        {
            return Err(wait);
        }
        counted.count.codes = counted.count.codes.saturating_add(1);
        if counted.count.codes.is_multiple_of(CODES_BEFORE_WAIT) {
            let doubled = 2_u32.saturating_pow(counted.count.codes / CODES_BEFORE_WAIT - 1);
            counted.blocked_until = uptime + FIRST_WAIT.saturating_mul(doubled).min(MAX_WAIT);
        }
        Ok(())
    }

    /// Records a sign-in: resets the wrong codes and returns them. `is_counted`: the right code was
    /// counted, too.
    pub(super) fn record_success(
        &self,
        user: UserId,
        is_known_browser: bool,
        is_counted: bool,
    ) -> Option<WrongCodeCount> {
        let mut all = self.lock();
        let [own, other] = [is_known_browser, !is_known_browser]
            .map(|is_known| all.remove(&(user, is_known)).map(|counted| counted.count));
        let own = own.map(|wrong| WrongCodeCount {
            codes: wrong.codes.saturating_sub(u32::from(is_counted)),
            ..wrong
        });
        let both = [own, other]
            .into_iter()
            .flatten()
            .filter(|wrong| wrong.codes > 0);
        both.reduce(|one, other| WrongCodeCount {
            codes: one.codes.saturating_add(other.codes),
            since: one.since.min(other.since),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(UserId, bool), WrongCodeCounter>> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_wrong_codes_in_a_row_wait_an_hour_and_then_twice_as_long() {
        let codes = SecondFactorLimit::default();
        let user = UserId(1);
        let mut uptime = 100;
        let begin = |uptime: u64, is_known| {
            let now = Timestamp::from_secs(i64::try_from(uptime).unwrap());
            codes.begin_attempt(user, is_known, now, Duration::from_secs(uptime))
        };
        for hours in [1, 2, 4, 8, 16, 24, 24] {
            for _ in 0..10 {
                assert_eq!(begin(uptime, false), Ok(()));
            }
            assert_eq!(begin(uptime, false), Err(Duration::from_secs(hours * 3600)));
            assert_eq!(
                begin(uptime + hours * 3600 - 1, false),
                Err(Duration::from_secs(1))
            );
            uptime += hours * 3600;
        }
        // A known browser has its own counter. A sign-in returns the sum of both.
        assert_eq!(begin(uptime, true), Ok(()));
        assert_eq!(
            codes.record_success(user, true, true),
            Some(WrongCodeCount {
                codes: 70,
                since: Timestamp::from_secs(100)
            })
        );
        assert_eq!(codes.record_success(user, true, false), None);
        assert_eq!(begin(uptime, false), Ok(()));
        assert_eq!(
            codes.record_success(user, false, true),
            None,
            "a right code is none that was wrong"
        );
    }
}
