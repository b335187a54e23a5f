//! Matrix: a message event with a transaction id, so that what is sent twice arrives once.

use serde_json::json;
use std::time::Duration;

use crate::channel::answer::{Response, Verdict, pause};
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Method, Request, Step, encoded, put};
use crate::channel::render::{Dialect, Limit, Show, Unit};
use crate::domain::moment::Moment;

/// An event has 65,536 bytes; the text is in it twice, and JSON may need more.
const TEXT_LIMIT: Limit = Limit(12_000, Unit::Bytes);
/// Joins the room; an alias is resolved by that.
const JOIN: &str = "join";
/// Sends after joining.
const JOINED: &str = "joined";

pub(super) const MATRIX: Sender = Sender { name: "matrix", pace: |_| pace(10, 5), send, judge, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let room = call.given("room");
    if room.starts_with('#') { join(call) } else { message(call, room, "") }
}

fn join(call: &Call<'_>) -> Vec<Step> {
    let room = encoded(call.given("room"), "");
    let url = format!("{}/_matrix/client/v3/join/{room}", call.base("server"));
    Request::post(url).own().bearer(call.given("token")).json(&json!({})).role(JOIN).step()
}

fn message(call: &Call<'_>, room: &str, role: &'static str) -> Vec<Step> {
    let mut content = json!({ "msgtype": "m.text", "body": call.text(Dialect::Plain, Show::ALL, TEXT_LIMIT) });
    if !call.attempt.plain {
        put(&mut content, "format", "org.matrix.custom.html".into());
        put(&mut content, "formatted_body", call.text(Dialect::Html, Show::ALL, TEXT_LIMIT).into());
    }
    let path = format!("/_matrix/client/v3/rooms/{}/send/m.room.message/{}", encoded(room, ""), encoded(&transaction(call), ""));
    let url = format!("{}{path}", call.base("server"));
    Request::new(Method::Put, url).own().bearer(call.given("token")).json(&content).role(role).step()
}

/// The plainest form is another event than the one that was refused.
fn transaction(call: &Call<'_>) -> String {
    let id = &call.attempt.id;
    if call.attempt.plain { format!("{id}-plain") } else { id.clone() }
}

fn judge(call: &Call<'_>, request: &Request, response: &Response, now: Moment) -> Verdict {
    match response.status {
        200 if request.role == JOIN => match response.json_at("/room_id").as_str() {
            Some(room) => Verdict::Then(message(call, room, JOINED)),
            None => Verdict::LATER,
        },
        401 if response.json_at("/errcode") == "M_UNKNOWN_TOKEN" => Verdict::Closed,
        // It may have been invited and not have joined yet.
        403 if request.role.is_empty() => Verdict::Then(join(call)),
        429 => match response.json_at("/retry_after_ms").as_f64().and_then(|millis| pause(millis / 1_000.0)) {
            Some(after) if response.header("retry-after").is_none() => Verdict::Later { after: Some(after.max(Duration::from_secs(1))) },
            _ => response.later(now),
        },
        _ => response.usual(now),
    }
}
