//! Channels that open and resolve incidents of PagerDuty.

use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField, value_format};

pub(in crate::domain::channel) static PD: ChannelKind = ChannelKind {
    name: "pd",
    title: "PagerDuty",
    aliases: &["pagerduty"],
    class: ChannelClass::Incident,
    fields: &[
        SettingField::required("key", FieldType::Secret(64), "integration key")
            .with_format(value_format::check_pagerduty_key),
        SettingField::with_default(
            "region",
            FieldType::Choice(&["us", "eu"]),
            "us",
            "region of the account",
        ),
        SettingField::with_default(
            "api",
            FieldType::Choice(&["v2", "v1"]),
            "v2",
            "version of the Events API; v1 only for old keys",
        ),
    ],
    guide: "In PagerDuty: Services, the service, Integrations, Add an integration, Events API v2; \
            copy the integration key. region=eu is for accounts at eu.pagerduty.com.",
    example: &[("key", "0123456789abcdef0123456789abcdef")],
    ..ChannelKind::DEFAULTS
};
