//! Channels of a check and the results of its deliveries.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::channels::alert_text;
use crate::domain::alert::{AlertEvent, DeliveryRecord};
use crate::domain::check::{Check, WarningKind};
use crate::domain::formatting::format_duration;
use crate::domain::ids::DeliveryNumber;
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::http::dashboard::deliveries::DeliveryItem;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_routes::Page;
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
) -> Result<Vec<DeliveryItem>, PageError> {
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
        .map(|(row, is_sending)| DeliveryItem::of_waiting(request, &row, is_sending))
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
            .map(|delivery| DeliveryItem::of_finished(request, &delivery)),
    );
    sent.truncate(MAX_SHOWN);
    Ok(sent)
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
/// Sentence about the limits of runs, and whether a channel takes their warnings.
pub(super) fn limits_text(request: &PageRequest, check: &Check) -> String {
    let limits = &check.settings.limits;
    let warnings = [
        (
            limits.latest_start,
            "no run has started",
            "after the expected time",
        ),
        (limits.longest_run, "a run takes more than", ""),
        (limits.shortest_run, "a run succeeds in less than", ""),
    ];
    let warnings = warnings.into_iter().filter_map(|(limit, what, when)| {
        let limit = format_duration(Timestamp::from_secs(limit.secs()?).micros());
        Some(format!("{what} {limit} {when}").trim_end().to_owned())
    });
    let warnings: Vec<_> = warnings.collect();
    if warnings.is_empty() {
        return String::new();
    }
    let event = AlertEvent::Warning(WarningKind::RanLong);
    let is_wanted = request
        .handle()
        .with_state(|state| !state.audience(check, event).is_empty());
    let hint = if is_wanted {
        ""
    } else {
        " No channel of this check takes these warnings: choose the event in its settings."
    };
    format!("Warns when {}.{hint}", warnings.join(", or when "))
}
