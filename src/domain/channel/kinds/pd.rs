//! Channels that open and resolve incidents of PagerDuty.

use crate::domain::channel::{ChannelKind, Class, Field, Form, shape};

pub(in crate::domain::channel) static PD: ChannelKind = ChannelKind {
    name: "pd",
    title: "PagerDuty",
    aliases: &["pagerduty"],
    class: Class::Incident,
    fields: &[
        Field::required("key", Form::Secret(64), "integration key").shaped(shape::pagerduty_key),
        Field::preset("region", Form::Choice(&["us", "eu"]), "us", "where the account is"),
        Field::preset("api", Form::Choice(&["v2", "v1"]), "v2", "version of the Events API; v1 only for old keys"),
    ],
    guide: "In PagerDuty: Services, the service, Integrations, Add an integration, Events API v2; copy the integration key. region=eu is \
        for accounts at eu.pagerduty.com.",
    example: &[("key", "0123456789abcdef0123456789abcdef")],
    ..ChannelKind::BASE
};
