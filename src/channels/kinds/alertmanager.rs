//! Prometheus Alertmanager: one alert for each check, which expires unless it is resent.

use serde_json::{Value, json};

use crate::channels::alert::{Alert, AlertedCheck};
use crate::channels::alert_text;
use crate::channels::kinds::{KindDefinition, check_credentials};
use crate::channels::render::sanitize::to_one_line;
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::template::format_timestamp;
use crate::channels::transport_reply::Verdict;
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, ChannelSettings, SettingField, SettingFieldType,
};
use crate::domain::check::CheckLabels;
use crate::domain::timestamp::Timestamp;

/// Lifetime of an alert that is not resent, in seconds.
const ALERT_LIFETIME_SECS: i64 = 300;

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "alertmanager",
        title: "Alertmanager",
        purpose: ChannelPurpose::Incidents,
        class: ChannelClass::Incident,
        fields: &[
            SettingField::required("url", SettingFieldType::Url, "Alertmanager"),
            SettingField::optional("user", SettingFieldType::Line(200), "user name"),
            SettingField::optional(
                "password",
                SettingFieldType::Secret(200),
                "password of the user",
            ),
            SettingField::optional(
                "token",
                SettingFieldType::Secret(1_000),
                "bearer token, instead of user and password",
            ),
            SettingField::optional(
                "label.NAME",
                SettingFieldType::Label,
                "label of every alert",
            ),
        ],
        guide: "url is the address of Alertmanager, without /api. While a check is down, its alert \
                is sent again every minute. When the check is up, the alert is resolved. An alert \
                keeps the name, slug and tags with which it began, even if the check is renamed. \
                If the project is renamed or the labels of the channel change, it becomes a \
                different alert.",
        example: &[("url", "http://127.0.0.1:9093")],
        validate: check_credentials,
        ..ChannelKind::DEFAULTS
    },
    has_plain_form: false,
    resend: Some(alerts_request),
    send: |context| alerts_request(context.settings, &[context.alert], context.attempt.at),
    judge: |_, _, response, now| match response.status {
        // Alertmanager may have stored the valid ones; the next minute sends all of them again.
        400 => Verdict::RETRY,
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

/// One request for several alerts, at most 500 because of the receiver's limit on bodies. Alerts
/// about no check are left out.
fn alerts_request(settings: &ChannelSettings, alerts: &[&Alert], now: Timestamp) -> Vec<SendStep> {
    let of = |alert: &&Alert| {
        alert
            .check
            .as_ref()
            .map(|alerted_check| alert_json(settings, alert, alerted_check, now))
    };
    let alerts: Vec<Value> = alerts.iter().filter_map(of).collect();
    if alerts.is_empty() {
        return Vec::new();
    }
    let url = format!(
        "{}/api/v2/alerts",
        settings
            .get("url")
            .unwrap_or_default()
            .trim_end_matches('/')
    );
    let request = ChannelRequest::post(url).with_user_url();
    let request = match (
        settings.get("token"),
        settings.get("user"),
        settings.get("password"),
    ) {
        (Some(token), ..) => request.with_bearer_token(token),
        (None, Some(user), Some(password)) => request.with_basic_auth(user, password),
        _ => request,
    };
    request.with_json(&Value::from(alerts)).into_steps()
}

fn alert_json(
    settings: &ChannelSettings,
    alert: &Alert,
    alerted_check: &AlertedCheck,
    now: Timestamp,
) -> Value {
    // During a downtime, the receiver identifies it by the names under which it was reported.
    let alerted_settings = alerted_check
        .facts
        .alerted_labels
        .as_ref()
        .map(|names| CheckLabels::clone(names).into_settings());
    let check = alerted_settings
        .as_ref()
        .unwrap_or(&alerted_check.facts.settings);
    let mut labels = serde_json::Map::new();
    let mut label = |name: String, value: String| {
        // An empty label equals a missing one.
        if !value.is_empty() {
            labels.insert(name, value.into());
        }
    };
    label("alertname".into(), "CheckDown".into());
    label("check".into(), alert_text::check_display_name(check));
    label("slug".into(), check.slug.as_str().into());
    label("project".into(), to_one_line(&alerted_check.facts.project));
    label(
        "unique_key".into(),
        alerted_check.facts.unique_key.to_string(),
    );
    for tag in check.tags.iter() {
        let name: String = tag
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        label(format!("tag_{name}"), "on".into());
    }
    let custom_labels = settings
        .pairs()
        .filter_map(|(key, value)| Some((key.strip_prefix("label.")?, value)));
    custom_labels.for_each(|(name, value)| label(name.to_owned(), value.to_owned()));
    let is_over = matches!(alert.event, AlertEvent::Up | AlertEvent::Closed);
    let start = alerted_check.downtime.map_or(alert.at, |(from, _)| from);
    // The alert of a test ends within a minute.
    let end = match alert.event {
        _ if is_over => now,
        AlertEvent::Test => now.plus_secs(60),
        _ => now.plus_secs(ALERT_LIFETIME_SECS),
    };
    let mut alert_json = json!({
        "labels": labels,
        "annotations": { "summary": alert.title, "description": alert.summary },
        "endsAt": format_timestamp(end),
    });
    // A closed alert began earlier; Alertmanager knows the time.
    if alert.event != AlertEvent::Closed {
        insert_member(
            &mut alert_json,
            "startsAt",
            format_timestamp(start.min(end)).into(),
        );
    }
    if let Some(link) = &alert.link {
        insert_member(&mut alert_json, "generatorURL", link.as_str().into());
    }
    alert_json
}
