//! What is sent next: a value that is told the time and what has come of sending, and that never waits, reads or sends itself.

mod pick;
mod progress;
mod shares;
mod suspects;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use progress::ChannelProgress;
use shares::Shares;

use super::rules::Rules;
use crate::channel::alert::Delay;
use crate::domain::alert::{OutboxRow, Recipient};
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
/// How often something is sent again that its receiver says it will never take: see [limits](crate::docs::limits).
const MOST_REFUSED: u16 = 5;
/// What is said of a channel that may send no more within the day.
pub(super) const USED_UP: &str = "as much was sent within a day as most-a-day allows; what waits is sent when that day is over";
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
    /// Why it is not told earlier, if something held it back.
    pub(super) delay: Option<Delay>,
}

impl Job {
    /// Takes over the rows as they are now that their attempts have begun. What is gone is told to nobody.
    pub(super) fn take_over(&mut self, begun: &HashMap<DeliveryNumber, Arc<OutboxRow>>) {
        self.items.retain_mut(|item| match begun.get(&item.row.number) {
            Some(row) => {
                item.row = Arc::clone(row);
                true
            }
            None => false,
        });
    }

    /// The reports that it was not sent although attempts may have begun. What was under way when the server ended may have arrived.
    pub(super) fn not_sent(&self) -> Vec<Report> {
        let (doubtful, sure): (Vec<_>, Vec<_>) = self.items.iter().map(|item| &item.row).partition(|row| row.begun.is_some());
        let report = |rows: Vec<&Arc<OutboxRow>>, doubtful| {
            let sent = SendOutcome::Later { reason: "".into(), doubtful };
            let rows = rows.into_iter().map(|row| row.number).collect();
            Report { recipients: Default::default(), channel: self.channel.id, sent_to: None, rows, sent, status: 0, told_with: None }
        };
        [report(sure, false), report(doubtful, true)].into_iter().filter(|report| !report.rows.is_empty()).collect()
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
    /// The results for several recipients, if it is sent again.
    pub(super) recipients: Option<Arc<[Recipient]>>,
}

impl JobEnd {
    /// The end of a message to nobody but the channel itself.
    pub(super) fn new(outcome: JobOutcome, reason: &str, status: u16) -> Self {
        Self { outcome, reason: reason.into(), status, recipients: None }
    }

    /// It failed for this reason, and is tried again.
    pub(super) fn failed(reason: &str) -> Self {
        Self::new(JobOutcome::Later { after: None, doubtful: true }, reason, 0)
    }
}

/// What the answer, or the want of one, means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobOutcome {
    Delivered,
    /// This kind of channel has nothing to say about it.
    Skipped,
    /// It will never be taken as it is.
    Refused,
    /// Nothing will be taken until somebody changes something.
    Closed,
    Later {
        /// How long the receiver wants to be left alone.
        after: Option<Duration>,
        /// It may have arrived.
        doubtful: bool,
    },
    /// Some recipients have taken it. It is sent again to the others alone.
    LaterInPart,
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
        self.reports.push(Report { recipients: Default::default(), channel, sent_to: None, rows, sent, status: 0, told_with: None });
    }
}

/// What time it is, both ways: pauses are measured in uptime, which nobody sets.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: Moment,
    pub(super) uptime: Duration,
}

impl Now {
    /// The uptime in microseconds at which a moment was, by the clock as it stands now. A moment that is ahead of the clock, which was set
    /// back, was just now.
    pub(super) fn uptime_of(self, moment: Moment) -> i64 {
        let uptime = i64::try_from(self.uptime.as_micros()).unwrap_or(i64::MAX);
        uptime.saturating_sub(self.wall.micros_since(moment).max(0))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Plan {
    channels: HashMap<ChannelId, ChannelProgress>,
    under_way: BTreeMap<JobId, Job>,
    /// Those of which it is known what has come of them.
    ended: BTreeSet<JobId>,
    shares: Shares,
    last: u64,
}

/// The published state. It is locked only while something is looked up.
pub(super) trait View {
    /// Calls `look` with the state and returns its result.
    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T;
}

impl Plan {
    /// Chooses what is sent now. The state is locked for one message, or a part of a digest, at a time.
    pub(super) fn step(&mut self, view: &impl View, rules: impl Fn(&Channel) -> Rules, now: Now) -> Step {
        let mut step = Step::default();
        let waiting = view.look(|state| {
            self.channels.retain(|id, progress| progress.is_busy() || state.channel(*id).is_some());
            let channels = state.outbox.channels().filter_map(|id| state.channel(id));
            channels.filter(|channel| channel.health.disabled.is_none()).cloned().collect::<Vec<_>>()
        });
        let known: HashMap<_, _> = waiting.iter().map(|channel| (channel.id, rules(channel))).collect();
        let mut turns = self.shares.in_turn(waiting);
        while !self.shares.are_taken()
            && let Some((project, mut channels)) = turns.pop_front()
        {
            while !self.shares.are_taken_for(project)
                && let Some(channel) = channels.pop_front()
            {
                let Some(rules) = known.get(&channel.id) else { continue };
                if self.begin_one(view, &channel, rules, now, &mut step) {
                    channels.push_back(channel);
                    turns.push_back((project, channels));
                    break;
                }
            }
        }
        step
    }

    /// Begins a message to a channel, if there is one that may be sent now.
    fn begin_one(&mut self, view: &impl View, channel: &Arc<Channel>, rules: &Rules, now: Now, step: &mut Step) -> bool {
        let first = view.look(|state| {
            let progress = self.may_begin(state, channel, rules, now, step)?;
            Some(match rules.class {
                Class::Machine | Class::Incident => pick::for_machines(state, channel.id, rules, progress, now, step),
                // These take several looks; the members of a group are sent messages of their own.
                Class::People | Class::Group => None,
            })
        });
        let (Some(picked), Some(progress)) = (first, self.channels.get_mut(&channel.id)) else { return false };
        let picked = match rules.class {
            Class::People => pick::for_people(view, channel.id, rules, progress, now, step),
            Class::Machine | Class::Incident | Class::Group => picked,
        };
        let Some((mut items, superseded)) = picked else { return false };
        items.iter_mut().for_each(|item| item.delay = progress.delay(item, now));
        self.shares.take(channel, &rules.place);
        self.last += 1;
        progress.begin(&items);
        let place = rules.place.clone();
        let job = Job { id: JobId(self.last), channel: Arc::clone(&progress.channel), items, superseded, place };
        self.under_way.insert(job.id, job.clone());
        step.jobs.push(job);
        true
    }

    /// Returns the progress of a channel if a message may be sent to it now.
    fn may_begin(
        &mut self,
        state: &State,
        channel: &Arc<Channel>,
        rules: &Rules,
        now: Now,
        step: &mut Step,
    ) -> Option<&mut ChannelProgress> {
        let id = channel.id;
        if !state.channel(id).is_some_and(|current| Arc::ptr_eq(current, channel)) {
            // It has changed since its rules were made.
            step.again(now.uptime);
            return None;
        }
        let progress = self.channels.entry(id).or_insert_with(|| ChannelProgress::new(channel, rules, now.uptime));
        progress.meet(channel, state);
        if rules.parallel == 0 {
            return None;
        }
        if let Some(until) = rules.quiet_until.filter(|until| *until > now.wall) {
            let left = Duration::from_micros(until.micros_since(now.wall).max(0).unsigned_abs());
            step.again(now.uptime + left);
            progress.note_delay(Delay::Quiet, now.wall);
            return None;
        }
        // More would only wait for the others, and take places from those who need not.
        if !self.shares.have_room(channel.project, &rules.place) {
            return None;
        }
        progress.try_others(state, rules);
        if let Err(again) = progress.may_send(rules, now.uptime) {
            again.into_iter().for_each(|at| step.again(at));
            if progress.note_waiting(rules, now) && progress.channel.health.failing.as_ref().is_none_or(|(_, reason)| **reason != *USED_UP)
            {
                step.finish(id, Vec::new(), SendOutcome::Later { reason: USED_UP.into(), doubtful: false });
            }
            return None;
        }
        Some(progress)
    }

    /// What is to be reported of a message that was sent. Its rows stay untouched until it is [`settled`](Self::settled).
    pub(super) fn done(&mut self, id: JobId, done: JobEnd, rules: &Rules, now: Now, random: &Random) -> Vec<Report> {
        let Some(job) = self.under_way.get(&id) else { return Vec::new() };
        let Some(progress) = self.channels.get_mut(&job.channel.id) else { return Vec::new() };
        self.ended.insert(id);
        let JobEnd { mut outcome, mut reason, status, recipients } = done;
        let is_refused = outcome == JobOutcome::Refused;
        if is_refused && !progress.is_refused_for_good(job, rules) {
            // Somebody may be mending the receiver.
            outcome = JobOutcome::Later { after: None, doubtful: false };
        }
        match outcome {
            JobOutcome::Later { after, doubtful } => {
                if !progress.failed(job, is_refused || status >= 500, after, now, random) {
                    // The channel takes others.
                    reason = "".into();
                }
                if !doubtful {
                    progress.cost_nothing();
                }
            }
            JobOutcome::LaterInPart => {
                let _ = progress.failed(job, true, None, now, random);
                // The channel works: others go on meanwhile.
                progress.delivered(&Job { items: Vec::new(), ..job.clone() }, rules, now.uptime);
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
            // It says nothing about the channel, which has taken it.
            JobOutcome::LaterInPart => SendOutcome::Later { reason: "".into(), doubtful: true },
        };
        let first = job.items.first().map(|item| item.row.number);
        let report = |rows: &[DeliveryNumber], sent, status| {
            let sent_to = Some(Arc::clone(&job.channel));
            Report { recipients: Default::default(), channel: job.channel.id, sent_to, rows: rows.to_vec(), sent, status, told_with: first }
        };
        let mut reports = Vec::new();
        if !job.superseded.is_empty() && !matches!(sent, SendOutcome::Later { .. }) {
            let sent = SendOutcome::Superseded("a later message tells it as well".into());
            reports.push(report(&job.superseded, sent, 0));
        }
        reports.push(Report { recipients, ..report(&job.numbers(), sent, status) });
        reports
    }

    /// The rows of a message are as it was reported, or it was never begun: they may be chosen again.
    pub(super) fn settled(&mut self, id: JobId) {
        let Some(job) = self.under_way.remove(&id) else { return };
        self.shares.free(job.channel.project, &job.place);
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
