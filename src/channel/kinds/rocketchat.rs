//! Rocket.Chat: the same form as Slack's, with Markdown in it.

use crate::channel::answer::Verdict;
use crate::channel::kinds::slack::attachment;
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Unit};

pub(super) const ROCKETCHAT: Sender = Sender {
    name: "rocketchat",
    pace: |_| pace(1, 1),
    send,
    judge: |_, _, response, now| match response.status {
        // A webhook whose script refuses answers 200 as well.
        200 if response.json_at("/success") == false => Verdict::Unsendable,
        429 => response.later_at("x-ratelimit-reset", now),
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let mut message = attachment(call, Dialect::RocketChat, Limit(1_000, Unit::Chars));
    put(&mut message, "alias", "overdue".into());
    if let Some(channel) = call.get("channel") {
        put(&mut message, "channel", channel.into());
    }
    Request::post(call.given("url")).own().json(&message).step()
}
