//! Splunk On-Call, formerly VictorOps: an incident for each check.

use serde_json::json;

use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::domain::alert::AlertEvent;

pub(super) const VICTOROPS: ChannelSender = ChannelSender {
    name: "victorops",
    send_rate: |_| rate(10, 1),
    send,
    judge: |call, _, response, now| match response.status {
        404 if response.has_text_at("/result") => {
            response.unusable_if_persistent(call.attempt, now)
        }
        _ => response.default_verdict(now),
    },
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
    let types: &[&str] = match alert.event {
        // A test must not stay open.
        AlertEvent::Test => &["CRITICAL", "RECOVERY"],
        AlertEvent::Up | AlertEvent::Closed => &["RECOVERY"],
        _ => &["CRITICAL"],
    };
    let message = |message_type: &&str| {
        ChannelRequest::post(call.required("url")).with_json(&json!({
            "entity_id": alert.incident_key(call.attempt),
            "message_type": message_type,
            "entity_display_name": truncate_line(&alert.title, LengthLimit(250, LengthUnit::Chars)),
            "state_message": call.text(
                Dialect::Plain,
                TextSections::BELOW_TITLE,
                LengthLimit(15_000, LengthUnit::Bytes),
            ),
            "monitoring_tool": "overdue",
        }))
    };
    types
        .iter()
        .flat_map(|one| message(one).into_steps())
        .collect()
}
