//! What is sent next: a value that is told the time and what has come of sending, and that never waits, reads or sends itself.

mod channel_progress;
mod failure_suspects;
mod row_selection;
mod send_slots;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use channel_progress::ChannelProgress;
use send_slots::SendSlots;

use super::delivery_policy::DeliveryPolicy;
use crate::channel::alert::DelayReason;
use crate::domain::alert::{OutboxRow, Recipient};
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::{DeliveryReport, SendResult};
use crate::engine::state::State;
use crate::random::Random;

/// Messages that are under way at the same time: see [limits](crate::docs::limits).
const MAX_IN_FLIGHT: usize = 64;
/// And to one place: see [limits](crate::docs::limits).
const MAX_PER_DESTINATION: usize = 8;
/// A digest waits until nothing more has come for so long,
const DIGEST_QUIET_TIME: Duration = Duration::from_millis(500);
/// but not longer than this after the first.
const MAX_DIGEST_WAIT: Duration = Duration::from_secs(1);
/// How often something is sent again that its receiver says it will never take: see [limits](crate::docs::limits).
const MAX_REFUSALS: u16 = 5;
/// What is said of a channel that may send no more within the day.
pub(super) const DAILY_LIMIT_TEXT: &str = "as much was sent within a day as most-a-day allows; what waits is sent when that day is over";
/// What a step finishes without sending it. The rest has its turn in the next one.
const MAX_REPORTS: usize = 500;

/// The number of a message under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct MessageId(u64);

/// A message that is to be sent.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Message {
    pub(super) id: MessageId,
    pub(super) channel: Arc<Channel>,
    /// What it tells, oldest first; several make a digest.
    pub(super) items: Vec<MessageItem>,
    /// What it makes needless.
    pub(super) superseded: Vec<DeliveryNumber>,
    /// Where it goes.
    destination: String,
}

/// What is told about one check.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MessageItem {
    pub(super) row: Arc<OutboxRow>,
    /// For one that is up again: the row of its downtime, of which nobody has been told.
    pub(super) unnotified_down: Option<Arc<OutboxRow>>,
    /// Changes of this check that are left out, and since when.
    pub(super) skipped: usize,
    pub(super) skipped_since: Timestamp,
    /// For one that is down again: when it came up, of which nobody has been told.
    pub(super) up_since: Option<Timestamp>,
    /// Why it is not told earlier, if something held it back.
    pub(super) delay: Option<DelayReason>,
}

impl Message {
    /// Takes over the rows as they are now that their attempts have begun. What is gone is told to nobody.
    pub(super) fn refresh_rows(&mut self, begun: &HashMap<DeliveryNumber, Arc<OutboxRow>>) {
        self.items.retain_mut(|item| match begun.get(&item.row.number) {
            Some(row) => {
                item.row = Arc::clone(row);
                true
            }
            None => false,
        });
    }

    /// The reports that it was not sent although attempts may have begun. What was under way when the server ended may have arrived.
    pub(super) fn not_sent_reports(&self) -> Vec<DeliveryReport> {
        let (doubtful, sure): (Vec<_>, Vec<_>) = self.items.iter().map(|item| &item.row).partition(|row| row.attempt_started.is_some());
        let report = |rows: Vec<&Arc<OutboxRow>>, doubtful| {
            let sent = SendResult::Retry { reason: "".into(), may_have_arrived: doubtful };
            let rows = rows.into_iter().map(|row| row.number).collect();
            DeliveryReport {
                recipients: Default::default(),
                channel: self.channel.id,
                sent_to: None,
                rows,
                result: sent,
                status: 0,
                merged_into: None,
            }
        };
        [report(sure, false), report(doubtful, true)].into_iter().filter(|report| !report.rows.is_empty()).collect()
    }

    /// The rows whose attempts begin with it.
    pub(super) fn delivery_numbers(&self) -> Vec<DeliveryNumber> {
        self.items.iter().map(|item| item.row.number).collect()
    }
}

/// What has come of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MessageResult {
    pub(super) outcome: MessageOutcome,
    /// A sentence for those who look after the channel; empty if it was delivered to all.
    pub(super) reason: Box<str>,
    /// The status of the answer, or 0.
    pub(super) status: u16,
    /// The results for several recipients, if it is sent again.
    pub(super) recipients: Option<Arc<[Recipient]>>,
}

impl MessageResult {
    /// The end of a message to nobody but the channel itself.
    pub(super) fn new(outcome: MessageOutcome, reason: &str, status: u16) -> Self {
        Self { outcome, reason: reason.into(), status, recipients: None }
    }

    /// It failed for this reason, and is tried again.
    pub(super) fn failed(reason: &str) -> Self {
        Self::new(MessageOutcome::Retry { retry_after: None, may_have_arrived: true }, reason, 0)
    }
}

/// What the answer, or the want of one, means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageOutcome {
    Delivered,
    /// This kind of channel has nothing to say about it.
    Skipped,
    /// It will never be taken as it is.
    Refused,
    /// Nothing will be taken until somebody changes something.
    ChannelUnusable,
    Retry {
        /// How long the receiver wants to be left alone.
        retry_after: Option<Duration>,
        /// It may have arrived.
        may_have_arrived: bool,
    },
    /// Some recipients have taken it. It is sent again to the others alone.
    RetrySomeRecipients,
}

/// What is to be done now.
#[derive(Default)]
pub(super) struct ScheduledWork {
    pub(super) messages: Vec<Message>,
    /// What is finished without being sent.
    pub(super) reports: Vec<DeliveryReport>,
    /// When to look again, if nothing happens before; an uptime.
    pub(super) wake_at: Option<Duration>,
    /// Rows of the reports.
    reported_rows: BTreeSet<DeliveryNumber>,
}

impl ScheduledWork {
    fn wake_no_later_than(&mut self, at: Duration) {
        self.wake_at = Some(self.wake_at.map_or(at, |again| again.min(at)));
    }

    fn is_reported(&self, row: &OutboxRow) -> bool {
        self.reported_rows.contains(&row.number)
    }

    fn finish(&mut self, channel: ChannelId, rows: Vec<DeliveryNumber>, sent: SendResult) {
        self.reported_rows.extend(&rows);
        self.reports.push(DeliveryReport {
            recipients: Default::default(),
            channel,
            sent_to: None,
            rows,
            result: sent,
            status: 0,
            merged_into: None,
        });
    }
}

/// What time it is, both ways: pauses are measured in uptime, which nobody sets.
#[derive(Clone, Copy)]
pub(super) struct CurrentTime {
    pub(super) wall: Timestamp,
    pub(super) uptime: Duration,
}

impl CurrentTime {
    /// The uptime in microseconds at which a moment was, by the clock as it stands now. A moment that is ahead of the clock, which was set
    /// back, was just now.
    pub(super) fn uptime_of(self, moment: Timestamp) -> i64 {
        let uptime = i64::try_from(self.uptime.as_micros()).unwrap_or(i64::MAX);
        uptime.saturating_sub(self.wall.micros_since(moment).max(0))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct SendScheduler {
    channels: HashMap<ChannelId, ChannelProgress>,
    in_flight: BTreeMap<MessageId, Message>,
    /// Those of which it is known what has come of them.
    unsettled: BTreeSet<MessageId>,
    slots: SendSlots,
    last_id: u64,
}

/// The published state. It is locked only while something is looked up.
pub(super) trait StateView {
    /// Calls `read_state` with the state and returns its result.
    fn read_state<T>(&self, look: impl FnOnce(&State) -> T) -> T;
}

impl SendScheduler {
    /// Chooses what is sent now. The state is locked for one message, or a part of a digest, at a time.
    pub(super) fn schedule(
        &mut self,
        view: &impl StateView,
        rules: impl Fn(&Channel) -> DeliveryPolicy,
        now: CurrentTime,
    ) -> ScheduledWork {
        let mut step = ScheduledWork::default();
        let waiting = view.read_state(|state| {
            self.channels.retain(|id, progress| progress.is_busy() || state.channel(*id).is_some());
            let channels = state.outbox.channels().filter_map(|id| state.channel(id));
            channels.filter(|channel| channel.health.disabled.is_none()).cloned().collect::<Vec<_>>()
        });
        let known: HashMap<_, _> = waiting.iter().map(|channel| (channel.id, rules(channel))).collect();
        let mut turns = self.slots.round_robin(waiting);
        while !self.slots.are_full()
            && let Some((project, mut channels)) = turns.pop_front()
        {
            while !self.slots.are_full_for(project)
                && let Some(channel) = channels.pop_front()
            {
                let Some(rules) = known.get(&channel.id) else { continue };
                if self.begin_next(view, &channel, rules, now, &mut step) {
                    channels.push_back(channel);
                    turns.push_back((project, channels));
                    break;
                }
            }
        }
        step
    }

    /// Begins a message to a channel, if there is one that may be sent now.
    fn begin_next(
        &mut self,
        view: &impl StateView,
        channel: &Arc<Channel>,
        rules: &DeliveryPolicy,
        now: CurrentTime,
        step: &mut ScheduledWork,
    ) -> bool {
        let first = view.read_state(|state| {
            let progress = self.may_begin(state, channel, rules, now, step)?;
            Some(match rules.class {
                ChannelClass::Machine | ChannelClass::Incident => {
                    row_selection::pick_for_machines(state, channel.id, rules, progress, now, step)
                }
                // These take several looks; the members of a group are sent messages of their own.
                ChannelClass::People | ChannelClass::Group => None,
            })
        });
        let (Some(picked), Some(progress)) = (first, self.channels.get_mut(&channel.id)) else { return false };
        let picked = match rules.class {
            ChannelClass::People => row_selection::pick_for_people(view, channel.id, rules, progress, now, step),
            ChannelClass::Machine | ChannelClass::Incident | ChannelClass::Group => picked,
        };
        let Some((mut items, superseded)) = picked else { return false };
        items.iter_mut().for_each(|item| item.delay = progress.delay_reason(item, now));
        self.slots.acquire(channel, &rules.destination);
        self.last_id += 1;
        progress.begin(&items);
        let place = rules.destination.clone();
        let job = Message { id: MessageId(self.last_id), channel: Arc::clone(&progress.channel), items, superseded, destination: place };
        self.in_flight.insert(job.id, job.clone());
        step.messages.push(job);
        true
    }

    /// Returns the progress of a channel if a message may be sent to it now.
    fn may_begin(
        &mut self,
        state: &State,
        channel: &Arc<Channel>,
        rules: &DeliveryPolicy,
        now: CurrentTime,
        step: &mut ScheduledWork,
    ) -> Option<&mut ChannelProgress> {
        let id = channel.id;
        if !state.channel(id).is_some_and(|current| Arc::ptr_eq(current, channel)) {
            // It has changed since its rules were made.
            step.wake_no_later_than(now.uptime);
            return None;
        }
        let progress = self.channels.entry(id).or_insert_with(|| ChannelProgress::new(channel, rules, now.uptime));
        progress.update_channel(channel, state);
        if rules.max_parallel == 0 {
            return None;
        }
        if let Some(until) = rules.quiet_until.filter(|until| *until > now.wall) {
            let left = Duration::from_micros(until.micros_since(now.wall).max(0).unsigned_abs());
            step.wake_no_later_than(now.uptime + left);
            progress.note_delay(DelayReason::QuietHours, now.wall);
            return None;
        }
        // More would only wait for the others, and take places from those who need not.
        if !self.slots.has_slot(channel.project, &rules.destination) {
            return None;
        }
        progress.try_others(state, rules);
        if let Err(again) = progress.may_send(rules, now.uptime) {
            again.into_iter().for_each(|at| step.wake_no_later_than(at));
            if progress.note_waiting(rules, now)
                && progress.channel.health.failing.as_ref().is_none_or(|(_, reason)| **reason != *DAILY_LIMIT_TEXT)
            {
                step.finish(id, Vec::new(), SendResult::Retry { reason: DAILY_LIMIT_TEXT.into(), may_have_arrived: false });
            }
            return None;
        }
        Some(progress)
    }

    /// What is to be reported of a message that was sent. Its rows stay untouched until it is [`settle`](Self::settled).
    pub(super) fn record_result(
        &mut self,
        id: MessageId,
        done: MessageResult,
        rules: &DeliveryPolicy,
        now: CurrentTime,
        random: &Random,
    ) -> Vec<DeliveryReport> {
        let Some(job) = self.in_flight.get(&id) else { return Vec::new() };
        let Some(progress) = self.channels.get_mut(&job.channel.id) else { return Vec::new() };
        self.unsettled.insert(id);
        let MessageResult { mut outcome, mut reason, status, recipients } = done;
        let is_refused = outcome == MessageOutcome::Refused;
        if is_refused && !progress.record_refusal(job, rules) {
            // Somebody may be mending the receiver.
            outcome = MessageOutcome::Retry { retry_after: None, may_have_arrived: false };
        }
        match outcome {
            MessageOutcome::Retry { retry_after: after, may_have_arrived: doubtful } => {
                if !progress.record_failure(job, is_refused || status >= 500, after, now, random) {
                    // The channel takes others.
                    reason = "".into();
                }
                if !doubtful {
                    progress.refund_daily_limit();
                }
            }
            MessageOutcome::RetrySomeRecipients => {
                let _ = progress.record_failure(job, true, None, now, random);
                // The channel works: others go on meanwhile.
                progress.record_delivery(&Message { items: Vec::new(), ..job.clone() }, rules, now.uptime);
            }
            MessageOutcome::Delivered => progress.record_delivery(job, rules, now.uptime),
            MessageOutcome::Skipped | MessageOutcome::Refused | MessageOutcome::ChannelUnusable => {}
        }
        let sent = match outcome {
            MessageOutcome::Delivered if reason.is_empty() => SendResult::Delivered,
            MessageOutcome::Delivered => SendResult::PartlyDelivered(reason),
            MessageOutcome::Skipped => SendResult::Skipped(reason),
            MessageOutcome::Refused => SendResult::Failed(reason),
            MessageOutcome::ChannelUnusable => SendResult::ChannelRejected(reason),
            MessageOutcome::Retry { may_have_arrived: doubtful, .. } => SendResult::Retry { reason, may_have_arrived: doubtful },
            // It says nothing about the channel, which has taken it.
            MessageOutcome::RetrySomeRecipients => SendResult::Retry { reason: "".into(), may_have_arrived: true },
        };
        let first = job.items.first().map(|item| item.row.number);
        let report = |rows: &[DeliveryNumber], sent, status| {
            let sent_to = Some(Arc::clone(&job.channel));
            DeliveryReport {
                recipients: Default::default(),
                channel: job.channel.id,
                sent_to,
                rows: rows.to_vec(),
                result: sent,
                status,
                merged_into: first,
            }
        };
        let mut reports = Vec::new();
        if !job.superseded.is_empty() && !matches!(sent, SendResult::Retry { .. }) {
            let sent = SendResult::Superseded("a later message tells it as well".into());
            reports.push(report(&job.superseded, sent, 0));
        }
        reports.push(DeliveryReport { recipients, ..report(&job.delivery_numbers(), sent, status) });
        reports
    }

    /// The rows of a message are as it was reported, or it was never begun: they may be chosen again.
    pub(super) fn settle(&mut self, id: MessageId) {
        let Some(job) = self.in_flight.remove(&id) else { return };
        self.slots.release(job.channel.project, &job.destination);
        let ended = self.unsettled.remove(&id);
        if let Some(progress) = self.channels.get_mut(&job.channel.id) {
            if !ended {
                // It was never sent.
                progress.uncount_message();
            }
            progress.end(&job.items);
        }
    }

    /// Whether a notice, which no row of the outbox tells, may be sent to a channel now. It counts as a message then.
    pub(super) fn admit_self_alert(&mut self, channel: &Arc<Channel>, rules: &DeliveryPolicy, now: CurrentTime) -> bool {
        let progress = self.progress(channel, rules, now);
        let may = rules.quiet_until.is_none_or(|until| until <= now.wall) && progress.may_send(rules, now.uptime).is_ok();
        if may {
            progress.count_message();
        }
        may
    }

    /// Whether a test, for which nothing else is waited, may be sent to a channel today. It counts as a message then.
    pub(super) fn admit_channel_test(&mut self, channel: &Arc<Channel>, rules: &DeliveryPolicy, now: CurrentTime) -> bool {
        self.progress(channel, rules, now).count_toward_daily_limit(rules, now.uptime)
    }

    fn progress(&mut self, channel: &Arc<Channel>, rules: &DeliveryPolicy, now: CurrentTime) -> &mut ChannelProgress {
        self.channels.entry(channel.id).or_insert_with(|| ChannelProgress::new(channel, rules, now.uptime))
    }

    /// To whom a message is sent.
    pub(super) fn channel_of(&self, id: MessageId) -> Option<Arc<Channel>> {
        self.in_flight.get(&id).map(|job| Arc::clone(&job.channel))
    }

    /// Messages under way.
    #[cfg(test)]
    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }
}

#[cfg(test)]
mod tests;
