//! What is sent next: a value that is told the time and what has come of sending, and that never waits, reads or sends itself.

mod pick;
mod progress;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use progress::ChannelProgress;

use super::rules::Rules;
use crate::domain::alert::OutboxRow;
use crate::domain::channel::Class;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::moment::Moment;
use crate::domain::project::Channel;
use crate::engine::command::{Report, SendOutcome};
use crate::engine::state::State;
use crate::random::Random;

/// Messages that are under way at the same time: see [limits](crate::docs::limits).
const MOST_JOBS: usize = 64;
/// And to one place: see [limits](crate::docs::limits).
const MOST_OF_A_PLACE: usize = 8;
/// A digest waits until nothing more has come for so long,
const QUIET: Duration = Duration::from_millis(500);
/// but not longer than this after the first.
const GATHER: Duration = Duration::from_secs(1);
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
pub(super) struct JobEnd {
    pub(super) outcome: JobOutcome,
    /// A sentence for those who look after the channel; empty if it was delivered to all.
    pub(super) reason: Box<str>,
    /// The status of the answer, or 0.
    pub(super) status: u16,
}

impl JobEnd {
    /// It failed for this reason, and is tried again.
    pub(super) fn failed(reason: &str) -> Self {
        Self { outcome: JobOutcome::Later { after: None, doubtful: true }, reason: reason.into(), status: 0 }
    }
}

/// What the answer, or the want of one, means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobOutcome {
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

    fn finish(&mut self, channel: ChannelId, rows: Vec<DeliveryNumber>, sent: SendOutcome) {
        self.over.extend(&rows);
        self.reports.push(Report { channel, sent_to: None, rows, sent, status: 0, told_with: None });
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
    channels: HashMap<ChannelId, ChannelProgress>,
    under_way: BTreeMap<JobId, Job>,
    /// Those of which it is known what has come of them.
    ended: BTreeSet<JobId>,
    /// How many go to each place.
    places: HashMap<String, usize>,
    /// The channel that had its turn last.
    turn: Option<ChannelId>,
    last: u64,
}

impl Plan {
    /// Chooses what is sent now.
    pub(super) fn step(&mut self, state: &State, rules: impl Fn(&Channel) -> Rules, now: Now) -> Step {
        let mut step = Step::default();
        self.channels.retain(|id, progress| progress.is_busy() || state.channel(*id).is_some());
        let mut waiting: Vec<_> = state.outbox.channels().collect();
        // Each has its turn, however many wait.
        let after = waiting.partition_point(|id| Some(*id) <= self.turn);
        waiting.rotate_left(after);
        for id in waiting {
            let Some(channel) = state.channel(id).filter(|channel| channel.health.disabled.is_none()) else { continue };
            let rules = rules(channel);
            self.channels.entry(id).or_insert_with(|| ChannelProgress::new(channel, &rules, now.uptime)).meet(channel, state);
            while self.under_way.len() < MOST_JOBS && self.begin_one(state, id, &rules, now, &mut step) {}
        }
        step
    }

    /// Begins a message to a channel, if there is one that may be sent now.
    fn begin_one(&mut self, state: &State, id: ChannelId, rules: &Rules, now: Now, step: &mut Step) -> bool {
        let Some(progress) = self.channels.get_mut(&id) else { return false };
        if let Some(until) = rules.quiet_until.filter(|until| *until > now.wall) {
            let left = Duration::from_micros(until.micros_since(now.wall).max(0).unsigned_abs());
            step.again(now.uptime + left);
            return false;
        }
        // More would only wait for the others, and take places from those who need not.
        if self.places.get(&rules.place).is_some_and(|count| *count >= MOST_OF_A_PLACE) {
            return false;
        }
        progress.try_others(state, rules, now.uptime);
        if let Err(again) = progress.may_send(rules, now.uptime) {
            again.into_iter().for_each(|at| step.again(at));
            return false;
        }
        let picked = match rules.class {
            Class::People => pick::for_people(state, id, rules, progress, now, step),
            Class::Machine | Class::Incident => pick::for_machines(state, id, rules, progress, now, step),
            // Its members are told.
            Class::Group => None,
        };
        let Some((items, superseded)) = picked else { return false };
        *self.places.entry(rules.place.clone()).or_default() += 1;
        self.turn = Some(id);
        self.last += 1;
        progress.begin(&items);
        let place = rules.place.clone();
        let job = Job { id: JobId(self.last), channel: Arc::clone(&progress.channel), items, superseded, place };
        self.under_way.insert(job.id, job.clone());
        step.jobs.push(job);
        true
    }

    /// What is to be reported of a message that was sent. Its rows stay untouched until it is [`settled`](Self::settled).
    pub(super) fn done(&mut self, id: JobId, done: JobEnd, rules: &Rules, now: Now, random: &Random) -> Vec<Report> {
        let Some(job) = self.under_way.get(&id) else { return Vec::new() };
        let Some(progress) = self.channels.get_mut(&job.channel.id) else { return Vec::new() };
        self.ended.insert(id);
        let JobEnd { mut outcome, reason, status } = done;
        let is_refused = outcome == JobOutcome::Refused;
        if let (true, Some(item)) = (is_refused, job.items.first().filter(|_| rules.class != Class::People)) {
            let refused = progress.refused.entry(item.row.number).or_default();
            *refused += 1;
            if *refused < MOST_REFUSED {
                // There is no plainer form of it. Somebody may be mending the receiver.
                outcome = JobOutcome::Later { after: None, doubtful: false };
            }
        }
        match outcome {
            JobOutcome::Later { after, doubtful } => {
                progress.failed(job, is_refused || status >= 500, after, now.uptime, random);
                if !doubtful {
                    progress.cost_nothing();
                }
            }
            JobOutcome::Delivered => progress.delivered(job, rules, now.uptime),
            JobOutcome::Skipped | JobOutcome::Refused | JobOutcome::Closed => {}
        }
        let sent = match outcome {
            JobOutcome::Delivered if reason.is_empty() => SendOutcome::Delivered,
            JobOutcome::Delivered => SendOutcome::DeliveredInPart(reason),
            JobOutcome::Skipped => SendOutcome::Skipped(reason),
            JobOutcome::Refused => SendOutcome::Failed(reason),
            JobOutcome::Closed => SendOutcome::Closed(reason),
            JobOutcome::Later { doubtful, .. } => SendOutcome::Later { reason, doubtful },
        };
        let first = job.items.first().map(|item| item.row.number);
        let report = |rows: &[DeliveryNumber], sent, status| {
            let sent_to = Some(Arc::clone(&job.channel));
            Report { channel: job.channel.id, sent_to, rows: rows.to_vec(), sent, status, told_with: first }
        };
        let mut reports = Vec::new();
        if !job.superseded.is_empty() && !matches!(sent, SendOutcome::Later { .. }) {
            let sent = SendOutcome::Superseded("a later message tells it as well".into());
            reports.push(report(&job.superseded, sent, 0));
        }
        reports.push(report(&job.numbers(), sent, status));
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
        if let Some(progress) = self.channels.get_mut(&job.channel.id) {
            if !ended {
                // It was never sent.
                progress.give_back();
            }
            progress.settled(&job.items);
        }
    }

    /// Whether a notice, which no row of the outbox tells, may be sent to a channel now. It counts as a message then.
    pub(super) fn may_notify(&mut self, channel: &Arc<Channel>, rules: &Rules, now: Now) -> bool {
        let progress = self.progress(channel, rules, now);
        let may = rules.quiet_until.is_none_or(|until| until <= now.wall) && progress.may_send(rules, now.uptime).is_ok();
        if may {
            progress.count();
        }
        may
    }

    /// Whether a test, for which nothing else is waited, may be sent to a channel today. It counts as a message then.
    pub(super) fn may_try(&mut self, channel: &Arc<Channel>, rules: &Rules, now: Now) -> bool {
        self.progress(channel, rules, now).count_today(rules, now.uptime)
    }

    fn progress(&mut self, channel: &Arc<Channel>, rules: &Rules, now: Now) -> &mut ChannelProgress {
        self.channels.entry(channel.id).or_insert_with(|| ChannelProgress::new(channel, rules, now.uptime))
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
