//! Channels that notify by Pushover.

use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelKind, FieldType, SettingField, value_format};

pub(in crate::domain::channel) static PO: ChannelKind = ChannelKind {
    name: "po",
    title: "Pushover",
    aliases: &["pushover"],
    fields: &[
        SettingField::required("token", FieldType::Secret(100), "token of the application")
            .with_format(value_format::check_pushover_key),
        SettingField::required("user", FieldType::Secret(100), "user or group key")
            .with_format(value_format::check_pushover_key),
        SettingField::with_default(
            "priority",
            FieldType::Number(-3, 2),
            "0",
            "priority for down, -2 to 2; -3: do not send",
        ),
        SettingField::with_default(
            "priority-up",
            FieldType::Number(-3, 2),
            "0",
            "the same for up",
        ),
        SettingField::optional(
            "device",
            FieldType::Line(200),
            "device, or several separated by commas; all if left out",
        ),
        SettingField::optional("sound", FieldType::Line(40), "sound for down"),
    ],
    guide: "At https://pushover.net: the user key is on the first page; Create an application/API \
            token gives the token. With priority 2 the notification repeats every five minutes \
            until a user acknowledges it, for at most three hours.",
    example: &[
        ("token", "azGDORePK8gMaC0QOYAMyEEuzJnyUi"),
        ("user", "uQiRzpo4DXghDmr9QzzfQu27cmVRsG"),
    ],
    ignores_event: |settings, event| {
        settings.number(if event == AlertEvent::Up {
            "priority-up"
        } else {
            "priority"
        }) == Some(-3)
            && event != AlertEvent::Test
    },
    ..ChannelKind::DEFAULTS
};
