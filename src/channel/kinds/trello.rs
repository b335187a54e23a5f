//! Trello: a card for each downtime.

use crate::channel::answer::Response;
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};

pub(super) const TRELLO: Sender = Sender {
    name: "trello",
    pace: |_| pace(10, 1),
    send,
    judge: |call, _, response, now| match response.status {
        401 | 404 if is_own(response) => response.closed(call.attempt, now),
        _ => response.usual(now),
    },
    ..Sender::BASE
};

/// Whether Trello itself refuses key, token or list: it answers with a few words, or with JSON.
fn is_own(response: &Response) -> bool {
    const BEGINNINGS: [&str; 5] = ["invalid ", "expired ", "unauthorized ", "the requested resource was not found", "model not found"];
    let text = response.text().trim().to_ascii_lowercase();
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) || response.has_text_at("/message")
}

fn send(call: &Call<'_>) -> Vec<Step> {
    let name = cut(&call.alert.title, Limit(500, Unit::Chars));
    let text = call.text(Dialect::Markdown, Show::BELOW_TITLE, Limit(10_000, Unit::Chars));
    // Key and token in the body: in the URL they would end in logs.
    let fields =
        [("idList", call.given("list")), ("name", &name), ("desc", &text), ("key", call.given("key")), ("token", call.given("token"))];
    Request::post("https://api.trello.com/1/cards").form(&fields).step()
}
