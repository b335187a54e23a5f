//! Slack: an attachment, posted to an incoming webhook.

use serde_json::{Value, json};

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{
    Dialect, LengthLimit, LengthUnit, TextSections, disarm_mentions, render_output, truncate_line,
};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, SettingField, SettingFieldType, field_value,
};

/// Errors of a webhook that no longer accepts messages.
const UNUSABLE_WEBHOOK_ERRORS: [&str; 9] = [
    "action_prohibited",
    "channel_is_archived",
    "channel_not_found",
    "invalid_token",
    "no_active_hooks",
    "no_service",
    "no_service_id",
    "no_team",
    "team_disabled",
];

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "slack",
        title: "Slack",
        purpose: ChannelPurpose::Common,
        fields: &[
            SettingField::required("url", SettingFieldType::SecretUrl, "webhook URL")
                .with_format(check_webhook_url),
            SettingField::optional(
                "username",
                SettingFieldType::Line(80),
                "sender name of messages, if the workspace allows it",
            ),
        ],
        steps: &[
            "At https://api.slack.com/apps, choose Create new app",
            "Incoming webhooks, Activate",
            "Add new webhook to workspace, and choose the channel there",
            "Copy the webhook URL",
        ],
        example: &[("url", "https://hooks.slack.com/services/T0/B0/abc")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(1, 1),
    send,
    judge: |context, _, response, now| match response.status {
        400 | 403 | 404 | 410 if UNUSABLE_WEBHOOK_ERRORS.contains(&response.text().trim()) => {
            response.rejected_if_persistent(context.attempt, now)
        }
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

/// Validates the URL of a webhook. Other hosts may accept the same messages.
fn check_webhook_url(text: &str) -> Result<(), &'static str> {
    let is_slack = ["slack.com", "slack-gov.com"]
        .into_iter()
        .any(|domain| field_value::is_on_domain(text, domain));
    let is_webhook = || {
        field_value::host_and_path(text).is_some_and(|(host, path)| {
            let parts: Vec<_> = path
                .strip_prefix("/services/")
                .unwrap_or_default()
                .split('/')
                .collect();
            host.starts_with("hooks.")
                && parts.len() == 3
                && parts.iter().all(|part| !part.is_empty())
        })
    };
    if !is_slack || is_webhook() {
        return Ok(());
    }
    Err("is not the URL of an incoming webhook; copy one like \
         https://hooks.slack.com/services/T0/B0/abc from Incoming webhooks")
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let mut message = attachment_message(
        context,
        Dialect::Slack,
        LengthLimit(3_000, LengthUnit::Chars),
    );
    if let Some(username) = context.get("username") {
        insert_member(&mut message, "username", username.into());
    }
    ChannelRequest::post(context.required("url"))
        .with_json(&message)
        .into_steps()
}

/// Message in the format of Slack, which other services share.
pub(super) fn attachment_message(
    context: &SendContext<'_>,
    dialect: Dialect,
    limit: LengthLimit,
) -> Value {
    let alert = context.alert;
    // Slack has no escapes for its marks. Marks are therefore turned off for text from users,
    // except in the block of the output.
    let is_slack = dialect == Dialect::Slack;
    let show = TextSections {
        title: false,
        facts: false,
        link: false,
        output: if is_slack {
            0
        } else {
            TextSections::ALL.output
        },
    };
    if context.attempt.plain {
        let mut message = json!({ "text": context.text(dialect, show, limit) });
        if is_slack {
            insert_member(&mut message, "mrkdwn", false.into());
        }
        return message;
    }
    let field = |label: &str, value: &str| {
        let value = truncate_line(value, LengthLimit(200, LengthUnit::Chars));
        let is_short = value.chars().count() <= 40;
        json!({ "title": label, "value": dialect.escape(&value), "short": is_short })
    };
    let fields: Vec<Value> = alert
        .facts
        .iter()
        .map(|fact| field(fact.label, &fact.value))
        .collect();
    let title = context.title(LengthLimit(1_000, LengthUnit::Chars));
    // Rocket.Chat shows titles unchanged.
    let written = if dialect == Dialect::RocketChat {
        disarm_mentions(&title)
    } else {
        dialect.escape(&title)
    };
    let marked: &[&str] = if is_slack { &[] } else { &["text", "fields"] };
    let color = format!("#{:06x}", alert.severity.color());
    let mut attachment = json!({
        // It may be shown unchanged, so it must contain no mention.
        "fallback": written,
        "color": color,
        "title": written,
        "text": context.text(dialect, show, limit),
        "mrkdwn_in": marked,
        "fields": fields,
    });
    if let Some(link) = &alert.link {
        insert_member(&mut attachment, "title_link", link.as_str().into());
    }
    let block = render_output(alert, dialect, limit)
        .filter(|_| is_slack)
        .map(|(label, block)| {
            json!({
                "fallback": label,
                "color": color,
                "title": label,
                "text": block,
                "mrkdwn_in": ["text"],
            })
        });
    let attachments: Vec<_> = [Some(attachment), block].into_iter().flatten().collect();
    json!({ "attachments": attachments })
}
