//! Channels that write to a channel or person of Zulip.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static ZULIP: ChannelKind = ChannelKind {
    name: "zulip",
    title: "Zulip",
    fields: &[
        SettingField::required("site", FieldType::Url, "server"),
        SettingField::required(
            "bot-email",
            FieldType::MailAddresses(1),
            "mail address of the bot",
        ),
        SettingField::required("key", FieldType::Secret(200), "API key of the bot"),
        SettingField::with_default(
            "type",
            FieldType::Choice(&["channel", "direct"]),
            "channel",
            "channel, or direct for people",
        ),
        SettingField::required(
            "to",
            FieldType::List(20),
            "name of the channel, or mail addresses of people",
        ),
        SettingField::optional(
            "topic",
            FieldType::Line(60),
            "topic in the channel; the name of the check if left out",
        ),
    ],
    guide: "In Zulip: Personal settings, Bots, Add a new bot (incoming webhook is enough); its \
            mail address and API key are shown there.",
    example: &[
        ("site", "https://zulip.example.org"),
        ("bot-email", "overdue-bot@zulip.example.org"),
        ("key", "abc"),
        ("to", "ops"),
    ],
    ..ChannelKind::DEFAULTS
};
