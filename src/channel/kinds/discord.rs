//! Discord: an embed, posted to a webhook.

use serde_json::{Value, json};
use std::time::Duration;

use crate::channel::Pace;
use crate::channel::answer::{Verdict, pause};
use crate::channel::kinds::{Call, Sender};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut_escaped};
use crate::channel::template::stamp;

/// Together with title and fields an embed has 6,000 characters at most; the text alone 4,096.
const TEXT_LIMIT: Limit = Limit(3_000, Unit::Utf16);

pub(super) const DISCORD: Sender = Sender {
    name: "discord",
    pace: |_| Some(Pace { burst: 5, refill: Duration::from_secs(2) }),
    send,
    judge: |call, _, response, now| match response.status {
        401 | 403 | 404 if response.has_text_at("/message") && response.json_at("/code").is_i64() => response.closed(call.attempt, now),
        429 => match response.json_at("/retry_after").as_f64().and_then(pause) {
            Some(after) => Verdict::Later { after: Some(after) },
            None => response.later(now),
        },
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let show = Show { title: false, facts: false, link: false, ..Show::ALL };
    let mut message = json!({ "allowed_mentions": { "parse": [] } });
    if call.attempt.plain {
        put(&mut message, "content", call.text(Dialect::Discord, show, Limit(2_000, Unit::Utf16)).into());
    } else {
        let field = |label: &str, value: &str| {
            let value = cut_escaped(value, Dialect::Discord, Limit(200, Unit::Utf16));
            json!({ "name": label, "value": value, "inline": value.encode_utf16().count() <= 40 })
        };
        let fields: Vec<Value> = alert.facts.iter().take(10).map(|fact| field(fact.label, &fact.value)).collect();
        let mut embed = json!({
            "title": cut_escaped(&call.title(Limit(256, Unit::Utf16)), Dialect::Discord, Limit(256, Unit::Utf16)),
            "description": call.text(Dialect::Discord, show, TEXT_LIMIT),
            "color": alert.severity.colour(),
            "fields": fields,
            "timestamp": stamp(alert.at),
        });
        if let Some(link) = &alert.link {
            put(&mut embed, "url", link.as_str().into());
        }
        put(&mut message, "embeds", json!([embed]));
    }
    // The name that it had before still stands in old settings.
    let url = call.given("url").replacen("://discordapp.com/", "://discord.com/", 1);
    let thread = call.get("thread").map_or_else(String::new, |thread| format!("&thread_id={thread}"));
    let separator = if url.contains('?') { '&' } else { '?' };
    Request::post(format!("{url}{separator}wait=true{thread}")).json(&message).step()
}
