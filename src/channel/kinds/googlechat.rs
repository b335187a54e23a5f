//! Google Chat: a card in a thread for each check.

use serde_json::{Value, json};

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};

const TEXT_LIMIT: Limit = Limit(4_000, Unit::Bytes);

pub(super) const GOOGLECHAT: Sender = Sender {
    name: "googlechat",
    pace: |_| pace(1, 1),
    send,
    judge: |call, _, response, now| match response.status {
        403 | 404 if response.has_text_at("/error/status") => response.closed(call.attempt, now),
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let title = call.title(Limit(200, Unit::Chars));
    // Its text paragraphs know the same few tags as Pushover, and lines that end as in plain text.
    let show = Show { title: false, facts: false, link: false, ..Show::ALL };
    let text = call.text(Dialect::Pushover, show, TEXT_LIMIT);
    let message = if call.attempt.plain {
        json!({ "text": call.text(Dialect::Plain, Show::ALL, TEXT_LIMIT) })
    } else {
        let mut widgets = vec![json!({ "textParagraph": { "text": text } })];
        let fact = |label: &str, value: &str| {
            let value = Dialect::Html.escaped(&cut(value, Limit(300, Unit::Chars)));
            json!({ "decoratedText": { "topLabel": label, "text": value, "wrapText": true } })
        };
        widgets.extend(alert.facts.iter().map(|one| fact(one.label, &one.value)));
        if let Some(link) = &alert.link {
            let button: Value = json!({ "text": alert.link_text(), "onClick": { "openLink": { "url": link } } });
            widgets.push(json!({ "buttonList": { "buttons": [button] } }));
        }
        let card = json!({ "header": { "title": title }, "sections": [{ "widgets": widgets }] });
        json!({ "fallbackText": title, "cardsV2": [{ "cardId": "alert", "card": card }] })
    };
    let url = call.given("url");
    let separator = if url.contains('?') { '&' } else { '?' };
    let thread = format!("threadKey={}&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD", alert.incident(call.attempt));
    Request::post(format!("{url}{separator}{thread}")).json(&message).step()
}
