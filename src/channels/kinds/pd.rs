//! PagerDuty, through its Events API.

use serde_json::json;

use crate::channels::alert::Alert;
use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{LengthLimit, LengthUnit, plain_summary, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::template::{TemplateValues, format_timestamp};
use crate::channels::transport_reply::Verdict;
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, SettingField, SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "pd",
        title: "PagerDuty",
        purpose: ChannelPurpose::Incidents,
        aliases: &["pagerduty"],
        class: ChannelClass::Incident,
        fields: &[
            SettingField::required("key", SettingFieldType::Secret(64), "integration key")
                .with_format(check_key),
            SettingField::with_default(
                "region",
                SettingFieldType::Choice(&["us", "eu"]),
                "us",
                "region of the account",
            ),
            SettingField::with_default(
                "api",
                SettingFieldType::Choice(&["v2", "v1"]),
                "v2",
                "version of the Events API; v1 only for old keys",
            ),
        ],
        steps: &[
            "In PagerDuty: Services, the service, Integrations",
            "Add an integration, Events API v2",
            "Copy the integration key",
        ],
        guide: "region=eu is for accounts at eu.pagerduty.com.",
        example: &[("key", "0123456789abcdef0123456789abcdef")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(20, 1),
    send,
    judge: |_, _, response, now| match response.status {
        400 => Verdict::MessageRejected,
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

/// Validates an integration key.
fn check_key(text: &str) -> Result<(), &'static str> {
    let is_key = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_key {
        Ok(())
    } else {
        Err(
            "is not an integration key, which has 32 letters and digits; copy it from the \
             integration's page",
        )
    }
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let actions: &[&str] = match context.alert.event {
        // A test must not stay open.
        AlertEvent::Test => &["trigger", "resolve"],
        AlertEvent::Up | AlertEvent::Closed => &["resolve"],
        _ => &["trigger"],
    };
    actions
        .iter()
        .flat_map(|action| event_request(context, action).into_steps())
        .collect()
}

fn event_request(context: &SendContext<'_>, action: &str) -> ChannelRequest {
    let alert = context.alert;
    let key = context.alert.incident_key(context.attempt);
    // The plainest form has no details.
    let summary = if context.attempt.plain {
        plain_summary(alert)
    } else {
        truncate_line(&alert.title, LengthLimit(1_024, LengthUnit::Chars))
    };
    let details = if context.attempt.plain {
        json!({})
    } else {
        custom_details(context, alert)
    };
    let region = if context.get("region") == Some("eu") {
        ".eu"
    } else {
        ""
    };
    if context.get("api") == Some("v1") {
        let url =
            format!("https://events{region}.pagerduty.com/generic/2010-04-15/create_event.json");
        let event = json!({
            "service_key": context.required("key"),
            "incident_key": key,
            "event_type": action,
            "description": summary,
            "client": "overdue",
            "details": details,
        });
        return ChannelRequest::post(url).with_json(&event);
    }
    let mut event = json!({
        "routing_key": context.required("key"),
        "event_action": action,
        "dedup_key": key,
        "client": "overdue",
    });
    if action == "trigger" {
        let alerted_check = alert.check.as_ref();
        insert_member(
            &mut event,
            "payload",
            json!({
                "summary": summary,
                "source": if alert.host.is_empty() { "overdue" } else { &alert.host },
                "severity": if alert.event == AlertEvent::Test { "info" } else { "critical" },
                "timestamp": format_timestamp(alert.at),
                "component": alerted_check.map(|alerted_check| alerted_check.name.as_str()),
                "group": alerted_check.map(|alerted_check| alerted_check.facts.project.as_str()),
                "class": alert.reason,
                "custom_details": details,
            }),
        );
        if let Some(link) = &alert.link {
            insert_member(&mut event, "client_url", link.as_str().into());
            insert_member(
                &mut event,
                "links",
                json!([{ "href": link, "text": "Open the check" }]),
            );
        }
    }
    ChannelRequest::post(format!("https://events{region}.pagerduty.com/v2/enqueue"))
        .with_json(&event)
}

fn custom_details(context: &SendContext<'_>, alert: &Alert) -> serde_json::Value {
    let mut details = TemplateValues::for_alert(alert, context.attempt)
        .map_or(json!({}), |values| values.event_json());
    if let Some(output) = &alert.output {
        insert_member(&mut details, "output", output.text.as_str().into());
    }
    details
}
