//! What is known of sending to one channel: its failures, its pace, and what its people have heard of each check.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::rules::Rules;
use super::{Item, Job, Now};
use crate::channel::Pace;
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

/// See the module.
pub(super) struct ChannelProgress {
    /// As it was when something was last sent: a change makes failures forgotten.
    pub(super) channel: Arc<Channel>,
    /// Since a message was last taken.
    failures: usize,
    /// Nothing is tried before this uptime.
    not_before: Duration,
    /// The message that failed if since one was last taken no other has: it may be refused, and not the channel be broken.
    suspect: Option<Suspect>,
    /// Such messages, while others are tried.
    aside: BTreeMap<DeliveryNumber, Aside>,
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
    /// How often a machine said of something that it will never take it.
    pub(super) refused: HashMap<DeliveryNumber, u16>,
}

/// A message that the receiver answered with an error of its own.
#[derive(Clone, Copy)]
struct Suspect {
    row: DeliveryNumber,
    check: CheckId,
}

/// A message that waits by itself.
struct Aside {
    check: CheckId,
    failures: usize,
    /// It is not tried before this uptime.
    not_before: Duration,
    /// Another one was taken since: it is not the channel that is broken.
    is_alone: bool,
}

impl ChannelProgress {
    pub(super) fn new(channel: &Arc<Channel>, rules: &Rules, now: Duration) -> Self {
        Self {
            channel: Arc::clone(channel),
            failures: 0,
            not_before: Duration::ZERO,
            suspect: None,
            aside: BTreeMap::new(),
            tokens: rules.pace.map_or(0.0, |pace| f64::from(pace.burst)),
            counted: now,
            today: (now, 0),
            jobs: 0,
            checks: BTreeSet::new(),
            told: HashMap::new(),
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
        self.aside.retain(|number, _| state.outbox.get(*number).is_some());
        if !Arc::ptr_eq(&self.channel, channel) {
            let enabled = self.channel.health.failing.is_some() && channel.health == Default::default();
            if self.channel.settings != channel.settings || enabled && self.aside.is_empty() {
                (self.failures, self.not_before, self.suspect) = (0, Duration::ZERO, None);
                self.aside.clear();
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
        self.checks.retain(|check| !items.iter().any(|item| item.row.check == *check));
    }

    /// A message was not taken. `may_be_refused`: the answer may be about this message alone. `after`: the pause that the receiver asks for.
    pub(super) fn failed(&mut self, job: &Job, may_be_refused: bool, after: Option<Duration>, now: Duration, random: &Random) {
        if job.channel.settings != self.channel.settings {
            // It says nothing about those that the channel has now.
            return;
        }
        // A fifth more or less, so that many channels of one receiver do not come back together.
        let spread = 0.8 + 0.4 * (f64::from(u16::from_le_bytes(random.bytes())) / f64::from(u16::MAX));
        let pause =
            |failures: usize| Duration::from_secs(PAUSES.get(failures).or(PAUSES.last()).copied().unwrap_or_default()).mul_f64(spread);
        let single = if let [item] = job.items.as_slice() { Some((item.row.number, item.row.check)) } else { None };
        let suspect = single.filter(|_| may_be_refused && after.is_none()).map(|(row, check)| Suspect { row, check });
        if let Some(aside) = suspect.and_then(|suspect| self.aside.get_mut(&suspect.row)).filter(|aside| aside.is_alone) {
            aside.not_before = now + pause(aside.failures);
            aside.failures += 1;
            return;
        }
        // What was tried in its place failed as well.
        self.aside.retain(|_, aside| aside.is_alone);
        let is_only = |suspect: &Suspect| self.failures == 0 || self.suspect.is_some_and(|other| other.row == suspect.row);
        self.suspect = suspect.filter(is_only);
        let mut left_alone = after.unwrap_or_default().min(LONGEST_PAUSE);
        // Those that were under way together fail together, which counts once.
        if now >= self.not_before {
            left_alone = left_alone.max(pause(self.failures));
            self.failures += 1;
        }
        self.not_before = self.not_before.max(now + left_alone);
    }

    /// A message was taken.
    pub(super) fn delivered(&mut self, job: &Job, rules: &Rules, now: Duration) {
        let is_told = |row: DeliveryNumber| job.items.iter().any(|item| item.row.number == row);
        self.aside.retain(|row, _| !is_told(*row));
        self.aside.values_mut().for_each(|aside| aside.is_alone = true);
        if let Some(suspect) = self.suspect.take().filter(|suspect| !is_told(suspect.row)) {
            self.set_aside(suspect, true);
        }
        self.failures = 0;
        if job.items.len() > 1 {
            self.not_before = self.not_before.max(now + AFTER_DIGEST);
        } else if rules.class == Class::People {
            // Of reminders they have asked for as many as come.
            for item in job.items.iter().filter(|item| item.row.check != CheckId(0)) {
                self.told.entry(item.row.check).or_default().push_back(now);
            }
            self.told.retain(|_, told| told.back().is_some_and(|at| *at + CALM > now));
        }
    }

    /// If the last message failed alone and another one waits, that one is tried: perhaps it is not the channel that is broken.
    pub(super) fn try_others(&mut self, state: &State, rules: &Rules, now: Duration) {
        let Some(suspect) = self.suspect.filter(|_| self.jobs == 0 && now < self.not_before) else { return };
        let is_other = |row: &Arc<OutboxRow>| match self.aside.values().find(|aside| aside.check == row.check) {
            _ if row.check == suspect.check => rules.class == Class::People && row.number > suspect.row,
            aside => aside.is_none(),
        };
        if state.outbox.of_channel(self.channel.id).any(is_other) {
            self.suspect = None;
            self.set_aside(suspect, false);
        }
    }

    fn set_aside(&mut self, Suspect { row, check }: Suspect, is_alone: bool) {
        if self.aside.len() < MOST_ASIDE {
            let (failures, not_before) = (self.failures, self.not_before);
            self.aside.insert(row, Aside { check, failures, not_before, is_alone });
            self.not_before = Duration::ZERO;
        }
    }

    /// The checks of which the next message waits by itself, each with the uptime until when.
    pub(super) fn aside(&self, state: &State, class: Class) -> BTreeMap<CheckId, Duration> {
        // People are told what is newest, which may be another message by now. Of all others what is first comes first.
        let is_next = |row: DeliveryNumber, check: CheckId| {
            class != Class::People || state.outbox.of_pair(self.channel.id, check).last().is_some_and(|newest| newest.number == row)
        };
        let aside = self.aside.iter().filter(|(row, aside)| is_next(**row, aside.check));
        aside.map(|(_, aside)| (aside.check, aside.not_before)).collect()
    }

    /// Whether a row has waited for so long that it helps nobody any more. The clock alone does not say so: it may have been set, and the
    /// server may not have run.
    pub(super) fn is_over(&self, row: &OutboxRow, rules: &Rules, now: Now) -> bool {
        let most = i64::try_from(rules.give_up.as_micros()).unwrap_or(i64::MAX);
        let is_long = |since: Moment| now.wall.micros_since(since) > most;
        let fails = self.channel.health.failing.as_ref().is_some_and(|(since, _)| is_long(*since));
        is_long(row.queued) && (row.attempts > 0 || fails)
    }

    /// Whether people have heard enough of a check for now; else until when.
    pub(super) fn is_calm(&mut self, check: CheckId, now: Duration) -> Result<(), Duration> {
        let Some(told) = self.told.get_mut(&check) else { return Ok(()) };
        while told.front().is_some_and(|at| *at + CALM <= now) {
            told.pop_front();
        }
        match told.front() {
            Some(first) if told.len() >= MOST_CALM => Err(*first + CALM),
            _ => Ok(()),
        }
    }
}
