//! Mattermost: the message format of Slack with Mattermost's own Markdown.

use crate::channels::kinds::slack::attachment_message;
use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "mattermost",
        title: "Mattermost",
        purpose: ChannelPurpose::Chat,
        fields: &[
            SettingField::required("url", SettingFieldType::SecretUrl, "webhook URL"),
            SettingField::optional(
                "channel",
                SettingFieldType::Line(80),
                "another channel, or @user, unless the webhook is locked to one",
            ),
            SettingField::optional(
                "username",
                SettingFieldType::Line(80),
                "sender name of messages, if the server allows it",
            ),
        ],
        steps: &[
            "In Mattermost: Integrations, Incoming webhooks, Add incoming webhook",
            "Choose the channel and save",
            "Copy its URL",
        ],
        example: &[("url", "https://chat.example.org/hooks/abc")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(5, 1),
    send,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let mut message = attachment_message(
        context,
        Dialect::Mattermost,
        LengthLimit(10_000, LengthUnit::Chars),
    );
    for key in ["channel", "username"] {
        if let Some(value) = context.get(key) {
            insert_member(&mut message, key, value.into());
        }
    }
    ChannelRequest::post(context.required("url"))
        .with_user_url()
        .with_json(&message)
        .into_steps()
}
