//! Microsoft Teams: an adaptive card, posted to a workflow.

use serde_json::{Value, json};
use std::time::Duration;

use crate::channel::Pace;
use crate::channel::alert::Severity;
use crate::channel::kinds::{Call, Sender};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::clean::one_line;
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};

/// A card has 28 kB at most; JSON may need several bytes for one.
const TEXT_LIMIT: Limit = Limit(4_000, Unit::Bytes);

pub(super) const MSTEAMSW: Sender = Sender {
    name: "msteamsw",
    pace: |_| Some(Pace { burst: 4, refill: Duration::from_millis(250) }),
    send,
    judge: |call, _, response, now| match response.status {
        401 | 403 | 404 | 410 if response.has_text_at("/error/code") => response.closed(call.attempt, now),
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let colour = match alert.severity {
        Severity::Bad => "attention",
        Severity::Good => "good",
        Severity::Warning => "warning",
        Severity::Info => "default",
    };
    let show = Show { title: false, facts: false, link: false, output: 0 };
    // Text blocks know a little Markdown.
    let text = call.text(Dialect::Markdown, show, TEXT_LIMIT);
    let title = call.title(Limit(300, Unit::Chars));
    let mut body = vec![json!({
        "type": "TextBlock", "text": Dialect::Markdown.escaped(&title), "weight": "bolder", "size": "large", "wrap": true, "color": colour,
    })];
    if !text.is_empty() {
        body.push(json!({ "type": "TextBlock", "text": text, "wrap": true }));
    }
    if !call.attempt.plain {
        let fact =
            |label: &str, value: &str| json!({ "title": label, "value": Dialect::Markdown.escaped(&cut(value, Limit(300, Unit::Chars))) });
        let facts: Vec<Value> = alert.facts.iter().map(|fact_| fact(fact_.label, &fact_.value)).collect();
        if !facts.is_empty() {
            body.push(json!({ "type": "FactSet", "facts": facts }));
        }
        if let Some(output) = &alert.output {
            let lines: Vec<_> = output.text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default();
            let snippet: Vec<_> = last.iter().map(|line| cut(&one_line(line), Limit(200, Unit::Bytes))).collect();
            // Phones do not know the block.
            let lines: Vec<_> = snippet.iter().map(|line| Dialect::Markdown.escaped(line)).collect();
            let text = json!({ "type": "TextBlock", "text": lines.join("\n\n"), "fontType": "monospace", "wrap": true });
            body.push(json!({ "type": "CodeBlock", "codeSnippet": snippet.join("\n"), "language": "PlainText", "fallback": text }));
        }
    }
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "fallbackText": title,
        "msteams": { "width": "Full" },
        "body": body,
    });
    if let Some(link) = &alert.link {
        put(&mut card, "actions", json!([{ "type": "Action.OpenUrl", "title": alert.link_text(), "url": link }]));
    }
    let attachment = json!({ "contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": null, "content": card });
    Request::post(call.given("url")).json(&json!({ "type": "message", "attachments": [attachment] })).step()
}
