//! Limits for the messages of a channel: its rate, its day, and each of its checks.

use std::time::Duration;

use super::{CHECK_LIMIT_PERIOD, ChannelProgress};
use crate::domain::ids::CheckId;
use crate::notifier::delivery_policy::DeliveryPolicy;
use crate::notifier::scheduler::CurrentTime;
use crate::util::token_bucket::TokenRate;

/// Maximum number of messages to people about one check within [`CHECK_LIMIT_PERIOD`].
const MAX_MESSAGES_PER_CHECK: usize = 6;
const DAY: Duration = Duration::from_secs(86_400);

impl ChannelProgress {
    /// Checks if a message may be sent now. The error is the uptime from which it may, if known.
    pub(in crate::notifier::scheduler) fn may_send(
        &mut self,
        policy: &DeliveryPolicy,
        now: Duration,
    ) -> Result<(), Option<Duration>> {
        // While the channel fails, one message at a time probes it.
        let most = if self.failures > 0 {
            1
        } else {
            policy.max_parallel
        };
        if self.in_flight >= most {
            return Err(None);
        }
        if now < self.not_before {
            return Err(Some(self.not_before));
        }
        if self.is_daily_limit_reached(policy, now) {
            return Err(Some(self.sent_today.0 + DAY));
        }
        self.rate_limit = policy.rate_limit.map(|rate| TokenRate {
            burst: rate.burst,
            interval: rate.refill,
        });
        match self.rate_limit.map(|rate| self.bucket.wait(rate, now)) {
            Some(wait) if !wait.is_zero() => Err(Some(now + wait)),
            _ => Ok(()),
        }
    }

    pub(super) fn is_daily_limit_reached(
        &mut self,
        policy: &DeliveryPolicy,
        now: Duration,
    ) -> bool {
        if now >= self.sent_today.0 + DAY {
            self.sent_today = (now, 0);
        }
        policy
            .daily_limit
            .is_some_and(|most| self.sent_today.1 >= most)
    }

    /// Counts a message that only the daily limit can hold back. False if that limit is reached.
    pub(in crate::notifier::scheduler) fn count_toward_daily_limit(
        &mut self,
        policy: &DeliveryPolicy,
        now: Duration,
    ) -> bool {
        let may = !self.is_daily_limit_reached(policy, now);
        self.sent_today.1 += u32::from(may);
        may
    }

    /// Counts a message as sent.
    pub(in crate::notifier::scheduler) fn count_message(&mut self) {
        if let Some(rate) = self.rate_limit {
            self.bucket.take(rate);
        }
        self.sent_today.1 += 1;
    }

    /// Reverts the count of a message that was not sent.
    pub(in crate::notifier::scheduler) fn uncount_message(&mut self) {
        if let Some(rate) = self.rate_limit {
            self.bucket.put_back(rate);
        }
        self.refund_daily_limit();
    }

    /// Reverts the daily count of a message that did not arrive, and so cost nothing.
    pub(in crate::notifier::scheduler) fn refund_daily_limit(&mut self) {
        self.sent_today.1 = self.sent_today.1.saturating_sub(1);
    }

    /// Checks if the message limit for people allows another message about a check. The error is
    /// the uptime from which it does.
    pub(in crate::notifier::scheduler) fn check_message_limit(
        &mut self,
        check: CheckId,
        now: CurrentTime,
    ) -> Result<(), Duration> {
        let Some(notified_times) = self.notified_at.get_mut(&check) else {
            return Ok(());
        };
        while notified_times
            .front()
            .is_some_and(|at| *at + CHECK_LIMIT_PERIOD <= now.uptime)
        {
            notified_times.pop_front();
        }
        match notified_times.front() {
            Some(first) if notified_times.len() >= MAX_MESSAGES_PER_CHECK => {
                self.held_back_at.insert(check, now.wall);
                Err(*first + CHECK_LIMIT_PERIOD)
            }
            _ => Ok(()),
        }
    }
}
