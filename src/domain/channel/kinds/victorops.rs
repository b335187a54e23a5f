//! Channels that open and close incidents of Splunk On-Call.

use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static VICTOROPS: ChannelKind = ChannelKind {
    name: "victorops",
    title: "Splunk On-Call",
    class: ChannelClass::Incident,
    fields: &[SettingField::required(
        "url",
        FieldType::SecretUrl,
        "URL of the REST endpoint, routing key included",
    )],
    guide: "In Splunk On-Call (formerly VictorOps): Integrations, REST, Enable; copy the URL and \
            put a routing key at its end.",
    example: &[(
        "url",
        "https://alert.victorops.com/integrations/generic/1/alert/abc/ops",
    )],
    ..ChannelKind::DEFAULTS
};
