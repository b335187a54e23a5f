//! Microsoft Teams: an adaptive card, posted to a workflow.

use std::time::Duration;

use serde_json::{Value, json};

use crate::channels::SendRate;
use crate::channels::alert::AlertSeverity;
use crate::channels::kinds::{KindDefinition, SendContext};
use crate::channels::render::sanitize::to_one_line;
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, SettingField, SettingFieldType, field_value,
};

/// A card has at most 28 kB; JSON may need several bytes for one.
const TEXT_LIMIT: LengthLimit = LengthLimit(4_000, LengthUnit::Bytes);

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "msteamsw",
        title: "Microsoft Teams",
        purpose: ChannelPurpose::Chat,
        aliases: &["teams"],
        fields: &[SettingField::required(
            "url",
            SettingFieldType::SecretUrl,
            "URL of the workflow",
        )],
        steps: &[
            "In Teams, open the menu of the channel: Workflows",
            "Choose 'Send webhook alerts to a channel' (post to a channel when a webhook request \
             is received)",
            "Copy the URL at the end",
        ],
        guide: "Old webhook.office.com URLs of connectors no longer work.",
        warnings: |settings| {
            let is_old = settings
                .get("url")
                .is_some_and(|url| field_value::is_on_domain(url, "webhook.office.com"));
            let warning = "url is the URL of an old Office 365 connector, which Microsoft is \
                           shutting down; create a workflow and give its URL";
            is_old.then(|| warning.to_owned()).into_iter().collect()
        },
        example: &[(
            "url",
            "https://example.webhook.powerplatform.example/workflows/abc",
        )],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| {
        Some(SendRate {
            burst: 4,
            refill: Duration::from_millis(250),
        })
    },
    send,
    judge: |context, _, response, now| match response.status {
        401 | 403 | 404 | 410 if response.has_text_at("/error/code") => {
            response.rejected_if_persistent(context.attempt, now)
        }
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let color = match alert.severity {
        AlertSeverity::Critical => "attention",
        AlertSeverity::Recovery => "good",
        AlertSeverity::Warning => "warning",
        AlertSeverity::Info => "default",
    };
    let show = TextSections {
        title: false,
        facts: false,
        link: false,
        output: 0,
    };
    // Text blocks support a little Markdown.
    let text = context.text(Dialect::Markdown, show, TEXT_LIMIT);
    let title = context.title(LengthLimit(300, LengthUnit::Chars));
    let mut body = vec![json!({
        "type": "TextBlock",
        "text": Dialect::Markdown.escape(&title),
        "weight": "bolder",
        "size": "large",
        "wrap": true,
        "color": color,
    })];
    if !text.is_empty() {
        body.push(json!({ "type": "TextBlock", "text": text, "wrap": true }));
    }
    if !context.attempt.plain {
        let fact_json = |label: &str, value: &str| {
            let value = truncate_line(value, LengthLimit(300, LengthUnit::Chars));
            json!({ "title": label, "value": Dialect::Markdown.escape(&value) })
        };
        let facts: Vec<Value> = alert
            .facts
            .iter()
            .map(|fact| fact_json(fact.label, &fact.value))
            .collect();
        if !facts.is_empty() {
            body.push(json!({ "type": "FactSet", "facts": facts }));
        }
        if let Some(output) = &alert.output {
            let lines: Vec<_> = output.text.lines().collect();
            let last = lines
                .get(lines.len().saturating_sub(20)..)
                .unwrap_or_default();
            let snippet: Vec<_> = last
                .iter()
                .map(|line| truncate_line(&to_one_line(line), LengthLimit(200, LengthUnit::Bytes)))
                .collect();
            // Phones do not support this block.
            let lines: Vec<_> = snippet
                .iter()
                .map(|line| Dialect::Markdown.escape(line))
                .collect();
            let text = json!({
                "type": "TextBlock",
                "text": lines.join("\n\n"),
                "fontType": "monospace",
                "wrap": true,
            });
            body.push(json!({
                "type": "CodeBlock",
                "codeSnippet": snippet.join("\n"),
                "language": "PlainText",
                "fallback": text,
            }));
        }
    }
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "fallbackText": title,
        "msteams": { "width": "Full" },
        "body": body,
    });
    if let Some(link) = &alert.link {
        insert_member(
            &mut card,
            "actions",
            json!([{ "type": "Action.OpenUrl", "title": alert.link_text(), "url": link }]),
        );
    }
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": null,
        "content": card,
    });
    ChannelRequest::post(context.required("url"))
        .with_json(&json!({ "type": "message", "attachments": [attachment] }))
        .into_steps()
}
