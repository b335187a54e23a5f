//! Channels that open and resolve incidents of PagerTree.

use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static PAGERTREE: ChannelKind = ChannelKind {
    name: "pagertree",
    title: "PagerTree",
    class: ChannelClass::Incident,
    fields: &[
        SettingField::required("url", FieldType::SecretUrl, "URL of the integration"),
        SettingField::with_default(
            "integration",
            FieldType::Choice(&["webhook", "healthchecks"]),
            "webhook",
            "type of the integration in PagerTree; healthchecks: one that was created for \
             Healthchecks",
        ),
    ],
    guide: "In PagerTree: Integrations, New integration, Webhook; copy its URL. \
            integration=healthchecks sends the same messages as Healthchecks.",
    example: &[("url", "https://api.pagertree.com/integration/int_abc")],
    ..ChannelKind::DEFAULTS
};
