//! Gotify.

use serde_json::json;

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit};

pub(super) const GOTIFY: Sender = Sender { name: "gotify", pace: |_| pace(30, 2), send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let mut extras = json!({ "client::display": { "contentType": "text/markdown" } });
    if let Some(link) = &call.alert.link {
        put(&mut extras, "client::notification", json!({ "click": { "url": link } }));
    }
    let mut message = json!({
        "title": call.title(Limit(250, Unit::Chars)),
        "message": call.text(Dialect::Markdown, Show { link: false, ..Show::BELOW_TITLE }, Limit(10_000, Unit::Bytes)),
        "extras": extras,
    });
    if let Some(priority) = call.priority() {
        put(&mut message, "priority", priority.into());
    }
    // A token in the URL would end in logs.
    Request::post(format!("{}/message", call.base("url"))).own().header("X-Gotify-Key", call.given("token")).json(&message).step()
}
