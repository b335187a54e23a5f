//! Sending state of one channel: its failures, its rate, and the messages that people got about
//! each check.

mod rate_limits;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::delivery_policy::DeliveryPolicy;
use super::failure_suspects::{FailureCause, Suspects};
use super::row_selection::DigestWait;
use super::{CurrentTime, MAX_REFUSALS, Message, MessageItem};
use crate::channels::alert::DelayReason;
use crate::channels::transport_reply::MAX_RETRY_DELAY;
use crate::domain::alert::OutboxRow;
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{CheckId, DeliveryNumber};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::state::State;
use crate::util::random::Random;
use crate::util::token_bucket::{TokenBucket, TokenRate};

/// Delays after consecutive failures, in seconds; the last one repeats.
const RETRY_DELAYS_SECS: [u64; 10] = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600];
/// Delay of the next message to the same people after a digest.
const DELAY_AFTER_DIGEST: Duration = Duration::from_secs(10);
/// Period of the limit for messages to people about one check.
const CHECK_LIMIT_PERIOD: Duration = Duration::from_secs(3600);
/// Maximum number of parked messages, which wait by themselves while others are sent: see
/// [limits](crate::docs::limits).
const MAX_PARKED: usize = 100;
/// Age from which a message about a check that is down gives the reason for its delay.
const LATE_AFTER: Duration = Duration::from_secs(60);
/// Number of failures without a response after which a message about several checks is split.
const DIGEST_SPLIT_FAILURES: usize = 5;
/// Number of attempts for the channel that must have failed after a row has expired.
const MIN_FINAL_FAILURES: usize = 3;

pub(super) struct ChannelProgress {
    /// Channel as of the last attempt. A change resets the failures.
    pub(super) channel: Arc<Channel>,
    /// Failures since the last success.
    failures: usize,
    /// Uptime before which nothing is sent.
    not_before: Duration,
    /// Uptime from which other messages may be tried before `not_before`, if all failures since
    /// the last success have one message in common.
    try_others_from: Option<Duration>,
    /// Times of the last failures; at most [`MIN_FINAL_FAILURES`].
    last_failures: VecDeque<Timestamp>,
    /// Messages about one check that have failed since the last success. Others are tried before
    /// them.
    failed_messages: BTreeMap<DeliveryNumber, FailedMessage>,
    /// Rows of failed digests that may be the cause.
    suspects: Suspects,
    /// Cause of the failures since the last success.
    failure_cause: FailureCause,
    /// Messages that fail although others are accepted. They wait by themselves.
    parked: BTreeMap<DeliveryNumber, FailedMessage>,
    /// Rate limit as of the last attempt.
    rate_limit: Option<TokenRate>,
    bucket: TokenBucket,
    /// Start of the day as an uptime, and the number of messages since.
    sent_today: (Duration, u32),
    in_flight: usize,
    /// Checks of messages in flight.
    pub(super) checks_in_flight: BTreeSet<CheckId>,
    /// Uptimes of the last messages to people about each check.
    notified_at: HashMap<CheckId, VecDeque<Duration>>,
    /// Time at which the message limit of a check last held one back.
    held_back_at: HashMap<CheckId, Timestamp>,
    /// Reasons that held back all messages, with the last time of each.
    delays: BTreeMap<DelayReason, Timestamp>,
    /// Digest that waits for more rows.
    pub(super) digest_wait: Option<DigestWait>,
    /// Number of refusals of each row.
    pub(super) refusals: HashMap<DeliveryNumber, u16>,
}

/// Failures of a message about one check.
struct FailedMessage {
    check: CheckId,
    /// Number of consecutive failures.
    count: usize,
    /// Time of the last failure.
    last: CurrentTime,
    /// Uptime before which it is not tried.
    not_before: Duration,
    /// True if other messages have been accepted since.
    others_delivered: bool,
}

impl FailedMessage {
    fn new(check: CheckId, now: CurrentTime) -> Self {
        Self {
            check,
            count: 0,
            last: now,
            not_before: now.uptime,
            others_delivered: true,
        }
    }

    fn add_failure(&mut self, now: CurrentTime, pause: Duration) {
        self.count += 1;
        self.last = now;
        self.others_delivered = false;
        self.not_before = now.uptime + pause;
    }
}

/// Failed message that may be retried.
#[derive(Clone, Copy)]
pub(super) struct PendingRetry {
    /// Uptime of the last attempt.
    pub(super) last_attempt: Duration,
    /// Uptime before which it is not tried.
    pub(super) not_before: Duration,
}

impl ChannelProgress {
    pub(super) fn new(channel: &Arc<Channel>, now: Duration) -> Self {
        Self {
            channel: Arc::clone(channel),
            failures: 0,
            not_before: Duration::ZERO,
            try_others_from: None,
            last_failures: VecDeque::new(),
            failed_messages: BTreeMap::new(),
            suspects: Suspects::Unknown,
            failure_cause: FailureCause::NoFailure,
            parked: BTreeMap::new(),
            rate_limit: None,
            bucket: TokenBucket::default(),
            sent_today: (now, 0),
            in_flight: 0,
            checks_in_flight: BTreeSet::new(),
            notified_at: HashMap::new(),
            held_back_at: HashMap::new(),
            delays: BTreeMap::new(),
            digest_wait: None,
            refusals: HashMap::new(),
        }
    }

    /// True if a message of the channel is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Updates the channel, which may have been changed or enabled since.
    pub(super) fn update_channel(&mut self, channel: &Arc<Channel>, state: &State) {
        self.refusals
            .retain(|number, _| state.outbox.get(*number).is_some());
        self.failed_messages
            .retain(|number, _| state.outbox.get(*number).is_some());
        self.parked
            .retain(|number, _| state.outbox.get(*number).is_some());
        if !Arc::ptr_eq(&self.channel, channel) {
            let is_changed = self.channel.settings != channel.settings;
            let is_enabled = self.failures > 0
                && self.channel.health.failing.is_some()
                && channel.health.is_healthy();
            if is_changed || is_enabled && self.parked.is_empty() {
                self.failures = 0;
                self.not_before = Duration::ZERO;
                self.try_others_from = None;
                self.last_failures.clear();
                self.failed_messages.clear();
                self.suspects = Suspects::Unknown;
                self.failure_cause = FailureCause::NoFailure;
                self.parked.clear();
            }
            if is_changed {
                self.refusals.clear();
            }
            self.channel = Arc::clone(channel);
        }
    }

    /// Records that a message with these items is in flight.
    pub(super) fn begin(&mut self, items: &[MessageItem]) {
        self.count_message();
        self.in_flight += 1;
        self.checks_in_flight
            .extend(items.iter().map(|item| item.row.check));
    }

    /// Records that it is no longer in flight.
    pub(super) fn end(&mut self, items: &[MessageItem]) {
        self.in_flight -= 1;
        for item in items {
            self.checks_in_flight.remove(&item.row.check);
        }
    }

    /// Records that a message was not accepted. `is_answered`: the receiver responded, and may
    /// accept others. `after`: the delay that it asks for. Returns true if the failure concerns the
    /// channel, not only this message.
    pub(super) fn record_failure(
        &mut self,
        message: &Message,
        is_answered: bool,
        after: Option<Duration>,
        now: CurrentTime,
        random: &Random,
    ) -> bool {
        if message.channel.settings != self.channel.settings {
            // The failure says nothing about the settings that the channel has now.
            return true;
        }
        // Up to a fifth more or less, so that the channels of one receiver do not retry at the same
        // time.
        let spread =
            0.8 + 0.4 * (f64::from(u16::from_le_bytes(random.bytes())) / f64::from(u16::MAX));
        let pause = |failures: usize| {
            Duration::from_secs(
                RETRY_DELAYS_SECS
                    .get(failures)
                    .or(RETRY_DELAYS_SECS.last())
                    .copied()
                    .unwrap_or_default(),
            )
            .mul_f64(spread)
        };
        let requested_delay = after.unwrap_or_default().min(MAX_RETRY_DELAY);
        let single = if let [item] = message.items.as_slice() {
            Some(&item.row)
        } else {
            None
        };
        if let Some(row) = single.filter(|row| self.suspects.is_proven_cause(row.number)) {
            self.suspects = Suspects::Unknown;
            self.failure_cause = FailureCause::Check(row.check);
            self.try_others_from = Some(now.uptime);
            self.parked
                .insert(row.number, FailedMessage::new(row.check, now));
        }
        if let Some(failure) = single.and_then(|row| self.parked.get_mut(&row.number)) {
            // Without a response, and without a success since its last failure, the channel is the
            // more likely cause.
            let is_silent = !is_answered && !failure.others_delivered;
            failure.add_failure(now, requested_delay.max(pause(failure.count)));
            return is_silent;
        }
        let rows: BTreeSet<_> = message.items.iter().map(|item| item.row.number).collect();
        match single {
            Some(row) => {
                let was_suspect = self.suspects.contains(row.number);
                if !self.suspects.is_unknown() {
                    // The last row of a narrowed digest is suspected as a message of its own.
                    self.suspects = if was_suspect {
                        Suspects::Unknown
                    } else {
                        Suspects::None
                    };
                }
                self.failure_cause.add_check(row.check, was_suspect);
                let failure = self
                    .failed_messages
                    .entry(row.number)
                    .or_insert_with(|| FailedMessage::new(row.check, now));
                failure.add_failure(now, requested_delay.max(pause(failure.count)));
            }
            None => {
                if !self.failed_messages.is_empty() {
                    self.failed_messages.clear();
                    self.suspects = Suspects::None;
                } else if after.is_none() && (is_answered || self.failures >= DIGEST_SPLIT_FAILURES)
                {
                    self.suspects.narrow(&rows);
                }
                self.failure_cause.add_digest(self.suspects.has_rows());
            }
        }
        // While one check explains all failures, other messages need not wait for it. Without a
        // response they probably fail too.
        let may_try_others = self.failure_cause.allows_others() && after.is_none();
        self.try_others_from = may_try_others.then(|| {
            if is_answered {
                now.uptime
            } else {
                now.uptime + pause(0)
            }
        });
        let mut channel_delay = requested_delay;
        // Messages that were in flight together fail together, which counts once.
        if now.uptime >= self.not_before {
            channel_delay = channel_delay.max(pause(self.failures));
            self.failures += 1;
            self.last_failures.push_back(now.wall);
            if self.last_failures.len() > MIN_FINAL_FAILURES {
                self.last_failures.pop_front();
            }
        }
        self.not_before = self.not_before.max(now.uptime + channel_delay);
        true
    }

    /// Counts a refusal of a message. Returns true if the message is given up: it was refused
    /// [`MAX_REFUSALS`] times, and its receiver is a program or accepts other messages. A channel
    /// for people or incidents that refuses everything may have lost its receiver, which an
    /// operator will restore.
    pub(super) fn record_refusal(&mut self, message: &Message, policy: &DeliveryPolicy) -> bool {
        let [item] = message.items.as_slice() else {
            return false;
        };
        let refused = self.refusals.entry(item.row.number).or_default();
        *refused = refused.saturating_add(1);
        *refused >= MAX_REFUSALS
            && (policy.class == ChannelClass::Machine || self.parked.contains_key(&item.row.number))
    }

    /// Records that a message was accepted.
    pub(super) fn record_delivery(
        &mut self,
        message: &Message,
        policy: &DeliveryPolicy,
        now: Duration,
    ) {
        let rows: BTreeSet<_> = message.items.iter().map(|item| item.row.number).collect();
        self.parked.retain(|row, _| !rows.contains(row));
        self.parked
            .values_mut()
            .for_each(|failure| failure.others_delivered = true);
        self.suspects.clear(&rows);
        // The channel works: messages that failed meanwhile are parked.
        for (row, failure) in std::mem::take(&mut self.failed_messages) {
            if self.parked.len() < MAX_PARKED && !rows.contains(&row) {
                self.parked.insert(
                    row,
                    FailedMessage {
                        others_delivered: true,
                        ..failure
                    },
                );
            }
        }
        self.failures = 0;
        self.failure_cause = if self.suspects.has_rows() {
            FailureCause::Digest
        } else {
            FailureCause::NoFailure
        };
        self.try_others_from = None;
        self.last_failures.clear();
        if message.items.len() > 1 && self.suspects.is_unknown() {
            self.not_before = self.not_before.max(now + DELAY_AFTER_DIGEST);
        }
        if policy.class == ChannelClass::People {
            // Reminders are sent on request and have no limit.
            for item in message
                .items
                .iter()
                .filter(|item| item.row.check != CheckId(0))
            {
                self.notified_at
                    .entry(item.row.check)
                    .or_default()
                    .push_back(now);
            }
            self.notified_at.retain(|_, times| {
                times
                    .back()
                    .is_some_and(|at| *at + CHECK_LIMIT_PERIOD > now)
            });
            self.held_back_at
                .retain(|check, _| self.notified_at.contains_key(check));
        }
    }

    /// If one message explains all failures and another one waits, the other one is tried: the
    /// channel may work.
    pub(super) fn try_others(&mut self, state: &State, policy: &DeliveryPolicy) {
        let Some(from) = self
            .try_others_from
            .filter(|from| self.in_flight == 0 && *from < self.not_before)
        else {
            return;
        };
        let checks: BTreeSet<_> = self
            .failed_messages
            .values()
            .chain(self.parked.values())
            .map(|failure| failure.check)
            .collect();
        let is_other = |row: &Arc<OutboxRow>| match self.failed_messages.contains_key(&row.number)
            || self.suspects.contains(row.number)
        {
            true => false,
            // A check that keeps changing is no reason to try a channel that fails repeatedly.
            false if self.failure_cause == FailureCause::Check(row.check) && self.failures > 1 => {
                false
            }
            // People get only the newest row of a check, which is another message.
            false if policy.class == ChannelClass::People => {
                let earlier = self
                    .failed_messages
                    .iter()
                    .chain(&self.parked)
                    .filter(|(_, failure)| failure.check == row.check);
                earlier
                    .map(|(number, _)| *number)
                    .max()
                    .is_none_or(|number| number < row.number)
            }
            false => !checks.contains(&row.check),
        };
        if state.outbox.rows_of_channel(self.channel.id).any(is_other) {
            self.try_others_from = None;
            self.not_before = from;
        }
    }

    /// Checks whose next message is parked, each with the uptime until which it waits.
    pub(super) fn parked_checks(
        &self,
        state: &State,
        class: ChannelClass,
    ) -> BTreeMap<CheckId, Duration> {
        self.next_messages(&self.parked, state, class)
            .map(|failure| (failure.check, failure.not_before))
            .collect()
    }

    /// Checks whose next message has failed since the last success.
    pub(super) fn failing_checks(
        &self,
        state: &State,
        class: ChannelClass,
    ) -> BTreeMap<CheckId, PendingRetry> {
        let failing = |failure: &FailedMessage| PendingRetry {
            last_attempt: failure.last.uptime,
            not_before: failure.not_before,
        };
        self.next_messages(&self.failed_messages, state, class)
            .map(|failure| (failure.check, failing(failure)))
            .collect()
    }

    fn next_messages<'a>(
        &'a self,
        failures: &'a BTreeMap<DeliveryNumber, FailedMessage>,
        state: &'a State,
        class: ChannelClass,
    ) -> impl Iterator<Item = &'a FailedMessage> {
        // People get only the newest row, which may now be another message. For other classes the
        // first row comes first.
        let is_next = move |row: DeliveryNumber, check: CheckId| {
            class != ChannelClass::People
                || state
                    .outbox
                    .rows_of_pair(self.channel.id, check)
                    .last()
                    .is_some_and(|newest| newest.number == row)
        };
        failures
            .iter()
            .filter(move |(row, failure)| is_next(**row, failure.check))
            .map(|(_, failure)| failure)
    }

    /// True if a row may be the cause for the failure of a message about several checks.
    pub(super) fn is_suspect(&self, row: DeliveryNumber) -> bool {
        self.suspects.contains(row)
    }

    /// True if a row has waited too long to be useful. The clock alone does not decide: it may have
    /// been set, and the server may not have run. Attempts must have failed after the row expired.
    pub(super) fn is_expired(&self, row: &OutboxRow, policy: &DeliveryPolicy) -> bool {
        let most = i64::try_from(policy.give_up_after.as_micros()).unwrap_or(i64::MAX);
        let is_long = |until: Timestamp| until.micros_since(row.queued) > most;
        match self.parked.get(&row.number) {
            Some(failure) => is_long(failure.last.wall),
            None => {
                self.last_failures.len() >= MIN_FINAL_FAILURES
                    && self
                        .last_failures
                        .front()
                        .is_some_and(|first| is_long(*first))
            }
        }
    }

    /// Records a reason that holds back all messages.
    pub(super) fn note_delay(&mut self, delay: DelayReason, now: Timestamp) {
        self.delays.insert(delay, now);
    }

    /// Records that nothing [may be sent](Self::may_send) now. Returns true if the daily limit is
    /// reached.
    pub(super) fn note_waiting(&mut self, policy: &DeliveryPolicy, now: CurrentTime) -> bool {
        let is_used_up = self.is_daily_limit_reached(policy, now.uptime);
        if self.failures > 0 {
            self.note_delay(DelayReason::Undelivered, now.wall);
        } else if is_used_up {
            self.note_delay(DelayReason::DailyLimit, now.wall);
        }
        is_used_up
    }

    /// Reason for the delay of an item, if there was one. For a check that is down only after
    /// [`LATE_AFTER`].
    pub(super) fn delay_reason(&self, item: &MessageItem, now: CurrentTime) -> Option<DelayReason> {
        let row = item.unnotified_down.as_ref().unwrap_or(&item.row);
        if item.unnotified_down.is_none()
            && now.wall.micros_since(row.queued)
                < LATE_AFTER.as_micros().try_into().unwrap_or(i64::MAX)
        {
            return None;
        }
        let is_since = |at: Option<&Timestamp>| at.is_some_and(|at| *at >= row.queued);
        let planned_delay = [DelayReason::QuietHours, DelayReason::DailyLimit]
            .into_iter()
            .find(|delay| is_since(self.delays.get(delay)));
        let is_undelivered =
            row.attempts > 0 || is_since(self.delays.get(&DelayReason::Undelivered));
        planned_delay
            .or_else(|| is_undelivered.then_some(DelayReason::Undelivered))
            .or_else(|| {
                is_since(self.held_back_at.get(&row.check)).then_some(DelayReason::Flapping)
            })
    }
}
