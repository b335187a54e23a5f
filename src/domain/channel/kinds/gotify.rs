//! Channels that send to an application of Gotify.

use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static GOTIFY: ChannelKind = ChannelKind {
    name: "gotify",
    title: "Gotify",
    fields: &[
        SettingField::required("url", FieldType::Url, "server"),
        SettingField::required("token", FieldType::Secret(200), "token of the application"),
        SettingField::optional(
            "priority",
            FieldType::Number(0, 10),
            "priority for down, 0 to 10; 0: do not send; the application's priority if left out",
        ),
        SettingField::optional("priority-up", FieldType::Number(0, 10), "the same for up"),
    ],
    guide: "In Gotify: Apps, Create application; its token is shown in the list. url is the \
            address at which you open Gotify.",
    example: &[
        ("url", "https://gotify.example.org"),
        ("token", "AbCdEfGhIjKlMnO"),
    ],
    ignores_event: |settings, event| {
        settings.number(if event == AlertEvent::Up {
            "priority-up"
        } else {
            "priority"
        }) == Some(0)
            && event != AlertEvent::Test
    },
    ..ChannelKind::DEFAULTS
};
