//! Channels that post to an incoming webhook of Slack.

use crate::domain::channel::{ChannelKind, FieldType, SettingField, value_format};

pub(in crate::domain::channel) static SLACK: ChannelKind = ChannelKind {
    name: "slack",
    title: "Slack",
    fields: &[
        SettingField::required("url", FieldType::SecretUrl, "webhook URL")
            .with_format(value_format::check_slack_url),
        SettingField::optional(
            "username",
            FieldType::Line(80),
            "sender name of messages, if the workspace allows it",
        ),
    ],
    guide: "At https://api.slack.com/apps: Create new app, Incoming webhooks, Activate, Add new \
            webhook to workspace; choose the channel there and copy the webhook URL.",
    example: &[("url", "https://hooks.slack.com/services/T0/B0/abc")],
    ..ChannelKind::DEFAULTS
};
