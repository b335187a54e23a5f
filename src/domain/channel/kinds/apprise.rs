//! Channels that forward to an Apprise API server.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static APPRISE: ChannelKind = ChannelKind {
    name: "apprise",
    title: "Apprise",
    fields: &[
        SettingField::required("url", FieldType::Url, "Apprise API server"),
        SettingField::optional(
            "key",
            FieldType::Line(128),
            "key of a configuration that is saved on that server",
        ),
        SettingField::optional(
            "urls",
            FieldType::Secret(2_000),
            "Apprise URLs separated by commas, instead of a key",
        ),
        SettingField::optional("tag", FieldType::Line(200), "only targets with this tag"),
        SettingField::optional(
            "markdown",
            FieldType::Flag,
            "on: messages are Markdown, which plain-text targets show unformatted; off if left out",
        ),
    ],
    guide: "Run an Apprise API server and save a configuration under a key, or give Apprise URLs \
            here. It reaches services that overdue does not support itself.",
    example: &[("url", "http://127.0.0.1:8000"), ("key", "ops")],
    validate: |settings| match (settings.has_key("key"), settings.has_key("urls")) {
        (false, false) => Err("there is no target; give key=TEXT or urls=SECRET"),
        (true, true) => Err("both key and urls are given; give one of them"),
        _ => Ok(()),
    },
    ..ChannelKind::DEFAULTS
};
