//! Apprise: forwards to every service that an Apprise API server reaches.

use serde_json::json;

use crate::channels::alert::AlertSeverity;
use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member, percent_encode};
use crate::channels::transport_reply::Verdict;
use crate::domain::channel::{ChannelKind, SettingField, SettingFieldType};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "apprise",
        title: "Apprise",
        fields: &[
            SettingField::required("url", SettingFieldType::Url, "Apprise API server"),
            SettingField::optional(
                "key",
                SettingFieldType::Line(128),
                "key of a configuration that is saved on that server",
            ),
            SettingField::optional(
                "urls",
                SettingFieldType::Secret(2_000),
                "Apprise URLs separated by commas, instead of a key",
            ),
            SettingField::optional(
                "tag",
                SettingFieldType::Line(200),
                "only targets with this tag",
            ),
            SettingField::optional(
                "markdown",
                SettingFieldType::Flag,
                "on: messages are Markdown, which plain-text targets show unformatted; off if left \
                 out",
            ),
        ],
        guide: "Run an Apprise API server and save a configuration under a key, or give Apprise \
                URLs here. It reaches services that overdue does not support itself.",
        example: &[("url", "http://127.0.0.1:8000"), ("key", "ops")],
        validate: |settings| match (settings.has_key("key"), settings.has_key("urls")) {
            (false, false) => Err("there is no target; give key=TEXT or urls=SECRET"),
            (true, true) => Err("both key and urls are given; give one of them"),
            _ => Ok(()),
        },
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(5, 1),
    send,
    judge: |_, _, response, now| match response.status {
        // The key has no configuration.
        204 => Verdict::ChannelRejected,
        // Some of its targets failed. The others have received the message, and would receive it
        // twice.
        424 => Verdict::Delivered,
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let is_markdown = context.settings.is_on("markdown");
    let dialect = if is_markdown {
        Dialect::Markdown
    } else {
        Dialect::Plain
    };
    let mut message = json!({
        "title": context.title(LengthLimit(250, LengthUnit::Chars)),
        "body": context.text(
            dialect,
            TextSections::BELOW_TITLE,
            LengthLimit(30_000, LengthUnit::Bytes),
        ),
        "type": match alert.severity {
            AlertSeverity::Critical => "failure",
            AlertSeverity::Recovery => "success",
            AlertSeverity::Warning => "warning",
            AlertSeverity::Info => "info",
        },
        // Targets without support for Markdown show it unchanged.
        "format": if is_markdown { "markdown" } else { "text" },
    });
    for key in ["tag", "urls"] {
        if let Some(value) = context.get(key) {
            insert_member(&mut message, key, value.into());
        }
    }
    let key = context
        .get("key")
        .map_or_else(String::new, |key| format!("/{}", percent_encode(key, "")));
    ChannelRequest::post(format!("{}/notify{key}", context.base_url("url")))
        .with_user_url()
        .allow_slow()
        .with_json(&message)
        .into_steps()
}
