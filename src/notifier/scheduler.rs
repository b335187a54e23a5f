//! Scheduler: selects the next messages. Its input is the time and the results of sending. It never
//! waits, reads or sends itself.

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
use super::message_result::AttemptResult;
use crate::channels::alert::DelayReason;
use crate::domain::alert::OutboxRow;
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::{DeliveryReport, SendOutcome};
use crate::engine::state::State;
use crate::util::random::Random;

/// Maximum number of messages in flight: see [limits](crate::docs::limits).
const MAX_IN_FLIGHT: usize = 64;
/// Maximum number of messages in flight to one destination: see [limits](crate::docs::limits).
const MAX_PER_DESTINATION: usize = 8;
/// Time without new rows after which a digest is sent.
const DIGEST_QUIET_TIME: Duration = Duration::from_millis(500);
/// Maximum time that a digest waits after its first row.
const MAX_DIGEST_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of attempts for a message that its receiver permanently refuses: see
/// [limits](crate::docs::limits).
const MAX_REFUSALS: u16 = 5;
/// Error of a channel that has reached its daily limit.
pub(super) const DAILY_LIMIT_TEXT: &str =
    "the daily limit most-a-day is reached; waiting messages are sent when the day is over";
/// Maximum number of reports on rows that a round finishes without sending. The rest follows in the
/// next round.
const MAX_REPORTS: usize = 500;

/// Id of a message in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct MessageId(u64);

/// Message to be sent.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Message {
    pub(super) id: MessageId,
    pub(super) channel: Arc<Channel>,
    /// Content, oldest first. Several items form a digest.
    pub(super) items: Vec<MessageItem>,
    /// Rows that this message makes unnecessary.
    pub(super) superseded: Vec<DeliveryNumber>,
    /// Destination for the limits.
    destination: String,
}

/// Part of a message about one check.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MessageItem {
    pub(super) row: Arc<OutboxRow>,
    /// For a check that is up again: the row of its downtime, if no user has been notified of it.
    pub(super) unnotified_down: Option<Arc<OutboxRow>>,
    /// Number of changes of this check that are left out, and the time of the first.
    pub(super) skipped: usize,
    pub(super) skipped_since: Timestamp,
    /// For a check that is down again: the time at which it came up, if no user has been notified
    /// of that.
    pub(super) up_since: Option<Timestamp>,
    /// Reason for the delay of this item, if there was one.
    pub(super) delay: Option<DelayReason>,
}

impl Message {
    /// Updates the rows to their state after their attempts have begun. Rows that no longer exist
    /// are dropped.
    pub(super) fn refresh_rows(&mut self, begun: &HashMap<DeliveryNumber, Arc<OutboxRow>>) {
        self.items
            .retain_mut(|item| match begun.get(&item.row.number) {
                Some(row) => {
                    item.row = Arc::clone(row);
                    true
                }
                None => false,
            });
    }

    /// Reports for a message that was not sent although attempts may have begun. Rows that were in
    /// flight when the server ended may have arrived.
    pub(super) fn not_sent_reports(&self) -> Vec<DeliveryReport> {
        let (possibly_sent, unsent): (Vec<_>, Vec<_>) = self
            .items
            .iter()
            .map(|item| &item.row)
            .partition(|row| row.attempt_started.is_some());
        let report = |rows: Vec<&Arc<OutboxRow>>, may_have_arrived| {
            let sent = SendOutcome::Retry {
                reason: "".into(),
                may_have_arrived,
            };
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
        [report(unsent, false), report(possibly_sent, true)]
            .into_iter()
            .filter(|report| !report.rows.is_empty())
            .collect()
    }

    /// Rows whose attempts begin with this message.
    pub(super) fn delivery_numbers(&self) -> Vec<DeliveryNumber> {
        self.items.iter().map(|item| item.row.number).collect()
    }
}

/// Work of one round.
#[derive(Default)]
pub(super) struct ScheduledWork {
    pub(super) messages: Vec<Message>,
    /// Rows that are finished without being sent.
    pub(super) reports: Vec<DeliveryReport>,
    /// Uptime of the next round, if no event causes an earlier one.
    pub(super) wake_at: Option<Duration>,
    /// Rows of the reports.
    reported_rows: BTreeSet<DeliveryNumber>,
}

impl ScheduledWork {
    fn wake_no_later_than(&mut self, at: Duration) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn is_reported(&self, row: &OutboxRow) -> bool {
        self.reported_rows.contains(&row.number)
    }

    fn finish(&mut self, channel: ChannelId, rows: Vec<DeliveryNumber>, sent: SendOutcome) {
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

/// Current time on both clocks. Pauses are measured in uptime, which cannot be set.
#[derive(Clone, Copy)]
pub(super) struct CurrentTime {
    pub(super) wall: Timestamp,
    pub(super) uptime: Duration,
}

impl CurrentTime {
    /// Uptime in microseconds at a given time, by the current clock. A time in the future, after
    /// the clock was set back, counts as now.
    pub(super) fn uptime_of(self, moment: Timestamp) -> i64 {
        let uptime = i64::try_from(self.uptime.as_micros()).unwrap_or(i64::MAX);
        uptime.saturating_sub(self.wall.micros_since(moment).max(0))
    }
}

/// Progress of all channels and messages in flight.
#[derive(Default)]
pub(super) struct SendScheduler {
    channels: HashMap<ChannelId, ChannelProgress>,
    in_flight: BTreeMap<MessageId, Message>,
    /// Finished messages whose results are not stored yet.
    unsettled: BTreeSet<MessageId>,
    slots: SendSlots,
    last_id: u64,
}

/// Published state. It is locked only during a lookup.
pub(super) trait StateView {
    /// Calls `read` with the state and returns its result.
    fn read_state<T>(&self, read: impl FnOnce(&State) -> T) -> T;
}

impl SendScheduler {
    /// Selects the messages to send now. The state is locked for one message, or for a part of a
    /// digest, at a time.
    pub(super) fn schedule(
        &mut self,
        view: &impl StateView,
        policy: impl Fn(&Channel) -> DeliveryPolicy,
        now: CurrentTime,
    ) -> ScheduledWork {
        let mut work = ScheduledWork::default();
        let waiting = view.read_state(|state| {
            self.channels
                .retain(|id, progress| progress.is_busy() || state.channel(*id).is_some());
            let channels = state.outbox.channels().filter_map(|id| state.channel(id));
            channels
                .filter(|channel| channel.health.disabled.is_none())
                .cloned()
                .collect::<Vec<_>>()
        });
        let policies: HashMap<_, _> = waiting
            .iter()
            .map(|channel| (channel.id, policy(channel)))
            .collect();
        let mut turns = self.slots.round_robin(waiting);
        while !self.slots.are_full()
            && let Some((project, mut channels)) = turns.pop_front()
        {
            while !self.slots.are_full_for(project)
                && let Some(channel) = channels.pop_front()
            {
                let Some(policy) = policies.get(&channel.id) else {
                    continue;
                };
                if self.begin_next(view, &channel, policy, now, &mut work) {
                    channels.push_back(channel);
                    turns.push_back((project, channels));
                    break;
                }
            }
        }
        work
    }

    /// Begins a message to a channel, if one may be sent now.
    fn begin_next(
        &mut self,
        view: &impl StateView,
        channel: &Arc<Channel>,
        policy: &DeliveryPolicy,
        now: CurrentTime,
        work: &mut ScheduledWork,
    ) -> bool {
        let first = view.read_state(|state| {
            let progress = self.may_begin(state, channel, policy, now, work)?;
            Some(match policy.class {
                ChannelClass::Machine | ChannelClass::Incident => {
                    row_selection::pick_for_machines(state, channel.id, policy, progress, now, work)
                }
                // People need several lookups; the members of a group get messages of their own.
                ChannelClass::People | ChannelClass::Group => None,
            })
        });
        let (Some(picked), Some(progress)) = (first, self.channels.get_mut(&channel.id)) else {
            return false;
        };
        let picked = match policy.class {
            ChannelClass::People => {
                row_selection::pick_for_people(view, channel.id, policy, progress, now, work)
            }
            ChannelClass::Machine | ChannelClass::Incident | ChannelClass::Group => picked,
        };
        let Some((mut items, superseded)) = picked else {
            return false;
        };
        items
            .iter_mut()
            .for_each(|item| item.delay = progress.delay_reason(item, now));
        self.slots.acquire(channel, &policy.destination);
        self.last_id += 1;
        progress.begin(&items);
        let destination = policy.destination.clone();
        let message = Message {
            id: MessageId(self.last_id),
            channel: Arc::clone(&progress.channel),
            items,
            superseded,
            destination,
        };
        self.in_flight.insert(message.id, message.clone());
        work.messages.push(message);
        true
    }

    /// Returns the progress of a channel if a message may be sent to it now.
    fn may_begin(
        &mut self,
        state: &State,
        channel: &Arc<Channel>,
        policy: &DeliveryPolicy,
        now: CurrentTime,
        work: &mut ScheduledWork,
    ) -> Option<&mut ChannelProgress> {
        let id = channel.id;
        if !state
            .channel(id)
            .is_some_and(|current| Arc::ptr_eq(current, channel))
        {
            // The channel has changed since its policy was computed.
            work.wake_no_later_than(now.uptime);
            return None;
        }
        let progress = self
            .channels
            .entry(id)
            .or_insert_with(|| ChannelProgress::new(channel, now.uptime));
        progress.update_channel(channel, state);
        if policy.max_parallel == 0 {
            return None;
        }
        if let Some(until) = policy.quiet_until.filter(|until| *until > now.wall) {
            let remaining =
                Duration::from_micros(until.micros_since(now.wall).max(0).unsigned_abs());
            work.wake_no_later_than(now.uptime + remaining);
            progress.note_delay(DelayReason::QuietHours, now.wall);
            return None;
        }
        // Further messages would only wait for these, and would occupy slots that others need.
        if !self.slots.has_slot(channel.project, &policy.destination) {
            return None;
        }
        progress.try_others(state, policy);
        if let Err(wake_at) = progress.may_send(policy, now.uptime) {
            wake_at
                .into_iter()
                .for_each(|at| work.wake_no_later_than(at));
            if progress.note_waiting(policy, now)
                && progress
                    .channel
                    .health
                    .failing
                    .as_ref()
                    .is_none_or(|(_, reason)| **reason != *DAILY_LIMIT_TEXT)
            {
                work.finish(
                    id,
                    Vec::new(),
                    SendOutcome::Retry {
                        reason: DAILY_LIMIT_TEXT.into(),
                        may_have_arrived: false,
                    },
                );
            }
            return None;
        }
        Some(progress)
    }

    /// Returns the reports for a message that was sent. Its rows remain reserved until
    /// [`settle`](Self::settle).
    pub(super) fn record_result(
        &mut self,
        id: MessageId,
        attempt_result: AttemptResult,
        policy: &DeliveryPolicy,
        now: CurrentTime,
        random: &Random,
    ) -> Vec<DeliveryReport> {
        let Some(message) = self.in_flight.get(&id) else {
            return Vec::new();
        };
        let Some(progress) = self.channels.get_mut(&message.channel.id) else {
            return Vec::new();
        };
        self.unsettled.insert(id);
        let AttemptResult {
            mut result,
            status,
            retry_after,
            is_partly_delivered,
            recipients,
            ..
        } = attempt_result;
        let is_refused = matches!(result, SendOutcome::Failed(_));
        if is_refused && !progress.record_refusal(message, policy) {
            // The receiver may be under repair.
            result = SendOutcome::Retry {
                reason: result.reason().into(),
                may_have_arrived: false,
            };
        }
        match &mut result {
            SendOutcome::Retry { reason, .. } if is_partly_delivered => {
                let _ = progress.record_failure(message, true, None, now, random);
                // The channel works: other messages are sent meanwhile.
                progress.record_delivery(
                    &Message {
                        items: Vec::new(),
                        ..message.clone()
                    },
                    policy,
                    now.uptime,
                );
                // This is no error of the channel, which has accepted the message.
                *reason = "".into();
            }
            SendOutcome::Retry {
                reason,
                may_have_arrived,
            } => {
                let is_answered = is_refused || status >= 500;
                if !progress.record_failure(message, is_answered, retry_after, now, random) {
                    // The channel accepts other messages.
                    *reason = "".into();
                }
                if !*may_have_arrived {
                    progress.refund_daily_limit();
                }
            }
            SendOutcome::Delivered | SendOutcome::PartlyDelivered(_) => {
                progress.record_delivery(message, policy, now.uptime);
            }
            SendOutcome::Superseded(_)
            | SendOutcome::Skipped(_)
            | SendOutcome::Failed(_)
            | SendOutcome::ChannelRejected(_) => {}
        }
        let first = message.items.first().map(|item| item.row.number);
        let report = |rows: &[DeliveryNumber], result, status| {
            let sent_to = Some(Arc::clone(&message.channel));
            DeliveryReport {
                recipients: Default::default(),
                channel: message.channel.id,
                sent_to,
                rows: rows.to_vec(),
                result,
                status,
                merged_into: first,
            }
        };
        let mut reports = Vec::new();
        if !message.superseded.is_empty() && !matches!(result, SendOutcome::Retry { .. }) {
            let sent = SendOutcome::Superseded("a later message includes it".into());
            reports.push(report(&message.superseded, sent, 0));
        }
        reports.push(DeliveryReport {
            recipients,
            ..report(&message.delivery_numbers(), result, status)
        });
        reports
    }

    /// Releases the rows of a message whose reports are stored, or that was never begun. They may
    /// be selected again.
    pub(super) fn settle(&mut self, id: MessageId) {
        let Some(message) = self.in_flight.remove(&id) else {
            return;
        };
        self.slots
            .release(message.channel.project, &message.destination);
        let ended = self.unsettled.remove(&id);
        if let Some(progress) = self.channels.get_mut(&message.channel.id) {
            if !ended {
                // It was never sent.
                progress.uncount_message();
            }
            progress.end(&message.items);
        }
    }

    /// True if a notice, which has no row in the outbox, may be sent to a channel now. If so,
    /// counts it as a message.
    pub(super) fn admit_notice(
        &mut self,
        channel: &Arc<Channel>,
        policy: &DeliveryPolicy,
        now: CurrentTime,
    ) -> bool {
        let progress = self.progress(channel, now);
        let may = policy.quiet_until.is_none_or(|until| until <= now.wall)
            && progress.may_send(policy, now.uptime).is_ok();
        if may {
            progress.count_message();
        }
        may
    }

    /// True if the daily limit allows a test of a channel; no other limit applies. If so, counts it
    /// as a message.
    pub(super) fn admit_channel_test(
        &mut self,
        channel: &Arc<Channel>,
        policy: &DeliveryPolicy,
        now: CurrentTime,
    ) -> bool {
        self.progress(channel, now)
            .count_toward_daily_limit(policy, now.uptime)
    }

    fn progress(&mut self, channel: &Arc<Channel>, now: CurrentTime) -> &mut ChannelProgress {
        self.channels
            .entry(channel.id)
            .or_insert_with(|| ChannelProgress::new(channel, now.uptime))
    }

    /// Channel that a message is sent to.
    pub(super) fn channel_of(&self, id: MessageId) -> Option<Arc<Channel>> {
        self.in_flight
            .get(&id)
            .map(|message| Arc::clone(&message.channel))
    }

    /// Number of messages in flight.
    #[cfg(test)]
    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }
}

#[cfg(test)]
mod tests;
