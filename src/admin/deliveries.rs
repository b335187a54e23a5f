//! Deliveries of alerts.

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::channels::{channel_label, response_status};
use super::context::AdminContext;
use super::error::AdminError;
use super::request::AdminRequest;
use super::{field_format, format_timestamp};
use crate::channels::alert_text;
use crate::domain::alert::{DeliveryRecord, DeliveryResult};
use crate::engine::Handle;
use crate::operations::delivery::{self, DeliveryFilter, WaitingDelivery};

/// Name shown for a deleted object.
const DELETED_NAME: &str = "(deleted)";

/// Delivery result shown for a message that is not finished.
const WAITING_RESULT: &str = "waiting";

/// Number of deliveries in a list unless the request gives another.
pub const DEFAULT_DELIVERY_LIMIT: u32 = 50;

fn default_delivery_limit() -> u32 {
    DEFAULT_DELIVERY_LIMIT
}

/// A delivery in a list.
#[derive(Serialize, Deserialize)]
pub struct DeliveryRow {
    /// Number that `deliveries retry` takes.
    pub number: u64,
    /// Time at which it was finished, RFC 3339.
    pub time: String,
    /// Time at which the alert was queued, RFC 3339.
    pub queued: String,
    /// Check that it was about; `None` if about no check.
    pub check: Option<NamedObject>,
    /// Channel that it was sent to; `None` if the decision was to notify no channel.
    pub channel: Option<NamedObject>,
    /// Event that the message reports.
    pub event: String,
    /// Delivery result.
    pub outcome: String,
    /// Number of attempts that were begun.
    pub attempts: u16,
    /// Status of the last response, if there was one.
    pub status: Option<u16>,
    /// Reason why it was not delivered, may be empty.
    pub reason: String,
    /// Number of the delivery whose message included this one.
    pub told_with: Option<u64>,
}

/// A check or a channel that a row is about.
#[derive(Serialize, Deserialize)]
pub struct NamedObject {
    /// UUID; `None` if it was deleted.
    pub uuid: Option<Uuid>,
    /// Name, or a note that it was deleted.
    pub name: String,
}

/// Lists the newest deliveries of a project, a channel or a check, or of a combination, newest
/// first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListDeliveries {
    /// Project to list; `None` for all.
    pub project: Option<String>,
    /// Channel to list; `None` for all.
    pub channel: Option<String>,
    /// Check to list; `None` for all.
    pub check: Option<String>,
    /// True to list only failed deliveries.
    #[serde(default)]
    pub failed: bool,
    /// Maximum number of deliveries.
    #[serde(default = "default_delivery_limit")]
    pub limit: u32,
}

impl AdminRequest for ListDeliveries {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/deliveries";
    type Output = Vec<DeliveryRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<DeliveryRow>, AdminError> {
        let handle = context.handle();
        let project = self.project.as_deref();
        let channel = self
            .channel
            .map(|channel| context.channel(project, &channel))
            .transpose()?;
        let check = self
            .check
            .map(|check| context.check(project, &check))
            .transpose()?;
        let filter = DeliveryFilter {
            project: context.project_filter(project)?,
            channel: channel.map(|channel| channel.id),
            check: check.map(|check| check.id),
            result: self.failed.then_some(DeliveryResult::Failed),
        };
        // A u32 fits a usize on every target with sockets.
        let limit = self.limit as usize;
        let waiting = delivery::list_waiting(handle, filter, limit);
        let deliveries = delivery::list(handle, filter, limit).await?;
        // A message that was finished in the meantime is in both lists.
        let is_finished = |number| deliveries.iter().any(|delivery| delivery.number == number);
        let waiting: Vec<_> = waiting
            .into_iter()
            .filter(|delivery| !is_finished(delivery.row.number))
            .collect();
        let waiting = waiting
            .into_iter()
            .map(|message| waiting_row(handle, message));
        let rows = waiting
            .chain(
                deliveries
                    .into_iter()
                    .map(|delivery| delivery_row(handle, delivery)),
            )
            .take(limit)
            .collect();
        Ok(rows)
    }
}

/// Returns the row of a message that is not finished.
fn waiting_row(
    handle: &Handle,
    WaitingDelivery {
        row,
        failure_reason: reason,
    }: WaitingDelivery,
) -> DeliveryRow {
    let queued = row.queued;
    let delivery = DeliveryRecord {
        number: row.number,
        channel: row.channel,
        check: row.check,
        flip: row.flip,
        event: row.event,
        queued,
        finished: queued,
        result: DeliveryResult::Skipped,
        attempts: row.attempts,
        status: 0,
        reason: reason.unwrap_or_default(),
        may_be_duplicate: row.may_be_duplicate,
        merged_into: None,
    };
    DeliveryRow {
        outcome: WAITING_RESULT.into(),
        ..delivery_row(handle, delivery)
    }
}

fn delivery_row(handle: &Handle, delivery: DeliveryRecord) -> DeliveryRow {
    handle.with_state(|state| {
        let check = state
            .check(delivery.check)
            .map(|check| (check.uuid, alert_text::check_display_name(&check.settings)));
        let channel = state
            .channel(delivery.channel)
            .map(|channel| (channel.uuid, channel_label(channel)));
        DeliveryRow {
            number: delivery.number.0,
            time: format_timestamp(delivery.finished),
            queued: format_timestamp(delivery.queued),
            check: named_object(delivery.check.0, check),
            channel: named_object(delivery.channel.0, channel),
            event: delivery.event.name().into(),
            outcome: delivery.result.name().into(),
            attempts: delivery.attempts,
            status: response_status(delivery.status),
            reason: delivery.reason.into(),
            told_with: delivery.merged_into.map(|number| number.0),
        }
    })
}

/// Returns the object with this number; `None` for number 0.
fn named_object(number: u64, found: Option<(Uuid, String)>) -> Option<NamedObject> {
    let found = found.map(|(uuid, name)| NamedObject {
        uuid: Some(uuid),
        name,
    });
    (number > 0).then(|| {
        found.unwrap_or_else(|| NamedObject {
            uuid: None,
            name: DELETED_NAME.into(),
        })
    })
}

/// A delivery that was queued.
#[derive(Serialize, Deserialize)]
pub struct QueuedDelivery {
    /// Number of the delivery.
    pub number: u64,
}

/// Queues a failed delivery again, under a new number.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryDelivery {
    /// Number of the failed delivery.
    #[serde(with = "field_format::number")]
    pub number: u64,
}

impl AdminRequest for RetryDelivery {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/deliveries/{number}/retry";
    type Output = QueuedDelivery;

    async fn run(self, context: &AdminContext) -> Result<QueuedDelivery, AdminError> {
        let number = delivery::retry(context.handle(), None, self.number).await?;
        Ok(QueuedDelivery { number })
    }
}
