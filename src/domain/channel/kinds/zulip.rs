//! Channels that write to a channel or person of Zulip.

use crate::domain::channel::{ChannelKind, Field, Form};

pub(in crate::domain::channel) static ZULIP: ChannelKind = ChannelKind {
    name: "zulip",
    title: "Zulip",
    fields: &[
        Field::required("site", Form::Url, "server"),
        Field::required("bot-email", Form::MailAddresses(1), "mail address of the bot"),
        Field::required("key", Form::Secret(200), "API key of the bot"),
        Field::preset("type", Form::Choice(&["channel", "direct"]), "channel", "channel, or direct for people"),
        Field::required("to", Form::List(20), "name of the channel, or mail addresses of people"),
        Field::optional("topic", Form::Line(60), "topic in the channel; the name of the check if left out"),
    ],
    guide: "In Zulip: Personal settings, Bots, Add a new bot (incoming webhook is enough); its mail address and API key are shown there.",
    example: &[("site", "https://zulip.example.org"), ("bot-email", "overdue-bot@zulip.example.org"), ("key", "abc"), ("to", "ops")],
    ..ChannelKind::BASE
};
