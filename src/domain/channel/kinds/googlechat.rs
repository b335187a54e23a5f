//! Channels that post to a space of Google Chat.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static GOOGLECHAT: ChannelKind = ChannelKind {
    name: "googlechat",
    title: "Google Chat",
    fields: &[SettingField::required(
        "url",
        FieldType::SecretUrl,
        "webhook URL",
    )],
    guide: "In Google Chat: the name of the space, Apps & integrations, Webhooks, Add webhook; \
            copy its URL.",
    example: &[(
        "url",
        "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t",
    )],
    ..ChannelKind::DEFAULTS
};
