//! Channels that send by Signal.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static SIGNAL: ChannelKind = ChannelKind {
    name: "signal",
    title: "Signal",
    fields: &[
        SettingField::required("url", FieldType::Url, "address at which signal-cli listens"),
        SettingField::optional(
            "account",
            FieldType::PhoneNumber,
            "sender number, if signal-cli has several",
        ),
        SettingField::required(
            "to",
            FieldType::List(20),
            "phone numbers, user names or the id of one group",
        ),
        SettingField::with_default(
            "api",
            FieldType::Choice(&["rpc", "rest"]),
            "rpc",
            "rpc: signal-cli itself; rest: signal-cli-rest-api",
        ),
    ],
    guide: "Run signal-cli with an account of its own: signal-cli -a +37120000000 daemon --http \
            127.0.0.1:8080. to takes phone numbers, user names (u:name.01) and group ids \
            (signal-cli listGroups). api=rest is for signal-cli-rest-api, which needs account.",
    example: &[("url", "http://127.0.0.1:8080"), ("to", "+37120000000")],
    validate: |settings| match (settings.get("api"), settings.get("account")) {
        (Some("rest"), None) => {
            Err("account is missing, but api=rest needs it; give account=NUMBER")
        }
        _ => Ok(()),
    },
    ..ChannelKind::DEFAULTS
};
