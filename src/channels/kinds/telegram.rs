//! Telegram: a message of a bot in a chat.

use serde_json::{Value, json};
use std::time::Duration;

use crate::channels::SendRate;
use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::transport_reply::{ChannelResponse, Verdict, retry_delay};
use crate::domain::timestamp::Timestamp;

/// Telegram applies its limit to the text without marks. They are few, so the text with them is
/// counted.
const TEXT_LIMIT: LengthLimit = LengthLimit(4_096, LengthUnit::Utf16);

pub(super) const TELEGRAM: ChannelSender = ChannelSender {
    name: "telegram",
    // Ids of groups are negative. A group accepts 20 messages per minute, any other chat one per
    // second.
    send_rate: |settings| match settings.get("chat") {
        Some(chat) if chat.starts_with('-') => rate(5, 3),
        _ => Some(SendRate {
            burst: 1,
            refill: Duration::from_secs(1),
        }),
    },
    send,
    judge: |_, _, response, now| judge(response, now),
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let dialect = if call.attempt.plain {
        Dialect::Plain
    } else {
        Dialect::Telegram
    };
    let mut message = json!({
        "chat_id": call.required("chat"),
        "text": call.text(dialect, TextSections::ALL, TEXT_LIMIT),
        "link_preview_options": { "is_disabled": true },
        "disable_notification": call.alert.is_up() && call.settings.is_on("silent-up"),
    });
    if !call.attempt.plain {
        insert_member(&mut message, "parse_mode", "HTML".into());
    }
    if let Some(thread) = call.settings.number("thread") {
        insert_member(&mut message, "message_thread_id", thread.into());
    }
    ChannelRequest::post(format!(
        "{}/bot{}/sendMessage",
        call.base_url("api"),
        call.required("token")
    ))
    .with_json(&message)
    .into_steps()
}

fn judge(response: &ChannelResponse, now: Timestamp) -> Verdict {
    let description = response
        .json_at("/description")
        .as_str()
        .unwrap_or_default()
        .to_ascii_lowercase();
    match response.status {
        429 => match response.json_at("/parameters/retry_after").as_f64() {
            Some(seconds) => Verdict::RetryLater {
                after: retry_delay(seconds),
            },
            None => response.retry_later(now),
        },
        // The group became a supergroup and has another id.
        400 => match response.json_at("/parameters/migrate_to_chat_id") {
            Value::Number(id) => Verdict::ChangeSetting {
                key: "chat",
                value: id.to_string(),
            },
            _ if description.contains("chat not found") => Verdict::ChannelUnusable,
            _ => Verdict::Unsendable,
        },
        // Only the service itself answers this in JSON.
        401 | 403 | 404 if response.json_at("/ok") == false => Verdict::ChannelUnusable,
        _ => response.default_verdict(now),
    }
}
