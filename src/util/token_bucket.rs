//! Limit of a rate, with bursts after a pause. Times are uptimes.

use std::hash::Hash;
use std::time::Duration;

use super::sweep_map::SweepMap;
use super::sync::{Mutex, lock};

/// Rate of a token bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TokenRate {
    /// Number of tokens of a full bucket; 0 counts as 1.
    pub(crate) burst: u32,
    /// Time in which a token is added.
    pub(crate) interval: Duration,
}

/// Bucket of tokens, full at first.
#[derive(Clone, Copy, Default)]
pub(crate) struct TokenBucket {
    /// Time from `at` until the bucket is full.
    debt: Duration,
    at: Duration,
}

impl TokenBucket {
    /// Adds the tokens of the time since the last call. Returns the time until there is a token, or
    /// zero.
    pub(crate) fn wait(&mut self, rate: TokenRate, now: Duration) -> Duration {
        *self = Self {
            debt: self.debt_at(now),
            at: now,
        };
        (self.debt + rate.interval).saturating_sub(rate.interval * rate.burst.max(1))
    }

    /// Takes a token, which is borrowed if there is none.
    pub(crate) fn take(&mut self, rate: TokenRate) {
        self.debt += rate.interval;
    }

    /// Returns a token that was not needed.
    pub(crate) fn put_back(&mut self, rate: TokenRate) {
        self.debt = self.debt.saturating_sub(rate.interval);
    }

    /// Takes a token if there is one. The error is the time until there is one.
    pub(crate) fn try_take(&mut self, rate: TokenRate, now: Duration) -> Result<(), Duration> {
        let wait = self.wait(rate, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.take(rate);
        Ok(())
    }

    fn debt_at(&self, now: Duration) -> Duration {
        self.debt.saturating_sub(now.saturating_sub(self.at))
    }
}

/// Token bucket of each key. Full buckets are dropped from time to time.
pub(crate) struct KeyedTokenBuckets<K> {
    rate: TokenRate,
    buckets: Mutex<SweepMap<K, TokenBucket>>,
}

impl<K: Eq + Hash> KeyedTokenBuckets<K> {
    /// Creates full buckets.
    pub(crate) fn new(rate: TokenRate) -> Self {
        Self {
            rate,
            buckets: Mutex::new(SweepMap::new()),
        }
    }

    /// Takes a token of a key if there is one. The error is the time until there is one.
    pub(crate) fn try_take(&self, key: K, now: Duration) -> Result<(), Duration> {
        let is_partial = |bucket: &TokenBucket| !bucket.debt_at(now).is_zero();
        lock(&self.buckets)
            .get_or_insert(key, is_partial, TokenBucket::default)
            .try_take(self.rate, now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const START: Duration = Duration::from_secs(1000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn rate(per_minute: u32, burst: u32) -> TokenRate {
        TokenRate {
            burst,
            interval: MINUTE / per_minute,
        }
    }

    /// Returns the number of tokens that can be taken at once.
    fn taken(buckets: &KeyedTokenBuckets<u8>, key: u8, now: Duration) -> usize {
        (0..3000)
            .take_while(|_| buckets.try_take(key, now).is_ok())
            .count()
    }

    #[test]
    fn a_burst_is_served_and_then_the_rate() {
        for (per_minute, burst, at_once, a_minute_later, wait) in [
            (100, 1000, 1000, 100, 600),
            (100, 100, 100, 100, 600),
            (100, 10, 10, 10, 600),
            (1, 1, 1, 1, 60_000),
            (8, 3, 3, 3, 7500),
            (20, 0, 1, 1, 3000),
        ] {
            let case = format!("{per_minute} {burst}");
            let buckets = KeyedTokenBuckets::new(rate(per_minute, burst));
            assert_eq!(taken(&buckets, 1, START), at_once, "{case}");
            let wait = Duration::from_millis(wait);
            assert_eq!(buckets.try_take(1, START), Err(wait), "{case}");
            assert_eq!(taken(&buckets, 1, START + MINUTE), a_minute_later, "{case}");
            assert_eq!(taken(&buckets, 1, START + 1440 * MINUTE), at_once, "{case}");
            assert_eq!(taken(&buckets, 2, START), at_once, "keys share nothing");
        }
    }

    #[test]
    fn borrowed_tokens_are_paid_back_and_returned_ones_can_be_taken_again() {
        let rate = rate(30, 1);
        let second = Duration::from_secs(1);
        let mut bucket = TokenBucket::default();
        let waits = [0, 0, 1, 9, 9].map(|now| {
            let wait = bucket.wait(rate, second * now);
            bucket.take(rate);
            wait
        });
        assert_eq!(waits, [0, 2, 3, 0, 2].map(|wait| second * wait));
        bucket.put_back(rate);
        assert_eq!(bucket.wait(rate, second * 9), 2 * second);
        bucket.put_back(rate);
        bucket.put_back(rate);
        assert_eq!(bucket.try_take(rate, second * 9), Ok(()));
        assert_eq!(bucket.try_take(rate, second * 9), Err(2 * second));
    }

    #[test]
    fn a_time_that_steps_back_changes_nothing() {
        let buckets = KeyedTokenBuckets::new(rate(60, 10));
        assert!((0..4).all(|_| buckets.try_take(1, START).is_ok()));
        let earlier = START / 2;
        assert_eq!(taken(&buckets, 1, earlier), 6);
        assert_eq!(taken(&buckets, 1, earlier + Duration::from_secs(2)), 2);
        assert!(buckets.try_take(1, Duration::ZERO).is_err());
        assert_eq!(taken(&buckets, 1, Duration::MAX), 10);
    }

    proptest! {
        #[test]
        fn no_interval_exceeds_burst_and_rate_and_waiting_helps(
            per_minute in 1..200_u32, burst in 1..50_u32, gaps in vec(0..3_000_000_u64, 1..200)
        ) {
            let rate = rate(per_minute, burst);
            let mut bucket = TokenBucket::default();
            let mut now = START;
            let mut served = Vec::new();
            for gap in gaps {
                now += Duration::from_micros(gap);
                if let Err(wait) = bucket.try_take(rate, now) {
                    let almost = now + wait - Duration::from_nanos(1);
                    prop_assert!(bucket.try_take(rate, almost).is_err(), "the wait is too long");
                    now += wait;
                    prop_assert!(bucket.try_take(rate, now).is_ok(), "the wait is too short");
                }
                served.push(now);
                for (count, first) in served.iter().rev().enumerate() {
                    let earned = (now - *first).as_nanos() / rate.interval.as_nanos();
                    prop_assert!((count as u128) < u128::from(burst) + earned);
                }
            }
        }
    }
}
