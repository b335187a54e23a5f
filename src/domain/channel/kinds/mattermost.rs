//! Channels that post to an incoming webhook of Mattermost.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static MATTERMOST: ChannelKind = ChannelKind {
    name: "mattermost",
    title: "Mattermost",
    fields: &[
        SettingField::required("url", FieldType::SecretUrl, "webhook URL"),
        SettingField::optional(
            "channel",
            FieldType::Line(80),
            "another channel, or @user, unless the webhook is locked to one",
        ),
        SettingField::optional(
            "username",
            FieldType::Line(80),
            "sender name of messages, if the server allows it",
        ),
    ],
    guide: "In Mattermost: Integrations, Incoming webhooks, Add incoming webhook; copy its URL.",
    example: &[("url", "https://chat.example.org/hooks/abc")],
    ..ChannelKind::DEFAULTS
};
