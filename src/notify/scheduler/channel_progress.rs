//! What is known of sending to one channel: its failures, its pace, and what its people have heard of each check.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::delivery_policy::DeliveryPolicy;
use super::failure_suspects::{FailureCause, Suspects};
use super::row_selection::DigestWait;
use super::{CurrentTime, MAX_REFUSALS, Message, MessageItem};
use crate::channel::SendRate;
use crate::channel::alert::DelayReason;
use crate::domain::alert::OutboxRow;
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{CheckId, DeliveryNumber};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::state::State;
use crate::random::Random;

/// Pauses after so many failures in a row, in seconds; the last one holds from then on.
const RETRY_DELAYS_SECS: [u64; 10] = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600];
/// The longest pause that a receiver can ask for.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(6 * 3600);
/// After a digest, the next message to the same people waits.
const DELAY_AFTER_DIGEST: Duration = Duration::from_secs(10);
/// Messages to people about one check within [`CHECK_LIMIT_PERIOD`].
const MAX_MESSAGES_PER_CHECK: usize = 6;
const CHECK_LIMIT_PERIOD: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Messages that wait by themselves while others are sent: see [limits](crate::docs::limits).
const MAX_PARKED: usize = 100;
/// A message about a check that is down says why it is late if it waited for so long.
const LATE_AFTER: Duration = Duration::from_secs(60);
/// Failures without an answer after which a message about several checks is split.
const DIGEST_SPLIT_FAILURES: usize = 5;
/// Attempts to send something to the channel that must have failed after the time of a row was over.
const MIN_FINAL_FAILURES: usize = 3;

/// See the module.
pub(super) struct ChannelProgress {
    /// As it was when something was last sent: a change makes failures forgotten.
    pub(super) channel: Arc<Channel>,
    /// Since a message was last taken.
    failures: usize,
    /// Nothing is tried before this uptime.
    not_before: Duration,
    /// From this uptime on, others may be tried before `not_before`: all that has failed since a message was last taken has one in common.
    try_others_from: Option<Duration>,
    /// When the last failures happened; at most [`MIN_FINAL_FAILURES`].
    last_failures: VecDeque<Timestamp>,
    /// Messages about one check that failed since a message was last taken. Others are tried before them.
    failed_messages: BTreeMap<DeliveryNumber, FailedMessage>,
    /// Which rows of a failed digest may be the reason.
    suspects: Suspects,
    /// What explains the failures since a message was last taken.
    failure_cause: FailureCause,
    /// Messages that fail although others are taken. They wait by themselves.
    parked: BTreeMap<DeliveryNumber, FailedMessage>,
    /// Messages that may be sent at once now, as of an uptime.
    tokens: f64,
    tokens_counted_at: Duration,
    /// Messages sent in the day that began at an uptime.
    sent_today: (Duration, u32),
    in_flight: usize,
    /// Those that messages under way are about.
    pub(super) checks_in_flight: BTreeSet<CheckId>,
    /// When people were last told about a check.
    notified_at: HashMap<CheckId, VecDeque<Duration>>,
    /// When people were last held back from hearing more about a check.
    held_back_at: HashMap<CheckId, Timestamp>,
    /// When something last kept all messages back, and what.
    delays: BTreeMap<DelayReason, Timestamp>,
    /// The digest that waits for more rows.
    pub(super) digest_wait: Option<DigestWait>,
    /// How often something was refused.
    pub(super) refusals: HashMap<DeliveryNumber, u16>,
}

/// The failures of a message about one check.
struct FailedMessage {
    check: CheckId,
    /// In a row.
    count: usize,
    /// The uptime and the moment of the last one.
    last: CurrentTime,
    /// It is not tried before this uptime.
    not_before: Duration,
    /// Other messages were taken since.
    others_delivered: bool,
}

impl FailedMessage {
    fn new(check: CheckId, now: CurrentTime) -> Self {
        Self { check, count: 0, last: now, not_before: now.uptime, others_delivered: true }
    }

    fn add_failure(&mut self, now: CurrentTime, pause: Duration) {
        self.count += 1;
        (self.last, self.others_delivered) = (now, false);
        self.not_before = now.uptime + pause;
    }
}

/// A message that failed and that may be tried again.
#[derive(Clone, Copy)]
pub(super) struct PendingRetry {
    /// The uptime of its last try.
    pub(super) last_attempt: Duration,
    /// It is not tried before this uptime.
    pub(super) not_before: Duration,
}

impl ChannelProgress {
    pub(super) fn new(channel: &Arc<Channel>, rules: &DeliveryPolicy, now: Duration) -> Self {
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
            tokens: rules.rate_limit.map_or(0.0, |pace| f64::from(pace.burst)),
            tokens_counted_at: now,
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

    /// Whether something of it is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Takes over a channel that may have been changed or enabled meanwhile.
    pub(super) fn update_channel(&mut self, channel: &Arc<Channel>, state: &State) {
        self.refusals.retain(|number, _| state.outbox.get(*number).is_some());
        self.failed_messages.retain(|number, _| state.outbox.get(*number).is_some());
        self.parked.retain(|number, _| state.outbox.get(*number).is_some());
        if !Arc::ptr_eq(&self.channel, channel) {
            let is_changed = self.channel.settings != channel.settings;
            let is_enabled = self.failures > 0 && self.channel.health.failing.is_some() && channel.health.is_healthy();
            if is_changed || is_enabled && self.parked.is_empty() {
                (self.failures, self.not_before, self.try_others_from) = (0, Duration::ZERO, None);
                self.last_failures.clear();
                self.failed_messages.clear();
                (self.suspects, self.failure_cause) = (Suspects::Unknown, FailureCause::NoFailure);
                self.parked.clear();
            }
            if is_changed {
                self.refusals.clear();
            }
            self.channel = Arc::clone(channel);
        }
    }

    /// Whether a message may be sent now; else when.
    pub(super) fn may_send(&mut self, rules: &DeliveryPolicy, now: Duration) -> Result<(), Option<Duration>> {
        // While it fails, one message finds out whether it still does.
        let most = if self.failures > 0 { 1 } else { rules.max_parallel };
        if self.in_flight >= most {
            return Err(None);
        }
        if now < self.not_before {
            return Err(Some(self.not_before));
        }
        if self.is_daily_limit_reached(rules, now) {
            return Err(Some(self.sent_today.0 + DAY));
        }
        let Some(SendRate { burst, refill }) = rules.rate_limit else { return Ok(()) };
        let passed = now.saturating_sub(self.tokens_counted_at).as_secs_f64() / refill.as_secs_f64();
        self.tokens = (self.tokens + passed).min(f64::from(burst));
        self.tokens_counted_at = now;
        if self.tokens < 1.0 {
            return Err(Some(now + refill.mul_f64(1.0 - self.tokens) + Duration::from_millis(1)));
        }
        Ok(())
    }

    fn is_daily_limit_reached(&mut self, rules: &DeliveryPolicy, now: Duration) -> bool {
        if now >= self.sent_today.0 + DAY {
            self.sent_today = (now, 0);
        }
        rules.daily_limit.is_some_and(|most| self.sent_today.1 >= most)
    }

    /// Counts a message that nothing but the limit of a day keeps back; `false`: that does.
    pub(super) fn count_toward_daily_limit(&mut self, rules: &DeliveryPolicy, now: Duration) -> bool {
        let may = !self.is_daily_limit_reached(rules, now);
        self.sent_today.1 += u32::from(may);
        may
    }

    /// A message is sent.
    pub(super) fn count_message(&mut self) {
        self.tokens -= 1.0;
        self.sent_today.1 += 1;
    }

    /// A message that was counted was not sent.
    pub(super) fn uncount_message(&mut self) {
        self.tokens += 1.0;
        self.refund_daily_limit();
    }

    /// A message that was counted did not arrive, so that it cost no money.
    pub(super) fn refund_daily_limit(&mut self) {
        self.sent_today.1 = self.sent_today.1.saturating_sub(1);
    }

    /// What a message tells is under way.
    pub(super) fn begin(&mut self, items: &[MessageItem]) {
        self.count_message();
        self.in_flight += 1;
        self.checks_in_flight.extend(items.iter().map(|item| item.row.check));
    }

    /// It is under way no more.
    pub(super) fn end(&mut self, items: &[MessageItem]) {
        self.in_flight -= 1;
        for item in items {
            self.checks_in_flight.remove(&item.row.check);
        }
    }

    /// A message was not taken. `is_answered`: the receiver answered it, and perhaps others it would take. `after`: the pause that it asks for.
    /// Returns whether that says something about the channel, and not about this message alone.
    pub(super) fn record_failure(
        &mut self,
        job: &Message,
        is_answered: bool,
        after: Option<Duration>,
        now: CurrentTime,
        random: &Random,
    ) -> bool {
        if job.channel.settings != self.channel.settings {
            // It says nothing about those that the channel has now.
            return true;
        }
        // A fifth more or less, so that many channels of one receiver do not come back together.
        let spread = 0.8 + 0.4 * (f64::from(u16::from_le_bytes(random.bytes())) / f64::from(u16::MAX));
        let pause = |failures: usize| {
            Duration::from_secs(RETRY_DELAYS_SECS.get(failures).or(RETRY_DELAYS_SECS.last()).copied().unwrap_or_default()).mul_f64(spread)
        };
        let asked = after.unwrap_or_default().min(MAX_RETRY_DELAY);
        let single = if let [item] = job.items.as_slice() { Some(&item.row) } else { None };
        if let Some(row) = single.filter(|row| self.suspects.is_reason(row.number)) {
            (self.suspects, self.failure_cause) = (Suspects::Unknown, FailureCause::Check(row.check));
            self.try_others_from = Some(now.uptime);
            self.parked.insert(row.number, FailedMessage::new(row.check, now));
        }
        if let Some(failure) = single.and_then(|row| self.parked.get_mut(&row.number)) {
            // Without an answer, and with nothing taken since it failed before, it is more likely the channel that fails.
            let is_silent = !is_answered && !failure.others_delivered;
            failure.add_failure(now, asked.max(pause(failure.count)));
            return is_silent;
        }
        let rows: BTreeSet<_> = job.items.iter().map(|item| item.row.number).collect();
        match single {
            Some(row) => {
                let was_suspect = self.suspects.contains(row.number);
                if !self.suspects.is_unknown() {
                    // What remains of a digest is suspected as a message of its own.
                    self.suspects = if was_suspect { Suspects::Unknown } else { Suspects::None };
                }
                self.failure_cause.add_check(row.check, was_suspect);
                let failure = self.failed_messages.entry(row.number).or_insert_with(|| FailedMessage::new(row.check, now));
                failure.add_failure(now, asked.max(pause(failure.count)));
            }
            None => {
                if !self.failed_messages.is_empty() {
                    self.failed_messages.clear();
                    self.suspects = Suspects::None;
                } else if after.is_none() && (is_answered || self.failures >= DIGEST_SPLIT_FAILURES) {
                    self.suspects.narrow(&rows);
                }
                self.failure_cause.add_digest(self.suspects.has_rows());
            }
        }
        // As long as one check explains all failures, others need not wait for it. Without an answer it is likely that they fail, too.
        let spares_others = self.failure_cause.allows_others() && after.is_none();
        self.try_others_from = spares_others.then(|| if is_answered { now.uptime } else { now.uptime + pause(0) });
        let mut left_alone = asked;
        // Those that were under way together fail together, which counts once.
        if now.uptime >= self.not_before {
            left_alone = left_alone.max(pause(self.failures));
            self.failures += 1;
            self.last_failures.push_back(now.wall);
            if self.last_failures.len() > MIN_FINAL_FAILURES {
                self.last_failures.pop_front();
            }
        }
        self.not_before = self.not_before.max(now.uptime + left_alone);
        true
    }

    /// Counts a refusal of a message. Returns whether it is given up: it was refused often enough, and its receiver is a program, or takes
    /// others. A channel for people or incidents that refuses everything may have lost its receiver, which somebody will restore.
    pub(super) fn record_refusal(&mut self, job: &Message, rules: &DeliveryPolicy) -> bool {
        let [item] = job.items.as_slice() else { return false };
        let refused = self.refusals.entry(item.row.number).or_default();
        *refused = refused.saturating_add(1);
        *refused >= MAX_REFUSALS && (rules.class == ChannelClass::Machine || self.parked.contains_key(&item.row.number))
    }

    /// A message was taken.
    pub(super) fn record_delivery(&mut self, job: &Message, rules: &DeliveryPolicy, now: Duration) {
        let rows: BTreeSet<_> = job.items.iter().map(|item| item.row.number).collect();
        self.parked.retain(|row, _| !rows.contains(row));
        self.parked.values_mut().for_each(|failure| failure.others_delivered = true);
        self.suspects.clear(&rows);
        // It is not the channel that is broken: what failed meanwhile waits by itself.
        for (row, failure) in std::mem::take(&mut self.failed_messages) {
            if self.parked.len() < MAX_PARKED && !rows.contains(&row) {
                self.parked.insert(row, FailedMessage { others_delivered: true, ..failure });
            }
        }
        self.failures = 0;
        self.failure_cause = if self.suspects.has_rows() { FailureCause::Digest } else { FailureCause::NoFailure };
        self.try_others_from = None;
        self.last_failures.clear();
        if job.items.len() > 1 && self.suspects.is_unknown() {
            self.not_before = self.not_before.max(now + DELAY_AFTER_DIGEST);
        }
        if rules.class == ChannelClass::People {
            // Of reminders they have asked for as many as come.
            for item in job.items.iter().filter(|item| item.row.check != CheckId(0)) {
                self.notified_at.entry(item.row.check).or_default().push_back(now);
            }
            self.notified_at.retain(|_, told| told.back().is_some_and(|at| *at + CHECK_LIMIT_PERIOD > now));
            self.held_back_at.retain(|check, _| self.notified_at.contains_key(check));
        }
    }

    /// If one message explains all failures and another one waits, that one is tried: perhaps it is not the channel that is broken.
    pub(super) fn try_others(&mut self, state: &State, rules: &DeliveryPolicy) {
        let Some(from) = self.try_others_from.filter(|from| self.in_flight == 0 && *from < self.not_before) else { return };
        let checks: BTreeSet<_> = self.failed_messages.values().chain(self.parked.values()).map(|failure| failure.check).collect();
        let is_other = |row: &Arc<OutboxRow>| match self.failed_messages.contains_key(&row.number) || self.suspects.contains(row.number) {
            true => false,
            // A check that keeps changing is no reason to try a channel that fails again and again.
            false if self.failure_cause == FailureCause::Check(row.check) && self.failures > 1 => false,
            // Of the same check people are told what is newest, which is another message.
            false if rules.class == ChannelClass::People => {
                let earlier = self.failed_messages.iter().chain(&self.parked).filter(|(_, failure)| failure.check == row.check);
                earlier.map(|(number, _)| *number).max().is_none_or(|number| number < row.number)
            }
            false => !checks.contains(&row.check),
        };
        if state.outbox.rows_of_channel(self.channel.id).any(is_other) {
            self.try_others_from = None;
            self.not_before = from;
        }
    }

    /// The checks whose next message has failed and waits by itself, each with the uptime until when.
    pub(super) fn parked_checks(&self, state: &State, class: ChannelClass) -> BTreeMap<CheckId, Duration> {
        self.next_messages(&self.parked, state, class).map(|failure| (failure.check, failure.not_before)).collect()
    }

    /// The checks whose next message has failed since a message was last taken.
    pub(super) fn failing_checks(&self, state: &State, class: ChannelClass) -> BTreeMap<CheckId, PendingRetry> {
        let failing = |failure: &FailedMessage| PendingRetry { last_attempt: failure.last.uptime, not_before: failure.not_before };
        self.next_messages(&self.failed_messages, state, class).map(|failure| (failure.check, failing(failure))).collect()
    }

    fn next_messages<'a>(
        &'a self,
        failures: &'a BTreeMap<DeliveryNumber, FailedMessage>,
        state: &'a State,
        class: ChannelClass,
    ) -> impl Iterator<Item = &'a FailedMessage> {
        // People are told what is newest, which may be another message by now. Of all others what is first comes first.
        let is_next = move |row: DeliveryNumber, check: CheckId| {
            class != ChannelClass::People
                || state.outbox.rows_of_pair(self.channel.id, check).last().is_some_and(|newest| newest.number == row)
        };
        failures.iter().filter(move |(row, failure)| is_next(**row, failure.check)).map(|(_, failure)| failure)
    }

    /// Whether a row may be the reason why a message about several checks failed.
    pub(super) fn is_suspect(&self, row: DeliveryNumber) -> bool {
        self.suspects.contains(row)
    }

    /// Whether a row has waited for so long that it helps nobody any more. The clock alone does not say so: it may have been set, and the
    /// server may not have run. Attempts must have failed after the time was over.
    pub(super) fn is_expired(&self, row: &OutboxRow, rules: &DeliveryPolicy) -> bool {
        let most = i64::try_from(rules.give_up_after.as_micros()).unwrap_or(i64::MAX);
        let is_long = |until: Timestamp| until.micros_since(row.queued) > most;
        match self.parked.get(&row.number) {
            Some(failure) => is_long(failure.last.wall),
            None => self.last_failures.len() >= MIN_FINAL_FAILURES && self.last_failures.front().is_some_and(|first| is_long(*first)),
        }
    }

    /// Whether people have heard enough of a check for now; else until when.
    pub(super) fn check_message_limit(&mut self, check: CheckId, now: CurrentTime) -> Result<(), Duration> {
        let Some(told) = self.notified_at.get_mut(&check) else { return Ok(()) };
        while told.front().is_some_and(|at| *at + CHECK_LIMIT_PERIOD <= now.uptime) {
            told.pop_front();
        }
        match told.front() {
            Some(first) if told.len() >= MAX_MESSAGES_PER_CHECK => {
                self.held_back_at.insert(check, now.wall);
                Err(*first + CHECK_LIMIT_PERIOD)
            }
            _ => Ok(()),
        }
    }

    /// Something keeps all messages back.
    pub(super) fn note_delay(&mut self, delay: DelayReason, now: Timestamp) {
        self.delays.insert(delay, now);
    }

    /// Nothing [may be sent](Self::may_send) now. Returns whether as much was sent as may be within a day.
    pub(super) fn note_waiting(&mut self, rules: &DeliveryPolicy, now: CurrentTime) -> bool {
        let is_used_up = self.is_daily_limit_reached(rules, now.uptime);
        if self.failures > 0 {
            self.note_delay(DelayReason::Undelivered, now.wall);
        } else if is_used_up {
            self.note_delay(DelayReason::DailyLimit, now.wall);
        }
        is_used_up
    }

    /// Why an item was not told earlier, if something held it back; of a check that is down only if that took a while.
    pub(super) fn delay_reason(&self, item: &MessageItem, now: CurrentTime) -> Option<DelayReason> {
        let row = item.unnotified_down.as_ref().unwrap_or(&item.row);
        if item.unnotified_down.is_none() && now.wall.micros_since(row.queued) < LATE_AFTER.as_micros().try_into().unwrap_or(i64::MAX) {
            return None;
        }
        let is_since = |at: Option<&Timestamp>| at.is_some_and(|at| *at >= row.queued);
        let found = [DelayReason::QuietHours, DelayReason::DailyLimit].into_iter().find(|delay| is_since(self.delays.get(delay)));
        let is_undelivered = row.attempts > 0 || is_since(self.delays.get(&DelayReason::Undelivered));
        found
            .or_else(|| is_undelivered.then_some(DelayReason::Undelivered))
            .or_else(|| is_since(self.held_back_at.get(&row.check)).then_some(DelayReason::Flapping))
    }
}
