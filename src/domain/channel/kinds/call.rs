//! Channels that call a phone and say which checks are down, by Twilio.

use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelKind, FieldType, Requirement, SettingField, value_format};

pub(in crate::domain::channel) static CALL: ChannelKind = ChannelKind {
    name: "call",
    title: "Phone call",
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
        SettingField::required("from", FieldType::PhoneNumber, "number that calls"),
        SettingField::with_default(
            "api",
            FieldType::Url,
            "https://api.twilio.com",
            "another server with the same API",
        ),
        SettingField::optional(
            "most-a-day",
            FieldType::Number(1, 10_000),
            "maximum number of calls per day; 50 if left out",
        ),
    ],
    guide: "At https://console.twilio.com: Account SID and Auth token are on the first page; \
            Phone numbers, Manage, Buy a number gives from.",
    example: &[
        ("to", "+37120000000"),
        ("account", "AC0123456789abcdef0123456789abcdef"),
        ("token", "abc"),
        ("from", "+12025550100"),
    ],
    ignores_event: |_, event| event == AlertEvent::Up,
    ..ChannelKind::DEFAULTS
};
