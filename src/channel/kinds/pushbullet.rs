//! Pushbullet.

use serde_json::json;

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit};

pub(super) const PUSHBULLET: Sender = Sender {
    name: "pushbullet",
    pace: |_| pace(5, 10),
    send,
    judge: |call, _, response, now| match response.status {
        401 | 403 if response.has_text_at("/error/message") => response.closed(call.attempt, now),
        429 => response.later_at("x-ratelimit-reset", now),
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let show = Show { title: false, link: false, ..Show::ALL };
    let mut push = json!({
        "type": "note",
        "title": call.title(Limit(250, Unit::Chars)),
        "body": call.text(Dialect::Plain, show, Limit(4_000, Unit::Bytes)),
        // What is pushed twice under one name arrives once.
        "guid": call.attempt.id,
    });
    if let Some(link) = &call.alert.link {
        put(&mut push, "type", "link".into());
        put(&mut push, "url", link.as_str().into());
    }
    Request::post("https://api.pushbullet.com/v2/pushes").header("Access-Token", call.given("token")).json(&push).step()
}
