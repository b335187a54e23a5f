//! Channels that post to a webhook of Discord.

use crate::domain::channel::{ChannelKind, Field, Form, shape};

pub(in crate::domain::channel) static DISCORD: ChannelKind = ChannelKind {
    name: "discord",
    title: "Discord",
    fields: &[
        Field::required("url", Form::SecretUrl, "webhook URL").shaped(shape::discord_url),
        Field::optional("thread", Form::Number(1, 9_223_372_036_854_775_807), "id of a thread in the channel"),
    ],
    guide: "In Discord: Edit channel, Integrations, Webhooks, New webhook, Copy webhook URL.",
    example: &[("url", "https://discord.com/api/webhooks/1/abc")],
    ..ChannelKind::BASE
};
