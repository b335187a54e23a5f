//! Channels that send to an application of Gotify.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Field, Form};

pub(in crate::domain::channel) static GOTIFY: ChannelKind = ChannelKind {
    name: "gotify",
    title: "Gotify",
    fields: &[
        Field::required("url", Form::Url, "server"),
        Field::required("token", Form::Secret(200), "token of the application"),
        Field::optional(
            "priority",
            Form::Number(0, 10),
            "0 to 10 for down; the priority of the application if left out, and 0: do not send",
        ),
        Field::optional("priority-up", Form::Number(0, 10), "the same for up"),
    ],
    guide: "In Gotify: Apps, Create application; its token is shown in the list. url is the address you open Gotify at.",
    example: &[("url", "https://gotify.example.org"), ("token", "AbCdEfGhIjKlMnO")],
    off: |settings, event| settings.number(if event == Event::Up { "priority-up" } else { "priority" }) == Some(0) && event != Event::Test,
    ..ChannelKind::BASE
};
