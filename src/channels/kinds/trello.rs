//! Trello: a card for each downtime.

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::transport_reply::ChannelResponse;
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, SettingField, SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "trello",
        title: "Trello",
        purpose: ChannelPurpose::Incidents,
        class: ChannelClass::Machine,
        fields: &[
            SettingField::required("key", SettingFieldType::Secret(100), "API key"),
            SettingField::required("token", SettingFieldType::Secret(200), "token"),
            SettingField::required("list", SettingFieldType::Line(64), "id of the list")
                .with_format(check_list),
        ],
        steps: &[
            "At https://trello.com/power-ups/admin: New, API key",
            "The link beside the key gives a token",
            "To find the id of a list, add .json to the URL of the board",
        ],
        example: &[
            ("key", "abc"),
            ("token", "def"),
            ("list", "0123456789abcdef01234567"),
        ],
        ignores_event: |_, event| event == AlertEvent::Up,
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(10, 1),
    send,
    judge: |context, _, response, now| match response.status {
        401 | 404 if is_trello_error(response) => {
            response.rejected_if_persistent(context.attempt, now)
        }
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

/// Validates the id of a list.
fn check_list(text: &str) -> Result<(), &'static str> {
    if text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(())
    } else {
        Err(
            "is not the id of a list, which has 24 hexadecimal digits; to find it, add .json to \
             the URL of the board",
        )
    }
}

/// True if Trello itself refuses key, token or list: it answers with a few words, or with JSON.
fn is_trello_error(response: &ChannelResponse) -> bool {
    const BEGINNINGS: [&str; 5] = [
        "invalid ",
        "expired ",
        "unauthorized ",
        "the requested resource was not found",
        "model not found",
    ];
    let text = response.text().trim().to_ascii_lowercase();
    BEGINNINGS
        .iter()
        .any(|beginning| text.starts_with(beginning))
        || response.has_text_at("/message")
}

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let name = truncate_line(&context.alert.title, LengthLimit(500, LengthUnit::Chars));
    let text = context.text(
        Dialect::Markdown,
        TextSections::BELOW_TITLE,
        LengthLimit(10_000, LengthUnit::Chars),
    );
    // Key and token are in the body: in the URL they would appear in logs.
    let fields = [
        ("idList", context.required("list")),
        ("name", &name),
        ("desc", &text),
        ("key", context.required("key")),
        ("token", context.required("token")),
    ];
    ChannelRequest::post("https://api.trello.com/1/cards")
        .with_form(&fields)
        .into_steps()
}
