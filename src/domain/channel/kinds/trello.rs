//! Channels that add a card to a list of Trello.

use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField, value_format};

pub(in crate::domain::channel) static TRELLO: ChannelKind = ChannelKind {
    name: "trello",
    title: "Trello",
    class: ChannelClass::Machine,
    fields: &[
        SettingField::required("key", FieldType::Secret(100), "API key"),
        SettingField::required("token", FieldType::Secret(200), "token"),
        SettingField::required("list", FieldType::Line(64), "id of the list")
            .with_format(value_format::check_trello_list),
    ],
    guide: "At https://trello.com/power-ups/admin: New, API key; the link beside the key gives a \
            token. To find the id of a list, add .json to the URL of the board.",
    example: &[
        ("key", "abc"),
        ("token", "def"),
        ("list", "0123456789abcdef01234567"),
    ],
    ignores_event: |_, event| event == AlertEvent::Up,
    ..ChannelKind::DEFAULTS
};
