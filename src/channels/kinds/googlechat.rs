//! Google Chat: a card in a thread for each check.

use serde_json::{Value, json};

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};

const TEXT_LIMIT: LengthLimit = LengthLimit(4_000, LengthUnit::Bytes);

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "googlechat",
        title: "Google Chat",
        purpose: ChannelPurpose::Chat,
        fields: &[SettingField::required(
            "url",
            SettingFieldType::SecretUrl,
            "webhook URL",
        )],
        steps: &[
            "In Google Chat, open the menu at the name of the space",
            "Apps & integrations, Webhooks, Add webhook",
            "Copy its URL",
        ],
        example: &[(
            "url",
            "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t",
        )],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(1, 1),
    send,
    judge: |context, _, response, now| match response.status {
        403 | 404 if response.has_text_at("/error/status") => {
            response.rejected_if_persistent(context.attempt, now)
        }
        _ => response.default_verdict(now),
    },
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let title = context.title(LengthLimit(200, LengthUnit::Chars));
    // Its text paragraphs support the same few tags as Pushover, and line ends as in plain text.
    let show = TextSections {
        title: false,
        facts: false,
        link: false,
        ..TextSections::ALL
    };
    let text = context.text(Dialect::Pushover, show, TEXT_LIMIT);
    let message = if context.attempt.plain {
        json!({ "text": context.text(Dialect::Plain, TextSections::ALL, TEXT_LIMIT) })
    } else {
        let mut widgets = vec![json!({ "textParagraph": { "text": text } })];
        let fact = |label: &str, value: &str| {
            let value =
                Dialect::Html.escape(&truncate_line(value, LengthLimit(300, LengthUnit::Chars)));
            json!({ "decoratedText": { "topLabel": label, "text": value, "wrapText": true } })
        };
        widgets.extend(alert.facts.iter().map(|one| fact(one.label, &one.value)));
        if let Some(link) = &alert.link {
            let button: Value =
                json!({ "text": alert.link_text(), "onClick": { "openLink": { "url": link } } });
            widgets.push(json!({ "buttonList": { "buttons": [button] } }));
        }
        let card = json!({ "header": { "title": title }, "sections": [{ "widgets": widgets }] });
        json!({ "fallbackText": title, "cardsV2": [{ "cardId": "alert", "card": card }] })
    };
    let url = context.required("url");
    let separator = if url.contains('?') { '&' } else { '?' };
    let thread = format!(
        "threadKey={}&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD",
        alert.incident_key(context.attempt)
    );
    ChannelRequest::post(format!("{url}{separator}{thread}"))
        .with_json(&message)
        .into_steps()
}
