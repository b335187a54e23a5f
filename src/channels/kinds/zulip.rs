//! Zulip: a message in a channel or to people.

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};

const TEXT_LIMIT: LengthLimit = LengthLimit(9_900, LengthUnit::Chars);
const TOPIC_LIMIT: LengthLimit = LengthLimit(60, LengthUnit::Chars);

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "zulip",
        title: "Zulip",
        purpose: ChannelPurpose::Chat,
        fields: &[
            SettingField::required("site", SettingFieldType::Url, "server"),
            SettingField::required(
                "bot-email",
                SettingFieldType::MailAddresses(1),
                "mail address of the bot",
            ),
            SettingField::required("key", SettingFieldType::Secret(200), "API key of the bot"),
            SettingField::with_default(
                "type",
                SettingFieldType::Choice(&["channel", "direct"]),
                "channel",
                "channel, or direct for people",
            ),
            SettingField::required(
                "to",
                SettingFieldType::List(20),
                "name of the channel, or mail addresses of people",
            ),
            SettingField::optional(
                "topic",
                SettingFieldType::Line(60),
                "topic in the channel; the name of the check if left out",
            ),
        ],
        steps: &[
            "In Zulip: Personal settings, Bots, Add a new bot (incoming webhook is enough)",
            "Copy its mail address and its API key",
        ],
        example: &[
            ("site", "https://zulip.example.org"),
            ("bot-email", "overdue-bot@zulip.example.org"),
            ("key", "abc"),
            ("to", "ops"),
        ],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(20, 1),
    send,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let content = context.text(Dialect::Zulip, TextSections::ALL, TEXT_LIMIT);
    let url = format!("{}/api/v1/messages", context.base_url("site"));
    let request = ChannelRequest::post(url)
        .with_user_url()
        .with_basic_auth(context.required("bot-email"), context.required("key"));
    if context.get("type") == Some("direct") {
        let to =
            serde_json::Value::from(context.settings.items("to").collect::<Vec<_>>()).to_string();
        return request
            .with_form(&[("type", "private"), ("to", &to), ("content", &content)])
            .into_steps();
    }
    let name = context
        .alert
        .check
        .as_ref()
        .map_or("overdue", |alerted_check| &alerted_check.name);
    let topic = truncate_line(context.get("topic").unwrap_or(name), TOPIC_LIMIT);
    request
        .with_form(&[
            ("type", "stream"),
            ("to", context.required("to")),
            ("topic", &topic),
            ("content", &content),
        ])
        .into_steps()
}
