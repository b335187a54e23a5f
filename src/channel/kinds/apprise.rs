//! Apprise: handed on to whatever an Apprise API server reaches.

use serde_json::json;

use crate::channel::alert::Severity;
use crate::channel::answer::Verdict;
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, encoded, put};
use crate::channel::render::{Dialect, Limit, Show, Unit};

pub(super) const APPRISE: Sender = Sender {
    name: "apprise",
    pace: |_| pace(5, 1),
    send,
    judge: |_, _, response, now| match response.status {
        // Nothing is configured under the key.
        204 => Verdict::Closed,
        // Some of its targets failed. The others have it, and would have it twice.
        424 => Verdict::Delivered,
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let (alert, is_markdown) = (call.alert, call.settings.is_on("markdown"));
    let mut message = json!({
        "title": call.title(Limit(250, Unit::Chars)),
        "body": call.text(if is_markdown { Dialect::Markdown } else { Dialect::Plain }, Show::BELOW_TITLE, Limit(30_000, Unit::Bytes)),
        "type": match alert.severity {
            Severity::Bad => "failure",
            Severity::Good => "success",
            Severity::Warning => "warning",
            Severity::Info => "info",
        },
        // Targets that know no Markdown get it as it is.
        "format": if is_markdown { "markdown" } else { "text" },
    });
    for key in ["tag", "urls"] {
        if let Some(value) = call.get(key) {
            put(&mut message, key, value.into());
        }
    }
    let key = call.get("key").map_or_else(String::new, |key| format!("/{}", encoded(key, "")));
    Request::post(format!("{}/notify{key}", call.base("url"))).own().slow().json(&message).step()
}
