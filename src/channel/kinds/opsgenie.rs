//! Opsgenie: an alert for each check.

use serde_json::json;

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::clean::one_line;
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::alert::Event;

pub(super) const OPSGENIE: Sender = Sender { name: "opsgenie", pace: |_| pace(10, 1), send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let region = if call.get("region") == Some("eu") { ".eu" } else { "" };
    let (url, alias) = (format!("https://api{region}.opsgenie.com/v2/alerts"), alert.incident(call.attempt));
    let authorization = format!("GenieKey {}", call.given("key"));
    let post = |url: String| Request::post(url).header("Authorization", &authorization);
    let open = || {
        let tags: Vec<_> = alert.check.iter().flat_map(|subject| subject.facts.settings.tags.iter()).take(20).map(one_line).collect();
        post(url.clone()).json(&json!({
            "alias": alias,
            "message": cut(&alert.title, Limit(130, Unit::Chars)),
            "description": call.text(Dialect::Plain, Show::BELOW_TITLE, Limit(15_000, Unit::Chars)),
            "source": "overdue",
            "tags": tags.iter().map(|tag| cut(tag, Limit(50, Unit::Chars))).collect::<Vec<_>>(),
        }))
    };
    let close = || post(format!("{url}/{alias}/close?identifierType=alias")).json(&json!({ "source": "overdue", "note": alert.title }));
    match alert.event {
        // What is only tried must not stay open.
        Event::Test => [open().step(), close().step()].concat(),
        Event::Up | Event::Closed => close().step(),
        _ => open().step(),
    }
}
