//! GitHub: an issue for each downtime.

use serde_json::json;

use crate::channel::answer::{Response, Verdict};
use crate::channel::kinds::{Call, Sender, pace};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{Dialect, Limit, Show, Unit, cut};
use crate::domain::moment::Moment;

pub(super) const GITHUB: Sender =
    Sender { name: "github", pace: |_| pace(5, 3), send, judge: |call, _, response, now| judge(call, response, now), ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let labels: Vec<_> = call.settings.items("labels").collect();
    let issue = json!({
        "title": cut(&call.alert.title, Limit(250, Unit::Chars)),
        "body": call.text(Dialect::Markdown, Show::BELOW_TITLE, Limit(60_000, Unit::Bytes)),
        "labels": labels,
    });
    Request::post(format!("{}/repos/{}/issues", call.base("api"), call.given("repo")))
        .bearer(call.given("token"))
        .header("Accept", "application/vnd.github+json")
        .header("X-GitHub-Api-Version", "2022-11-28")
        .header("User-Agent", concat!("overdue/", env!("CARGO_PKG_VERSION")))
        .json(&issue)
        .step()
}

fn judge(call: &Call<'_>, response: &Response, now: Moment) -> Verdict {
    let is_own = response.has_text_at("/message") && response.has_text_at("/documentation_url");
    match response.status {
        401 | 404 | 410 if is_own => response.closed(call.attempt, now),
        403 | 429 if response.header("retry-after").is_some() => response.later(now),
        403 | 429 => response.later_at("x-ratelimit-reset", now),
        _ => response.usual(now),
    }
}
