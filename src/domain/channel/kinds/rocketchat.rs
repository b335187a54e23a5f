//! Channels that post to an incoming webhook of Rocket.Chat.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static ROCKETCHAT: ChannelKind = ChannelKind {
    name: "rocketchat",
    title: "Rocket.Chat",
    fields: &[
        SettingField::required("url", FieldType::SecretUrl, "webhook URL"),
        SettingField::optional("channel", FieldType::Line(80), "another #channel or @user"),
    ],
    guide: "In Rocket.Chat: Workspace, Integrations, New, Incoming; enable it, choose the channel \
            and the user to post as, save, and copy the webhook URL.",
    example: &[("url", "https://chat.example.org/hooks/1/abc")],
    ..ChannelKind::DEFAULTS
};
