//! Resending to programs that forget alerts which are not repeated, such as Alertmanager: every
//! minute they get the alerts of all checks that are still down.
//!
//! One task visits the channels, a few at a time and one of each project. It locks the state and
//! reads flips for one request at a time. A channel that does not answer delays only the other
//! channels of its project.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{self, JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use super::sender::{MessageSender, first_attempt, load_secrets};
use crate::channels::alert::{AlertFacts, CheckEvent, CheckFacts, EventContext};
use crate::channels::{self, Alert, TransportReply, Verdict};
use crate::domain::alert::AlertEvent;
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::ids::{ChannelId, CheckId, FlipNumber, ProjectId, UniqueKey};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::{Command, DeliveryReport, SendOutcome};
use crate::util::log_limit::LogLimit;

/// Time between two rounds.
const RESEND_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between checks of the clock.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Number of alerts in one request: see [limits](crate::docs::limits).
const ALERTS_PER_REQUEST: usize = 500;
/// Maximum number of channels in parallel: see [limits](crate::docs::limits).
const MAX_CHANNELS: usize = 4;
/// Maximum pause between two requests of a round, in which waiting alerts of the channel are sent:
/// new alerts take precedence.
const MAX_YIELD_TIME: Duration = Duration::from_secs(1);
/// Number of flips that are read before other tasks on this thread run.
const FLIPS_PER_READ: usize = 64;

static FAILURE_LOG_LIMIT: LogLimit = LogLimit::new();

/// Resends alerts until it is stopped.
pub(super) async fn run(sender: Rc<MessageSender>) {
    let uptime = || sender.handle.clock().uptime();
    let mut next = uptime() + RESEND_INTERVAL;
    let mut queue = ResendQueue::default();
    let mut in_flight = JoinSet::new();
    let mut projects: HashMap<task::Id, (ProjectId, ChannelId)> = HashMap::new();
    loop {
        tokio::select! {
            () = sleep(POLL_INTERVAL) => if uptime() >= next {
                next = uptime() + RESEND_INTERVAL;
                queue.add(resend_channels(&sender));
            },
            Some(ended) = in_flight.join_next_with_id() => {
                // The panic hook has logged a panic.
                let task = ended.map_or_else(|error| error.id(), |(task, ())| task);
                if let Some((project, channel)) = projects.remove(&task) {
                    queue.end(project, channel);
                }
            }
        }
        while in_flight.len() < MAX_CHANNELS
            && let Some((project, channel, flips)) = queue.next()
        {
            let sender = Rc::clone(&sender);
            let task = in_flight.spawn_local(async move { resend(&sender, channel, &flips).await });
            projects.insert(task.id(), (project, channel));
        }
    }
}

/// Flips of a project, cached for all its channels.
type FlipCache = Rc<RefCell<HashMap<FlipNumber, Option<Flip>>>>;

/// Channels that wait for their round.
#[derive(Default)]
struct ResendQueue {
    projects: BTreeMap<ProjectId, ProjectResendQueue>,
    /// Projects with a waiting channel and none in flight, in order.
    ready_projects: VecDeque<ProjectId>,
}

#[derive(Default)]
struct ProjectResendQueue {
    channels: VecDeque<ChannelId>,
    /// Channels that wait or are in flight.
    queued_or_in_flight: HashSet<ChannelId>,
    flips: FlipCache,
}

impl ResendQueue {
    /// Adds channels, except for those whose last round has not ended.
    fn add(&mut self, channels: Vec<(ProjectId, ChannelId)>) {
        // Flips of checks that have come up since are no longer needed.
        self.projects
            .values_mut()
            .for_each(|queue| queue.flips = FlipCache::default());
        for (project, channel) in channels {
            let queue = self.projects.entry(project).or_insert_with(|| {
                self.ready_projects.push_back(project);
                ProjectResendQueue::default()
            });
            if queue.queued_or_in_flight.insert(channel) {
                queue.channels.push_back(channel);
            }
        }
    }

    /// Next channel. Projects take turns, and none has two channels in flight.
    fn next(&mut self) -> Option<(ProjectId, ChannelId, FlipCache)> {
        let project = self.ready_projects.pop_front()?;
        let queue = self.projects.get_mut(&project)?;
        Some((
            project,
            queue.channels.pop_front()?,
            Rc::clone(&queue.flips),
        ))
    }

    /// Records that the round of a channel has ended.
    fn end(&mut self, project: ProjectId, channel: ChannelId) {
        let Some(queue) = self.projects.get_mut(&project) else {
            return;
        };
        queue.queued_or_in_flight.remove(&channel);
        if queue.channels.is_empty() {
            self.projects.remove(&project);
        } else {
            self.ready_projects.push_back(project);
        }
    }
}

/// True if alerts are resent to a channel. A failing channel is included: an alert that it misses
/// would be resolved there.
fn has_resending(channel: &Channel) -> bool {
    channels::needs_resend(&channel.settings)
        && channel.settings.handles_event(AlertEvent::Down)
        && channel.health.disabled.is_none()
}

/// Channels with resending; within each project, working channels come first.
fn resend_channels(sender: &MessageSender) -> Vec<(ProjectId, ChannelId)> {
    let mut channels: Vec<_> = sender.handle.with_state(|state| {
        let all = state
            .projects()
            .flat_map(|project_state| project_state.channels.values());
        all.filter(|channel| has_resending(channel))
            .map(|channel| {
                (
                    channel.health.failing.is_some(),
                    channel.project,
                    channel.id,
                )
            })
            .collect()
    });
    channels.sort_unstable();
    channels
        .into_iter()
        .map(|(_, project, channel)| (project, channel))
        .collect()
}

/// Result of a round: `None` if there was nothing to send, otherwise the first error with the
/// status of its response.
type ResendResult = Option<Result<(), (String, u16)>>;

async fn resend(sender: &MessageSender, id: ChannelId, flips: &FlipCache) {
    let channel = sender.handle.with_state(|state| {
        state
            .channel(id)
            .filter(|channel| has_resending(channel))
            .cloned()
    });
    let Some(channel) = channel else { return };
    let ended = timeout(RESEND_INTERVAL, resend_alerts(sender, &channel, flips)).await;
    let sent = match ended.unwrap_or_else(|_| {
        Some(Err((
            format!("it took longer than {} s", RESEND_INTERVAL.as_secs()),
            0,
        )))
    }) {
        None => return,
        Some(Ok(())) if channel.health.failing.is_none() || has_failed_rows(sender, id) => return,
        Some(Ok(())) => (SendOutcome::Delivered, 0),
        Some(Err((reason, status))) => {
            if let Some(suppressed) = FAILURE_LOG_LIMIT.admit(sender.handle.now()) {
                let kind = channel.settings.kind().name;
                tracing::warn!(
                    channel = %channel.uuid,
                    kind,
                    "resending alerts failed: {reason}{suppressed}"
                );
            }
            (
                SendOutcome::Retry {
                    reason: reason.into(),
                    may_have_arrived: false,
                },
                status,
            )
        }
    };
    let (sent, status) = sent;
    let report = DeliveryReport {
        recipients: Default::default(),
        channel: id,
        sent_to: Some(channel),
        rows: Vec::new(),
        merged_into: None,
        result: sent,
        status,
    };
    // A report that is not stored now is stored in a minute.
    let _ = sender
        .handle
        .call(Command::RecordDeliveryReports(vec![report]))
        .await;
}

/// True if an alert waits for another attempt: the channel remains failing until that alert is
/// accepted.
fn has_failed_rows(sender: &MessageSender, id: ChannelId) -> bool {
    sender
        .handle
        .with_state(|state| state.outbox.rows_of_channel(id).any(|row| row.attempts > 0))
}

/// Waits until no alert waits for the channel, for at most [`MAX_YIELD_TIME`].
async fn yield_to_alerts(sender: &MessageSender, id: ChannelId) {
    for _ in 0..MAX_YIELD_TIME.as_millis() / POLL_INTERVAL.as_millis() {
        if sender
            .handle
            .with_state(|state| state.outbox.row_count_of(id) == 0)
        {
            return;
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn resend_alerts(
    sender: &MessageSender,
    channel: &Arc<Channel>,
    flips: &FlipCache,
) -> ResendResult {
    let down = sender.notified_down_ids(channel);
    if down.is_empty() {
        return None;
    }
    let settings = match load_secrets(&channel.settings).await {
        Ok(settings) => settings,
        Err(error) => return Some(Err((error, 0))),
    };
    if let Some(error) = settings.missing_setting() {
        return Some(Err((error, 0)));
    }
    let mut end = None;
    for (number, checks) in down.chunks(ALERTS_PER_REQUEST).enumerate() {
        if number > 0 {
            yield_to_alerts(sender, channel.id).await;
        }
        read_flips(sender, checks, flips).await;
        let permit = match settings.urls().next() {
            Some(url) => match sender
                .outbound
                .for_project(channel.project)
                .reserve(url)
                .await
            {
                Ok(permit) => Some(permit),
                Err(error) => return Some(Err((error.to_string(), 0))),
            },
            None => None,
        };
        // From here on nothing else is sent to the channel until the response has arrived. There is
        // no wait before the request is created.
        let _guard = ResendGuard::acquire(sender, channel.id);
        let now = sender.handle.now();
        let alerts = build_alerts(sender, channel, checks, flips, now);
        let Some(first) = alerts.first() else {
            continue;
        };
        let attempt = first_attempt(String::new(), now);
        let mut permit = permit;
        for step in channels::prepare_resend(&settings, &alerts.iter().collect::<Vec<_>>(), now) {
            let answer = sender.run_request(&step, channel, permit.take()).await;
            let judged = channels::judge(
                &settings,
                first,
                &attempt,
                &step,
                &answer,
                sender.handle.now(),
            );
            let result = if judged.verdict == Verdict::Delivered {
                Ok(())
            } else {
                Err((judged.error, judged.status))
            };
            if result.is_err() && matches!(answer, TransportReply::NoReply { .. }) {
                return Some(result);
            }
            // A single negative response makes the whole round fail.
            end = match end {
                Some(Err(error)) => Some(Err(error)),
                _ => Some(result),
            };
        }
    }
    end
}

/// Blocks all other messages to a channel until dropped.
struct ResendGuard<'s>(&'s MessageSender, ChannelId);

impl<'s> ResendGuard<'s> {
    fn acquire(sender: &'s MessageSender, channel: ChannelId) -> Self {
        sender.channels_being_resent.borrow_mut().insert(channel);
        Self(sender, channel)
    }
}

impl Drop for ResendGuard<'_> {
    fn drop(&mut self) {
        self.0.channels_being_resent.borrow_mut().remove(&self.1);
    }
}

/// Reads the flips at which checks went down, unless they are cached for the project.
async fn read_flips(sender: &MessageSender, checks: &[CheckId], flips: &FlipCache) {
    for chunk in checks.chunks(FLIPS_PER_READ) {
        let numbers: Vec<_> = sender.handle.with_state(|state| {
            chunk
                .iter()
                .filter_map(|id| Some(state.check(*id)?.state.last_flip))
                .collect()
        });
        for number in numbers {
            flips.borrow_mut().entry(number).or_insert_with(|| {
                sender
                    .handle
                    .flip(number)
                    .ok()
                    .flatten()
                    .map(|logged| logged.flip)
            });
        }
        yield_now().await;
    }
}

/// Alerts of the checks that are down now. Checks with a row in the outbox are left out: the row
/// will notify about them.
fn build_alerts(
    sender: &MessageSender,
    channel: &Channel,
    checks: &[CheckId],
    flips: &FlipCache,
    now: Timestamp,
) -> Vec<Alert> {
    let (project, down) = sender.handle.with_state(|state| {
        let is_quiet = |check: &&Check| {
            state
                .outbox
                .rows_of_pair(channel.id, check.id)
                .next()
                .is_none()
        };
        let down = checks
            .iter()
            .filter_map(|id| state.check(*id))
            .filter(|check| check.state.notification.is_notified())
            .filter(is_quiet);
        let project = state
            .project(channel.project)
            .map(|found| found.project.name.as_str().to_owned());
        (
            project.unwrap_or_default(),
            down.cloned().collect::<Vec<_>>(),
        )
    });
    let flips = flips.borrow();
    let alert = |check: &Check| {
        let flip = (*flips.get(&check.state.last_flip)?)?;
        let facts = CheckFacts {
            uuid: check.uuid,
            unique_key: UniqueKey::of_check(check.uuid),
            settings: Arc::clone(&check.settings),
            n_pings: check.state.n_pings,
            failures: check.state.failures,
            alerted_labels: check.alerted_labels.clone(),
            ..CheckFacts::new(&project)
        };
        let event = CheckEvent::Down {
            flip,
            context: EventContext::default(),
        };
        Some(sender.build_alert(channel, AlertFacts::Check(Box::new(facts), event), now))
    };
    down.iter().filter_map(alert).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(queue: &mut ResendQueue) -> Option<(u64, u64)> {
        queue
            .next()
            .map(|(project, channel, _)| (project.0, channel.0))
    }

    #[test]
    fn projects_take_turns_with_one_channel_at_a_time() {
        let mut queue = ResendQueue::default();
        let pairs = |of: &[(u64, u64)]| {
            of.iter()
                .map(|(project, channel)| (ProjectId(*project), ChannelId(*channel)))
                .collect::<Vec<_>>()
        };
        queue.add(pairs(&[(1, 11), (1, 12), (1, 13), (2, 21)]));
        assert_eq!(
            [next(&mut queue), next(&mut queue), next(&mut queue)],
            [Some((1, 11)), Some((2, 21)), None]
        );
        // The next minute leaves out channels that wait or are in flight.
        queue.add(pairs(&[(1, 11), (1, 12), (1, 13), (2, 21), (3, 31)]));
        queue.end(ProjectId(2), ChannelId(21));
        queue.end(ProjectId(1), ChannelId(11));
        assert_eq!(
            [next(&mut queue), next(&mut queue), next(&mut queue)],
            [Some((3, 31)), Some((1, 12)), None]
        );
        queue.end(ProjectId(1), ChannelId(12));
        assert_eq!(next(&mut queue), Some((1, 13)));
        queue.end(ProjectId(1), ChannelId(13));
        queue.end(ProjectId(3), ChannelId(31));
        assert_eq!((next(&mut queue), queue.projects.len()), (None, 0));
    }
}
