//! Slack: an attachment, posted to an incoming webhook.

use serde_json::{Value, json};

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut, output, without_mentions};

/// What Slack says of a webhook that takes nothing any more.
const CLOSED: [&str; 9] = [
    "action_prohibited",
    "channel_is_archived",
    "channel_not_found",
    "invalid_token",
    "no_active_hooks",
    "no_service",
    "no_service_id",
    "no_team",
    "team_disabled",
];

pub(super) const SLACK: Sender = Sender {
    name: "slack",
    pace: |_| pace(1, 1),
    send,
    judge: |call, _, response, now| match response.status {
        400 | 403 | 404 | 410 if CLOSED.contains(&response.text().trim()) => response.closed(call.attempt, now),
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let mut message = attachment(call, Dialect::Slack, Limit(3_000, Unit::Chars));
    if let Some(username) = call.get("username") {
        put(&mut message, "username", username.into());
    }
    Request::post(call.given("url")).json(&message).step()
}

/// The message as Slack and those that took its form over have it.
pub(super) fn attachment(call: &Call<'_>, dialect: Dialect, limit: Limit) -> Value {
    let alert = call.alert;
    // Slack has no escape for its marks. So it is to read none in what others have written, but in the block of the output alone.
    let is_slack = dialect == Dialect::Slack;
    let show = Show { title: false, facts: false, link: false, output: if is_slack { 0 } else { Show::ALL.output } };
    if call.attempt.plain {
        let mut message = json!({ "text": call.text(dialect, show, limit) });
        if is_slack {
            put(&mut message, "mrkdwn", false.into());
        }
        return message;
    }
    let field = |label: &str, value: &str| {
        let value = cut(value, Limit(200, Unit::Chars));
        json!({ "title": label, "value": dialect.escaped(&value), "short": value.chars().count() <= 40 })
    };
    let fields: Vec<Value> = alert.facts.iter().map(|fact| field(fact.label, &fact.value)).collect();
    let title = call.title(Limit(1_000, Unit::Chars));
    // Rocket.Chat shows titles as they are.
    let written = if dialect == Dialect::RocketChat { without_mentions(&title) } else { dialect.escaped(&title) };
    let marked: &[&str] = if is_slack { &[] } else { &["text", "fields"] };
    let colour = format!("#{:06x}", alert.severity.colour());
    let mut attachment = json!({
        // It may be shown as it is, so that no mention must be in it.
        "fallback": written,
        "color": colour,
        "title": written,
        "text": call.text(dialect, show, limit),
        "mrkdwn_in": marked,
        "fields": fields,
    });
    if let Some(link) = &alert.link {
        put(&mut attachment, "title_link", link.as_str().into());
    }
    let block = output(alert, dialect, limit)
        .filter(|_| is_slack)
        .map(|(label, block)| json!({ "fallback": label, "color": colour, "title": label, "text": block, "mrkdwn_in": ["text"] }));
    let attachments: Vec<_> = [Some(attachment), block].into_iter().flatten().collect();
    json!({ "attachments": attachments })
}
