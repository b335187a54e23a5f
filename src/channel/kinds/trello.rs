//! Trello: a card for each downtime.

use crate::channel::answer::Verdict;
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};

pub(super) const TRELLO: Sender = Sender {
    name: "trello",
    pace: |_| pace(10, 1),
    send,
    judge: |_, _, response, now| match response.status {
        401 | 404 => Verdict::Closed,
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let name = cut(&call.alert.title, Limit(500, Unit::Chars));
    let text = call.text(Dialect::Markdown, Show::BELOW_TITLE, Limit(10_000, Unit::Chars));
    // Key and token in the body: in the URL they would end in logs.
    let fields =
        [("idList", call.given("list")), ("name", &name), ("desc", &text), ("key", call.given("key")), ("token", call.given("token"))];
    Request::post("https://api.trello.com/1/cards").form(&fields).step()
}
