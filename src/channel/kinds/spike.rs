//! Spike.sh: an incident for each check.

use serde_json::{Value, json};

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::alert::Event;

pub(super) const SPIKE: Sender = Sender { name: "spike", pace: |_| pace(10, 1), send, ..Sender::BASE };

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
    let is_ours = call.get("integration") != Some("healthchecks");
    let text = call.text(Dialect::Plain, Show { title: is_ours, ..Show::ALL }, Limit(10_000, Unit::Bytes));
    if !is_ours {
        return json!({
            "check_id": call.alert.incident(call.attempt),
            "title": cut(&call.alert.title, Limit(250, Unit::Chars)),
            "message": text,
            "status": if is_open { "down" } else { "up" },
        });
    }
    let mut body = json!({ "title": title(call), "body": text });
    if !is_open {
        put(&mut body, "status", "resolve".into());
    }
    body
}

/// The title, which is what Spike.sh knows an incident by: the same when it ends, and of no other check, whatever that is called.
fn title(call: &Call<'_>) -> String {
    let incident = call.alert.incident(call.attempt);
    let Some(subject) = call.alert.check.as_ref().filter(|_| call.alert.event != Event::Test) else {
        return format!("Test from overdue ({incident})");
    };
    let (name, project) = (cut(&subject.name, Limit(150, Unit::Chars)), cut(&subject.facts.project, Limit(50, Unit::Chars)));
    let short: String = incident.chars().take(8).collect();
    format!("{name} is down ({project}, {short})")
}
