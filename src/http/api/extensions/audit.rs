//! `/audit`: audit log of the caller's project, newest first.

use std::ops::RangeInclusive;

use hyper::Uri;

use crate::domain::audit::{AuditEntry, AuditScope, MAX_AUDIT_ENTRIES};
use crate::http::api::ApiCall;
use crate::http::api::flips::parse_number;
use crate::http::api::json::{JsonObject, write_array, write_display, write_string};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request;

/// Default number of entries in a list.
const DEFAULT_LIMIT: i64 = 50;
/// Range of the `limit` parameter: see [limits](crate::docs::limits).
const LIMIT_RANGE: RangeInclusive<i64> = 1..=MAX_AUDIT_ENTRIES.cast_signed();
/// Range of numbers of entries in a query.
const NUMBER_RANGE: RangeInclusive<i64> = 0..=i64::MAX;

pub(crate) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    let AuditQuery { limit, before } = AuditQuery::from_query(&call.parts.uri)?;
    let handle = call.handle().clone();
    let scope = AuditScope::Project(call.caller.project);
    let body = call.response_writer().write_whole(false, move || {
        let entries = handle.audit_entries(scope, before, limit)?;
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object.member("entries", |out| write_array(out, &entries, write_entry));
        object.end();
        Ok(out)
    });
    Ok(reply::json(body.await?))
}

fn write_entry(entry: &AuditEntry, out: &mut String) {
    let mut object = JsonObject::begin(out);
    object.number("number", entry.number);
    object.unescaped("time", |out| entry.at.write_rfc3339_micros(out));
    object.member("actor", |out| {
        let mut actor = JsonObject::begin(out);
        actor
            .text("kind", entry.actor.kind.name())
            .text("name", &entry.actor.name);
        actor.member("address", |out| match entry.actor.address {
            Some(address) => write_string(out, &address.to_string()),
            None => out.push_str("null"),
        });
        actor.end();
    });
    object
        .text("action", entry.action.name())
        .text("object", entry.object.name());
    object.member("names", |out| {
        write_array(out, &entry.names, |name, out| write_string(out, name));
    });
    object.member("count", |out| write_display(entry.count, out));
    object.text("description", &entry.description());
    object.end();
}

/// Parsed query: the part of the log to return.
struct AuditQuery {
    limit: usize,
    before: u64,
}

impl AuditQuery {
    /// Parses the query. One invalid value is an error.
    fn from_query(uri: &Uri) -> Result<Self, HttpError> {
        let mut limit = DEFAULT_LIMIT;
        let mut before = u64::MAX;
        for (name, value) in request::query(uri) {
            let value = value.as_deref();
            match name.as_deref() {
                Some("limit") => limit = parse_number("limit", value, LIMIT_RANGE)?,
                Some("before") => {
                    before = parse_number("before", value, NUMBER_RANGE)?.unsigned_abs();
                }
                _ => {}
            }
        }
        Ok(Self {
            limit: limit as usize,
            before,
        })
    }
}
