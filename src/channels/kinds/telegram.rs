//! Telegram: a message of a bot in a chat.

use serde_json::{Value, json};

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::transport_reply::{ChannelResponse, Verdict, retry_delay};
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, ChannelSettings, MASK, SettingField, SettingFieldType,
};
use crate::domain::timestamp::Timestamp;

/// Telegram applies its limit to the text without marks. They are few, so the text with them is
/// counted.
const TEXT_LIMIT: LengthLimit = LengthLimit(4_096, LengthUnit::Utf16);

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "telegram",
        title: "Telegram",
        purpose: ChannelPurpose::Common,
        fields: &[
            SettingField::required("token", SettingFieldType::Secret(200), "token of the bot")
                .with_format(check_token),
            SettingField::required(
                "chat",
                SettingFieldType::Line(100),
                "id of the chat, or @name of a channel",
            )
            .with_format(check_chat),
            SettingField::optional(
                "thread",
                SettingFieldType::Number(1, 2_147_483_647),
                "id of the topic in a group that has topics",
            ),
            SettingField::optional(
                "silent-up",
                SettingFieldType::Flag,
                "on: no sound when a check is up again",
            ),
            SettingField::with_default(
                "api",
                SettingFieldType::Url,
                "https://api.telegram.org",
                "server of the Bot API",
            ),
        ],
        steps: &[
            "Send /newbot to @BotFather, which answers with the token",
            "Send any message to the new bot, or add it to a group",
            "Open https://api.telegram.org/botTOKEN/getUpdates, which shows the id of the chat \
             (negative for a group)",
        ],
        guide: "A public channel can be given as @name.",
        example: &[("token", "123456:AbC-dEf_GhI"), ("chat", "-1001234567890")],
        validate,
        ..ChannelKind::DEFAULTS
    },
    // Ids of groups are negative. A group accepts 20 messages per minute, any other chat one per
    // second.
    send_rate: |settings| match settings.get("chat") {
        Some(chat) if chat.starts_with('-') => rate(5, 3),
        _ => rate(1, 1),
    },
    send,
    judge: |_, _, response, now| judge(response, now),
    ..KindDefinition::DEFAULTS
};

fn validate(settings: &ChannelSettings) -> Result<(), &'static str> {
    // The token becomes part of a URL.
    let is_token = |token: &str| {
        token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b":_-".contains(&byte))
    };
    match settings.get("token") {
        // Mask of a stored token.
        Some(MASK) | None => Ok(()),
        Some(token) if is_token(token) => Ok(()),
        Some(_) => Err("token is not one that @BotFather issues; give digits, a colon and letters"),
    }
}

fn is_all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Validates the token of a bot: the number of the bot, a colon, and letters.
fn check_token(text: &str) -> Result<(), &'static str> {
    let is_secret = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_token = text
        .split_once(':')
        .is_some_and(|(bot, secret)| is_all_digits(bot) && is_secret(secret));
    if is_token {
        Ok(())
    } else {
        Err(
            "is not one that @BotFather issues; give digits, a colon and letters, like \
             123456:AbC-dEf_GhI",
        )
    }
}

/// Validates a chat: its number, negative for a group, or the name of a public channel.
fn check_chat(text: &str) -> Result<(), &'static str> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_chat = text.strip_prefix('@').map_or_else(
        || is_all_digits(text.strip_prefix('-').unwrap_or(text)),
        is_name,
    );
    if is_chat {
        Ok(())
    } else {
        Err(
            "is neither the number of a chat nor the name of a channel; give one like \
             -1001234567890 or @name",
        )
    }
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let dialect = if context.attempt.plain {
        Dialect::Plain
    } else {
        Dialect::Telegram
    };
    let mut message = json!({
        "chat_id": context.required("chat"),
        "text": context.text(dialect, TextSections::ALL, TEXT_LIMIT),
        "link_preview_options": { "is_disabled": true },
        "disable_notification": context.alert.is_up() && context.settings.is_on("silent-up"),
    });
    if !context.attempt.plain {
        insert_member(&mut message, "parse_mode", "HTML".into());
    }
    if let Some(thread) = context.settings.number("thread") {
        insert_member(&mut message, "message_thread_id", thread.into());
    }
    ChannelRequest::post(format!(
        "{}/bot{}/sendMessage",
        context.base_url("api"),
        context.required("token")
    ))
    .with_json(&message)
    .into_steps()
}

fn judge(response: &ChannelResponse, now: Timestamp) -> Verdict {
    let description = response
        .json_at("/description")
        .as_str()
        .unwrap_or_default()
        .to_ascii_lowercase();
    match response.status {
        429 => match response.json_at("/parameters/retry_after").as_f64() {
            Some(seconds) => Verdict::Retry {
                after: retry_delay(seconds),
            },
            None => response.retry_later(now),
        },
        // The group became a supergroup and has another id.
        400 => match response.json_at("/parameters/migrate_to_chat_id") {
            Value::Number(id) => Verdict::ChangeSetting {
                key: "chat",
                value: id.to_string(),
            },
            _ if description.contains("chat not found") => Verdict::ChannelRejected,
            _ => Verdict::MessageRejected,
        },
        // Only the service itself answers this in JSON.
        401 | 403 | 404 if response.json_at("/ok") == false => Verdict::ChannelRejected,
        _ => response.default_verdict(now),
    }
}
