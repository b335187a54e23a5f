//! `/deliveries`: what has become of what was to be told, newest first.

use std::ops::RangeInclusive;

use hyper::Uri;

use super::OwnCall;
use super::channels::write_status;
use crate::domain::alert::{Delivery, DeliveryOutcome};
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId, write_uuid};
use crate::domain::moment::Moment;
use crate::engine::Handle;
use crate::engine::state::State;
use crate::http::api::flips::number;
use crate::http::api::json::{Object, write_array, write_display, write_text};
use crate::wire::reply::{self, Fault, Reply};
use crate::wire::request;

/// How many a list has unless it is asked for more.
const USUAL: usize = 50;
/// How many a query may ask for: see [limits](crate::docs::limits).
const LIMIT: RangeInclusive<i64> = 1..=500;
/// Numbers that a query may name.
const NUMBERS: RangeInclusive<i64> = 0..=i64::MAX;

/// Whose deliveries are asked for.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// All of the caller's project.
    Project,
    Channel(ChannelId),
    Check(CheckId),
}

pub(super) async fn list(call: &OwnCall<'_>, of: Of) -> Result<Reply, Fault> {
    let Page { limit, before, outcome } = Page::of(&call.head.uri)?;
    let (handle, project) = (call.handle().clone(), call.caller.project);
    let body = call.door.outgoing.whole(false, move || {
        let is_wanted = |delivery: &Delivery| outcome.is_none_or(|outcome| delivery.outcome == outcome);
        let deliveries = match of {
            Of::Project => handle.deliveries(before, limit, |delivery| is_wanted(delivery) && is_of(&handle, project, delivery)),
            Of::Channel(id) => handle.deliveries(before, limit, |delivery| is_wanted(delivery) && delivery.channel == id),
            Of::Check(id) => handle.deliveries(before, limit, |delivery| is_wanted(delivery) && delivery.check == id),
        }?;
        let mut out = String::new();
        let mut object = Object::begin(&mut out);
        object.with("deliveries", |out| {
            handle.with_state(|state| {
                write_array(out, &deliveries, |delivery, out| write(out, delivery, state));
            });
        });
        object.end();
        Ok(out)
    });
    Ok(reply::json(body.await?))
}

/// Whether it was for a channel, or about a check, of this project that is still there.
fn is_of(handle: &Handle, project: ProjectId, delivery: &Delivery) -> bool {
    handle.with_state(|state| {
        let channel = state.channel(delivery.channel).map(|channel| channel.project);
        channel.or_else(|| state.check(delivery.check).map(|check| check.project)) == Some(project)
    })
}

fn write(out: &mut String, delivery: &Delivery, state: &State) {
    let Delivery { number, channel, check, event, queued, finished, outcome, attempts, status, reason, told_with, .. } = delivery;
    let mut object = Object::begin(out);
    object.number("number", number.0);
    object.plain_or_null("channel", state.channel(*channel).map(|channel| channel.uuid), write_uuid);
    object.plain_or_null("check", state.check(*check).map(|check| check.uuid), write_uuid);
    object.text("event", event.name()).text("outcome", outcome.name());
    object.plain("queued", |out| Moment::write_micros(*queued, out)).plain("finished", |out| Moment::write_micros(*finished, out));
    object.number("attempts", *attempts).with("status", |out| write_status(*status, out));
    object.with("error", |out| if reason.is_empty() { out.push_str("null") } else { write_text(out, reason) });
    object.with("told_with", |out| match told_with {
        Some(number) => write_display(number.0, out),
        None => out.push_str("null"),
    });
    object.end();
}

/// The part of the log that a query asks for.
struct Page {
    limit: usize,
    before: DeliveryNumber,
    outcome: Option<DeliveryOutcome>,
}

impl Page {
    /// Reads the query. One bad value is an error, whatever the others are.
    fn of(uri: &Uri) -> Result<Self, Fault> {
        let mut page = Self { limit: USUAL, before: DeliveryNumber(u64::MAX), outcome: None };
        for (name, value) in request::query(uri) {
            let value = value.as_deref();
            match name.as_deref() {
                Some("limit") => page.limit = number("limit", value, LIMIT)? as usize,
                Some("before") => page.before = DeliveryNumber(number("before", value, NUMBERS)?.unsigned_abs()),
                Some("outcome") => {
                    let outcome = value.and_then(DeliveryOutcome::named);
                    let words = || DeliveryOutcome::ALL.map(DeliveryOutcome::name).join(", ");
                    page.outcome = Some(outcome.ok_or_else(|| Fault::BadRequest(format!("outcome is none of {}", words()).into()))?);
                }
                _ => {}
            }
        }
        Ok(page)
    }
}
