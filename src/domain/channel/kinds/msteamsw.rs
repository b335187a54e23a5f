//! Channels that post to a workflow of Microsoft Teams.

use crate::domain::channel::{ChannelKind, FieldType, SettingField, value_format};

pub(in crate::domain::channel) static MSTEAMSW: ChannelKind = ChannelKind {
    name: "msteamsw",
    title: "Microsoft Teams",
    aliases: &["teams"],
    fields: &[SettingField::required(
        "url",
        FieldType::SecretUrl,
        "URL of the workflow",
    )],
    guide: "In Teams: the channel's menu, Workflows, 'Send webhook alerts to a channel' (post to \
            a channel when a webhook request is received); copy the URL at the end. Old \
            webhook.office.com URLs of connectors no longer work.",
    warnings: |settings| {
        let is_old = settings
            .get("url")
            .is_some_and(|url| value_format::is_on_domain(url, "webhook.office.com"));
        let warning = "url is the URL of an old Office 365 connector, which Microsoft is shutting \
                       down; create a workflow and give its URL";
        is_old.then(|| warning.to_owned()).into_iter().collect()
    },
    example: &[(
        "url",
        "https://example.webhook.powerplatform.example/workflows/abc",
    )],
    ..ChannelKind::DEFAULTS
};
