//! ntfy: a message published to a topic, as JSON.

use std::time::Duration;

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, check_credentials, is_suppressed, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::transport_reply::{Verdict, delay_until};
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, ChannelSettings, SettingField, SettingFieldType,
};
use crate::domain::timestamp::Timestamp;

/// A longer message would become an attachment (the limit is 4,096 bytes).
const TEXT_LIMIT: LengthLimit = LengthLimit(3_800, LengthUnit::Bytes);

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "ntfy",
        title: "ntfy",
        purpose: ChannelPurpose::Common,
        fields: &[
            SettingField::with_default(
                "url",
                SettingFieldType::Url,
                "https://ntfy.sh",
                "server, without the topic",
            ),
            SettingField::required(
                "topic",
                SettingFieldType::Line(64),
                "topic; on a public server it acts as a password",
            )
            .with_format(check_topic),
            SettingField::optional(
                "token",
                SettingFieldType::Secret(200),
                "access token (tk_...)",
            ),
            SettingField::optional(
                "user",
                SettingFieldType::Line(200),
                "user name, instead of a token",
            ),
            SettingField::optional(
                "password",
                SettingFieldType::Secret(200),
                "password of the user",
            ),
            SettingField::with_default(
                "priority",
                SettingFieldType::Number(0, 5),
                "3",
                "priority for down, 1 to 5; 0: do not send",
            ),
            SettingField::with_default(
                "priority-up",
                SettingFieldType::Number(0, 5),
                "3",
                "the same for up",
            ),
            SettingField::optional(
                "markdown",
                SettingFieldType::Flag,
                "on: messages are Markdown, which phone apps show unformatted; off if left out",
            ),
        ],
        steps: &[
            "Choose a topic that is hard to guess, or one on your own server",
            "Subscribe to it in the app",
            "On a server with accounts: Account, Access tokens, Create access token",
        ],
        example: &[("topic", "backups-x7Qm2")],
        validate,
        ignores_event: |settings, event| is_suppressed(settings, event, 0),
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(10, 6),
    send,
    judge: |_, _, response, now| match response.status {
        // The daily quota is used up. It resets at midnight, UTC.
        429 if response.json_at("/code") == 42_908 => Verdict::Retry {
            after: delay_until(next_midnight(now), now),
        },
        // The response has no Retry-After.
        429 if response.header("retry-after").is_none() => Verdict::Retry {
            after: Some(Duration::from_secs(60)),
        },
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

fn validate(settings: &ChannelSettings) -> Result<(), &'static str> {
    check_credentials(settings)?;
    let topic = settings.get("topic").unwrap_or_default();
    if topic.contains(['/', ',', '?', '#']) {
        return Err(
            "topic is a name, not a URL; give the server as url=URL and the name alone as topic",
        );
    }
    Ok(())
}

/// Validates a topic.
fn check_topic(text: &str) -> Result<(), &'static str> {
    let is_topic = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_topic {
        Ok(())
    } else {
        Err("is not an ntfy topic; use letters, digits, hyphens and underscores")
    }
}

fn next_midnight(now: Timestamp) -> i64 {
    (now.secs().div_euclid(86_400) + 1) * 86_400
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let is_markdown = context.settings.is_on("markdown");
    let dialect = if is_markdown {
        Dialect::Markdown
    } else {
        Dialect::Plain
    };
    let mut message = json!({
        "topic": context.required("topic"),
        "title": truncate_line(&alert.title, LengthLimit(250, LengthUnit::Bytes)),
        "message": context.text(
            dialect,
            TextSections { link: false, ..TextSections::BELOW_TITLE },
            TEXT_LIMIT,
        ),
        "tags": [alert.severity.tag()],
        // A duplicate replaces the earlier message (ntfy 2.16).
        "sequence_id": context.attempt.id,
    });
    if is_markdown {
        insert_member(&mut message, "markdown", true.into());
    }
    // Priority 0 sends nothing, but a test must be visible.
    if let Some(priority) = context.priority().filter(|priority| *priority > 0) {
        insert_member(&mut message, "priority", priority.into());
    }
    if let Some(link) = &alert.link {
        insert_member(&mut message, "click", link.as_str().into());
    }
    let request = ChannelRequest::post(format!("{}/", context.base_url("url"))).with_user_url();
    let request = match (
        context.get("token"),
        context.get("user"),
        context.get("password"),
    ) {
        (Some(token), ..) => request.with_bearer_token(token),
        (None, Some(user), Some(password)) => request.with_basic_auth(user, password),
        _ => request,
    };
    request.with_json(&message).into_steps()
}
