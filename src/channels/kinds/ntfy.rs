//! ntfy: a message published to a topic, as JSON.

use serde_json::json;

use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::transport_reply::{Verdict, delay_until};
use crate::domain::timestamp::Timestamp;
use std::time::Duration;

/// A longer message would become an attachment (the limit is 4,096 bytes).
const TEXT_LIMIT: LengthLimit = LengthLimit(3_800, LengthUnit::Bytes);

pub(super) const NTFY: ChannelSender = ChannelSender {
    name: "ntfy",
    send_rate: |_| rate(10, 6),
    send,
    judge: |_, _, response, now| match response.status {
        // The daily quota is used up. It resets at midnight, UTC.
        429 if response.json_at("/code") == 42_908 => Verdict::RetryLater {
            after: delay_until(next_midnight(now), now),
        },
        // The response has no Retry-After.
        429 if response.header("retry-after").is_none() => Verdict::RetryLater {
            after: Some(Duration::from_secs(60)),
        },
        _ => response.default_verdict(now),
    },
    ..ChannelSender::DEFAULTS
};

fn next_midnight(now: Timestamp) -> i64 {
    (now.secs().div_euclid(86_400) + 1) * 86_400
}

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
    let is_markdown = call.settings.is_on("markdown");
    let dialect = if is_markdown {
        Dialect::Markdown
    } else {
        Dialect::Plain
    };
    let mut message = json!({
        "topic": call.required("topic"),
        "title": truncate_line(&alert.title, LengthLimit(250, LengthUnit::Bytes)),
        "message": call.text(
            dialect,
            TextSections { link: false, ..TextSections::BELOW_TITLE },
            TEXT_LIMIT,
        ),
        "tags": [alert.severity.tag()],
        // A duplicate replaces the earlier message (ntfy 2.16).
        "sequence_id": call.attempt.id,
    });
    if is_markdown {
        insert_member(&mut message, "markdown", true.into());
    }
    // Priority 0 sends nothing, but a test must be visible.
    if let Some(priority) = call.priority().filter(|priority| *priority > 0) {
        insert_member(&mut message, "priority", priority.into());
    }
    if let Some(link) = &alert.link {
        insert_member(&mut message, "click", link.as_str().into());
    }
    let request = ChannelRequest::post(format!("{}/", call.base_url("url"))).with_user_url();
    let request = match (call.get("token"), call.get("user"), call.get("password")) {
        (Some(token), ..) => request.with_bearer_token(token),
        (None, Some(user), Some(password)) => request.with_basic_auth(user, password),
        _ => request,
    };
    request.with_json(&message).into_steps()
}
