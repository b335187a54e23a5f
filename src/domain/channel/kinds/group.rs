//! Channels that represent several others.

use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static GROUP: ChannelKind = ChannelKind {
    name: "group",
    title: "Group",
    class: ChannelClass::Group,
    fields: &[SettingField::required(
        "channels",
        FieldType::List(20),
        "names or UUIDs of channels of the same project",
    )],
    guide: "What is told to a group is told to each of its channels, by their own settings. A \
            group cannot be in a group. Members keep their place when they are renamed.",
    example: &[("channels", "email,phone")],
    ..ChannelKind::DEFAULTS
};
