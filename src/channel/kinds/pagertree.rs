//! PagerTree: an incident for each check.

use serde_json::{Value, json};

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::alert::Event;

pub(super) const PAGERTREE: Sender = Sender { name: "pagertree", pace: |_| pace(10, 1), send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let (opens, closes) = match call.alert.event {
        // What is only tried must not stay open.
        Event::Test => (true, true),
        Event::Up | Event::Closed => (false, true),
        _ => (true, false),
    };
    let message = |is_open| Request::post(call.given("url")).json(&body(call, is_open)).step();
    let steps = [(opens, true), (closes, false)].into_iter().filter(|(is_sent, _)| *is_sent);
    steps.flat_map(|(_, is_open)| message(is_open)).collect()
}

fn body(call: &Call<'_>, is_open: bool) -> Value {
    let alert = call.alert;
    let (incident, title) = (alert.incident(call.attempt), cut(&alert.title, Limit(250, Unit::Chars)));
    let description = call.text(Dialect::Plain, Show::BELOW_TITLE, Limit(15_000, Unit::Bytes));
    let tags: Vec<_> = alert.check.iter().flat_map(|subject| subject.facts.settings.tags.iter()).collect();
    if call.get("integration") == Some("healthchecks") {
        return json!({
            "incident_key": incident,
            "event_type": if is_open { "trigger" } else { "resolve" },
            "title": title,
            "description": description,
            "client": "overdue",
            "client_url": alert.link,
            "tags": tags.join(","),
        });
    }
    json!({
        "event_type": if is_open { "create" } else { "resolve" },
        "Id": incident,
        "Title": title,
        "Description": description,
        "Tags": tags,
    })
}
