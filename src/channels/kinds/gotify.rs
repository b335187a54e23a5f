//! Gotify.

use serde_json::json;

use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};

pub(super) const GOTIFY: ChannelSender = ChannelSender {
    name: "gotify",
    send_rate: |_| rate(30, 2),
    send,
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let mut extras = json!({ "client::display": { "contentType": "text/markdown" } });
    if let Some(link) = &call.alert.link {
        insert_member(
            &mut extras,
            "client::notification",
            json!({ "click": { "url": link } }),
        );
    }
    let mut message = json!({
        "title": call.title(LengthLimit(250, LengthUnit::Chars)),
        "message": call.text(
            Dialect::Markdown,
            TextSections { link: false, ..TextSections::BELOW_TITLE },
            LengthLimit(10_000, LengthUnit::Bytes),
        ),
        "extras": extras,
    });
    if let Some(priority) = call.priority() {
        insert_member(&mut message, "priority", priority.into());
    }
    // A token in the URL would appear in logs.
    ChannelRequest::post(format!("{}/message", call.base_url("url")))
        .with_user_url()
        .with_header("X-Gotify-Key", call.required("token"))
        .with_json(&message)
        .into_steps()
}
