//! Page with the deliveries of a project's alerts, waiting and finished. It has a button that sends
//! a failed alert again.

use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use super::time_display::DisplayTime;
use crate::channels::alert_text::check_display_name;
use crate::channels::transport_reply::visible_error;
use crate::domain::alert::{AlertEvent, ChannelHealth, DeliveryRecord, DeliveryResult, OutboxRow};
use crate::domain::check::{Check, WarningKind};
use crate::domain::formatting::format_count;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, parse_hyphenated_uuid};
use crate::engine::state::State;
use crate::operations::delivery::{self, DeliveryFilter};

/// Maximum number of finished deliveries, and of waiting ones, on a page: see
/// [limits](crate::docs::limits).
const DELIVERIES_PER_PAGE: usize = 50;
/// Value of the filter by result for deliveries that wait.
const WAITING: &str = "waiting";
/// Choices of the filter by result: value, and word.
const RESULTS: [(&str, &str); 6] = [
    ("", "all"),
    (WAITING, "waiting"),
    ("delivered", "delivered"),
    ("failed", "not delivered"),
    ("superseded", "superseded"),
    ("skipped", "skipped"),
];

#[derive(Template)]
#[template(path = "deliveries.html", config = "src/http/dashboard/askama.toml")]
struct DeliveriesPage {
    layout: Layout,
    page_url: String,
    /// UUID and name of each channel.
    channels: Vec<(String, String)>,
    /// UUID of the chosen channel, or empty.
    channel: String,
    results: [(&'static str, &'static str); 6],
    /// Chosen result, or empty.
    result: String,
    /// Chosen check: UUID, name, and the URL of this page for all checks.
    check: Option<(String, String, String)>,
    rows: Vec<DeliveryListItem>,
    older: Option<String>,
    newest: Option<String>,
}

/// A delivery, and what the page links from it.
struct DeliveryListItem {
    item: DeliveryItem,
    /// Name of the check, and the URL of its page.
    check: Option<(String, String)>,
    /// Number of attempts and status of the last response, in words.
    attempts: String,
    /// Target of the form that sends it again, if that is possible.
    retry: Option<String>,
}

/// A delivery that is waiting or finished.
pub(super) struct DeliveryItem {
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

/// Choices of the viewer, from the query.
struct DeliveryView<'a> {
    filter: DeliveryFilter,
    channel: &'a str,
    check: &'a str,
    result: &'a str,
    /// Finished deliveries below this number. `None`: the newest ones.
    before: Option<DeliveryNumber>,
}

/// Renders the page.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let view = DeliveryView::from_query(request)?;
    let handle = request.handle();
    let waiting = match view.before {
        None if matches!(view.result, "" | WAITING) => {
            delivery::list_waiting(handle, view.filter, DELIVERIES_PER_PAGE)
        }
        _ => Vec::new(),
    };
    let finished = match view.result {
        WAITING => Vec::new(),
        _ => {
            let before = view.before.unwrap_or(DeliveryNumber(u64::MAX));
            delivery::list_before(handle, view.filter, before, DELIVERIES_PER_PAGE + 1)?
        }
    };
    let (shown, rest) = finished.split_at(finished.len().min(DELIVERIES_PER_PAGE));
    let older = shown
        .last()
        .filter(|_| !rest.is_empty())
        .map(|last| view.url(request, Some(last.number)));
    // A message that was finished in the meantime is in both lists.
    let is_waiting = |row: &OutboxRow| shown.iter().all(|record| record.number != row.number);
    let rows = waiting
        .iter()
        .filter(|waiting| is_waiting(&waiting.row))
        .map(|waiting| DeliveryListItem::of_waiting(request, &waiting.row))
        .chain(
            shown
                .iter()
                .map(|record| DeliveryListItem::of_finished(request, project.uuid, record)),
        )
        .collect();
    let channels = handle.with_state(|state| {
        let channels = state.project(project.id).into_iter();
        let mut channels: Vec<_> = channels
            .flat_map(|project| project.channels.values())
            .map(|channel| (channel.uuid.to_string(), channel_title(state, channel.id)))
            .collect();
        channels.sort_by(|one, other| one.1.cmp(&other.1));
        channels
    });
    let check = view.filter.check.and_then(|id| {
        let (uuid, name) = handle.with_state(|state| name_check(state, id))?;
        let all_checks = DeliveryView { check: "", ..view };
        Some((uuid.to_string(), name, all_checks.url(request, None)))
    });
    Ok(HtmlPage::from_template(&DeliveriesPage {
        layout: request.layout("Deliveries"),
        page_url: request.page_url(&request.page),
        channels,
        channel: view.channel.to_ascii_lowercase(),
        results: RESULTS,
        result: view.result.to_owned(),
        check,
        rows,
        older,
        newest: view.before.map(|_| view.url(request, None)),
    })
    .into())
}

/// URL of the page with the deliveries about a check.
pub(super) fn deliveries_url(request: &PageRequest, project: Uuid, check: &Check) -> String {
    let path = request.page_url(&Page::Deliveries(project));
    format!("{path}?check={}", check.uuid)
}

/// Sends a failed delivery again.
pub(super) async fn retry(request: &PageRequest, number: u64) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    delivery::retry(request.handle(), Some(project.id), number).await?;
    Ok(PageResponse::Redirect(
        Page::Deliveries(project.uuid),
        FlashMessage::from_code("delivery-retried"),
    ))
}

impl<'a> DeliveryView<'a> {
    /// Reads the query. An object that does not exist in the project has no page.
    fn from_query(request: &'a PageRequest) -> Result<Self, PageError> {
        let project = request.project()?.id;
        let query = &request.query;
        let channel = query.get("channel");
        let check = query.get("check");
        let result = query.get("result");
        let find_channel = |state: &State| {
            let uuid = parse_hyphenated_uuid(channel)?;
            let channels = &state.project(project)?.channels;
            let found = channels.values().find(|found| found.uuid == uuid);
            found.map(|found| found.id)
        };
        let find_check = |state: &State| {
            let found = state.check_by_uuid(parse_hyphenated_uuid(check)?)?;
            (found.project == project).then_some(found.id)
        };
        let channel_id = request.handle().with_state(find_channel);
        let check_id = request.handle().with_state(find_check);
        let is_known = RESULTS.iter().any(|(value, _)| *value == result)
            && (channel.is_empty() || channel_id.is_some())
            && (check.is_empty() || check_id.is_some());
        if !is_known {
            return Err(PageError::not_found());
        }
        Ok(Self {
            filter: DeliveryFilter {
                project: Some(project),
                channel: channel_id,
                check: check_id,
                result: DeliveryResult::parse(result),
            },
            channel,
            check,
            result,
            before: query.get("before").parse().ok().map(DeliveryNumber),
        })
    }

    /// URL of the page with these choices.
    fn url(&self, request: &PageRequest, before: Option<DeliveryNumber>) -> String {
        let choices = [
            ("channel", self.channel),
            ("check", self.check),
            ("result", self.result),
        ];
        // UUIDs and fixed words need no escapes.
        let choices = choices
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={value}"));
        let before = before.map(|number| format!("before={}", number.0));
        let query: Vec<_> = choices.chain(before).collect();
        let path = request.page_url(&request.page);
        if query.is_empty() {
            path
        } else {
            format!("{path}?{}", query.join("&"))
        }
    }
}

impl DeliveryListItem {
    fn of_waiting(request: &PageRequest, row: &Arc<OutboxRow>) -> Self {
        let is_sending = request
            .handle()
            .with_state(|state| state.outbox.is_sending(row.number));
        Self {
            item: DeliveryItem::of_waiting(request, row, is_sending),
            check: check_link(request, row.check),
            attempts: String::new(),
            retry: None,
        }
    }

    fn of_finished(request: &PageRequest, project: Uuid, delivery: &DeliveryRecord) -> Self {
        let may_retry = delivery.result == DeliveryResult::Failed
            && delivery.check != CheckId(0)
            && request.is_allowed(RequiredRight::Write);
        let mut attempts = Vec::new();
        if delivery.attempts > 1 {
            attempts.push(format_count(delivery.attempts.into(), "attempt"));
        }
        if delivery.status > 0 {
            attempts.push(format!("status {}", delivery.status));
        }
        Self {
            item: DeliveryItem::of_finished(request, delivery),
            check: check_link(request, delivery.check),
            attempts: attempts.join(", "),
            retry: may_retry
                .then(|| request.page_url(&Page::RetryDelivery(project, delivery.number.0))),
        }
    }
}

/// Name of a check, and the URL of its page.
fn check_link(request: &PageRequest, check: CheckId) -> Option<(String, String)> {
    let named = request
        .handle()
        .with_state(|state| name_check(state, check));
    named.map(|(uuid, name)| (name, request.page_url(&Page::Check(uuid))))
}

fn name_check(state: &State, check: CheckId) -> Option<(Uuid, String)> {
    let check = state.check(check)?;
    Some((check.uuid, check_display_name(&check.settings)))
}

impl DeliveryItem {
    /// Row of a message that waits for its first or next attempt.
    pub(super) fn of_waiting(request: &PageRequest, row: &OutboxRow, is_sending: bool) -> Self {
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
            Self {
                channel: channel_title(state, row.channel),
                event: event_text(row.event),
                style,
                outcome,
                at: DisplayTime::relative(row.queued, &request.time_formatter()),
                reason,
            }
        })
    }

    pub(super) fn of_finished(request: &PageRequest, delivery: &DeliveryRecord) -> Self {
        let (style, outcome) = match delivery.result {
            DeliveryResult::Delivered => ("up", "delivered"),
            DeliveryResult::Failed => ("down", "not delivered"),
            DeliveryResult::Superseded => ("paused", "superseded"),
            DeliveryResult::Skipped => ("paused", "skipped"),
        };
        Self {
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
        AlertEvent::Warning(WarningKind::Late) => "is late",
        AlertEvent::Warning(WarningKind::NotStarted) => "has not started",
        AlertEvent::Warning(WarningKind::RanLong) => "ran too long",
        AlertEvent::Warning(WarningKind::RanShort) => "finished too fast",
    }
}
