//! Notices: alerts about the service itself, such as a failing channel or a server that accepts no
//! pings. Channels with `notices=on` get them.
//!
//! They exist in memory only: most of them report that the database cannot be written.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::delivery_policy::DeliveryPolicy;
use super::scheduler::{CurrentTime, DAILY_LIMIT_TEXT, SendScheduler};
use super::sender::{MessageSender, first_attempt};
use crate::channels::SendAttempt;
use crate::channels::alert::AlertFacts;
use crate::channels::transport_reply::public_part;
use crate::domain::alert::{AlertEvent, RefusedRecipient};
use crate::domain::formatting::format_duration;
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::project::Channel;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::engine::command::{Command, DeliveryReport};

/// Time between two searches for problems.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Time for which a channel must fail before it is reported, in seconds.
const CHANNEL_FAILING_SECS: i64 = 3600;
/// Time for which no pings are accepted before it is reported.
const UNWRITABLE_TIME: Duration = Duration::from_secs(60);
/// Maximum number of waiting notices, one for each problem and channel: see
/// [limits](crate::docs::limits).
const MAX_PENDING: usize = 1000;
/// Maximum number in flight: alerts about checks need the other slots for requests. See
/// [limits](crate::docs::limits).
const MAX_IN_FLIGHT: usize = 8;
/// Maximum number of attempts for a notice, and the time between them.
const MAX_ATTEMPTS: u16 = 5;
const RETRY_DELAY: Duration = Duration::from_secs(60);
/// Longer than any attempt takes.
const MAX_ATTEMPT_TIME: Duration = Duration::from_secs(600);

/// Problem of the service. Each is reported once until it is resolved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ServiceProblem {
    ChannelFailing(ChannelId),
    /// Some recipients of a channel have been refused since this time.
    Refused(ChannelId, Timestamp),
    ChannelDisabled(ChannelId),
    /// Alerts of a project are given up, since too many of them wait.
    OutboxFull(ProjectId),
    DatabaseUnwritable,
    /// The last backup failed.
    BackupFailed,
    /// The server's own certificate is not renewed.
    CertificateNotRenewed,
}

impl ServiceProblem {
    /// True if the problem shows only some time after a start.
    fn shows_after_start(self) -> bool {
        matches!(self, Self::BackupFailed | Self::CertificateNotRenewed)
    }
}

/// Reported problems and waiting notices.
#[derive(Default)]
pub(super) struct Notices {
    reported: BTreeSet<ServiceProblem>,
    last_checked: Option<Duration>,
    unwritable_since: Option<Duration>,
    /// Channels that fail or have refused recipients, with the start of the problem according to
    /// the state. The value is the uptime of that start in microseconds.
    lasting_problems: BTreeMap<(ChannelId, Timestamp), i64>,
    pending: Vec<PendingNotice>,
    in_flight: JoinSet<NoticeResult>,
}

/// Notice that waits to be sent to a channel.
struct PendingNotice {
    /// The same for every attempt, so that the receiver can detect duplicates.
    id: Rc<str>,
    problem: ServiceProblem,
    project: ProjectId,
    channel: ChannelId,
    facts: AlertFacts,
    attempts: u16,
    /// An earlier attempt may have arrived.
    may_have_arrived: bool,
    /// Uptime of the next attempt, unless the one in flight ends before.
    next_attempt: Duration,
}

/// Result of an attempt: the id of the notice, and the error if it was not accepted: true if it may
/// have arrived.
type NoticeResult = (Rc<str>, Result<(), bool>);

impl Notices {
    /// Detects problems and sends the notices that are due. The rate limit and the quiet hours of
    /// the channel apply.
    pub(super) fn send(
        &mut self,
        sender: &Rc<MessageSender>,
        scheduler: &mut SendScheduler,
        now: CurrentTime,
    ) {
        self.detect_problems(sender, now);
        while let Some(finished) = self.in_flight.try_join_next() {
            // The panic hook has logged it.
            let Ok((id, outcome)) = finished else {
                continue;
            };
            let Some(index) = self.pending.iter().position(|notice| notice.id == id) else {
                continue;
            };
            match (outcome, self.pending.get_mut(index)) {
                (Err(may_have_arrived), Some(notice)) if notice.attempts < MAX_ATTEMPTS => {
                    notice.may_have_arrived |= may_have_arrived;
                    notice.next_attempt = now.uptime + RETRY_DELAY;
                }
                _ => drop(self.pending.swap_remove(index)),
            }
        }
        let is_pending = |notice: &PendingNotice| {
            notice.attempts < MAX_ATTEMPTS || notice.next_attempt > now.uptime
        };
        self.pending.retain(|notice| {
            is_pending(notice)
                && sender
                    .handle
                    .with_state(|state| state.is_sendable(notice.channel))
        });
        for notice in self
            .pending
            .iter_mut()
            .filter(|notice| notice.next_attempt <= now.uptime)
        {
            if self.in_flight.len() >= MAX_IN_FLIGHT {
                break;
            }
            let Some(channel) = sender
                .handle
                .with_state(|state| state.channel(notice.channel).cloned())
            else {
                continue;
            };
            if !scheduler.admit_notice(
                &channel,
                &DeliveryPolicy::of_channel(&channel, &sender.zone, now.wall),
                now,
            ) {
                continue;
            }
            notice.attempts += 1;
            notice.next_attempt = now.uptime + MAX_ATTEMPT_TIME;
            let id = Rc::clone(&notice.id);
            let facts = notice.facts.clone();
            let number = notice.attempts;
            let may_have_arrived = notice.may_have_arrived;
            let attempt = SendAttempt {
                number,
                may_be_duplicate: may_have_arrived,
                ..first_attempt((*id).into(), now.wall)
            };
            let sender = Rc::clone(sender);
            self.in_flight.spawn_local(async move {
                (id, sender.send_notice(&channel, facts, attempt).await)
            });
        }
    }

    /// Updates the reported problems. A problem that is present at start is not reported, except
    /// for backups and the certificate, whose failures show only after a start.
    fn detect_problems(&mut self, sender: &MessageSender, now: CurrentTime) {
        if self
            .last_checked
            .is_some_and(|last| now.uptime < last + CHECK_INTERVAL)
        {
            return;
        }
        let is_first = self.last_checked.replace(now.uptime).is_none();
        self.unwritable_since = if sender.handle.is_writable() {
            None
        } else {
            self.unwritable_since.or(Some(now.uptime))
        };
        self.record_lasting_problems(sender, now);
        let problems = self.current_problems(sender, now);
        for (problem, text) in &problems {
            if self.reported.insert(*problem) && (!is_first || problem.shows_after_start()) {
                self.queue_notice(sender, *problem, text, false, now);
            }
        }
        let resolved: Vec<_> = self
            .reported
            .iter()
            .filter(|problem| !problems.contains_key(problem))
            .copied()
            .collect();
        for problem in resolved {
            self.reported.remove(&problem);
            // The problem was resolved before it was reported.
            self.pending.retain(|notice| notice.problem != problem);
            let text = match problem {
                ServiceProblem::DatabaseUnwritable => (
                    "overdue accepts pings again".into(),
                    "Pings that arrived in the meantime were refused.".into(),
                ),
                ServiceProblem::BackupFailed => (
                    "overdue makes backups again".into(),
                    "The last backup was made and verified.".into(),
                ),
                ServiceProblem::CertificateNotRenewed => (
                    "overdue has a new certificate".into(),
                    "The certificate authority has issued it.".into(),
                ),
                ServiceProblem::ChannelFailing(_)
                | ServiceProblem::Refused(..)
                | ServiceProblem::ChannelDisabled(_)
                | ServiceProblem::OutboxFull(_) => continue,
            };
            self.queue_notice(sender, problem, &text, true, now);
        }
    }

    /// Records the channels that fail and those with refused recipients. The clock may be set
    /// meanwhile.
    fn record_lasting_problems(&mut self, sender: &MessageSender, now: CurrentTime) {
        let current: BTreeSet<_> = sender.handle.with_state(|state| {
            let channels = state
                .projects()
                .flat_map(|project_state| project_state.channels.values());
            let starts = |channel: &Arc<Channel>| {
                let id = channel.id;
                let health = &channel.health;
                let failing = health.failing.iter().map(|(since, _)| *since);
                failing
                    .chain(health.refused.iter().map(|refused| refused.since))
                    .map(|since| (id, since))
                    .collect::<Vec<_>>()
            };
            channels.flat_map(starts).collect()
        });
        self.lasting_problems
            .retain(|start, _| current.contains(start));
        for (id, since) in current {
            self.lasting_problems
                .entry((id, since))
                .or_insert_with(|| now.uptime_of(since));
        }
    }

    /// Microseconds since the problem of a channel began. `None` if it has not lasted long enough
    /// to be reported.
    fn lasting_micros(&self, id: ChannelId, since: Timestamp, now: CurrentTime) -> Option<i64> {
        let start = self.lasting_problems.get(&(id, since))?;
        Some(now.uptime_of(now.wall).saturating_sub(*start))
            .filter(|micros| *micros >= CHANNEL_FAILING_SECS * MICROS_PER_SEC)
    }

    /// All current problems, with title and advice.
    fn current_problems(
        &self,
        sender: &MessageSender,
        now: CurrentTime,
    ) -> BTreeMap<ServiceProblem, (String, String)> {
        let mut problems = BTreeMap::new();
        if self
            .unwritable_since
            .is_some_and(|since| now.uptime >= since + UNWRITABLE_TIME)
        {
            let text = "The database cannot be written, so pings get a 503 response. The server \
                        log contains the reason.";
            problems.insert(
                ServiceProblem::DatabaseUnwritable,
                ("overdue accepts no pings".into(), text.into()),
            );
        }
        if let Some((_, reason)) = sender
            .handle
            .metrics()
            .backup_status()
            .and_then(|backups| backups.failing)
        {
            let text = format!("The server retries every ten minutes. Last error: {reason}");
            problems.insert(
                ServiceProblem::BackupFailed,
                ("overdue cannot make backups".into(), text),
            );
        }
        if let Some(text) = sender.handle.metrics().certificate_failure() {
            problems.insert(
                ServiceProblem::CertificateNotRenewed,
                ("overdue cannot get a certificate".into(), text),
            );
        }
        sender.handle.with_state(|state| {
            for project in state
                .projects()
                .map(|project_state| &project_state.project)
                .filter(|project| state.outbox.is_full_for(project.id))
            {
                let text = "Too many alerts are waiting for its channels, so new alerts are \
                            discarded. To list them, run overdue deliveries.";
                problems.insert(
                    ServiceProblem::OutboxFull(project.id),
                    (
                        format!("Alerts of project {} are discarded", project.name.as_str()),
                        text.into(),
                    ),
                );
            }
            for channel in state
                .projects()
                .flat_map(|project_state| project_state.channels.values())
            {
                let name = Some(channel.name.as_str())
                    .filter(|name| !name.is_empty())
                    .unwrap_or(channel.settings.kind().title);
                if let Some((_, reason)) = &channel.health.disabled {
                    let text = format!(
                        "No alerts are sent to it until you enable it or change its settings. \
                         Reason: {}",
                        public_part(reason)
                    );
                    problems.insert(
                        ServiceProblem::ChannelDisabled(channel.id),
                        (format!("Channel {name} is disabled"), text),
                    );
                } else if let Some((_, reason)) = &channel.health.failing
                    && **reason == *DAILY_LIMIT_TEXT
                {
                    let text = format!(
                        "{}{}.",
                        DAILY_LIMIT_TEXT.get(..1).unwrap_or_default().to_uppercase(),
                        DAILY_LIMIT_TEXT.get(1..).unwrap_or_default()
                    );
                    problems.insert(
                        ServiceProblem::ChannelFailing(channel.id),
                        (format!("Channel {name} has reached its daily limit"), text),
                    );
                } else if let Some((since, reason)) = &channel.health.failing
                    && self.lasting_micros(channel.id, *since, now).is_some()
                {
                    let text = format!(
                        "No alert has been delivered to it for an hour. Last error: {}",
                        public_part(reason)
                    );
                    problems.insert(
                        ServiceProblem::ChannelFailing(channel.id),
                        (format!("Channel {name} is failing"), text),
                    );
                }
                problems.extend(self.refused(channel, name, now));
            }
            problems
        })
    }

    /// Problems of a channel with some of its recipients.
    fn refused(
        &self,
        channel: &Channel,
        name: &str,
        now: CurrentTime,
    ) -> BTreeMap<ServiceProblem, (String, String)> {
        let mut problems = BTreeMap::<_, (String, String)>::new();
        for RefusedRecipient {
            address,
            since,
            reason,
        } in &channel.health.refused
        {
            let Some(micros) = self.lasting_micros(channel.id, *since, now) else {
                continue;
            };
            let title = || {
                (
                    format!("Channel {name} does not reach all of its recipients"),
                    String::new(),
                )
            };
            let (_, text) = problems
                .entry(ServiceProblem::Refused(channel.id, *since))
                .or_insert_with(title);
            let duration = format_duration(micros);
            let reason = public_part(reason);
            text.push_str(&format!(
                "The last mail to {address} was refused; the first refusal was {duration} ago. \
                 Last error: {reason}. "
            ));
        }
        problems
            .values_mut()
            .for_each(|(_, text)| text.truncate(text.trim_end().len()));
        problems
    }

    /// Notifies subscribed channels.
    fn queue_notice(
        &mut self,
        sender: &MessageSender,
        problem: ServiceProblem,
        (title, text): &(String, String),
        is_resolved: bool,
        now: CurrentTime,
    ) {
        for (project, channel) in subscribed_channels(sender, problem) {
            // Every project can still queue notices.
            let pending_count = self
                .pending
                .iter()
                .filter(|notice| notice.project == project)
                .count();
            if pending_count >= MAX_PENDING.saturating_sub(self.pending.len()) {
                continue;
            }
            let facts = AlertFacts::Notice {
                title: title.clone(),
                text: text.clone(),
                is_resolved,
            };
            let id = sender.new_notice_id().into();
            let next = now.uptime;
            self.pending.push(PendingNotice {
                id,
                problem,
                project,
                channel,
                facts,
                attempts: 0,
                may_have_arrived: false,
                next_attempt: next,
            });
        }
    }
}

impl MessageSender {
    /// Sends a notice to a channel. The error is true if it may have arrived.
    async fn send_notice(
        &self,
        channel: &Arc<Channel>,
        facts: AlertFacts,
        mut attempt: SendAttempt,
    ) -> Result<(), bool> {
        let alert = self.build_alert(channel, facts, attempt.at);
        let attempt_result = self
            .send_to_channel(channel, &alert, &mut attempt, &[], &[])
            .await;
        if let Some(recipients) = &attempt_result.recipients {
            let report = DeliveryReport::of_recipients(channel, Arc::clone(recipients));
            // A notice whose results cannot be recorded was still sent.
            let _ = self
                .handle
                .call(Command::RecordDeliveryReports(vec![report]))
                .await;
        }
        if attempt_result.is_delivered() {
            Ok(())
        } else {
            Err(attempt_result.may_have_arrived())
        }
    }

    /// Id of a notice, by which its receiver detects duplicates.
    fn new_notice_id(&self) -> String {
        format!(
            "{}-notice-{}",
            self.instance(),
            self.handle.random().url_safe::<8>()
        )
    }
}

/// Channels that subscribe to a problem. A problem of a channel concerns only its project, and a
/// broken channel is not notified about itself.
fn subscribed_channels(
    sender: &MessageSender,
    problem: ServiceProblem,
) -> Vec<(ProjectId, ChannelId)> {
    sender.handle.with_state(|state| {
        let concerns = |channel: &Channel| match problem {
            ServiceProblem::ChannelFailing(id) | ServiceProblem::ChannelDisabled(id) => {
                channel.id != id
                    && state
                        .channel(id)
                        .is_some_and(|broken| broken.project == channel.project)
            }
            // The channel works for its other recipients.
            ServiceProblem::Refused(id, _) => state
                .channel(id)
                .is_some_and(|refusing| refusing.project == channel.project),
            ServiceProblem::OutboxFull(project) => channel.project == project,
            ServiceProblem::DatabaseUnwritable
            | ServiceProblem::BackupFailed
            | ServiceProblem::CertificateNotRenewed => true,
        };
        let all = state
            .projects()
            .filter(|project_state| !project_state.project.is_on_trial())
            .flat_map(|project_state| project_state.channels.values());
        let channels = all.filter(|channel| {
            channel.settings.handles_event(AlertEvent::Notice)
                && channel.health.disabled.is_none()
                && concerns(channel)
        });
        channels
            .map(|channel| (channel.project, channel.id))
            .collect()
    })
}
