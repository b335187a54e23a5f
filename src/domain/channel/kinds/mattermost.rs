//! Channels that post to an incoming webhook of Mattermost.

use crate::domain::channel::{ChannelKind, Field, Form};

pub(in crate::domain::channel) static MATTERMOST: ChannelKind = ChannelKind {
    name: "mattermost",
    title: "Mattermost",
    fields: &[
        Field::required("url", Form::SecretUrl, "webhook URL"),
        Field::optional("channel", Form::Line(80), "another channel, or @user, unless the webhook is locked to one"),
        Field::optional("username", Form::Line(80), "name that messages come from, where the server allows it"),
    ],
    guide: "In Mattermost: Integrations, Incoming webhooks, Add incoming webhook; copy its URL.",
    example: &[("url", "https://chat.example.org/hooks/abc")],
    ..ChannelKind::BASE
};
