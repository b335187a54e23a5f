//! What is known of sending to one channel: its failures, its pace, and what its people have heard of each check.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::rules::Rules;
use super::pick::Gathering;
use super::suspects::{Explanation, Suspects};
use super::{Item, Job, MOST_REFUSED, Now};
use crate::channel::Pace;
use crate::channel::alert::Delay;
use crate::domain::alert::OutboxRow;
use crate::domain::channel::Class;
use crate::domain::ids::{CheckId, DeliveryNumber};
use crate::domain::moment::Moment;
use crate::domain::project::Channel;
use crate::engine::state::State;
use crate::random::Random;

/// Pauses after so many failures in a row, in seconds; the last one holds from then on.
const PAUSES: [u64; 10] = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600];
/// The longest pause that a receiver can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// After a digest, the next message to the same people waits.
const AFTER_DIGEST: Duration = Duration::from_secs(10);
/// Messages to people about one check within [`CALM`].
const MOST_CALM: usize = 6;
const CALM: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Messages that wait by themselves while others are sent: see [limits](crate::docs::limits).
const MOST_ASIDE: usize = 100;
/// A message about a check that is down says why it is late if it waited for so long.
const LATE: Duration = Duration::from_secs(60);
/// Failures without an answer after which a message about several checks is split.
const SPLIT_AFTER: usize = 5;
/// Attempts to send something to the channel that must have failed after the time of a row was over.
const LAST_TRIES: usize = 3;

/// See the module.
pub(super) struct ChannelProgress {
    /// As it was when something was last sent: a change makes failures forgotten.
    pub(super) channel: Arc<Channel>,
    /// Since a message was last taken.
    failures: usize,
    /// Nothing is tried before this uptime.
    not_before: Duration,
    /// From this uptime on, others may be tried before `not_before`: all that has failed since a message was last taken has one in common.
    others_from: Option<Duration>,
    /// When the last failures happened; at most [`LAST_TRIES`].
    last_failures: VecDeque<Moment>,
    /// Messages about one check that failed since a message was last taken. Others are tried before them.
    failed: BTreeMap<DeliveryNumber, Failure>,
    /// Which rows of a failed digest may be the reason.
    suspects: Suspects,
    /// What explains the failures since a message was last taken.
    explanation: Explanation,
    /// Messages that fail although others are taken. They wait by themselves.
    aside: BTreeMap<DeliveryNumber, Failure>,
    /// Messages that may be sent at once now, as of an uptime.
    tokens: f64,
    counted: Duration,
    /// Messages sent in the day that began at an uptime.
    today: (Duration, u32),
    jobs: usize,
    /// Those that messages under way are about.
    pub(super) checks: BTreeSet<CheckId>,
    /// When people were last told about a check.
    told: HashMap<CheckId, VecDeque<Duration>>,
    /// When people were last held back from hearing more about a check.
    calmed: HashMap<CheckId, Moment>,
    /// When something last kept all messages back, and what.
    delays: BTreeMap<Delay, Moment>,
    /// The digest that waits for more rows.
    pub(super) gathering: Option<Gathering>,
    /// How often something was refused.
    pub(super) refused: HashMap<DeliveryNumber, u16>,
}

/// The failures of a message about one check.
struct Failure {
    check: CheckId,
    /// In a row.
    count: usize,
    /// The uptime and the moment of the last one.
    last: Now,
    /// It is not tried before this uptime.
    not_before: Duration,
    /// Other messages were taken since.
    others_taken: bool,
}

impl Failure {
    fn new(check: CheckId, now: Now) -> Self {
        Self { check, count: 0, last: now, not_before: now.uptime, others_taken: true }
    }

    fn count_one(&mut self, now: Now, pause: Duration) {
        self.count += 1;
        (self.last, self.others_taken) = (now, false);
        self.not_before = now.uptime + pause;
    }
}

/// A message that failed and that may be tried again.
#[derive(Clone, Copy)]
pub(super) struct Failing {
    /// The uptime of its last try.
    pub(super) last: Duration,
    /// It is not tried before this uptime.
    pub(super) until: Duration,
}

impl ChannelProgress {
    pub(super) fn new(channel: &Arc<Channel>, rules: &Rules, now: Duration) -> Self {
        Self {
            channel: Arc::clone(channel),
            failures: 0,
            not_before: Duration::ZERO,
            others_from: None,
            last_failures: VecDeque::new(),
            failed: BTreeMap::new(),
            suspects: Suspects::Unknown,
            explanation: Explanation::Open,
            aside: BTreeMap::new(),
            tokens: rules.pace.map_or(0.0, |pace| f64::from(pace.burst)),
            counted: now,
            today: (now, 0),
            jobs: 0,
            checks: BTreeSet::new(),
            told: HashMap::new(),
            calmed: HashMap::new(),
            delays: BTreeMap::new(),
            gathering: None,
            refused: HashMap::new(),
        }
    }

    /// Whether something of it is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.jobs > 0
    }

    /// Takes over a channel that may have been changed or enabled meanwhile.
    pub(super) fn meet(&mut self, channel: &Arc<Channel>, state: &State) {
        self.refused.retain(|number, _| state.outbox.get(*number).is_some());
        self.failed.retain(|number, _| state.outbox.get(*number).is_some());
        self.aside.retain(|number, _| state.outbox.get(*number).is_some());
        if !Arc::ptr_eq(&self.channel, channel) {
            let is_changed = self.channel.settings != channel.settings;
            let is_enabled = self.failures > 0 && self.channel.health.failing.is_some() && channel.health.is_well();
            if is_changed || is_enabled && self.aside.is_empty() {
                (self.failures, self.not_before, self.others_from) = (0, Duration::ZERO, None);
                self.last_failures.clear();
                self.failed.clear();
                (self.suspects, self.explanation) = (Suspects::Unknown, Explanation::Open);
                self.aside.clear();
            }
            if is_changed {
                self.refused.clear();
            }
            self.channel = Arc::clone(channel);
        }
    }

    /// Whether a message may be sent now; else when.
    pub(super) fn may_send(&mut self, rules: &Rules, now: Duration) -> Result<(), Option<Duration>> {
        // While it fails, one message finds out whether it still does.
        let most = if self.failures > 0 { 1 } else { rules.parallel };
        if self.jobs >= most {
            return Err(None);
        }
        if now < self.not_before {
            return Err(Some(self.not_before));
        }
        if self.is_enough_today(rules, now) {
            return Err(Some(self.today.0 + DAY));
        }
        let Some(Pace { burst, refill }) = rules.pace else { return Ok(()) };
        let passed = now.saturating_sub(self.counted).as_secs_f64() / refill.as_secs_f64();
        self.tokens = (self.tokens + passed).min(f64::from(burst));
        self.counted = now;
        if self.tokens < 1.0 {
            return Err(Some(now + refill.mul_f64(1.0 - self.tokens) + Duration::from_millis(1)));
        }
        Ok(())
    }

    fn is_enough_today(&mut self, rules: &Rules, now: Duration) -> bool {
        if now >= self.today.0 + DAY {
            self.today = (now, 0);
        }
        rules.most_a_day.is_some_and(|most| self.today.1 >= most)
    }

    /// Counts a message that nothing but the limit of a day keeps back; `false`: that does.
    pub(super) fn count_today(&mut self, rules: &Rules, now: Duration) -> bool {
        let may = !self.is_enough_today(rules, now);
        self.today.1 += u32::from(may);
        may
    }

    /// A message is sent.
    pub(super) fn count(&mut self) {
        self.tokens -= 1.0;
        self.today.1 += 1;
    }

    /// A message that was counted was not sent.
    pub(super) fn give_back(&mut self) {
        self.tokens += 1.0;
        self.cost_nothing();
    }

    /// A message that was counted did not arrive, so that it cost no money.
    pub(super) fn cost_nothing(&mut self) {
        self.today.1 = self.today.1.saturating_sub(1);
    }

    /// What a message tells is under way.
    pub(super) fn begin(&mut self, items: &[Item]) {
        self.count();
        self.jobs += 1;
        self.checks.extend(items.iter().map(|item| item.row.check));
    }

    /// It is under way no more.
    pub(super) fn settled(&mut self, items: &[Item]) {
        self.jobs -= 1;
        for item in items {
            self.checks.remove(&item.row.check);
        }
    }

    /// A message was not taken. `is_answered`: the receiver answered it, and perhaps others it would take. `after`: the pause that it asks for.
    /// Returns whether that says something about the channel, and not about this message alone.
    pub(super) fn failed(&mut self, job: &Job, is_answered: bool, after: Option<Duration>, now: Now, random: &Random) -> bool {
        if job.channel.settings != self.channel.settings {
            // It says nothing about those that the channel has now.
            return true;
        }
        // A fifth more or less, so that many channels of one receiver do not come back together.
        let spread = 0.8 + 0.4 * (f64::from(u16::from_le_bytes(random.bytes())) / f64::from(u16::MAX));
        let pause =
            |failures: usize| Duration::from_secs(PAUSES.get(failures).or(PAUSES.last()).copied().unwrap_or_default()).mul_f64(spread);
        let asked = after.unwrap_or_default().min(LONGEST_PAUSE);
        let single = if let [item] = job.items.as_slice() { Some(&item.row) } else { None };
        if let Some(row) = single.filter(|row| self.suspects.is_reason(row.number)) {
            (self.suspects, self.explanation) = (Suspects::Unknown, Explanation::Check(row.check));
            self.others_from = Some(now.uptime);
            self.aside.insert(row.number, Failure::new(row.check, now));
        }
        if let Some(failure) = single.and_then(|row| self.aside.get_mut(&row.number)) {
            // Without an answer, and with nothing taken since it failed before, it is more likely the channel that fails.
            let is_silent = !is_answered && !failure.others_taken;
            failure.count_one(now, asked.max(pause(failure.count)));
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
                self.explanation.add_check(row.check, was_suspect);
                let failure = self.failed.entry(row.number).or_insert_with(|| Failure::new(row.check, now));
                failure.count_one(now, asked.max(pause(failure.count)));
            }
            None => {
                if !self.failed.is_empty() {
                    self.failed.clear();
                    self.suspects = Suspects::None;
                } else if after.is_none() && (is_answered || self.failures >= SPLIT_AFTER) {
                    self.suspects.narrow(&rows);
                }
                self.explanation.add_digest(self.suspects.has_rows());
            }
        }
        // As long as one check explains all failures, others need not wait for it. Without an answer it is likely that they fail, too.
        let spares_others = self.explanation.spares_others() && after.is_none();
        self.others_from = spares_others.then(|| if is_answered { now.uptime } else { now.uptime + pause(0) });
        let mut left_alone = asked;
        // Those that were under way together fail together, which counts once.
        if now.uptime >= self.not_before {
            left_alone = left_alone.max(pause(self.failures));
            self.failures += 1;
            self.last_failures.push_back(now.wall);
            if self.last_failures.len() > LAST_TRIES {
                self.last_failures.pop_front();
            }
        }
        self.not_before = self.not_before.max(now.uptime + left_alone);
        true
    }

    /// Counts a refusal of a message. Returns whether it is given up: it was refused often enough, and its receiver is a program, or takes
    /// others. A channel for people or incidents that refuses everything may have lost its receiver, which somebody will restore.
    pub(super) fn is_refused_for_good(&mut self, job: &Job, rules: &Rules) -> bool {
        let [item] = job.items.as_slice() else { return false };
        let refused = self.refused.entry(item.row.number).or_default();
        *refused = refused.saturating_add(1);
        *refused >= MOST_REFUSED && (rules.class == Class::Machine || self.aside.contains_key(&item.row.number))
    }

    /// A message was taken.
    pub(super) fn delivered(&mut self, job: &Job, rules: &Rules, now: Duration) {
        let rows: BTreeSet<_> = job.items.iter().map(|item| item.row.number).collect();
        self.aside.retain(|row, _| !rows.contains(row));
        self.aside.values_mut().for_each(|failure| failure.others_taken = true);
        self.suspects.clear(&rows);
        // It is not the channel that is broken: what failed meanwhile waits by itself.
        for (row, failure) in std::mem::take(&mut self.failed) {
            if self.aside.len() < MOST_ASIDE && !rows.contains(&row) {
                self.aside.insert(row, Failure { others_taken: true, ..failure });
            }
        }
        self.failures = 0;
        self.explanation = if self.suspects.has_rows() { Explanation::Digest } else { Explanation::Open };
        self.others_from = None;
        self.last_failures.clear();
        if job.items.len() > 1 && self.suspects.is_unknown() {
            self.not_before = self.not_before.max(now + AFTER_DIGEST);
        }
        if rules.class == Class::People {
            // Of reminders they have asked for as many as come.
            for item in job.items.iter().filter(|item| item.row.check != CheckId(0)) {
                self.told.entry(item.row.check).or_default().push_back(now);
            }
            self.told.retain(|_, told| told.back().is_some_and(|at| *at + CALM > now));
            self.calmed.retain(|check, _| self.told.contains_key(check));
        }
    }

    /// If one message explains all failures and another one waits, that one is tried: perhaps it is not the channel that is broken.
    pub(super) fn try_others(&mut self, state: &State, rules: &Rules) {
        let Some(from) = self.others_from.filter(|from| self.jobs == 0 && *from < self.not_before) else { return };
        let checks: BTreeSet<_> = self.failed.values().chain(self.aside.values()).map(|failure| failure.check).collect();
        let is_other = |row: &Arc<OutboxRow>| match self.failed.contains_key(&row.number) || self.suspects.contains(row.number) {
            true => false,
            // A check that keeps changing is no reason to try a channel that fails again and again.
            false if self.explanation == Explanation::Check(row.check) && self.failures > 1 => false,
            // Of the same check people are told what is newest, which is another message.
            false if rules.class == Class::People => {
                let earlier = self.failed.iter().chain(&self.aside).filter(|(_, failure)| failure.check == row.check);
                earlier.map(|(number, _)| *number).max().is_none_or(|number| number < row.number)
            }
            false => !checks.contains(&row.check),
        };
        if state.outbox.of_channel(self.channel.id).any(is_other) {
            self.others_from = None;
            self.not_before = from;
        }
    }

    /// The checks whose next message has failed and waits by itself, each with the uptime until when.
    pub(super) fn aside(&self, state: &State, class: Class) -> BTreeMap<CheckId, Duration> {
        self.next_of(&self.aside, state, class).map(|failure| (failure.check, failure.not_before)).collect()
    }

    /// The checks whose next message has failed since a message was last taken.
    pub(super) fn failing(&self, state: &State, class: Class) -> BTreeMap<CheckId, Failing> {
        let failing = |failure: &Failure| Failing { last: failure.last.uptime, until: failure.not_before };
        self.next_of(&self.failed, state, class).map(|failure| (failure.check, failing(failure))).collect()
    }

    fn next_of<'a>(
        &'a self,
        failures: &'a BTreeMap<DeliveryNumber, Failure>,
        state: &'a State,
        class: Class,
    ) -> impl Iterator<Item = &'a Failure> {
        // People are told what is newest, which may be another message by now. Of all others what is first comes first.
        let is_next = move |row: DeliveryNumber, check: CheckId| {
            class != Class::People || state.outbox.of_pair(self.channel.id, check).last().is_some_and(|newest| newest.number == row)
        };
        failures.iter().filter(move |(row, failure)| is_next(**row, failure.check)).map(|(_, failure)| failure)
    }

    /// Whether a row may be the reason why a message about several checks failed.
    pub(super) fn is_suspect(&self, row: DeliveryNumber) -> bool {
        self.suspects.contains(row)
    }

    /// Whether a row has waited for so long that it helps nobody any more. The clock alone does not say so: it may have been set, and the
    /// server may not have run. Attempts must have failed after the time was over.
    pub(super) fn is_over(&self, row: &OutboxRow, rules: &Rules) -> bool {
        let most = i64::try_from(rules.give_up.as_micros()).unwrap_or(i64::MAX);
        let is_long = |until: Moment| until.micros_since(row.queued) > most;
        match self.aside.get(&row.number) {
            Some(failure) => is_long(failure.last.wall),
            None => self.last_failures.len() >= LAST_TRIES && self.last_failures.front().is_some_and(|first| is_long(*first)),
        }
    }

    /// Whether people have heard enough of a check for now; else until when.
    pub(super) fn is_calm(&mut self, check: CheckId, now: Now) -> Result<(), Duration> {
        let Some(told) = self.told.get_mut(&check) else { return Ok(()) };
        while told.front().is_some_and(|at| *at + CALM <= now.uptime) {
            told.pop_front();
        }
        match told.front() {
            Some(first) if told.len() >= MOST_CALM => {
                self.calmed.insert(check, now.wall);
                Err(*first + CALM)
            }
            _ => Ok(()),
        }
    }

    /// Something keeps all messages back.
    pub(super) fn note_delay(&mut self, delay: Delay, now: Moment) {
        self.delays.insert(delay, now);
    }

    /// Nothing [may be sent](Self::may_send) now. Returns whether as much was sent as may be within a day.
    pub(super) fn note_waiting(&mut self, rules: &Rules, now: Now) -> bool {
        let is_used_up = self.is_enough_today(rules, now.uptime);
        if self.failures > 0 {
            self.note_delay(Delay::Undelivered, now.wall);
        } else if is_used_up {
            self.note_delay(Delay::DayLimit, now.wall);
        }
        is_used_up
    }

    /// Why an item was not told earlier, if something held it back; of a check that is down only if that took a while.
    pub(super) fn delay(&self, item: &Item, now: Now) -> Option<Delay> {
        let row = item.untold.as_ref().unwrap_or(&item.row);
        if item.untold.is_none() && now.wall.micros_since(row.queued) < LATE.as_micros().try_into().unwrap_or(i64::MAX) {
            return None;
        }
        let is_since = |at: Option<&Moment>| at.is_some_and(|at| *at >= row.queued);
        let found = [Delay::Quiet, Delay::DayLimit].into_iter().find(|delay| is_since(self.delays.get(delay)));
        let is_undelivered = row.attempts > 0 || is_since(self.delays.get(&Delay::Undelivered));
        found
            .or_else(|| is_undelivered.then_some(Delay::Undelivered))
            .or_else(|| is_since(self.calmed.get(&row.check)).then_some(Delay::Calm))
    }
}
