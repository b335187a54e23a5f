//! What is sent next: a value that is told the time and what has come of sending, and that never waits, reads or sends itself.

mod pick;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::rules::Rules;
use crate::channel::Pace;
use crate::domain::alert::OutboxRow;
use crate::domain::channel::Class;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber};
use crate::domain::moment::Moment;
use crate::domain::project::Channel;
use crate::engine::command::{Report, Sent};
use crate::engine::state::State;
use crate::random::Random;

/// Messages that are under way at the same time: see [limits](crate::docs::limits).
const MOST_JOBS: usize = 64;
/// And to one place: see [limits](crate::docs::limits).
const MOST_OF_A_PLACE: usize = 8;
/// Pauses after so many failures in a row, in seconds; the last one holds from then on.
const PAUSES: [u64; 10] = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600];
/// The longest pause that a receiver can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// A digest waits until nothing more has come for so long,
const QUIET: Duration = Duration::from_millis(500);
/// but not longer than this after the first.
const GATHER: Duration = Duration::from_secs(1);
/// After a digest, the next message to the same people waits.
const AFTER_DIGEST: Duration = Duration::from_secs(10);
/// Messages to people about one check within [`CALM`].
const MOST_CALM: usize = 6;
const CALM: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// How often a machine is sent something that it says it will never take.
const MOST_REFUSED: u16 = 5;
/// What a step finishes without sending it. The rest has its turn in the next one.
const MOST_REPORTS: usize = 500;

/// The number of a message under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct JobId(u64);

/// A message that is to be sent.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) channel: Arc<Channel>,
    /// What it tells, oldest first; several make a digest.
    pub(super) items: Vec<Item>,
    /// What it makes needless.
    pub(super) superseded: Vec<DeliveryNumber>,
    /// Where it goes.
    place: String,
}

/// What is told about one check.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Item {
    pub(super) row: Arc<OutboxRow>,
    /// For one that is up again: the row of its downtime, of which nobody has been told.
    pub(super) untold: Option<Arc<OutboxRow>>,
    /// Changes of this check that are left out, and since when.
    pub(super) skipped: usize,
    pub(super) since: Moment,
    /// For one that is down again: when it came up, of which nobody has been told.
    pub(super) up_since: Option<Moment>,
}

impl Job {
    /// Takes over the rows as they are now that their attempts have begun. What is gone is told to nobody.
    pub(super) fn take_over(&mut self, begun: &[Arc<OutboxRow>]) {
        let begun: HashMap<_, _> = begun.iter().map(|row| (row.number, row)).collect();
        self.items.retain_mut(|item| match begun.get(&item.row.number) {
            Some(row) => {
                item.row = Arc::clone(row);
                true
            }
            None => false,
        });
    }

    /// The rows whose attempts begin with it.
    pub(super) fn numbers(&self) -> Vec<DeliveryNumber> {
        self.items.iter().map(|item| item.row.number).collect()
    }
}

/// What has come of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Done {
    pub(super) verdict: Verdict,
    /// A sentence for those who look after the channel; empty if it was delivered.
    pub(super) reason: Box<str>,
    /// The status of the answer, or 0.
    pub(super) status: u16,
}

impl Done {
    /// It failed for this reason, and is tried again.
    pub(super) fn failed(reason: &str) -> Self {
        Self { verdict: Verdict::Later { after: None, doubtful: true }, reason: reason.into(), status: 0 }
    }
}

/// What the answer, or the want of one, means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Delivered,
    /// This kind of channel has nothing to say about it.
    Skipped,
    /// It will never be taken.
    Refused,
    /// Nothing will be taken until somebody changes something.
    Closed,
    Later {
        /// How long the receiver wants to be left alone.
        after: Option<Duration>,
        /// It may have arrived.
        doubtful: bool,
    },
}

/// What is to be done now.
#[derive(Default)]
pub(super) struct Step {
    pub(super) jobs: Vec<Job>,
    /// What is finished without being sent.
    pub(super) reports: Vec<Report>,
    /// When to look again, if nothing happens before; an uptime.
    pub(super) again: Option<Duration>,
    /// Rows of the reports.
    over: BTreeSet<DeliveryNumber>,
}

impl Step {
    fn again(&mut self, at: Duration) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }

    fn is_over(&self, row: &OutboxRow) -> bool {
        self.over.contains(&row.number)
    }

    fn finish(&mut self, channel: ChannelId, rows: Vec<DeliveryNumber>, sent: Sent) {
        self.over.extend(&rows);
        self.reports.push(Report { channel, rows, sent, status: 0, told_with: None });
    }
}

/// What time it is, both ways: pauses are measured in uptime, which nobody sets.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: Moment,
    pub(super) uptime: Duration,
}

/// See the module.
#[derive(Default)]
pub(super) struct Plan {
    channels: HashMap<ChannelId, Sending>,
    under_way: BTreeMap<JobId, Job>,
    /// Those of which it is known what has come of them.
    ended: BTreeSet<JobId>,
    /// How many go to each place.
    places: HashMap<String, usize>,
    /// The channel that had its turn last.
    turn: Option<ChannelId>,
    last: u64,
}

/// What is known of sending to a channel.
struct Sending {
    /// As it was when something was last sent: a change makes failures forgotten.
    channel: Arc<Channel>,
    failures: usize,
    /// Nothing is tried before this uptime.
    not_before: Duration,
    /// Messages that may be sent at once now, as of an uptime.
    tokens: f64,
    counted: Duration,
    /// Messages sent in the day that began at an uptime.
    today: (Duration, u32),
    jobs: usize,
    checks: BTreeSet<CheckId>,
    /// When people were last told about a check.
    told: HashMap<CheckId, VecDeque<Duration>>,
}

impl Sending {
    fn new(channel: &Arc<Channel>, rules: &Rules, now: Duration) -> Self {
        Self {
            channel: Arc::clone(channel),
            failures: 0,
            not_before: Duration::ZERO,
            tokens: rules.pace.map_or(0.0, |pace| f64::from(pace.burst)),
            counted: now,
            today: (now, 0),
            jobs: 0,
            checks: BTreeSet::new(),
            told: HashMap::new(),
        }
    }

    /// Takes over a channel that may have been changed or enabled meanwhile.
    fn meet(&mut self, channel: &Arc<Channel>) {
        if !Arc::ptr_eq(&self.channel, channel) {
            let enabled = self.channel.health.failing.is_some() && channel.health == Default::default();
            if self.channel.settings != channel.settings || enabled {
                (self.failures, self.not_before) = (0, Duration::ZERO);
            }
            self.channel = Arc::clone(channel);
        }
    }

    /// Whether a message may be sent now; else when.
    fn may_send(&mut self, rules: &Rules, now: Duration) -> Result<(), Option<Duration>> {
        // While it fails, one message finds out whether it still does.
        let most = if self.failures > 0 { 1 } else { rules.parallel };
        if self.jobs >= most {
            return Err(None);
        }
        if now < self.not_before {
            return Err(Some(self.not_before));
        }
        if now >= self.today.0 + DAY {
            self.today = (now, 0);
        }
        if rules.most_a_day.is_some_and(|most| self.today.1 >= most) {
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

    /// A message that was counted was not sent.
    fn give_back(&mut self) {
        self.tokens += 1.0;
        self.today.1 = self.today.1.saturating_sub(1);
    }

    /// Whether a row has waited for so long that it helps nobody any more. The clock alone does not say so: it may have been set, and the
    /// server may not have run.
    fn is_over(&self, row: &OutboxRow, rules: &Rules, now: Now) -> bool {
        let most = i64::try_from(rules.give_up.as_micros()).unwrap_or(i64::MAX);
        let is_long = |since: Moment| now.wall.micros_since(since) > most;
        let fails = self.channel.health.failing.as_ref().is_some_and(|(since, _)| is_long(*since));
        is_long(row.queued) && (row.attempts > 0 || fails)
    }

    /// Whether people have heard enough of a check for now; else until when.
    fn is_calm(&mut self, check: CheckId, now: Duration) -> Result<(), Duration> {
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

impl Plan {
    /// Chooses what is sent now.
    pub(super) fn step(&mut self, state: &State, rules: impl Fn(&Channel) -> Rules, now: Now) -> Step {
        let mut step = Step::default();
        self.channels.retain(|id, sending| sending.jobs > 0 || state.channel(*id).is_some());
        let mut waiting: Vec<_> = state.outbox.channels().collect();
        // Each has its turn, however many wait.
        let after = waiting.partition_point(|id| Some(*id) <= self.turn);
        waiting.rotate_left(after);
        for id in waiting {
            let Some(channel) = state.channel(id).filter(|channel| channel.health.disabled.is_none()) else { continue };
            let rules = rules(channel);
            self.channels.entry(id).or_insert_with(|| Sending::new(channel, &rules, now.uptime)).meet(channel);
            while self.under_way.len() < MOST_JOBS && self.begin_one(state, id, &rules, now, &mut step) {}
        }
        step
    }

    /// Begins a message to a channel, if there is one that may be sent now.
    fn begin_one(&mut self, state: &State, id: ChannelId, rules: &Rules, now: Now, step: &mut Step) -> bool {
        let Some(sending) = self.channels.get_mut(&id) else { return false };
        if let Some(until) = rules.quiet_until.filter(|until| *until > now.wall) {
            let left = Duration::from_micros(until.micros_since(now.wall).max(0).unsigned_abs());
            step.again(now.uptime + left);
            return false;
        }
        // More would only wait for the others, and take places from those who need not.
        if self.places.get(&rules.place).is_some_and(|count| *count >= MOST_OF_A_PLACE) {
            return false;
        }
        if let Err(again) = sending.may_send(rules, now.uptime) {
            again.into_iter().for_each(|at| step.again(at));
            return false;
        }
        let picked = match rules.class {
            Class::People => pick::for_people(state, id, rules, sending, now, step),
            Class::Machine | Class::Incident => pick::for_machines(state, id, rules, sending, now, step),
            // Its members are told.
            Class::Group => None,
        };
        let Some((items, superseded)) = picked else { return false };
        *self.places.entry(rules.place.clone()).or_default() += 1;
        self.turn = Some(id);
        self.last += 1;
        sending.tokens -= 1.0;
        sending.today.1 += 1;
        sending.jobs += 1;
        sending.checks.extend(items.iter().map(|item| item.row.check));
        let place = rules.place.clone();
        let job = Job { id: JobId(self.last), channel: Arc::clone(&sending.channel), items, superseded, place };
        self.under_way.insert(job.id, job.clone());
        step.jobs.push(job);
        true
    }

    /// What is to be reported of a message that was sent. Its rows stay untouched until it is [`settled`](Self::settled).
    pub(super) fn done(&mut self, id: JobId, done: Done, rules: &Rules, now: Now, random: &Random) -> Vec<Report> {
        let Some(job) = self.under_way.get(&id) else { return Vec::new() };
        let Some(sending) = self.channels.get_mut(&job.channel.id) else { return Vec::new() };
        self.ended.insert(id);
        let Done { mut verdict, reason, status } = done;
        let attempts = job.items.first().map_or(0, |item| item.row.attempts.saturating_add(1));
        if verdict == Verdict::Refused && rules.class != Class::People && attempts < MOST_REFUSED {
            // There is no plainer form of it. Somebody may be mending the receiver.
            verdict = Verdict::Later { after: None, doubtful: false };
        }
        match verdict {
            Verdict::Later { after, .. } => {
                // Those that were under way together fail together, which counts once.
                let pause = if now.uptime < sending.not_before {
                    0
                } else {
                    PAUSES.get(sending.failures).or(PAUSES.last()).copied().unwrap_or_default()
                };
                sending.failures += usize::from(pause > 0);
                // A fifth more or less, so that many channels of one receiver do not come back together.
                let spread = 0.8 + 0.4 * (f64::from(u16::from_le_bytes(random.bytes())) / f64::from(u16::MAX));
                let pause = Duration::from_secs(pause).mul_f64(spread).max(after.unwrap_or_default().min(LONGEST_PAUSE));
                sending.not_before = sending.not_before.max(now.uptime + pause);
                if !matches!(verdict, Verdict::Later { doubtful: true, .. }) {
                    // What costs money has cost none.
                    sending.today.1 = sending.today.1.saturating_sub(1);
                }
            }
            Verdict::Delivered => {
                sending.failures = 0;
                let digest = job.items.len() > 1;
                if digest {
                    sending.not_before = sending.not_before.max(now.uptime + AFTER_DIGEST);
                } else if rules.class == Class::People {
                    // Of reminders they have asked for as many as come.
                    for item in job.items.iter().filter(|item| item.row.check != CheckId(0)) {
                        sending.told.entry(item.row.check).or_default().push_back(now.uptime);
                    }
                    sending.told.retain(|_, told| told.back().is_some_and(|at| *at + CALM > now.uptime));
                }
            }
            Verdict::Skipped | Verdict::Refused | Verdict::Closed => {}
        }
        let sent = match verdict {
            Verdict::Delivered => Sent::Delivered,
            Verdict::Skipped => Sent::Skipped(reason),
            Verdict::Refused => Sent::Failed(reason),
            Verdict::Closed => Sent::Closed(reason),
            Verdict::Later { doubtful, .. } => Sent::Later { reason, doubtful },
        };
        let first = job.items.first().map(|item| item.row.number);
        let mut reports = Vec::new();
        if !job.superseded.is_empty() && !matches!(sent, Sent::Later { .. }) {
            let sent = Sent::Superseded("a later message tells it as well".into());
            reports.push(Report { channel: job.channel.id, rows: job.superseded.clone(), sent, status: 0, told_with: first });
        }
        reports.push(Report { channel: job.channel.id, rows: job.numbers(), sent, status, told_with: first });
        reports
    }

    /// The rows of a message are as it was reported, or it was never begun: they may be chosen again.
    pub(super) fn settled(&mut self, id: JobId) {
        let Some(job) = self.under_way.remove(&id) else { return };
        if let Some(count) = self.places.get_mut(&job.place) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&job.place);
            }
        }
        let ended = self.ended.remove(&id);
        if let Some(sending) = self.channels.get_mut(&job.channel.id) {
            if !ended {
                // It was never sent.
                sending.give_back();
            }
            sending.jobs -= 1;
            sending.checks.retain(|check| !job.items.iter().any(|item| item.row.check == *check));
        }
    }

    /// To whom a message is sent.
    pub(super) fn channel_of(&self, id: JobId) -> Option<Arc<Channel>> {
        self.under_way.get(&id).map(|job| Arc::clone(&job.channel))
    }

    /// Messages under way.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

#[cfg(test)]
mod tests;
