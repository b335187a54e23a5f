//! Zulip: a message in a channel or to people.

use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};

const TEXT_LIMIT: Limit = Limit(9_900, Unit::Chars);
const TOPIC_LIMIT: Limit = Limit(60, Unit::Chars);

pub(super) const ZULIP: Sender = Sender { name: "zulip", pace: |_| pace(20, 1), send, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let content = call.text(Dialect::Zulip, Show::ALL, TEXT_LIMIT);
    let url = format!("{}/api/v1/messages", call.base("site"));
    let request = Request::post(url).own().basic(call.given("bot-email"), call.given("key"));
    if call.get("type") == Some("direct") {
        let to = serde_json::Value::from(call.settings.items("to").collect::<Vec<_>>()).to_string();
        return request.form(&[("type", "private"), ("to", &to), ("content", &content)]).step();
    }
    let name = call.alert.check.as_ref().map_or("overdue", |subject| &subject.name);
    let topic = cut(call.get("topic").unwrap_or(name), TOPIC_LIMIT);
    request.form(&[("type", "stream"), ("to", call.given("to")), ("topic", &topic), ("content", &content)]).step()
}
