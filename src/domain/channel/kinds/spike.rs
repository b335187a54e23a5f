//! Channels that open and resolve incidents of Spike.sh.

use crate::domain::channel::{ChannelKind, Class, Field, Form};

pub(in crate::domain::channel) static SPIKE: ChannelKind = ChannelKind {
    name: "spike",
    title: "Spike.sh",
    class: Class::Incident,
    fields: &[Field::required("url", Form::SecretUrl, "URL of the integration")],
    guide: "In Spike: the service, Integrations, Add integration; copy its webhook URL.",
    example: &[("url", "https://hooks.spike.sh/abc/push-events")],
    ..ChannelKind::BASE
};
