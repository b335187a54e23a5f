//! Trello: a card for each downtime.

use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::transport_reply::ChannelResponse;

pub(super) const TRELLO: ChannelSender = ChannelSender {
    name: "trello",
    send_rate: |_| rate(10, 1),
    send,
    judge: |call, _, response, now| match response.status {
        401 | 404 if is_trello_error(response) => {
            response.unusable_if_persistent(call.attempt, now)
        }
        _ => response.default_verdict(now),
    },
    ..ChannelSender::DEFAULTS
};

/// True if Trello itself refuses key, token or list: it answers with a few words, or with JSON.
fn is_trello_error(response: &ChannelResponse) -> bool {
    const BEGINNINGS: [&str; 5] = [
        "invalid ",
        "expired ",
        "unauthorized ",
        "the requested resource was not found",
        "model not found",
    ];
    let text = response.text().trim().to_ascii_lowercase();
    BEGINNINGS
        .iter()
        .any(|beginning| text.starts_with(beginning))
        || response.has_text_at("/message")
}

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let name = truncate_line(&call.alert.title, LengthLimit(500, LengthUnit::Chars));
    let text = call.text(
        Dialect::Markdown,
        TextSections::BELOW_TITLE,
        LengthLimit(10_000, LengthUnit::Chars),
    );
    // Key and token are in the body: in the URL they would appear in logs.
    let fields = [
        ("idList", call.required("list")),
        ("name", &name),
        ("desc", &text),
        ("key", call.required("key")),
        ("token", call.required("token")),
    ];
    ChannelRequest::post("https://api.trello.com/1/cards")
        .with_form(&fields)
        .into_steps()
}
