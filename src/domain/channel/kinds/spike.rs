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
            "type of the integration in Spike.sh; healthchecks: one that was created for \
             Healthchecks",
        ),
    ],
    guide: "In Spike: the service, Integrations, Add integration, Webhook; copy its URL. Spike \
            identifies an incident by its title, so renaming a check that is down leaves its \
            incident open. integration=healthchecks sends the same messages as Healthchecks.",
    example: &[("url", "https://hooks.spike.sh/abc/push-events")],
    ..ChannelKind::DEFAULTS
};
