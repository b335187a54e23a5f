//! Telegram: a message of a bot in a chat.

use serde_json::{Value, json};
use std::time::Duration;

use crate::channel::Pace;
use crate::channel::answer::{Response, Verdict, pause};
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit};
use crate::domain::moment::Moment;

/// Its limit holds after marks are taken out; they are few, so the text with them is counted.
const TEXT_LIMIT: Limit = Limit(4_096, Unit::Utf16);

pub(super) const TELEGRAM: Sender = Sender {
    name: "telegram",
    // Ids of groups are negative; a group takes 20 messages a minute, any other chat one a second.
    pace: |settings| match settings.get("chat") {
        Some(chat) if chat.starts_with('-') => pace(5, 3),
        _ => Some(Pace { burst: 1, refill: Duration::from_secs(1) }),
    },
    send,
    judge: |_, _, response, now| judge(response, now),
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let dialect = if call.attempt.plain { Dialect::Plain } else { Dialect::Telegram };
    let mut message = json!({
        "chat_id": call.given("chat"),
        "text": call.text(dialect, Show::ALL, TEXT_LIMIT),
        "link_preview_options": { "is_disabled": true },
        "disable_notification": call.alert.is_up() && call.settings.is_on("silent-up"),
    });
    if !call.attempt.plain {
        put(&mut message, "parse_mode", "HTML".into());
    }
    if let Some(thread) = call.settings.number("thread") {
        put(&mut message, "message_thread_id", thread.into());
    }
    Request::post(format!("{}/bot{}/sendMessage", call.base("api"), call.given("token"))).json(&message).step()
}

fn judge(response: &Response, now: Moment) -> Verdict {
    let description = response.json_at("/description").as_str().unwrap_or_default().to_ascii_lowercase();
    match response.status {
        429 => match response.json_at("/parameters/retry_after").as_f64() {
            Some(seconds) => Verdict::Later { after: pause(seconds) },
            None => response.later(now),
        },
        // The group became a supergroup and has another id.
        400 => match response.json_at("/parameters/migrate_to_chat_id") {
            Value::Number(id) => Verdict::Changed { key: "chat", value: id.to_string() },
            _ if description.contains("chat not found") => Verdict::Closed,
            _ => Verdict::Unsendable,
        },
        // Only the service itself says so in JSON.
        401 | 403 | 404 if response.json_at("/ok") == false => Verdict::Closed,
        _ => response.usual(now),
    }
}
