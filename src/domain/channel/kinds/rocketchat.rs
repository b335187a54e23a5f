//! Channels that post to an incoming webhook of Rocket.Chat.

use crate::domain::channel::{ChannelKind, Field, Form};

pub(in crate::domain::channel) static ROCKETCHAT: ChannelKind = ChannelKind {
    name: "rocketchat",
    title: "Rocket.Chat",
    fields: &[
        Field::required("url", Form::SecretUrl, "webhook URL"),
        Field::optional("channel", Form::Line(80), "another #channel or @user"),
    ],
    guide: "In Rocket.Chat: Workspace, Integrations, New, Incoming; enable it, choose the channel and the user to post as, save, and \
        copy the webhook URL.",
    example: &[("url", "https://chat.example.org/hooks/1/abc")],
    ..ChannelKind::BASE
};
