//! Channels that open and close incidents of Splunk On-Call.

use crate::domain::channel::{ChannelKind, Class, Field, Form};

pub(in crate::domain::channel) static VICTOROPS: ChannelKind = ChannelKind {
    name: "victorops",
    title: "Splunk On-Call",
    class: Class::Incident,
    fields: &[Field::required("url", Form::SecretUrl, "URL of the REST endpoint, routing key included")],
    guide: "In Splunk On-Call, which was VictorOps: Integrations, REST, Enable; copy the URL and put a routing key at its end.",
    example: &[("url", "https://alert.victorops.com/integrations/generic/1/alert/abc/ops")],
    ..ChannelKind::BASE
};
