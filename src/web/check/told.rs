//! Who is told of a check, and what has come of it.

use std::cell::Cell;
use std::cmp::Reverse;
use std::sync::Arc;

use crate::channel::answer::shown;
use crate::channel::words;
use crate::domain::alert::{ChannelHealth, Delivery, DeliveryOutcome, Event, OutboxRow};
use crate::domain::check::Check;
use crate::domain::ids::{ChannelId, DeliveryNumber};
use crate::domain::project::Channel;
use crate::domain::words::count;
use crate::engine::state::State;
use crate::manage::channel::ChannelStatus;
use crate::web::error::Trouble;
use crate::web::route::{Need, Page};
use crate::web::visit::Visit;
use crate::web::when::When;

/// Deliveries that are shown.
const FEW: usize = 5;
/// Deliveries, of all checks, among which they are looked for: see [limits](crate::docs::limits).
const LOOKED_AT: usize = 5_000;

/// A channel of the project.
pub(super) struct Told {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) is_assigned: bool,
    /// What is wrong with it.
    pub(super) trouble: Option<&'static str>,
}

/// What becomes of something that is to be told.
pub(super) struct Sent {
    /// To whom.
    pub(super) channel: String,
    /// What.
    pub(super) event: &'static str,
    /// How it looks: a status and a word.
    pub(super) shape: &'static str,
    pub(super) outcome: &'static str,
    pub(super) at: When,
    /// Why it was not delivered, or not yet.
    pub(super) reason: String,
}

/// The channels of the project, the assigned ones first.
pub(super) fn channels(visit: &Visit, check: &Check) -> Vec<Told> {
    let transports = visit.handle().transports();
    let channels: Vec<(Arc<Channel>, ChannelStatus)> = visit.handle().with_state(|state| {
        let channels = state.project(check.project).into_iter().flat_map(|project| project.channels.values());
        channels.map(|channel| (Arc::clone(channel), ChannelStatus::of(state, channel, transports))).collect()
    });
    let told = |(channel, status): &(Arc<Channel>, ChannelStatus)| Told {
        uuid: channel.uuid.to_string(),
        name: channel.name.as_str().into(),
        kind: channel.settings.kind().title,
        is_assigned: check.settings.channels.contains(&channel.id),
        trouble: Some(status).filter(|status| !matches!(status, ChannelStatus::Ok | ChannelStatus::Untested)).map(ChannelStatus::name),
    };
    let mut told: Vec<_> = channels.iter().map(told).collect();
    told.sort_by_key(|channel| !channel.is_assigned);
    told
}

/// What is being told of the check, and what was told last as far as that is not long ago; the newest first.
pub(super) fn deliveries(visit: &Visit, check: &Check) -> Result<Vec<Sent>, Trouble> {
    let mut waiting: Vec<_> = visit
        .handle()
        .with_state(|state| state.outbox.of_check(check.id).map(|row| (Arc::clone(row), state.outbox.is_sending(row.number))).collect());
    waiting.sort_unstable_by_key(|(row, _)| Reverse(row.number));
    let mut sent: Vec<_> = waiting.into_iter().take(FEW).map(|(row, is_sending)| to_be_sent(visit, &row, is_sending)).collect();
    let looked_at = Cell::new(0);
    let is_wanted = |delivery: &Delivery| {
        looked_at.set(looked_at.get() + 1);
        // Beyond that each is taken, so that the search ends.
        delivery.check == check.id || looked_at.get() > LOOKED_AT
    };
    let found = visit.handle().deliveries(DeliveryNumber(u64::MAX), FEW, is_wanted)?;
    sent.extend(found.into_iter().filter(|delivery| delivery.check == check.id).map(|delivery| told(visit, &delivery)));
    sent.truncate(FEW);
    Ok(sent)
}

/// Something that waits to be sent, or to be sent once more.
fn to_be_sent(visit: &Visit, row: &OutboxRow, is_sending: bool) -> Sent {
    let may_write = visit.may(Need::Write);
    visit.handle().with_state(|state| {
        let health = state.channel(row.channel).map(|channel| &channel.health);
        let (outcome, reason) = match health {
            Some(ChannelHealth { disabled: Some((_, reason)), .. }) => ("held back", shown(reason, may_write).to_owned()),
            _ if is_sending => ("being sent", String::new()),
            Some(ChannelHealth { failing: Some((_, reason)), .. }) if row.attempts > 0 => {
                ("not delivered yet", format!("{}; tried {}", shown(reason, may_write), count(row.attempts.into(), "time")))
            }
            _ => ("waiting", String::new()),
        };
        let shape = if reason.is_empty() { "running" } else { "late" };
        Sent {
            channel: called(state, row.channel),
            event: said(row.event),
            shape,
            outcome,
            at: When::of(row.queued, &visit.times()),
            reason,
        }
    })
}

fn told(visit: &Visit, delivery: &Delivery) -> Sent {
    let (shape, outcome) = match delivery.outcome {
        DeliveryOutcome::Delivered => ("up", "delivered"),
        DeliveryOutcome::Failed => ("down", "not delivered"),
        DeliveryOutcome::Superseded => ("paused", "not true any more"),
        DeliveryOutcome::Skipped => ("paused", "left out"),
    };
    Sent {
        channel: visit.handle().with_state(|state| called(state, delivery.channel)),
        event: said(delivery.event),
        shape,
        outcome,
        at: When::of(delivery.finished, &visit.times()),
        reason: shown(&delivery.reason, visit.may(Need::Write)).to_owned(),
    }
}

/// What a channel is called.
fn called(state: &State, channel: ChannelId) -> String {
    let name = state.channel(channel).map(|channel| match channel.name.as_str() {
        "" => channel.settings.kind().title.to_owned(),
        name => name.to_owned(),
    });
    name.unwrap_or_else(|| "a deleted integration".into())
}

fn said(event: Event) -> &'static str {
    match event {
        Event::Down => "went down",
        Event::Up => "is up again",
        Event::Closed => "incident closed",
        Event::Still => "is still down",
        Event::Test => "test",
        Event::Notice => "notice",
    }
}

/// Names and pages of what the check depends on.
pub(super) fn parents(visit: &Visit, check: &Check) -> Vec<(String, String)> {
    visit.handle().with_state(|state| {
        let parents = check.settings.parents.ids().iter().filter_map(|id| state.check(*id));
        parents.map(|parent| (words::name(&parent.settings), visit.link(&Page::Check(parent.uuid)))).collect()
    })
}
