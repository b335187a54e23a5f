//! Channels that write to a room of Matrix.

use crate::domain::channel::{ChannelKind, Field, Form};

pub(in crate::domain::channel) static MATRIX: ChannelKind = ChannelKind {
    name: "matrix",
    title: "Matrix",
    fields: &[
        Field::required("server", Form::Url, "homeserver"),
        Field::required("token", Form::Secret(1_000), "access token of the account"),
        Field::required("room", Form::Line(255), "id (!...) or alias (#...) of the room"),
    ],
    guide: "Make an account for overdue and sign in once to get its access token (in Element: All settings, Help & About, Access token). \
        Invite it to the room. The room's id is under Room settings, Advanced. Rooms with encryption cannot be written to.",
    example: &[("server", "https://matrix.example.org"), ("token", "syt_abc"), ("room", "!abc:example.org")],
    rule: |settings| match settings.get("room") {
        Some(room) if room.starts_with(['!', '#']) && room.len() > 1 => Ok(()),
        _ => Err("room is neither an id nor an alias; give one like !abc:example.org or #ops:example.org"),
    },
    ..ChannelKind::BASE
};
