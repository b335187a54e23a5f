//! Channels that publish to a topic of ntfy.

use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelKind, ChannelSettings, FieldType, SettingField, value_format};

pub(in crate::domain::channel) static NTFY: ChannelKind = ChannelKind {
    name: "ntfy",
    title: "ntfy",
    fields: &[
        SettingField::with_default(
            "url",
            FieldType::Url,
            "https://ntfy.sh",
            "server, without the topic",
        ),
        SettingField::required(
            "topic",
            FieldType::Line(64),
            "topic; on a public server it acts as a password",
        )
        .with_format(value_format::check_ntfy_topic),
        SettingField::optional("token", FieldType::Secret(200), "access token (tk_...)"),
        SettingField::optional(
            "user",
            FieldType::Line(200),
            "user name, instead of a token",
        ),
        SettingField::optional("password", FieldType::Secret(200), "password of the user"),
        SettingField::with_default(
            "priority",
            FieldType::Number(0, 5),
            "3",
            "priority for down, 1 to 5; 0: do not send",
        ),
        SettingField::with_default(
            "priority-up",
            FieldType::Number(0, 5),
            "3",
            "the same for up",
        ),
        SettingField::optional(
            "markdown",
            FieldType::Flag,
            "on: messages are Markdown, which phone apps show unformatted; off if left out",
        ),
    ],
    guide: "Choose a topic that is hard to guess, or one on your own server, and subscribe to it \
            in the app. On a server with accounts: Account, Access tokens, Create access token.",
    example: &[("topic", "backups-x7Qm2")],
    validate: rule,
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

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
    let token = settings.has_key("token");
    let user = settings.has_key("user");
    match () {
        () if token && user => Err("both token and user are given; give one of them"),
        () if user != settings.has_key("password") => {
            Err("user and password belong together; give both or none")
        }
        () if settings
            .get("topic")
            .is_some_and(|topic| topic.contains(['/', ',', '?', '#'])) =>
        {
            Err(
                "topic is a name, not a URL; give the server as url=URL and the name alone as \
                 topic",
            )
        }
        () => Ok(()),
    }
}
