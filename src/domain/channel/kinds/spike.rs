//! Channels that open and resolve incidents of Spike.sh.

use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static SPIKE: ChannelKind = ChannelKind {
    name: "spike",
    title: "Spike.sh",
    class: ChannelClass::Incident,
    fields: &[
        SettingField::required("url", FieldType::SecretUrl, "URL of the integration"),
        SettingField::with_default(
            "integration",
            FieldType::Choice(&["webhook", "healthchecks"]),
            "webhook",
            "type of the integration at Spike.sh; healthchecks: one that was made for a \
             Healthchecks",
        ),
    ],
    guide: "In Spike: the service, Integrations, Add integration, Webhook; copy its URL. Its \
            title names an incident, so renaming a check that is down leaves its incident open. \
            integration=healthchecks sends what a Healthchecks sends.",
    example: &[("url", "https://hooks.spike.sh/abc/push-events")],
    ..ChannelKind::DEFAULTS
};
