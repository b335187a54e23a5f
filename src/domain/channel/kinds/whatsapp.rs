//! Channels that send a WhatsApp message from a template, by Twilio.

use crate::domain::channel::{
    ChannelKind, FieldType, Requirement, SettingField, field_value, value_format,
};

pub(in crate::domain::channel) static WHATSAPP: ChannelKind = ChannelKind {
    name: "whatsapp",
    title: "WhatsApp",
    fields: &[
        SettingField::required(
            "to",
            FieldType::PhoneNumber,
            "phone number, with + and country code",
        ),
        SettingField::new(
            "account",
            FieldType::Line(64),
            Requirement::Required,
            "account SID (AC...)",
        )
        .with_format_at(
            value_format::TWILIO_DOMAIN,
            value_format::check_twilio_account,
        ),
        SettingField::new(
            "token",
            FieldType::Secret(200),
            Requirement::Required,
            "auth token",
        ),
        SettingField::optional("from", FieldType::Line(40), "sender number")
            .with_format_at(value_format::TWILIO_DOMAIN, field_value::check_phone_number),
        SettingField::optional(
            "service",
            FieldType::Line(64),
            "messaging service, instead of from",
        )
        .with_format_at(
            value_format::TWILIO_DOMAIN,
            value_format::check_twilio_service,
        ),
        SettingField::required(
            "content-down",
            FieldType::Line(64),
            "template for down (HX...)",
        )
        .with_format_at(
            value_format::TWILIO_DOMAIN,
            value_format::check_twilio_content,
        ),
        SettingField::required("content-up", FieldType::Line(64), "template for up (HX...)")
            .with_format_at(
                value_format::TWILIO_DOMAIN,
                value_format::check_twilio_content,
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
    guide: "At https://console.twilio.com: Account SID and Auth token are on the first page; Phone \
            numbers, Manage, Buy a number gives from. WhatsApp accepts only approved templates: \
            Messaging, Content Template Builder. Each template has one variable, which is replaced \
            by the name of the check.",
    example: &[
        ("to", "+37120000000"),
        ("account", "AC0123456789abcdef0123456789abcdef"),
        ("token", "abc"),
        ("from", "+12025550100"),
        ("content-down", "HX0123456789abcdef0123456789abcdef"),
        ("content-up", "HXfedcba9876543210fedcba9876543210"),
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
