//! Gotify.

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, is_suppressed, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "gotify",
        title: "Gotify",
        purpose: ChannelPurpose::Phone,
        fields: &[
            SettingField::required("url", SettingFieldType::Url, "server"),
            SettingField::required(
                "token",
                SettingFieldType::Secret(200),
                "token of the application",
            ),
            SettingField::optional(
                "priority",
                SettingFieldType::Number(0, 10),
                "priority for down, 0 to 10; 0: do not send; the application's priority if left \
                 out",
            ),
            SettingField::optional(
                "priority-up",
                SettingFieldType::Number(0, 10),
                "the same for up",
            ),
        ],
        steps: &[
            "In Gotify: Apps, Create application",
            "Copy its token from the list",
        ],
        guide: "url is the address at which you open Gotify.",
        example: &[
            ("url", "https://gotify.example.org"),
            ("token", "AbCdEfGhIjKlMnO"),
        ],
        ignores_event: |settings, event| is_suppressed(settings, event, 0),
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(30, 2),
    send,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let mut extras = json!({ "client::display": { "contentType": "text/markdown" } });
    if let Some(link) = &context.alert.link {
        insert_member(
            &mut extras,
            "client::notification",
            json!({ "click": { "url": link } }),
        );
    }
    let mut message = json!({
        "title": context.title(LengthLimit(250, LengthUnit::Chars)),
        "message": context.text(
            Dialect::Markdown,
            TextSections { link: false, ..TextSections::BELOW_TITLE },
            LengthLimit(10_000, LengthUnit::Bytes),
        ),
        "extras": extras,
    });
    if let Some(priority) = context.priority() {
        insert_member(&mut message, "priority", priority.into());
    }
    // A token in the URL would appear in logs.
    ChannelRequest::post(format!("{}/message", context.base_url("url")))
        .with_user_url()
        .with_header("X-Gotify-Key", context.required("token"))
        .with_json(&message)
        .into_steps()
}
