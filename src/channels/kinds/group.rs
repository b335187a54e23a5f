//! Group: sends nothing itself, its members are notified in its place.

use crate::channels::kinds::KindDefinition;
use crate::domain::channel::{ChannelClass, ChannelKind, SettingField, SettingFieldType};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "group",
        title: "Group",
        class: ChannelClass::Group,
        fields: &[SettingField::required(
            "channels",
            SettingFieldType::List(20),
            "names or UUIDs of channels of the same project",
        )],
        guide: "Each channel of the group is notified, by its own settings. A group cannot contain \
                a group. A channel that is renamed stays in its groups.",
        example: &[("channels", "email,phone")],
        ..ChannelKind::DEFAULTS
    },
    ..KindDefinition::DEFAULTS
};
