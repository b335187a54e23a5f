//! Rocket.Chat: the message format of Slack, with Markdown.

use crate::channels::kinds::slack::attachment_message;
use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::transport_reply::Verdict;
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "rocketchat",
        title: "Rocket.Chat",
        purpose: ChannelPurpose::Chat,
        fields: &[
            SettingField::required("url", SettingFieldType::SecretUrl, "webhook URL"),
            SettingField::optional(
                "channel",
                SettingFieldType::Line(80),
                "another #channel or @user",
            ),
        ],
        steps: &[
            "In Rocket.Chat: Workspace, Integrations, New, Incoming",
            "Enable it, and choose the channel and the user to post as",
            "Save, and copy the webhook URL",
        ],
        example: &[("url", "https://chat.example.org/hooks/1/abc")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(1, 1),
    send,
    judge: |_, _, response, now| match response.status {
        // A webhook whose script refuses also answers 200.
        200 if response.json_at("/success") == false => Verdict::MessageRejected,
        429 => response.retry_at_header("x-ratelimit-reset", now),
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let mut message = attachment_message(
        context,
        Dialect::RocketChat,
        LengthLimit(1_000, LengthUnit::Chars),
    );
    insert_member(&mut message, "alias", "overdue".into());
    if let Some(channel) = context.get("channel") {
        insert_member(&mut message, "channel", channel.into());
    }
    ChannelRequest::post(context.required("url"))
        .with_user_url()
        .with_json(&message)
        .into_steps()
}
