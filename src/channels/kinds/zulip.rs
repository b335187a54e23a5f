//! Zulip: a message in a channel or to people.

use crate::channels::kinds::{ChannelSender, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};

const TEXT_LIMIT: LengthLimit = LengthLimit(9_900, LengthUnit::Chars);
const TOPIC_LIMIT: LengthLimit = LengthLimit(60, LengthUnit::Chars);

pub(super) const ZULIP: ChannelSender = ChannelSender {
    name: "zulip",
    send_rate: |_| rate(20, 1),
    send,
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let content = call.text(Dialect::Zulip, TextSections::ALL, TEXT_LIMIT);
    let url = format!("{}/api/v1/messages", call.base_url("site"));
    let request = ChannelRequest::post(url)
        .with_user_url()
        .with_basic_auth(call.required("bot-email"), call.required("key"));
    if call.get("type") == Some("direct") {
        let to = serde_json::Value::from(call.settings.items("to").collect::<Vec<_>>()).to_string();
        return request
            .with_form(&[("type", "private"), ("to", &to), ("content", &content)])
            .into_steps();
    }
    let name = call
        .alert
        .check
        .as_ref()
        .map_or("overdue", |subject| &subject.name);
    let topic = truncate_line(call.get("topic").unwrap_or(name), TOPIC_LIMIT);
    request
        .with_form(&[
            ("type", "stream"),
            ("to", call.required("to")),
            ("topic", &topic),
            ("content", &content),
        ])
        .into_steps()
}
