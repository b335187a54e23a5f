//! Rate limit of API keys, so that one client in a loop does not block the others.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::http::ApiRate;
use crate::util::sync::lock;

/// Number of buckets up to which full ones are not searched.
const MIN_SWEEP_BUCKETS: usize = 1024;

/// A token bucket for each key: `burst` requests at once, and `per_minute` a minute after that.
pub(crate) struct RateLimiter {
    /// Microseconds that each request costs; 0 for no limit.
    request_cost: i64,
    /// Maximum debt of a key in microseconds.
    max_debt: i64,
    buckets: Mutex<TokenBuckets>,
}

struct TokenBuckets {
    /// All buckets that are not full, and some that have become full since.
    by_key: HashMap<u64, TokenBucket>,
    /// Number of buckets at which the full ones are dropped.
    sweep_at: usize,
}

struct TokenBucket {
    /// Microseconds until it is full again, as of `at`.
    debt: i64,
    at: Timestamp,
}

/// Error: too many requests. The value is the number of seconds until the next one is admitted, at
/// least 1 (`Retry-After`, RFC 9110, section 10.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RetryAfter(pub(crate) i64);

impl RateLimiter {
    /// Creates a limiter with this rate for each key.
    pub(crate) fn new(rate: ApiRate) -> Self {
        let ApiRate { per_minute, burst } = rate;
        let cost = (60 * MICROS_PER_SEC)
            .checked_div(per_minute.into())
            .unwrap_or(0);
        let buckets = TokenBuckets {
            by_key: HashMap::new(),
            sweep_at: MIN_SWEEP_BUCKETS,
        };
        Self {
            request_cost: cost,
            max_debt: cost * i64::from(burst.max(1)),
            buckets: Mutex::new(buckets),
        }
    }

    /// Counts a request of `key`, unless there were too many. A refused request does not count.
    ///
    /// Setting the clock back changes no bucket.
    pub(crate) fn admit(&self, key: u64, now: Timestamp) -> Result<(), RetryAfter> {
        if self.request_cost == 0 {
            return Ok(());
        }
        // A panic elsewhere cannot leave a bucket half changed.
        let mut buckets = lock(&self.buckets);
        if buckets.by_key.len() >= buckets.sweep_at {
            buckets.sweep(now);
        }
        let bucket = buckets
            .by_key
            .entry(key)
            .or_insert(TokenBucket { debt: 0, at: now });
        *bucket = TokenBucket {
            debt: bucket.debt_at(now),
            at: now,
        };
        let owed = bucket.debt + self.request_cost;
        if owed > self.max_debt {
            return Err(RetryAfter(
                (owed - self.max_debt + MICROS_PER_SEC - 1) / MICROS_PER_SEC,
            ));
        }
        bucket.debt = owed;
        Ok(())
    }
}

impl TokenBucket {
    fn debt_at(&self, now: Timestamp) -> i64 {
        self.debt
            .saturating_sub(now.micros_since(self.at).max(0))
            .max(0)
    }
}

impl TokenBuckets {
    /// Drops full buckets: a full one is the same as a new one.
    fn sweep(&mut self, now: Timestamp) {
        self.by_key.retain(|_, bucket| bucket.debt_at(now) > 0);
        self.sweep_at = MIN_SWEEP_BUCKETS.max(2 * self.by_key.len());
        self.by_key.shrink_to(self.sweep_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const NOON: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn limiter(per_minute: u32, burst: u32) -> RateLimiter {
        RateLimiter::new(ApiRate { per_minute, burst })
    }

    /// Returns the number of requests that are admitted at once.
    fn admitted(limiter: &RateLimiter, key: u64, now: Timestamp) -> usize {
        (0..3000)
            .take_while(|_| limiter.admit(key, now).is_ok())
            .count()
    }

    #[test]
    fn a_burst_is_served_and_then_the_rate() {
        for (rate, burst, at_once, a_minute_later, retry) in [
            (100, 1000, 1000, 100, 1),
            (100, 100, 100, 100, 1),
            (100, 10, 10, 10, 1),
            (1, 1, 1, 1, 60),
            (7, 3, 3, 3, 9),
            (20, 0, 1, 1, 3),
        ] {
            let limiter = limiter(rate, burst);
            assert_eq!(admitted(&limiter, 1, NOON), at_once, "{rate} {burst}");
            assert_eq!(
                limiter.admit(1, NOON),
                Err(RetryAfter(retry)),
                "{rate} {burst}"
            );
            assert_eq!(
                admitted(&limiter, 1, NOON.plus_secs(60)),
                a_minute_later,
                "{rate} {burst}"
            );
            assert_eq!(
                admitted(&limiter, 1, NOON.plus_secs(86_400)),
                at_once,
                "{rate} {burst}"
            );
            assert_eq!(
                admitted(&limiter, 2, NOON),
                at_once,
                "keys do not share a bucket"
            );
        }
    }

    #[test]
    fn a_rate_of_0_means_no_limit() {
        assert_eq!(admitted(&limiter(0, 1), 1, NOON), 3000);
    }

    #[test]
    fn a_clock_that_steps_back_changes_nothing() {
        let limiter = limiter(60, 10);
        assert!((0..4).all(|_| limiter.admit(1, NOON).is_ok()));
        let earlier = NOON.plus_secs(-86_400);
        assert_eq!(admitted(&limiter, 1, earlier), 6);
        assert_eq!(admitted(&limiter, 1, earlier.plus_secs(2)), 2);
        assert_eq!(
            limiter.admit(1, Timestamp::from_micros(i64::MIN)),
            Err(RetryAfter(1))
        );
        assert_eq!(admitted(&limiter, 1, Timestamp::from_micros(i64::MAX)), 10);
    }

    #[test]
    fn full_buckets_are_dropped() {
        let limiter = limiter(60, 10);
        for key in 0..100_000 {
            // One request a millisecond, and each bucket is full after a second: at most a thousand
            // are in use.
            assert_eq!(
                limiter.admit(key, NOON.plus_micros(key as i64 * 1000)),
                Ok(())
            );
        }
        let buckets = limiter.buckets.lock().unwrap();
        assert!(
            buckets.by_key.len() <= 2002 && buckets.by_key.capacity() <= 8192,
            "{}",
            buckets.by_key.capacity()
        );
    }

    proptest! {
        #[test]
        fn no_interval_exceeds_burst_and_rate_and_waiting_helps(
            rate in 1..200_u32, burst in 1..50_u32, gaps in vec(0..3_000_000_i64, 1..200)
        ) {
            let limiter = limiter(rate, burst);
            let mut now = NOON;
            let mut served = Vec::new();
            for gap in gaps {
                now = now.plus_micros(gap);
                if let Err(RetryAfter(seconds)) = limiter.admit(1, now) {
                    prop_assert!(seconds >= 1);
                    prop_assert!(
                        seconds == 1 || limiter.admit(1, now.plus_secs(seconds - 1)).is_err(),
                        "the wait is too long"
                    );
                    now = now.plus_secs(seconds);
                    prop_assert!(limiter.admit(1, now).is_ok(), "the wait is too short");
                }
                served.push(now);
                for (count, first) in served.iter().rev().enumerate() {
                    let earned = now.micros_since(*first) / (60 * MICROS_PER_SEC / i64::from(rate));
                    prop_assert!((count as i64) < i64::from(burst) + earned);
                }
            }
        }
    }
}
