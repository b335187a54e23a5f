//! Spike.sh: an incident for each check.

use serde_json::json;

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::alert::Event;

pub(super) const SPIKE: Sender = Sender { name: "spike", pace: |_| pace(10, 1), send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let statuses: &[&str] = match alert.event {
        // What is only tried must not stay open.
        Event::Test => &["down", "up"],
        Event::Up | Event::Closed => &["up"],
        _ => &["down"],
    };
    let message = |status: &&str| {
        Request::post(call.given("url")).json(&json!({
            "check_id": alert.incident(call.attempt),
            "title": cut(&alert.title, Limit(250, Unit::Chars)),
            "message": call.text(Dialect::Plain, Show::BELOW_TITLE, Limit(10_000, Unit::Bytes)),
            "status": status,
        }))
    };
    statuses.iter().flat_map(|one| message(one).step()).collect()
}
