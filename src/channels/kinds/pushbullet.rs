//! Pushbullet.

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "pushbullet",
        title: "Pushbullet",
        purpose: ChannelPurpose::Phone,
        fields: &[SettingField::required(
            "token",
            SettingFieldType::Secret(200),
            "access token",
        )],
        steps: &[
            "At https://www.pushbullet.com: Settings, Account",
            "Create access token, and copy it",
        ],
        example: &[("token", "o.abc")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(5, 10),
    send,
    judge: |context, _, response, now| match response.status {
        401 | 403 if response.has_text_at("/error/message") => {
            response.rejected_if_persistent(context.attempt, now)
        }
        429 => response.retry_at_header("x-ratelimit-reset", now),
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let show = TextSections {
        title: false,
        link: false,
        ..TextSections::ALL
    };
    let mut push = json!({
        "type": "note",
        "title": context.title(LengthLimit(250, LengthUnit::Chars)),
        "body": context.text(Dialect::Plain, show, LengthLimit(4_000, LengthUnit::Bytes)),
        // A duplicate with the same id is dropped.
        "guid": context.attempt.id,
    });
    if let Some(link) = &context.alert.link {
        insert_member(&mut push, "type", "link".into());
        insert_member(&mut push, "url", link.as_str().into());
    }
    ChannelRequest::post("https://api.pushbullet.com/v2/pushes")
        .with_header("Access-Token", context.required("token"))
        .with_json(&push)
        .into_steps()
}
