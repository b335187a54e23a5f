//! GitHub: an issue for each downtime.

use serde_json::json;

use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::transport_reply::{ChannelResponse, Verdict};
use crate::domain::timestamp::Timestamp;

pub(super) const GITHUB: ChannelSender = ChannelSender {
    name: "github",
    send_rate: |_| rate(5, 3),
    send,
    judge: |call, _, response, now| judge(call, response, now),
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let labels: Vec<_> = call.settings.items("labels").collect();
    let issue = json!({
        "title": truncate_line(&call.alert.title, LengthLimit(250, LengthUnit::Chars)),
        "body": call.text(
            Dialect::Markdown,
            TextSections::BELOW_TITLE,
            LengthLimit(60_000, LengthUnit::Bytes),
        ),
        "labels": labels,
    });
    ChannelRequest::post(format!(
        "{}/repos/{}/issues",
        call.base_url("api"),
        call.required("repo")
    ))
    .with_bearer_token(call.required("token"))
    .with_header("Accept", "application/vnd.github+json")
    .with_header("X-GitHub-Api-Version", "2022-11-28")
    .with_header("User-Agent", concat!("overdue/", env!("CARGO_PKG_VERSION")))
    .with_json(&issue)
    .into_steps()
}

fn judge(call: &SendContext<'_>, response: &ChannelResponse, now: Timestamp) -> Verdict {
    let is_own = response.has_text_at("/message") && response.has_text_at("/documentation_url");
    match response.status {
        401 | 404 | 410 if is_own => response.unusable_if_persistent(call.attempt, now),
        403 | 429 if response.header("retry-after").is_some() => response.retry_later(now),
        403 | 429 => response.retry_at_header("x-ratelimit-reset", now),
        _ => response.default_verdict(now),
    }
}
