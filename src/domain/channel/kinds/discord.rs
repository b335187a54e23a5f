//! Channels that post to a webhook of Discord.

use crate::domain::channel::{ChannelKind, FieldType, SettingField, value_format};

pub(in crate::domain::channel) static DISCORD: ChannelKind = ChannelKind {
    name: "discord",
    title: "Discord",
    fields: &[
        SettingField::required("url", FieldType::SecretUrl, "webhook URL")
            .with_format(value_format::check_discord_url),
        SettingField::optional(
            "thread",
            FieldType::Number(1, 9_223_372_036_854_775_807),
            "id of a thread in the channel",
        ),
    ],
    guide: "In Discord: Edit channel, Integrations, Webhooks, New webhook, Copy webhook URL.",
    example: &[("url", "https://discord.com/api/webhooks/1/abc")],
    ..ChannelKind::DEFAULTS
};
