//! Channels as rows, what is asked about one of them, and what has become of what was to be told.

use uuid::Uuid;

use super::written;
use crate::admin::request::Reply;
use crate::admin::request::channel::{ChannelRow, Chosen, DeliveryRow, MemberTestRow, Named, OfChannel, RefusedRow, TestRow};
use crate::channel::words;
use crate::domain::alert::{Delivery, DeliveryOutcome, RefusedRecipient};
use crate::domain::ids::ProjectId;
use crate::domain::project::Channel;
use crate::engine::{Handle, Tried};
use crate::manage::channel::{ChannelStatus, MemberTest, Tested};
use crate::manage::delivery::{WaitingMessage, Wanted};
use crate::manage::{self, ManageError};

/// What stands in place of the name of what is gone.
const DELETED: &str = "(deleted)";

/// What has become of a message that is not finished.
const WAITING: &str = "waiting";

/// The channels of a project or of all.
pub(super) fn list(handle: &Handle, project: Option<ProjectId>, show_settings: bool) -> Reply {
    let channels = manage::channel::list(handle, project);
    handle.with_state(|state| {
        let rows = channels.into_iter().map(|(project, channel)| {
            let status = ChannelStatus::of(state, &channel, handle.transports());
            let (since, last_error) = status.reason(true);
            ChannelRow {
                uuid: channel.uuid,
                project: project.name.as_str().into(),
                kind: channel.settings.kind().name.into(),
                name: channel.name.as_str().into(),
                status: status.name().into(),
                since: since.map(written),
                waiting: state.outbox.waiting_for(channel.id),
                last_error: last_error.map(Into::into),
                unsubscribed: channel.health.unsubscribed.iter().map(|recipient| String::from(&**recipient)).collect(),
                refused: channel.health.refused.iter().map(refused_row).collect(),
                settings: show_settings
                    .then(|| state.shown_settings(&channel).masked().map(|(key, value)| (key.into(), value.into_owned())).collect()),
            }
        });
        Reply::Channels(rows.collect())
    })
}

fn refused_row(refused: &RefusedRecipient) -> RefusedRow {
    RefusedRow { recipient: String::from(&*refused.address), since: written(refused.since), error: String::from(&*refused.reason) }
}

/// What is asked about one channel.
pub(super) async fn answer(handle: &Handle, channel: &Channel, what: OfChannel) -> Result<Reply, ManageError> {
    use manage::channel::{assign, disable, enable};
    let (chosen, assigned) = match what {
        OfChannel::Test { up } => return test(handle, channel, up).await,
        OfChannel::Enable => return enable(handle, channel.id).await.map(|()| Reply::Done),
        OfChannel::Disable => return disable(handle, channel.id).await.map(|()| Reply::Done),
        OfChannel::Assign(chosen) => (chosen, true),
        OfChannel::Unassign(chosen) => (chosen, false),
    };
    let chosen = match chosen {
        Chosen::All => manage::channel::Chosen::All,
        Chosen::Tagged(tags) => manage::channel::Chosen::Tagged(tags),
        Chosen::Named(names) => manage::channel::Chosen::Named(names),
    };
    assign(handle, channel, chosen, assigned).await.map(Reply::Assigned)
}

/// Tests a channel, or the channels of a group.
async fn test(handle: &Handle, channel: &Channel, up: bool) -> Result<Reply, ManageError> {
    let member = |MemberTest { channel, tried }: MemberTest| {
        let test =
            tried.map_or_else(|error| TestRow { delivered: false, millis: 0, status: None, error: Some(error.to_string()) }, test_row);
        MemberTestRow { uuid: channel.uuid, name: name_of(&channel), test }
    };
    Ok(match manage::channel::test(handle, channel, up).await? {
        Tested::Channel(tried) => Reply::Tested(test_row(tried)),
        Tested::Group(tests) => Reply::TestedGroup(tests.into_iter().map(member).collect()),
    })
}

fn test_row(tried: Tried) -> TestRow {
    let Tried { took, status, failed, missed } = tried;
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    TestRow { delivered: failed.is_none(), millis, status: answered(status), error: failed.or(missed) }
}

/// The newest deliveries that are wanted.
pub(super) async fn deliveries(handle: &Handle, wanted: Wanted, limit: u32) -> Result<Reply, ManageError> {
    // A u32 fits a usize on every target with sockets.
    let limit = limit as usize;
    let waiting = manage::delivery::waiting(handle, wanted, limit);
    let deliveries = manage::delivery::list(handle, wanted, limit).await?;
    // A message that has been finished meanwhile is in both.
    let is_finished = |number| deliveries.iter().any(|delivery| delivery.number == number);
    let waiting: Vec<_> = waiting.into_iter().filter(|message| !is_finished(message.row.number)).collect();
    let waiting = waiting.into_iter().map(|message| waiting_row(handle, message));
    let rows: Vec<_> = waiting.chain(deliveries.into_iter().map(|delivery| delivery_row(handle, delivery))).take(limit).collect();
    Ok(Reply::Deliveries(rows))
}

/// A message that is not finished, as a row of the list of deliveries.
fn waiting_row(handle: &Handle, WaitingMessage { row, reason }: WaitingMessage) -> DeliveryRow {
    let queued = row.queued;
    let delivery = Delivery {
        number: row.number,
        channel: row.channel,
        check: row.check,
        flip: row.flip,
        event: row.event,
        queued,
        finished: queued,
        outcome: DeliveryOutcome::Skipped,
        attempts: row.attempts,
        status: 0,
        reason: reason.unwrap_or_default(),
        doubtful: row.doubtful,
        told_with: None,
    };
    DeliveryRow { outcome: WAITING.into(), ..delivery_row(handle, delivery) }
}

fn delivery_row(handle: &Handle, delivery: Delivery) -> DeliveryRow {
    handle.with_state(|state| {
        let check = state.check(delivery.check).map(|check| (check.uuid, words::name(&check.settings)));
        let channel = state.channel(delivery.channel).map(|channel| (channel.uuid, name_of(channel)));
        DeliveryRow {
            number: delivery.number.0,
            time: written(delivery.finished),
            queued: written(delivery.queued),
            check: named(delivery.check.0, check),
            channel: named(delivery.channel.0, channel),
            event: delivery.event.name().into(),
            outcome: delivery.outcome.name().into(),
            attempts: delivery.attempts,
            status: answered(delivery.status),
            reason: delivery.reason.into(),
            told_with: delivery.told_with.map(|number| number.0),
        }
    })
}

/// The name of a channel, or its kind if it has none.
fn name_of(channel: &Channel) -> String {
    let name = channel.name.as_str();
    if name.is_empty() { channel.settings.kind().name.into() } else { name.into() }
}

/// What has this number; 0 is nothing at all.
fn named(number: u64, found: Option<(Uuid, String)>) -> Option<Named> {
    let found = found.map(|(uuid, name)| Named { uuid: Some(uuid), name });
    (number > 0).then(|| found.unwrap_or_else(|| Named { uuid: None, name: DELETED.into() }))
}

fn answered(status: u16) -> Option<u16> {
    Some(status).filter(|status| *status > 0)
}
