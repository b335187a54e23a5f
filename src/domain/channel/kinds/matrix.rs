//! Channels that write to a room of Matrix.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static MATRIX: ChannelKind = ChannelKind {
    name: "matrix",
    title: "Matrix",
    fields: &[
        SettingField::required("server", FieldType::Url, "homeserver"),
        SettingField::required(
            "token",
            FieldType::Secret(1_000),
            "access token of the account",
        ),
        SettingField::required(
            "room",
            FieldType::Line(255),
            "id (!...) or alias (#...) of the room",
        ),
    ],
    guide: "Create an account for overdue and sign in once to get its access token (in Element: \
            All settings, Help & About, Access token). Invite it to the room. The room's id is \
            under Room settings, Advanced. Encrypted rooms are not supported.",
    example: &[
        ("server", "https://matrix.example.org"),
        ("token", "syt_abc"),
        ("room", "!abc:example.org"),
    ],
    validate: |settings| match settings.get("room") {
        Some(room) if room.starts_with(['!', '#']) && room.len() > 1 => Ok(()),
        _ => Err(
            "room is neither an id nor an alias; give one like !abc:example.org or \
             #ops:example.org",
        ),
    },
    ..ChannelKind::DEFAULTS
};
