//! Channels that write to a chat of Telegram.

use crate::domain::channel::{
    ChannelKind, ChannelSettings, FieldType, MASK, SettingField, value_format,
};

pub(in crate::domain::channel) static TELEGRAM: ChannelKind = ChannelKind {
    name: "telegram",
    title: "Telegram",
    fields: &[
        SettingField::required("token", FieldType::Secret(200), "token of the bot")
            .with_format(value_format::check_telegram_token),
        SettingField::required(
            "chat",
            FieldType::Line(100),
            "id of the chat, or @name of a channel",
        )
        .with_format(value_format::check_telegram_chat),
        SettingField::optional(
            "thread",
            FieldType::Number(1, 2_147_483_647),
            "id of the topic in a group that has topics",
        ),
        SettingField::optional(
            "silent-up",
            FieldType::Flag,
            "on: no sound when a check is up again",
        ),
        SettingField::with_default(
            "api",
            FieldType::Url,
            "https://api.telegram.org",
            "server of the Bot API",
        ),
    ],
    guide: "Send /newbot to @BotFather to get the token. Send any message to the new bot, or add \
            it to a group. Then open https://api.telegram.org/botTOKEN/getUpdates, which shows the \
            id of the chat (negative for a group). A public channel can be given as @name.",
    example: &[("token", "123456:AbC-dEf_GhI"), ("chat", "-1001234567890")],
    validate: rule,
    ..ChannelKind::DEFAULTS
};

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
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
