//! Channels that open and close alerts of Opsgenie.

use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static OPSGENIE: ChannelKind = ChannelKind {
    name: "opsgenie",
    title: "Opsgenie",
    class: ChannelClass::Incident,
    fields: &[
        SettingField::required("key", FieldType::Secret(200), "API key of the integration"),
        SettingField::with_default(
            "region",
            FieldType::Choice(&["us", "eu"]),
            "us",
            "region of the account",
        ),
    ],
    guide: "In Opsgenie: the team, Integrations, Add integration, API; copy the key. Atlassian \
            shuts Opsgenie down on 2027-04-05.",
    example: &[("key", "0123-abc")],
    ..ChannelKind::DEFAULTS
};
