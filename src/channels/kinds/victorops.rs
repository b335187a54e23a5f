//! Splunk On-Call, formerly VictorOps: an incident for each check.

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, SettingField, SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "victorops",
        title: "Splunk On-Call",
        purpose: ChannelPurpose::Incidents,
        class: ChannelClass::Incident,
        fields: &[SettingField::required(
            "url",
            SettingFieldType::SecretUrl,
            "URL of the REST endpoint, routing key included",
        )],
        steps: &[
            "In Splunk On-Call (formerly VictorOps): Integrations, REST, Enable",
            "Copy the URL",
            "Put a routing key at its end",
        ],
        example: &[(
            "url",
            "https://alert.victorops.com/integrations/generic/1/alert/abc/ops",
        )],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(10, 1),
    send,
    judge: |context, _, response, now| match response.status {
        404 if response.has_text_at("/result") => {
            response.rejected_if_persistent(context.attempt, now)
        }
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let types: &[&str] = match alert.event {
        // A test must not stay open.
        AlertEvent::Test => &["CRITICAL", "RECOVERY"],
        AlertEvent::Up | AlertEvent::Closed => &["RECOVERY"],
        _ => &["CRITICAL"],
    };
    let message = |message_type: &&str| {
        ChannelRequest::post(context.required("url")).with_json(&json!({
            "entity_id": alert.incident_key(context.attempt),
            "message_type": message_type,
            "entity_display_name": truncate_line(&alert.title, LengthLimit(250, LengthUnit::Chars)),
            "state_message": context.text(
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
