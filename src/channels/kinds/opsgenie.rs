//! Opsgenie: an alert for each check.

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::sanitize::to_one_line;
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, SettingField, SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "opsgenie",
        title: "Opsgenie",
        purpose: ChannelPurpose::Incidents,
        class: ChannelClass::Incident,
        fields: &[
            SettingField::required(
                "key",
                SettingFieldType::Secret(200),
                "API key of the integration",
            ),
            SettingField::with_default(
                "region",
                SettingFieldType::Choice(&["us", "eu"]),
                "us",
                "region of the account",
            ),
        ],
        steps: &[
            "In Opsgenie, open the team: Integrations, Add integration",
            "Choose API",
            "Copy the key",
        ],
        guide: "Atlassian shuts Opsgenie down on 2027-04-05.",
        example: &[("key", "0123-abc")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(10, 1),
    send,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let region = if context.get("region") == Some("eu") {
        ".eu"
    } else {
        ""
    };
    let url = format!("https://api{region}.opsgenie.com/v2/alerts");
    let alias = alert.incident_key(context.attempt);
    let authorization = format!("GenieKey {}", context.required("key"));
    let post = |url: String| ChannelRequest::post(url).with_header("Authorization", &authorization);
    let open = || {
        let tags: Vec<_> = alert
            .check
            .iter()
            .flat_map(|alerted_check| alerted_check.facts.settings.tags.iter())
            .take(20)
            .map(to_one_line)
            .collect();
        post(url.clone()).with_json(&json!({
            "alias": alias,
            "message": truncate_line(&alert.title, LengthLimit(130, LengthUnit::Chars)),
            "description": context.text(
                Dialect::Plain,
                TextSections::BELOW_TITLE,
                LengthLimit(15_000, LengthUnit::Chars),
            ),
            "source": "overdue",
            "tags": tags
                .iter()
                .map(|tag| truncate_line(tag, LengthLimit(50, LengthUnit::Chars)))
                .collect::<Vec<_>>(),
        }))
    };
    let close = || {
        post(format!("{url}/{alias}/close?identifierType=alias"))
            .with_json(&json!({ "source": "overdue", "note": alert.title }))
    };
    match alert.event {
        // A test must not stay open.
        AlertEvent::Test => [open().into_steps(), close().into_steps()].concat(),
        AlertEvent::Up | AlertEvent::Closed => close().into_steps(),
        _ => open().into_steps(),
    }
}
