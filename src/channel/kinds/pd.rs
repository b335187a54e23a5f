//! PagerDuty, by its Events API.

use serde_json::json;

use crate::channel::alert::Alert;
use crate::channel::answer::Verdict;
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{Limit, Unit, cut, plainest};
use crate::channel::template::{Values, stamp};
use crate::domain::alert::Event;

pub(super) const PD: Sender = Sender {
    name: "pd",
    pace: |_| pace(20, 1),
    send,
    judge: |_, _, response, now| match response.status {
        400 => Verdict::Unsendable,
        _ => response.usual(now),
    },
    ..Sender::BASE
};

fn send(call: &Call<'_>) -> Vec<Step> {
    let actions: &[&str] = match call.alert.event {
        // What is only tried must not stay open.
        Event::Test => &["trigger", "resolve"],
        Event::Up | Event::Closed => &["resolve"],
        _ => &["trigger"],
    };
    actions.iter().flat_map(|action| event(call, action).step()).collect()
}

fn event(call: &Call<'_>, action: &str) -> Request {
    let (alert, key) = (call.alert, call.alert.incident(call.attempt));
    // The plainest form has no details.
    let summary = if call.attempt.plain { plainest(alert) } else { cut(&alert.title, Limit(1_024, Unit::Chars)) };
    let details = if call.attempt.plain { json!({}) } else { details(call, alert) };
    let region = if call.get("region") == Some("eu") { ".eu" } else { "" };
    if call.get("api") == Some("v1") {
        let url = format!("https://events{region}.pagerduty.com/generic/2010-04-15/create_event.json");
        let event = json!({
            "service_key": call.given("key"), "incident_key": key, "event_type": action, "description": summary, "client": "overdue",
            "details": details,
        });
        return Request::post(url).json(&event);
    }
    let mut event = json!({ "routing_key": call.given("key"), "event_action": action, "dedup_key": key, "client": "overdue" });
    if action == "trigger" {
        let subject = alert.check.as_ref();
        put(
            &mut event,
            "payload",
            json!({
                "summary": summary,
                "source": if alert.host.is_empty() { "overdue" } else { &alert.host },
                "severity": if alert.event == Event::Test { "info" } else { "critical" },
                "timestamp": stamp(alert.at),
                "component": subject.map(|subject| subject.name.as_str()),
                "group": subject.map(|subject| subject.facts.project.as_str()),
                "class": alert.reason,
                "custom_details": details,
            }),
        );
        if let Some(link) = &alert.link {
            put(&mut event, "client_url", link.as_str().into());
            put(&mut event, "links", json!([{ "href": link, "text": "Open the check" }]));
        }
    }
    Request::post(format!("https://events{region}.pagerduty.com/v2/enqueue")).json(&event)
}

fn details(call: &Call<'_>, alert: &Alert) -> serde_json::Value {
    let mut details = Values::of(alert, call.attempt).map_or(json!({}), |values| values.event_json());
    if let Some(output) = &alert.output {
        put(&mut details, "output", output.text.as_str().into());
    }
    details
}
