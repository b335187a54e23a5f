//! Pushover.

use crate::channel::answer::{Response, Verdict};
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::alert::Event;
use crate::domain::moment::Moment;

/// The priority that asks again until somebody acknowledges.
const EMERGENCY: i64 = 2;
/// Stops that asking. Whether it works or not, the message that follows is sent.
const CANCEL: &str = "cancel";

pub(super) const PO: Sender = Sender { name: "po", pace: |_| pace(6, 10), send, judge, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let (alert, token) = (call.alert, call.given("token"));
    // Priority -3 sends nothing, but whoever tries the channel wants to see something.
    let priority = call.priority().filter(|priority| *priority >= -2).unwrap_or_default();
    let key = alert.incident(call.attempt);
    let (title, at, number) = (call.title(Limit(250, Unit::Chars)), alert.at.secs().to_string(), priority.to_string());
    let dialect = if call.attempt.plain { Dialect::Plain } else { Dialect::Pushover };
    let show = Show { title: false, link: false, ..Show::ALL };
    let message = call.text(dialect, show, Limit(1_024, Unit::Chars));
    let message = if message.is_empty() { cut(&alert.title, Limit(1_024, Unit::Chars)) } else { message };
    let mut fields = vec![
        ("token", token),
        ("user", call.given("user")),
        ("title", &title),
        ("message", &message),
        ("priority", &number),
        ("timestamp", &at),
        ("tags", &key),
    ];
    if !call.attempt.plain {
        fields.push(("html", "1"));
    }
    fields.extend(call.get("device").map(|device| ("device", device)));
    fields.extend(call.get("sound").filter(|_| !alert.is_up()).map(|sound| ("sound", sound)));
    if let Some(link) = alert.link.as_deref().filter(|link| link.len() <= 512) {
        fields.extend([("url", link), ("url_title", alert.link_text())]);
    }
    if priority == EMERGENCY {
        fields.extend([("retry", "300"), ("expire", "10800")]);
    }
    let mut steps = Vec::new();
    if alert.event == Event::Up && call.settings.number("priority") == Some(EMERGENCY) {
        let url = format!("https://api.pushover.net/1/receipts/cancel_by_tag/{key}.json");
        steps.extend(Request::post(url).form(&[("token", token)]).role(CANCEL).step());
    }
    steps.extend(Request::post("https://api.pushover.net/1/messages.json").form(&fields).step());
    steps
}

fn judge(_: &Call<'_>, request: &Request, response: &Response, now: Moment) -> Verdict {
    match response.status {
        _ if request.role == CANCEL => Verdict::Delivered,
        200 if response.json_at("/status") == 1 => Verdict::Delivered,
        400 if response.json_at("/user") == "invalid" || response.json_at("/token") == "invalid" => Verdict::Closed,
        // The quota of the month.
        429 => response.later_at("x-limit-app-reset", now),
        200 => Verdict::LATER,
        _ => response.usual(now),
    }
}
