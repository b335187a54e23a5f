//! PagerTree: an incident for each check.

use serde_json::json;

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::alert::Event;

pub(super) const PAGERTREE: Sender = Sender { name: "pagertree", pace: |_| pace(10, 1), send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let types: &[&str] = match alert.event {
        // What is only tried must not stay open.
        Event::Test => &["trigger", "resolve"],
        Event::Up | Event::Closed => &["resolve"],
        _ => &["trigger"],
    };
    let tags: Vec<_> = alert.check.iter().flat_map(|subject| subject.facts.settings.tags.iter()).collect();
    let message = |event_type: &&str| {
        Request::post(call.given("url")).json(&json!({
            "incident_key": alert.incident(call.attempt),
            "event_type": event_type,
            "title": cut(&alert.title, Limit(250, Unit::Chars)),
            "description": call.text(Dialect::Plain, Show::BELOW_TITLE, Limit(15_000, Unit::Bytes)),
            "client": "overdue",
            "client_url": alert.link,
            "tags": tags.join(","),
        }))
    };
    types.iter().flat_map(|one| message(one).step()).collect()
}
