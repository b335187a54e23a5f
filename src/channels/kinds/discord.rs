//! Discord: an embed, posted to a webhook.

use serde_json::{Value, json};

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_escaped};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::template::format_timestamp;
use crate::channels::transport_reply::{Verdict, retry_delay};
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, SettingField, SettingFieldType, field_value,
};

/// An embed has at most 6,000 characters with title and fields; its text alone at most 4,096.
const TEXT_LIMIT: LengthLimit = LengthLimit(3_000, LengthUnit::Utf16);

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "discord",
        title: "Discord",
        purpose: ChannelPurpose::Common,
        fields: &[
            SettingField::required("url", SettingFieldType::SecretUrl, "webhook URL")
                .with_format(check_webhook_url),
            SettingField::optional(
                "thread",
                SettingFieldType::Number(1, 9_223_372_036_854_775_807),
                "id of a thread in the channel",
            ),
        ],
        steps: &[
            "In Discord, open the settings of the text channel: Edit channel",
            "Integrations, Webhooks, New webhook",
            "Copy webhook URL",
        ],
        example: &[("url", "https://discord.com/api/webhooks/1/abc")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(5, 2),
    send,
    judge: |context, _, response, now| match response.status {
        401 | 403 | 404
            if response.has_text_at("/message") && response.json_at("/code").is_i64() =>
        {
            response.rejected_if_persistent(context.attempt, now)
        }
        429 => match response
            .json_at("/retry_after")
            .as_f64()
            .and_then(retry_delay)
        {
            Some(after) => Verdict::Retry { after: Some(after) },
            None => response.retry_later(now),
        },
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

/// Validates the URL of a webhook. Other hosts may have the same API.
fn check_webhook_url(text: &str) -> Result<(), &'static str> {
    let is_discord = ["discord.com", "discordapp.com"]
        .into_iter()
        .any(|domain| field_value::is_on_domain(text, domain));
    let is_webhook = || {
        field_value::host_and_path(text)
            .is_some_and(|(_, path)| path.starts_with("/api/") && path.contains("/webhooks/"))
    };
    if !is_discord || is_webhook() {
        return Ok(());
    }
    Err("is not a webhook URL; in Discord: Edit channel, Integrations, Webhooks, Copy webhook URL")
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let show = TextSections {
        title: false,
        facts: false,
        link: false,
        ..TextSections::ALL
    };
    let mut message = json!({ "allowed_mentions": { "parse": [] } });
    if context.attempt.plain {
        insert_member(
            &mut message,
            "content",
            context
                .text(
                    Dialect::Discord,
                    show,
                    LengthLimit(2_000, LengthUnit::Utf16),
                )
                .into(),
        );
    } else {
        let field = |label: &str, value: &str| {
            let value =
                truncate_escaped(value, Dialect::Discord, LengthLimit(200, LengthUnit::Utf16));
            json!({ "name": label, "value": value, "inline": value.encode_utf16().count() <= 40 })
        };
        let fields: Vec<Value> = alert
            .facts
            .iter()
            .take(10)
            .map(|fact| field(fact.label, &fact.value))
            .collect();
        let title_limit = LengthLimit(256, LengthUnit::Utf16);
        let title = truncate_escaped(&context.title(title_limit), Dialect::Discord, title_limit);
        let mut embed = json!({
            "title": title,
            "description": context.text(Dialect::Discord, show, TEXT_LIMIT),
            "color": alert.severity.color(),
            "fields": fields,
            "timestamp": format_timestamp(alert.at),
        });
        if let Some(link) = &alert.link {
            insert_member(&mut embed, "url", link.as_str().into());
        }
        insert_member(&mut message, "embeds", json!([embed]));
    }
    // Old settings contain the former domain.
    let url = context
        .required("url")
        .replacen("://discordapp.com/", "://discord.com/", 1);
    let thread = context
        .get("thread")
        .map_or_else(String::new, |thread| format!("&thread_id={thread}"));
    let separator = if url.contains('?') { '&' } else { '?' };
    ChannelRequest::post(format!("{url}{separator}wait=true{thread}"))
        .with_json(&message)
        .into_steps()
}
