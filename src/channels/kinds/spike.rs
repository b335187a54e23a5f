//! Spike.sh: an incident for each check.

use serde_json::{Value, json};

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, SettingField, SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "spike",
        title: "Spike.sh",
        purpose: ChannelPurpose::Incidents,
        class: ChannelClass::Incident,
        fields: &[
            SettingField::required("url", SettingFieldType::SecretUrl, "URL of the integration"),
            SettingField::with_default(
                "integration",
                SettingFieldType::Choice(&["webhook", "healthchecks"]),
                "webhook",
                "type of the integration in Spike.sh; healthchecks: one that was created for \
                 Healthchecks",
            ),
        ],
        steps: &[
            "In Spike, open the service: Integrations, Add integration",
            "Choose Webhook",
            "Copy its URL",
        ],
        guide: "Spike identifies an incident by its title, so renaming a check that is down leaves \
                its incident open. integration=healthchecks sends the same messages as \
                Healthchecks.",
        example: &[("url", "https://hooks.spike.sh/abc/push-events")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(10, 1),
    send,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let (opens, closes) = match context.alert.event {
        // A test must not stay open.
        AlertEvent::Test => (true, true),
        AlertEvent::Up | AlertEvent::Closed => (false, true),
        _ => (true, false),
    };
    let message = |is_open| {
        ChannelRequest::post(context.required("url"))
            .with_json(&body(context, is_open))
            .into_steps()
    };
    let steps = [(opens, true), (closes, false)]
        .into_iter()
        .filter(|(is_sent, _)| *is_sent);
    steps.flat_map(|(_, is_open)| message(is_open)).collect()
}

fn body(context: &SendContext<'_>, is_open: bool) -> Value {
    let is_ours = context.get("integration") != Some("healthchecks");
    let text = context.text(
        Dialect::Plain,
        TextSections {
            title: is_ours,
            ..TextSections::ALL
        },
        LengthLimit(10_000, LengthUnit::Bytes),
    );
    if !is_ours {
        return json!({
            "check_id": context.alert.incident_key(context.attempt),
            "title": truncate_line(&context.alert.title, LengthLimit(250, LengthUnit::Chars)),
            "message": text,
            "status": if is_open { "down" } else { "up" },
        });
    }
    let mut body = json!({ "title": incident_title(context), "body": text });
    if !is_open {
        insert_member(&mut body, "status", "resolve".into());
    }
    body
}

/// Title, by which Spike.sh identifies an incident. It is the same when the incident ends, and
/// differs from the titles of other checks, even with the same name.
fn incident_title(context: &SendContext<'_>) -> String {
    let incident = context.alert.incident_key(context.attempt);
    let Some(alerted_check) = context
        .alert
        .check
        .as_ref()
        .filter(|_| context.alert.event != AlertEvent::Test)
    else {
        return format!("Test from overdue ({incident})");
    };
    let name = truncate_line(&alerted_check.name, LengthLimit(150, LengthUnit::Chars));
    let project = truncate_line(
        &alerted_check.facts.project,
        LengthLimit(50, LengthUnit::Chars),
    );
    let short: String = incident.chars().take(8).collect();
    format!("{name} is down ({project}, {short})")
}
