//! Slack: an attachment, posted to an incoming webhook.

use serde_json::{Value, json};

use crate::channel::answer::Verdict;
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};

pub(super) const SLACK: Sender = Sender {
    name: "slack",
    pace: |_| pace(1, 1),
    send,
    judge: |_, _, response, now| match (response.status, response.text().trim()) {
        (404 | 410, _) | (403, "action_prohibited") | (400, "invalid_token") => Verdict::Closed,
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let mut message = attachment(call, Dialect::Mrkdwn, Limit(3_000, Unit::Chars));
    if let Some(username) = call.get("username") {
        put(&mut message, "username", username.into());
    }
    Request::post(call.given("url")).json(&message).step()
}

/// The message as Slack and those that took its form over have it.
pub(super) fn attachment(call: &Call<'_>, dialect: Dialect, limit: Limit) -> Value {
    let alert = call.alert;
    let show = Show { title: false, facts: false, link: false, ..Show::ALL };
    if call.attempt.plain {
        return json!({ "text": call.text(dialect, show, limit) });
    }
    let field = |label: &str, value: &str| {
        let value = cut(value, Limit(200, Unit::Chars));
        json!({ "title": label, "value": dialect.escaped(&value), "short": value.chars().count() <= 40 })
    };
    let fields: Vec<Value> = alert.facts.iter().map(|fact| field(fact.label, &fact.value)).collect();
    let title = call.title(Limit(1_000, Unit::Chars));
    let mut attachment = json!({
        // It may be shown as it is, so that no mention must be in it.
        "fallback": dialect.escaped(&title),
        "color": format!("#{:06x}", alert.severity.colour()),
        "title": dialect.escaped(&title),
        "text": call.text(dialect, show, limit),
        "mrkdwn_in": ["text", "fields"],
        "fields": fields,
    });
    if let Some(link) = &alert.link {
        put(&mut attachment, "title_link", link.as_str().into());
    }
    json!({ "attachments": [attachment] })
}
