//! ntfy: a message published to a topic, as JSON.

use serde_json::json;

use crate::channel::answer::{Verdict, until};
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::moment::Moment;
use std::time::Duration;

/// What a longer message would become: an attachment (its limit is 4,096 bytes).
const TEXT_LIMIT: Limit = Limit(3_800, Unit::Bytes);

pub(super) const NTFY: Sender = Sender {
    name: "ntfy",
    pace: |_| pace(10, 6),
    send,
    judge: |_, _, response, now| match response.status {
        // The quota of the day is used up. It begins anew at midnight, UTC.
        429 if response.json_at("/code") == 42_908 => Verdict::Later { after: until(next_midnight(now), now) },
        // There is no Retry-After.
        429 if response.header("retry-after").is_none() => Verdict::Later { after: Some(Duration::from_secs(60)) },
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn next_midnight(now: Moment) -> i64 {
    (now.secs().div_euclid(86_400) + 1) * 86_400
}

fn send(call: &Call<'_>) -> Vec<Step> {
    let (alert, is_markdown) = (call.alert, call.settings.is_on("markdown"));
    let dialect = if is_markdown { Dialect::Markdown } else { Dialect::Plain };
    let mut message = json!({
        "topic": call.given("topic"),
        "title": cut(&alert.title, Limit(250, Unit::Bytes)),
        "message": call.text(dialect, Show { link: false, ..Show::BELOW_TITLE }, TEXT_LIMIT),
        "tags": [alert.severity.tag()],
        // A repeat takes the place of what is there (ntfy 2.16).
        "sequence_id": call.attempt.id,
    });
    if is_markdown {
        put(&mut message, "markdown", true.into());
    }
    // Priority 0 sends nothing, but whoever tries the channel wants to see something.
    if let Some(priority) = call.priority().filter(|priority| *priority > 0) {
        put(&mut message, "priority", priority.into());
    }
    if let Some(link) = &alert.link {
        put(&mut message, "click", link.as_str().into());
    }
    let request = Request::post(format!("{}/", call.base("url"))).own();
    let request = match (call.get("token"), call.get("user"), call.get("password")) {
        (Some(token), ..) => request.bearer(token),
        (None, Some(user), Some(password)) => request.basic(user, password),
        _ => request,
    };
    request.json(&message).step()
}
