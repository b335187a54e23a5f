//! Channels that make an HTTP request.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelSettings, FieldType, Requirement, SettingField,
};

pub(in crate::domain::channel) static WEBHOOK: ChannelKind = ChannelKind {
    name: "webhook",
    title: "Webhook",
    class: ChannelClass::Machine,
    fields: &[
        SettingField::optional(
            "down-url",
            FieldType::Url,
            "requested when a check goes down",
        ),
        SettingField::optional("up-url", FieldType::Url, "requested when it is up again"),
        SettingField::new(
            "method",
            FieldType::Choice(METHODS),
            Requirement::Derived {
                value: |settings| if has_body(settings) { "POST" } else { "GET" },
                description: "POST with a body, otherwise GET",
            },
            "method",
        ),
        SettingField::optional("body", FieldType::Template(10_000), "body of the request"),
        SettingField::optional("header.NAME", FieldType::Header, "header of the request"),
        SettingField::optional(
            "down-method",
            FieldType::Choice(METHODS),
            "method when a check goes down, instead of method",
        ),
        SettingField::optional(
            "down-body",
            FieldType::Template(10_000),
            "body when a check goes down, instead of body",
        ),
        SettingField::optional(
            "down-header.NAME",
            FieldType::Header,
            "header when a check goes down",
        ),
        SettingField::optional(
            "up-method",
            FieldType::Choice(METHODS),
            "method when it is up again, instead of method",
        ),
        SettingField::optional(
            "up-body",
            FieldType::Template(10_000),
            "body when it is up again, instead of body",
        ),
        SettingField::optional(
            "up-header.NAME",
            FieldType::Header,
            "header when it is up again",
        ),
        SettingField::optional(
            "secret",
            FieldType::Secret(200),
            "secret that signs requests: whsec_ and base64, or any other text",
        ),
    ],
    guide: "Sends requests to a URL of your own. URL, body and headers may contain placeholders \
            such as $NAME, $STATUS and $REASON; body=$EVENT_JSON sends all data of the event. With \
            secret=, each request is signed as in Standard Webhooks (webhook-signature), so that \
            the receiver can verify its origin.",
    example: &[
        ("down-url", "https://example.org/hook"),
        ("up-url", "https://example.org/hook"),
        ("body", "$EVENT_JSON"),
    ],
    validate: rule,
    ignores_event: |settings, event| {
        settings
            .get(if event == AlertEvent::Up {
                "up-url"
            } else {
                "down-url"
            })
            .is_none()
            && event != AlertEvent::Test
    },
    ..ChannelKind::DEFAULTS
};

const METHODS: &[&str] = &["GET", "POST", "PUT"];

fn has_body(settings: &ChannelSettings) -> bool {
    ["body", "down-body", "up-body"]
        .into_iter()
        .any(|key| settings.get(key).is_some())
}

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
    if settings
        .get("down-url")
        .or(settings.get("up-url"))
        .is_none()
    {
        return Err("there is no URL; give down-url=URL, up-url=URL or both");
    }
    let is_get = |key| settings.get(key).or(settings.get("method")) == Some("GET");
    let bodies = [
        ("method", "body"),
        ("down-method", "down-body"),
        ("up-method", "up-body"),
    ];
    if bodies
        .into_iter()
        .any(|(method, body)| is_get(method) && settings.get(body).is_some())
    {
        return Err(
            "method GET carries no body; give method=POST or method=PUT, or leave body out",
        );
    }
    match settings
        .get("secret")
        .and_then(|secret| secret.strip_prefix("whsec_"))
    {
        Some(key) if BASE64_STANDARD.decode(key).is_err() => {
            Err("secret is not base64 after whsec_; give it as the receiver shows it")
        }
        _ => Ok(()),
    }
}
