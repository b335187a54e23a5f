//! Channels that open and resolve incidents of PagerTree.

use crate::domain::channel::{ChannelKind, Class, Field, Form};

pub(in crate::domain::channel) static PAGERTREE: ChannelKind = ChannelKind {
    name: "pagertree",
    title: "PagerTree",
    class: Class::Incident,
    fields: &[Field::required("url", Form::SecretUrl, "URL of the integration")],
    guide: "In PagerTree: Integrations, New integration, Webhook; copy its URL.",
    example: &[("url", "https://api.pagertree.com/integration/int_abc")],
    ..ChannelKind::BASE
};
