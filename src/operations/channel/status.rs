//! Status of a channel, and the reason why no alert of a check reaches a recipient. Lists, pages
//! and the API show the same.

use std::collections::HashSet;

use crate::channels::transport_reply::visible_error;
use crate::domain::alert::{AlertEvent, DeliveryProof};
use crate::domain::channel::{ChannelClass, Transports};
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::state::State;
use crate::engine::{Handle, UnnotifiedReason};

/// Status of a channel, worst first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelStatus {
    /// Disabled since then, for this reason.
    Disabled(Timestamp, Box<str>),
    /// Nothing can be delivered, for this reason.
    CannotDeliver(String),
    /// Nothing has been delivered since then, for this reason.
    Failing(Timestamp, Box<str>),
    /// The last test failed for this reason, and nothing has arrived since.
    TestFailed(Box<str>),
    /// No message has been sent with its present settings.
    Untested,
    /// Messages arrive.
    Ok,
}

impl ChannelStatus {
    /// Returns the status of a channel at a server with these transports; `None` if they are not
    /// known.
    pub fn compute(state: &State, channel: &Channel, transports: Option<Transports>) -> Self {
        if let Some((since, reason)) = &channel.health.disabled {
            return Self::Disabled(*since, reason.clone());
        }
        if channel.settings.kind().class == ChannelClass::Group {
            return Self::compute_group(state, channel, transports);
        }
        if let Some(obstacle) = channel.settings.obstacle(transports) {
            return Self::CannotDeliver(obstacle);
        }
        match (&channel.health.failing, &channel.health.proof) {
            (Some((since, reason)), _) => Self::Failing(*since, reason.clone()),
            (None, DeliveryProof::TestFailed(reason)) => Self::TestFailed(reason.clone()),
            (None, DeliveryProof::None) => Self::Untested,
            (None, DeliveryProof::Delivered) => Self::Ok,
        }
    }

    /// Returns the status of the best member: one that works is enough to notify a recipient.
    fn compute_group(state: &State, group: &Channel, transports: Option<Transports>) -> Self {
        let members = state
            .members_of(group)
            .filter(|member| member.settings.kind().class != ChannelClass::Group);
        let best = members
            .map(|member| Self::compute(state, member, transports))
            .max_by_key(Self::severity);
        match best {
            None => Self::CannotDeliver(EMPTY_GROUP_REASON.into()),
            Some(Self::Disabled(_, reason)) => {
                Self::CannotDeliver(format!("none of its channels can deliver: {reason}"))
            }
            Some(Self::CannotDeliver(reason)) => {
                Self::CannotDeliver(format!("none of its channels can deliver: {reason}"))
            }
            Some(best) => best,
        }
    }

    fn severity(&self) -> u8 {
        match self {
            Self::Disabled(..) => 0,
            Self::CannotDeliver(_) => 1,
            Self::Failing(..) => 2,
            Self::TestFailed(_) => 3,
            Self::Untested => 4,
            Self::Ok => 5,
        }
    }

    /// True if messages are sent, even if they do not arrive.
    pub fn is_receiving(&self) -> bool {
        !matches!(self, Self::Disabled(..) | Self::CannotDeliver(_))
    }

    /// Names of all statuses.
    const NAMES: [&'static str; 6] = [
        "ok",
        "untested",
        "test failed",
        "failing",
        "cannot deliver",
        "disabled",
    ];

    /// Returns the number of channels with each status, by its name. The state is locked for one
    /// project at a time.
    pub fn counts(handle: &Handle) -> Vec<(&'static str, u64)> {
        let mut counts = Self::NAMES.map(|name| (name, 0));
        let projects: Vec<_> = handle.with_state(|state| {
            state
                .projects()
                .map(|project_state| project_state.project.id)
                .collect()
        });
        for project in projects {
            handle.with_state(|state| {
                for channel in state
                    .project(project)
                    .into_iter()
                    .flat_map(|project_state| project_state.channels.values())
                {
                    let status = Self::compute(state, channel, handle.transports()).name();
                    counts
                        .iter_mut()
                        .filter(|(name, _)| *name == status)
                        .for_each(|(_, count)| *count += 1);
                }
            });
        }
        counts.into()
    }

    /// Returns the name of the status in replies.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Disabled(..) => "disabled",
            Self::CannotDeliver(_) => "cannot deliver",
            Self::Failing(..) => "failing",
            Self::TestFailed(_) => "test failed",
            Self::Untested => "untested",
            Self::Ok => "ok",
        }
    }

    /// Returns the time since which the status holds and the reason, if there are any. Without
    /// `may_write` the text of a receiver is left out.
    pub fn reason(&self, may_write: bool) -> (Option<Timestamp>, Option<&str>) {
        let (since, reason): (_, &str) = match self {
            Self::Disabled(since, reason) | Self::Failing(since, reason) => (Some(*since), reason),
            Self::CannotDeliver(reason) => (None, reason),
            Self::TestFailed(reason) => (None, reason),
            Self::Untested | Self::Ok => return (None, None),
        };
        (since, Some(visible_error(reason, may_write)))
    }
}

/// Channels of a project that send alerts about downtimes to a recipient.
#[derive(Debug, Default)]
pub struct AlertingChannels {
    channels: HashSet<ChannelId>,
    /// True if one of them is notified about every check.
    covers_every_check: bool,
}

impl AlertingChannels {
    /// Returns the alerting channels of a project at a server with these transports.
    pub fn compute(state: &State, project: ProjectId, transports: Option<Transports>) -> Self {
        let mut alerting = Self::default();
        let channels = state
            .project(project)
            .into_iter()
            .flat_map(|project_state| project_state.channels.values());
        for channel in channels {
            let mut recipients = state.members_of(channel).chain([channel]);
            let sends_alerts = recipients.any(|recipient| {
                recipient.settings.handles_event(AlertEvent::Down)
                    && ChannelStatus::compute(state, recipient, transports).is_receiving()
            });
            if sends_alerts {
                alerting.channels.insert(channel.id);
                alerting.covers_every_check |= channel.settings.common().all_checks;
            }
        }
        alerting
    }

    /// True if an alert about a downtime of a check with these settings reaches a recipient. The
    /// opposite of [`unnotified_reason`], for lists of many checks.
    pub fn reach_recipient_of(&self, settings: &CheckSettings) -> bool {
        self.covers_every_check
            || settings
                .channels
                .iter()
                .any(|channel| self.channels.contains(channel))
    }
}

/// Reason for a group without channels.
const EMPTY_GROUP_REASON: &str = "it has no channel";

/// Returns the reason why no alert about a downtime of a check would reach a recipient; `None` if
/// at least one channel is sent to.
pub fn unnotified_reason(
    state: &State,
    check: &Check,
    transports: Option<Transports>,
) -> Option<&'static str> {
    if let Some(unnotified) = state.unnotified_reason(check) {
        return Some(unnotified.description());
    }
    let is_sent_to =
        |channel: &Channel| ChannelStatus::compute(state, channel, transports).is_receiving();
    let can_deliver = state
        .audience(check, AlertEvent::Down)
        .values()
        .any(|channel| is_sent_to(channel));
    (!can_deliver).then_some(UnnotifiedReason::CANNOT_DELIVER)
}
