//! `/deliveries`: delivery results, newest first.

use std::ops::RangeInclusive;

use hyper::Uri;
use uuid::Uuid;

use super::channels::write_status;
use crate::domain::alert::{DeliveryRecord, DeliveryResult};
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId, write_uuid};
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::state::State;
use crate::http::api::ApiCall;
use crate::http::api::flips::parse_number;
use crate::http::api::json::{JsonObject, write_array, write_display, write_string};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request;

/// Default number of deliveries in a list.
const DEFAULT_LIMIT: usize = 50;
/// Range of the `limit` parameter: see [limits](crate::docs::limits).
const LIMIT_RANGE: RangeInclusive<i64> = 1..=500;
/// Range of delivery numbers in a query.
const NUMBER_RANGE: RangeInclusive<i64> = 0..=i64::MAX;

/// Scope of a list of deliveries.
#[derive(Clone, Copy)]
enum DeliveryScope {
    /// All deliveries of the caller's project.
    Project,
    Channel(ChannelId),
    Check(CheckId),
}

pub(crate) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    list_in_scope(call, DeliveryScope::Project).await
}

pub(crate) async fn list_of_channel(
    call: &ApiCall<'_>,
    uuid: Uuid,
) -> Result<HttpReply, HttpError> {
    let channel = call.find_channel(uuid)?;
    list_in_scope(call, DeliveryScope::Channel(channel.id)).await
}

pub(crate) async fn list_of_check(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let check = call.own_check(uuid)?;
    list_in_scope(call, DeliveryScope::Check(check.id)).await
}

async fn list_in_scope(call: &ApiCall<'_>, of: DeliveryScope) -> Result<HttpReply, HttpError> {
    let DeliveryQuery {
        limit,
        before,
        outcome,
    } = DeliveryQuery::from_query(&call.parts.uri)?;
    let handle = call.handle().clone();
    let project = call.caller.project;
    let body = call.response_writer().write_whole(false, move || {
        let is_wanted =
            |delivery: &DeliveryRecord| outcome.is_none_or(|outcome| delivery.result == outcome);
        let deliveries = match of {
            DeliveryScope::Project => handle.deliveries(before, limit, |delivery| {
                is_wanted(delivery) && is_of_project(&handle, project, delivery)
            }),
            DeliveryScope::Channel(id) => handle.deliveries(before, limit, |delivery| {
                is_wanted(delivery) && delivery.channel == id
            }),
            DeliveryScope::Check(id) => handle.deliveries(before, limit, |delivery| {
                is_wanted(delivery) && delivery.check == id
            }),
        }?;
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object.member("deliveries", |out| {
            handle.with_state(|state| {
                write_array(out, &deliveries, |delivery, out| {
                    write_delivery(out, delivery, state);
                });
            });
        });
        object.end();
        Ok(out)
    });
    Ok(reply::json(body.await?))
}

/// True if it was for a channel, or about a check, that still exists in this project.
fn is_of_project(handle: &Handle, project: ProjectId, delivery: &DeliveryRecord) -> bool {
    handle.with_state(|state| {
        let channel = state
            .channel(delivery.channel)
            .map(|channel| channel.project);
        channel.or_else(|| state.check(delivery.check).map(|check| check.project)) == Some(project)
    })
}

fn write_delivery(out: &mut String, delivery: &DeliveryRecord, state: &State) {
    let DeliveryRecord {
        number,
        channel,
        check,
        event,
        queued,
        finished,
        result: outcome,
        attempts,
        status,
        reason,
        merged_into: told_with,
        ..
    } = delivery;
    let mut object = JsonObject::begin(out);
    object.number("number", number.0);
    object.unescaped_or_null(
        "channel",
        state.channel(*channel).map(|channel| channel.uuid),
        write_uuid,
    );
    object.unescaped_or_null(
        "check",
        state.check(*check).map(|check| check.uuid),
        write_uuid,
    );
    object
        .text("event", event.name())
        .text("outcome", outcome.name());
    object
        .unescaped("queued", |out| {
            Timestamp::write_rfc3339_micros(*queued, out);
        })
        .unescaped("finished", |out| {
            Timestamp::write_rfc3339_micros(*finished, out);
        });
    object
        .number("attempts", *attempts)
        .member("status", |out| write_status(*status, out));
    object.member("error", |out| {
        if reason.is_empty() {
            out.push_str("null");
        } else {
            write_string(out, reason);
        }
    });
    object.member("told_with", |out| match told_with {
        Some(number) => write_display(number.0, out),
        None => out.push_str("null"),
    });
    object.end();
}

/// Parsed query: the part of the log to return.
struct DeliveryQuery {
    limit: usize,
    before: DeliveryNumber,
    outcome: Option<DeliveryResult>,
}

impl DeliveryQuery {
    /// Parses the query. One invalid value is an error, whatever the others are.
    fn from_query(uri: &Uri) -> Result<Self, HttpError> {
        let mut page = Self {
            limit: DEFAULT_LIMIT,
            before: DeliveryNumber(u64::MAX),
            outcome: None,
        };
        for (name, value) in request::query(uri) {
            let value = value.as_deref();
            match name.as_deref() {
                Some("limit") => page.limit = parse_number("limit", value, LIMIT_RANGE)? as usize,
                Some("before") => {
                    page.before =
                        DeliveryNumber(parse_number("before", value, NUMBER_RANGE)?.unsigned_abs());
                }
                Some("outcome") => {
                    let outcome = value.and_then(DeliveryResult::parse);
                    let words = || DeliveryResult::ALL.map(DeliveryResult::name).join(", ");
                    page.outcome = Some(outcome.ok_or_else(|| {
                        HttpError::BadRequest(format!("outcome must be one of {}", words()).into())
                    })?);
                }
                _ => {}
            }
        }
        Ok(page)
    }
}
