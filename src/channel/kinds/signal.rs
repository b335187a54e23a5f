//! Signal, by signal-cli or signal-cli-rest-api.

use serde_json::{Value, json};

use crate::channel::answer::{Response, Verdict, pause};
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::{self, Dialect, Limit, Show, Unit};
use crate::domain::moment::Moment;

/// What a longer message would become: an attachment.
const TEXT_LIMIT: Limit = Limit(1_900, Unit::Bytes);
const HOUR: f64 = 3_600.0;

pub(super) const SIGNAL: Sender = Sender { name: "signal", pace: |_| pace(6, 10), send, judge, ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let rendered = render::text_styled(call.alert, call.attempt, Dialect::Signal, Show { output: 800, ..Show::ALL }, TEXT_LIMIT);
    let to: Vec<_> = call.settings.items("to").collect();
    if call.get("api") == Some("rest") {
        let message = json!({ "message": rendered.text, "number": call.get("account"), "recipients": to });
        return Request::post(format!("{}/v2/send", call.base("url"))).own().slow().json(&message).step();
    }
    let is_number = |to: &str| to.starts_with('+') || to.starts_with("u:");
    let groups: Vec<_> = to.iter().filter(|to| !is_number(to)).collect();
    let people: Vec<_> = to.iter().filter(|to| is_number(to)).collect();
    let styles: Vec<_> = rendered.styles.iter().map(|style| format!("{}:{}:{}", style.start, style.length, style.name)).collect();
    let mut params = json!({ "message": rendered.text, "textStyle": styles });
    if let Some(account) = call.get("account") {
        put(&mut params, "account", account.into());
    }
    if !people.is_empty() {
        put(&mut params, "recipient", json!(people));
    }
    if !groups.is_empty() {
        put(&mut params, "groupId", json!(groups));
    }
    let request = json!({ "jsonrpc": "2.0", "method": "send", "id": call.attempt.id, "params": params });
    Request::post(format!("{}/api/v1/rpc", call.base("url"))).own().slow().json(&request).step()
}

fn judge(call: &Call<'_>, _: &Request, response: &Response, now: Moment) -> Verdict {
    if call.get("api") == Some("rest") || response.status != 200 {
        return response.usual(now);
    }
    if response.json_at("/error").is_null() {
        let nobody = is_unregistered(&response.json_at("/result/results"));
        return if nobody { Verdict::Closed } else { Verdict::Delivered };
    }
    match response.json_at("/error/code").as_i64() {
        Some(-5) => {
            let seconds = response.json_at("/error/data/response/results/0/retryAfterSeconds").as_f64();
            Verdict::Later { after: pause(seconds.unwrap_or(HOUR)) }
        }
        Some(-4 | -6) => Verdict::Closed,
        Some(-1) if is_unregistered(&response.json_at("/error/data/response/results")) => Verdict::Closed,
        Some(-1) => Verdict::Unsendable,
        _ => Verdict::LATER,
    }
}

/// Whether nobody of those that it was for has Signal.
fn is_unregistered(results: &Value) -> bool {
    let is_one = |one: &Value| one.get("type").is_some_and(|name| name == "UNREGISTERED_FAILURE");
    results.as_array().is_some_and(|results| !results.is_empty() && results.iter().all(is_one))
}
