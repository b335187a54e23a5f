//! Channels that notify by Pushbullet.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static PUSHBULLET: ChannelKind = ChannelKind {
    name: "pushbullet",
    title: "Pushbullet",
    fields: &[SettingField::required(
        "token",
        FieldType::Secret(200),
        "access token",
    )],
    guide: "At https://www.pushbullet.com: Settings, Account, Create access token.",
    example: &[("token", "o.abc")],
    ..ChannelKind::DEFAULTS
};
