//! Channels that notify by Pushover.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Field, Form, shape};

pub(in crate::domain::channel) static PO: ChannelKind = ChannelKind {
    name: "po",
    title: "Pushover",
    aliases: &["pushover"],
    fields: &[
        Field::required("token", Form::Secret(100), "token of the application").shaped(shape::pushover_key),
        Field::required("user", Form::Secret(100), "user or group key").shaped(shape::pushover_key),
        Field::preset("priority", Form::Number(-3, 2), "0", "-2 to 2 for down; -3: do not send"),
        Field::preset("priority-up", Form::Number(-3, 2), "0", "the same for up"),
        Field::optional("device", Form::Line(200), "device, or several between commas; all if left out"),
        Field::optional("sound", Form::Line(40), "sound for down"),
    ],
    guide: "At https://pushover.net: the user key is on the first page; Create an application/API token gives the token. With priority 2 \
        it asks again every five minutes until somebody acknowledges, three hours at most.",
    example: &[("token", "azGDORePK8gMaC0QOYAMyEEuzJnyUi"), ("user", "uQiRzpo4DXghDmr9QzzfQu27cmVRsG")],
    off: |settings, event| settings.number(if event == Event::Up { "priority-up" } else { "priority" }) == Some(-3) && event != Event::Test,
    ..ChannelKind::BASE
};
