//! Channels that send a text message to a phone, by Twilio.

use crate::domain::channel::{ChannelKind, FieldType, Requirement, SettingField, value_format};

pub(in crate::domain::channel) static SMS: ChannelKind = ChannelKind {
    name: "sms",
    title: "Text message",
    fields: &[
        SettingField::required(
            "to",
            FieldType::PhoneNumber,
            "phone number, with + and country code",
        ),
        SettingField::new(
            "account",
            FieldType::Line(64),
            Requirement::RequiredToDeliver,
            "account SID (AC...)",
        )
        .with_format_at(
            value_format::TWILIO_DOMAIN,
            value_format::check_twilio_account,
        ),
        SettingField::new(
            "token",
            FieldType::Secret(200),
            Requirement::RequiredToDeliver,
            "auth token",
        ),
        SettingField::optional("from", FieldType::Line(40), "sender number or name")
            .with_format_at(
                value_format::TWILIO_DOMAIN,
                value_format::check_twilio_sender,
            ),
        SettingField::optional(
            "service",
            FieldType::Line(64),
            "messaging service, instead of from",
        )
        .with_format_at(
            value_format::TWILIO_DOMAIN,
            value_format::check_twilio_service,
        ),
        SettingField::with_default(
            "api",
            FieldType::Url,
            "https://api.twilio.com",
            "another server with the same API",
        ),
        SettingField::optional(
            "most-a-day",
            FieldType::Number(1, 10_000),
            "maximum number of messages per day; 50 if left out",
        ),
    ],
    guide: "At https://console.twilio.com: Account SID and Auth token are on the first page; \
            Phone numbers, Manage, Buy a number gives from. service is the SID of a messaging \
            service (MG...).",
    example: &[
        ("to", "+37120000000"),
        ("account", "AC0123456789abcdef0123456789abcdef"),
        ("token", "abc"),
        ("from", "+12025550100"),
    ],
    validate: |settings| match (settings.has_key("from"), settings.has_key("service")) {
        (true, true) => Err("both from and service are given; give one of them"),
        (false, false) if settings.missing_setting().is_none() => {
            Err("the sender is missing; give from=TEXT or service=TEXT")
        }
        _ => Ok(()),
    },
    ..ChannelKind::DEFAULTS
};
