//! Splunk On-Call, which was VictorOps: an incident for each check.

use serde_json::json;

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::alert::Event;

pub(super) const VICTOROPS: Sender = Sender {
    name: "victorops",
    pace: |_| pace(10, 1),
    send,
    judge: |call, _, response, now| match response.status {
        404 if response.has_text_at("/result") => response.closed(call.attempt, now),
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let types: &[&str] = match alert.event {
        // What is only tried must not stay open.
        Event::Test => &["CRITICAL", "RECOVERY"],
        Event::Up | Event::Closed => &["RECOVERY"],
        _ => &["CRITICAL"],
    };
    let message = |message_type: &&str| {
        Request::post(call.given("url")).json(&json!({
            "entity_id": alert.incident(call.attempt),
            "message_type": message_type,
            "entity_display_name": cut(&alert.title, Limit(250, Unit::Chars)),
            "state_message": call.text(Dialect::Plain, Show::BELOW_TITLE, Limit(15_000, Unit::Bytes)),
            "monitoring_tool": "overdue",
        }))
    };
    types.iter().flat_map(|one| message(one).step()).collect()
}
