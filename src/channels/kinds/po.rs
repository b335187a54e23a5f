//! Pushover.

use crate::channels::kinds::{KindDefinition, SendContext, is_suppressed, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::transport_reply::{ChannelResponse, Verdict};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};
use crate::domain::timestamp::Timestamp;

/// Priority that repeats until a person acknowledges.
const EMERGENCY_PRIORITY: i64 = 2;
/// Role of the request that ends the repetition. The message that follows is sent whether or not it
/// succeeds.
const CANCEL_ROLE: &str = "cancel";

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "po",
        title: "Pushover",
        purpose: ChannelPurpose::Phone,
        aliases: &["pushover"],
        fields: &[
            SettingField::required(
                "token",
                SettingFieldType::Secret(100),
                "token of the application",
            )
            .with_format(check_key),
            SettingField::required("user", SettingFieldType::Secret(100), "user or group key")
                .with_format(check_key),
            SettingField::with_default(
                "priority",
                SettingFieldType::Number(-3, 2),
                "0",
                "priority for down, -2 to 2; -3: do not send",
            ),
            SettingField::with_default(
                "priority-up",
                SettingFieldType::Number(-3, 2),
                "0",
                "the same for up",
            ),
            SettingField::optional(
                "device",
                SettingFieldType::Line(200),
                "device, or several separated by commas; all if left out",
            ),
            SettingField::optional("sound", SettingFieldType::Line(40), "sound for down"),
        ],
        steps: &[
            "At https://pushover.net, copy the user key from the first page",
            "Create an application/API token there, and copy the token",
        ],
        guide: "With priority 2 the notification repeats every five minutes until a user \
                acknowledges it, for at most three hours.",
        example: &[
            ("token", "azGDORePK8gMaC0QOYAMyEEuzJnyUi"),
            ("user", "uQiRzpo4DXghDmr9QzzfQu27cmVRsG"),
        ],
        ignores_event: |settings, event| is_suppressed(settings, event, -3),
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(6, 10),
    send,
    judge,
    ..KindDefinition::DEFAULTS
};

/// Validates an application token, user key or group key.
fn check_key(text: &str) -> Result<(), &'static str> {
    let is_key = text.len() == 30 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_key {
        Ok(())
    } else {
        Err(
            "is not a Pushover token or key, which has 30 letters and digits; copy it from \
             https://pushover.net",
        )
    }
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let token = context.required("token");
    // Priority -3 sends nothing, but a test must be visible.
    let priority = context
        .priority()
        .filter(|priority| *priority >= -2)
        .unwrap_or_default();
    let key = alert.incident_key(context.attempt);
    let title = context.title(LengthLimit(250, LengthUnit::Chars));
    let at = alert.at.secs().to_string();
    let number = priority.to_string();
    let dialect = if context.attempt.plain {
        Dialect::Plain
    } else {
        Dialect::Pushover
    };
    let show = TextSections {
        title: false,
        link: false,
        ..TextSections::ALL
    };
    let message = context.text(dialect, show, LengthLimit(1_024, LengthUnit::Chars));
    let message = if message.is_empty() {
        truncate_line(&alert.title, LengthLimit(1_024, LengthUnit::Chars))
    } else {
        message
    };
    let mut fields = vec![
        ("token", token),
        ("user", context.required("user")),
        ("title", &title),
        ("message", &message),
        ("priority", &number),
        ("timestamp", &at),
        ("tags", &key),
    ];
    if !context.attempt.plain {
        fields.push(("html", "1"));
    }
    fields.extend(context.get("device").map(|device| ("device", device)));
    fields.extend(
        context
            .get("sound")
            .filter(|_| !alert.is_up())
            .map(|sound| ("sound", sound)),
    );
    if let Some(link) = alert.link.as_deref().filter(|link| link.len() <= 512) {
        fields.extend([("url", link), ("url_title", alert.link_text())]);
    }
    if priority == EMERGENCY_PRIORITY {
        fields.extend([("retry", "300"), ("expire", "10800")]);
    }
    let mut steps = Vec::new();
    if alert.event == AlertEvent::Up
        && context.settings.number("priority") == Some(EMERGENCY_PRIORITY)
    {
        let url = format!("https://api.pushover.net/1/receipts/cancel_by_tag/{key}.json");
        steps.extend(
            ChannelRequest::post(url)
                .with_form(&[("token", token)])
                .with_role(CANCEL_ROLE)
                .into_steps(),
        );
    }
    steps.extend(
        ChannelRequest::post("https://api.pushover.net/1/messages.json")
            .with_form(&fields)
            .into_steps(),
    );
    steps
}

fn judge(
    _: &SendContext<'_>,
    request: &ChannelRequest,
    response: &ChannelResponse,
    now: Timestamp,
) -> Verdict {
    match response.status {
        _ if request.role == CANCEL_ROLE => Verdict::Delivered,
        200 if response.json_at("/status") == 1 => Verdict::Delivered,
        400 if response.json_at("/user") == "invalid"
            || response.json_at("/token") == "invalid" =>
        {
            Verdict::ChannelRejected
        }
        // The monthly quota is used up.
        429 => response.retry_at_header("x-limit-app-reset", now),
        200 => Verdict::RETRY,
        _ => response.default_verdict(now),
    }
}
