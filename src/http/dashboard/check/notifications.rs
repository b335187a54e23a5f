//! Channels of a check and the results of its deliveries.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::channels::alert_text;
use crate::channels::transport_reply::visible_error;
use crate::domain::alert::{AlertEvent, ChannelHealth, DeliveryRecord, DeliveryResult, OutboxRow};
use crate::domain::check::Check;
use crate::domain::formatting::format_count;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;
use crate::engine::state::State;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_routes::{Page, RequiredRight};
use crate::http::dashboard::time_display::DisplayTime;
use crate::operations::channel::{ChannelStatus, unnotified_reason};

/// Maximum number of deliveries shown.
const MAX_SHOWN: usize = 5;
/// Maximum number of deliveries, of all checks, that are searched: see
/// [limits](crate::docs::limits).
const MAX_DELIVERIES_READ: usize = 5_000;

pub(super) struct CheckChannelRow {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) is_assigned: bool,
    /// True if the channel is notified about every check, assigned or not.
    pub(super) covers_every_check: bool,
    /// Problem of the channel.
    pub(super) problem: Option<&'static str>,
}

impl CheckChannelRow {
    /// True if the channel is notified about the check.
    pub(super) fn is_notified(&self) -> bool {
        self.is_assigned || self.covers_every_check
    }
}

/// A delivery that is waiting or finished.
pub(super) struct CheckDeliveryRow {
    /// Name of the channel.
    pub(super) channel: String,
    pub(super) event: &'static str,
    /// Style of the result.
    pub(super) style: &'static str,
    pub(super) outcome: &'static str,
    pub(super) at: DisplayTime,
    /// Reason for a failure or a delay.
    pub(super) reason: String,
}

/// Reason why alerts about the check reach no recipient.
pub(super) fn unnotified(request: &PageRequest, check: &Check) -> Option<&'static str> {
    let transports = request.handle().transports();
    request
        .handle()
        .with_state(|state| unnotified_reason(state, check, transports))
}

/// Channels of the project, by name.
pub(super) fn channel_rows(
    request: &PageRequest,
    is_assigned: impl Fn(&Channel) -> bool,
) -> Result<Vec<CheckChannelRow>, PageError> {
    let project = request.project()?.id;
    let transports = request.handle().transports();
    let channels: Vec<(Arc<Channel>, ChannelStatus)> = request.handle().with_state(|state| {
        let channels = state
            .project(project)
            .into_iter()
            .flat_map(|project| project.channels.values());
        channels
            .map(|channel| {
                (
                    Arc::clone(channel),
                    ChannelStatus::compute(state, channel, transports),
                )
            })
            .collect()
    });
    let row = |(channel, status): &(Arc<Channel>, ChannelStatus)| CheckChannelRow {
        uuid: channel.uuid.to_string(),
        name: channel.name.as_str().into(),
        kind: channel.settings.kind().title,
        is_assigned: is_assigned(channel),
        covers_every_check: channel.settings.common().all_checks,
        problem: Some(status)
            .filter(|status| !matches!(status, ChannelStatus::Ok | ChannelStatus::Untested))
            .map(ChannelStatus::name),
    };
    Ok(channels.iter().map(row).collect())
}

/// Waiting and recent deliveries of the check, newest first.
pub(super) fn delivery_rows(
    request: &PageRequest,
    check: &Check,
) -> Result<Vec<CheckDeliveryRow>, PageError> {
    let mut waiting: Vec<_> = request.handle().with_state(|state| {
        state
            .outbox
            .rows_of_check(check.id)
            .map(|row| (Arc::clone(row), state.outbox.is_sending(row.number)))
            .collect()
    });
    waiting.sort_unstable_by_key(|(row, _)| Reverse(row.number));
    let mut sent: Vec<_> = waiting
        .into_iter()
        .take(MAX_SHOWN)
        .map(|(row, is_sending)| pending_row(request, &row, is_sending))
        .collect();
    let is_wanted = |delivery: &DeliveryRecord| delivery.check == check.id;
    let found = request.handle().recent_deliveries(
        DeliveryNumber(u64::MAX),
        MAX_SHOWN,
        MAX_DELIVERIES_READ,
        is_wanted,
    )?;
    sent.extend(
        found
            .into_iter()
            .map(|delivery| finished_row(request, &delivery)),
    );
    sent.truncate(MAX_SHOWN);
    Ok(sent)
}

/// Row of a message that waits for its first or next attempt.
fn pending_row(request: &PageRequest, row: &OutboxRow, is_sending: bool) -> CheckDeliveryRow {
    let may_write = request.is_allowed(RequiredRight::Write);
    request.handle().with_state(|state| {
        let health = state.channel(row.channel).map(|channel| &channel.health);
        let (outcome, reason) = match health {
            Some(ChannelHealth {
                disabled: Some((_, reason)),
                ..
            }) => ("held", visible_error(reason, may_write).to_owned()),
            _ if is_sending => ("sending", String::new()),
            Some(ChannelHealth {
                failing: Some((_, reason)),
                ..
            }) if row.attempts > 0 => (
                "not delivered yet",
                format!(
                    "{}; tried {}",
                    visible_error(reason, may_write),
                    format_count(row.attempts.into(), "time")
                ),
            ),
            _ => ("waiting", String::new()),
        };
        let style = if reason.is_empty() { "running" } else { "late" };
        CheckDeliveryRow {
            channel: channel_title(state, row.channel),
            event: event_text(row.event),
            style,
            outcome,
            at: DisplayTime::relative(row.queued, &request.time_formatter()),
            reason,
        }
    })
}

fn finished_row(request: &PageRequest, delivery: &DeliveryRecord) -> CheckDeliveryRow {
    let (style, outcome) = match delivery.result {
        DeliveryResult::Delivered => ("up", "delivered"),
        DeliveryResult::Failed => ("down", "not delivered"),
        DeliveryResult::Superseded => ("paused", "superseded"),
        DeliveryResult::Skipped => ("paused", "skipped"),
    };
    CheckDeliveryRow {
        channel: request
            .handle()
            .with_state(|state| channel_title(state, delivery.channel)),
        event: event_text(delivery.event),
        style,
        outcome,
        at: DisplayTime::relative(delivery.finished, &request.time_formatter()),
        reason: visible_error(&delivery.reason, request.is_allowed(RequiredRight::Write))
            .to_owned(),
    }
}

/// Name of a channel, or the title of its kind.
fn channel_title(state: &State, channel: ChannelId) -> String {
    if channel == ChannelId::NONE {
        return "no channel".into();
    }
    let name = state
        .channel(channel)
        .map(|channel| match channel.name.as_str() {
            "" => channel.settings.kind().title.to_owned(),
            name => name.to_owned(),
        });
    name.unwrap_or_else(|| "a deleted channel".into())
}

fn event_text(event: AlertEvent) -> &'static str {
    match event {
        AlertEvent::Down => "went down",
        AlertEvent::Up => "is up again",
        AlertEvent::Closed => "incident closed",
        AlertEvent::StillDown => "is still down",
        AlertEvent::Test => "test",
        AlertEvent::Notice => "notice",
    }
}

/// Names and pages of the parents of the check.
pub(super) fn parent_links(request: &PageRequest, check: &Check) -> Vec<(String, String)> {
    request.handle().with_state(|state| {
        let parents = check
            .settings
            .parents
            .ids()
            .iter()
            .filter_map(|id| state.check(*id));
        parents
            .map(|parent| {
                (
                    alert_text::check_display_name(&parent.settings),
                    request.page_url(&Page::Check(parent.uuid)),
                )
            })
            .collect()
    })
}
