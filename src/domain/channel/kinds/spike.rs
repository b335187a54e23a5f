//! Channels that open and resolve incidents of Spike.sh.

use crate::domain::channel::{ChannelKind, Class, Field, Form};

pub(in crate::domain::channel) static SPIKE: ChannelKind = ChannelKind {
    name: "spike",
    title: "Spike.sh",
    class: Class::Incident,
    fields: &[
        Field::required("url", Form::SecretUrl, "URL of the integration"),
        Field::preset(
            "integration",
            Form::Choice(&["webhook", "healthchecks"]),
            "webhook",
            "type of the integration at Spike.sh; healthchecks: one that was made for a Healthchecks",
        ),
    ],
    guide: "In Spike: the service, Integrations, Add integration, Webhook; copy its URL. Its title names an incident, so renaming a check \
        that is down leaves its incident open. integration=healthchecks sends what a Healthchecks sends.",
    example: &[("url", "https://hooks.spike.sh/abc/push-events")],
    ..ChannelKind::BASE
};
