//! PagerTree: an incident for each check.

use serde_json::{Value, json};

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, SettingField, SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "pagertree",
        title: "PagerTree",
        purpose: ChannelPurpose::Incidents,
        class: ChannelClass::Incident,
        fields: &[
            SettingField::required("url", SettingFieldType::SecretUrl, "URL of the integration"),
            SettingField::with_default(
                "integration",
                SettingFieldType::Choice(&["webhook", "healthchecks"]),
                "webhook",
                "type of the integration in PagerTree; healthchecks: one that was created for \
                 Healthchecks",
            ),
        ],
        steps: &[
            "In PagerTree: Integrations, New integration",
            "Choose Webhook",
            "Copy its URL",
        ],
        guide: "integration=healthchecks sends the same messages as Healthchecks.",
        example: &[("url", "https://api.pagertree.com/integration/int_abc")],
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
    let alert = context.alert;
    let incident = alert.incident_key(context.attempt);
    let title = truncate_line(&alert.title, LengthLimit(250, LengthUnit::Chars));
    let description = context.text(
        Dialect::Plain,
        TextSections::BELOW_TITLE,
        LengthLimit(15_000, LengthUnit::Bytes),
    );
    let tags: Vec<_> = alert
        .check
        .iter()
        .flat_map(|alerted_check| alerted_check.facts.settings.tags.iter())
        .collect();
    if context.get("integration") == Some("healthchecks") {
        return json!({
            "incident_key": incident,
            "event_type": if is_open { "trigger" } else { "resolve" },
            "title": title,
            "description": description,
            "client": "overdue",
            "client_url": alert.link,
            "tags": tags.join(","),
        });
    }
    json!({
        "event_type": if is_open { "create" } else { "resolve" },
        "Id": incident,
        "Title": title,
        "Description": description,
        "Tags": tags,
    })
}
