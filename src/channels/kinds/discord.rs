//! Discord: an embed, posted to a webhook.

use serde_json::{Value, json};
use std::time::Duration;

use crate::channels::SendRate;
use crate::channels::kinds::{ChannelSender, SendContext};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_escaped};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::template::format_timestamp;
use crate::channels::transport_reply::{Verdict, retry_delay};

/// An embed has at most 6,000 characters with title and fields; its text alone at most 4,096.
const TEXT_LIMIT: LengthLimit = LengthLimit(3_000, LengthUnit::Utf16);

pub(super) const DISCORD: ChannelSender = ChannelSender {
    name: "discord",
    send_rate: |_| {
        Some(SendRate {
            burst: 5,
            refill: Duration::from_secs(2),
        })
    },
    send,
    judge: |call, _, response, now| match response.status {
        401 | 403 | 404
            if response.has_text_at("/message") && response.json_at("/code").is_i64() =>
        {
            response.unusable_if_persistent(call.attempt, now)
        }
        429 => match response
            .json_at("/retry_after")
            .as_f64()
            .and_then(retry_delay)
        {
            Some(after) => Verdict::RetryLater { after: Some(after) },
            None => response.retry_later(now),
        },
        _ => response.default_verdict(now),
    },
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
    let show = TextSections {
        title: false,
        facts: false,
        link: false,
        ..TextSections::ALL
    };
    let mut message = json!({ "allowed_mentions": { "parse": [] } });
    if call.attempt.plain {
        insert_member(
            &mut message,
            "content",
            call.text(
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
        let title = truncate_escaped(&call.title(title_limit), Dialect::Discord, title_limit);
        let mut embed = json!({
            "title": title,
            "description": call.text(Dialect::Discord, show, TEXT_LIMIT),
            "color": alert.severity.colour(),
            "fields": fields,
            "timestamp": format_timestamp(alert.at),
        });
        if let Some(link) = &alert.link {
            insert_member(&mut embed, "url", link.as_str().into());
        }
        insert_member(&mut message, "embeds", json!([embed]));
    }
    // Old settings contain the former domain.
    let url = call
        .required("url")
        .replacen("://discordapp.com/", "://discord.com/", 1);
    let thread = call
        .get("thread")
        .map_or_else(String::new, |thread| format!("&thread_id={thread}"));
    let separator = if url.contains('?') { '&' } else { '?' };
    ChannelRequest::post(format!("{url}{separator}wait=true{thread}"))
        .with_json(&message)
        .into_steps()
}
