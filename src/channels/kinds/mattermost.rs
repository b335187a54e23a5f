//! Mattermost: the message format of Slack with Mattermost's own Markdown.

use crate::channels::kinds::slack::attachment_message;
use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};

pub(super) const MATTERMOST: ChannelSender = ChannelSender {
    name: "mattermost",
    send_rate: |_| rate(5, 1),
    send,
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let mut message = attachment_message(
        call,
        Dialect::Mattermost,
        LengthLimit(10_000, LengthUnit::Chars),
    );
    for key in ["channel", "username"] {
        if let Some(value) = call.get(key) {
            insert_member(&mut message, key, value.into());
        }
    }
    ChannelRequest::post(call.required("url"))
        .with_user_url()
        .with_json(&message)
        .into_steps()
}
