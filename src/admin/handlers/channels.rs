//! Channels and deliveries as rows, and actions on one channel.

use uuid::Uuid;

use super::format_timestamp;
use crate::admin::request::AdminReply;
use crate::admin::request::channel::{
    ChannelAction, ChannelRow, CheckSelectionRow, DeliveryRow, MemberTestRow, NamedObject,
    RefusedRow, TestRow,
};
use crate::channels::alert_text;
use crate::domain::alert::{DeliveryRecord, DeliveryResult, RefusedRecipient};
use crate::domain::ids::ProjectId;
use crate::domain::project::Channel;
use crate::engine::{ChannelTestResult, Handle};
use crate::operations::channel::{ChannelStatus, ChannelTestResults, MemberTestResult};
use crate::operations::delivery::{DeliveryFilter, WaitingDelivery};
use crate::operations::{self, OperationError};

/// Name shown for a deleted object.
const DELETED_NAME: &str = "(deleted)";

/// Delivery result shown for a message that is not finished.
const WAITING_RESULT: &str = "waiting";

/// Lists the channels of a project or of all.
pub(super) fn list(handle: &Handle, project: Option<ProjectId>, show_settings: bool) -> AdminReply {
    let channels = operations::channel::list(handle, project);
    handle.with_state(|state| {
        let rows = channels.into_iter().map(|(project, channel)| {
            let status = ChannelStatus::compute(state, &channel, handle.transports());
            let (since, last_error) = status.reason(true);
            ChannelRow {
                uuid: channel.uuid,
                project: project.name.as_str().into(),
                kind: channel.settings.kind().name.into(),
                name: channel.name.as_str().into(),
                status: status.name().into(),
                since: since.map(format_timestamp),
                waiting: state.outbox.row_count_of(channel.id),
                last_error: last_error.map(Into::into),
                unsubscribed: channel
                    .health
                    .unsubscribed
                    .iter()
                    .map(|recipient| String::from(&**recipient))
                    .collect(),
                refused: channel.health.refused.iter().map(refused_row).collect(),
                settings: show_settings.then(|| {
                    state
                        .display_settings(&channel)
                        .masked()
                        .map(|(key, value)| (key.into(), value.into_owned()))
                        .collect()
                }),
            }
        });
        AdminReply::Channels(rows.collect())
    })
}

fn refused_row(refused: &RefusedRecipient) -> RefusedRow {
    RefusedRow {
        recipient: String::from(&*refused.address),
        since: format_timestamp(refused.since),
        error: String::from(&*refused.reason),
    }
}

/// Handles an action on one channel.
pub(super) async fn handle_action(
    handle: &Handle,
    channel: &Channel,
    what: ChannelAction,
) -> Result<AdminReply, OperationError> {
    use operations::channel::{assign, disable, enable};
    let (chosen, assigned) = match what {
        ChannelAction::Test { up } => return test(handle, channel, up).await,
        ChannelAction::Enable => {
            return enable(handle, channel.id).await.map(|_| AdminReply::Done);
        }
        ChannelAction::Disable => {
            return disable(handle, channel.id).await.map(|()| AdminReply::Done);
        }
        ChannelAction::Assign(chosen) => (chosen, true),
        ChannelAction::Unassign(chosen) => (chosen, false),
    };
    let chosen = match chosen {
        CheckSelectionRow::All => operations::channel::CheckSelection::All,
        CheckSelectionRow::Tagged(tags) => operations::channel::CheckSelection::Tagged(tags),
        CheckSelectionRow::Named(names) => operations::channel::CheckSelection::Named(names),
    };
    assign(handle, channel, chosen, assigned)
        .await
        .map(AdminReply::Assigned)
}

/// Tests a channel, or the channels of a group.
async fn test(handle: &Handle, channel: &Channel, up: bool) -> Result<AdminReply, OperationError> {
    let member = |MemberTestResult { channel, tried }: MemberTestResult| {
        let test = tried.map_or_else(
            |error| TestRow {
                delivered: false,
                millis: 0,
                status: None,
                error: Some(error.to_string()),
            },
            test_row,
        );
        MemberTestRow {
            uuid: channel.uuid,
            name: channel_label(&channel),
            test,
        }
    };
    Ok(
        match operations::channel::test(handle, channel, up).await? {
            ChannelTestResults::Channel(tried) => AdminReply::ChannelTestResults(test_row(tried)),
            ChannelTestResults::Group(tests) => {
                AdminReply::TestedGroup(tests.into_iter().map(member).collect())
            }
        },
    )
}

fn test_row(result: ChannelTestResult) -> TestRow {
    let ChannelTestResult {
        duration: took,
        status,
        error: failed,
        missed,
    } = result;
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    TestRow {
        delivered: failed.is_none(),
        millis,
        status: response_status(status),
        error: failed.or(missed),
    }
}

/// Lists the newest deliveries that match a filter.
pub(super) async fn list_deliveries(
    handle: &Handle,
    filter: DeliveryFilter,
    limit: u32,
) -> Result<AdminReply, OperationError> {
    // A u32 fits a usize on every target with sockets.
    let limit = limit as usize;
    let waiting = operations::delivery::list_waiting(handle, filter, limit);
    let deliveries = operations::delivery::list(handle, filter, limit).await?;
    // A message that was finished in the meantime is in both lists.
    let is_finished = |number| deliveries.iter().any(|delivery| delivery.number == number);
    let waiting: Vec<_> = waiting
        .into_iter()
        .filter(|message| !is_finished(message.message.number))
        .collect();
    let waiting = waiting
        .into_iter()
        .map(|message| waiting_row(handle, message));
    let rows: Vec<_> = waiting
        .chain(
            deliveries
                .into_iter()
                .map(|delivery| delivery_row(handle, delivery)),
        )
        .take(limit)
        .collect();
    Ok(AdminReply::Deliveries(rows))
}

/// Returns the row of a message that is not finished.
fn waiting_row(
    handle: &Handle,
    WaitingDelivery {
        message: row,
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

/// Returns the name of a channel, or its kind if it has none.
fn channel_label(channel: &Channel) -> String {
    let name = channel.name.as_str();
    if name.is_empty() {
        channel.settings.kind().name.into()
    } else {
        name.into()
    }
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

fn response_status(status: u16) -> Option<u16> {
    Some(status).filter(|status| *status > 0)
}
