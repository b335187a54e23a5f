//! Mattermost: the same form as Slack's, with its own Markdown in it.

use crate::channel::kinds::slack::attachment;
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Unit};

pub(super) const MATTERMOST: Sender = Sender { name: "mattermost", pace: |_| pace(5, 1), send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let mut message = attachment(call, Dialect::Mattermost, Limit(10_000, Unit::Chars));
    for key in ["channel", "username"] {
        if let Some(value) = call.get(key) {
            put(&mut message, key, value.into());
        }
    }
    Request::post(call.given("url")).own().json(&message).step()
}
