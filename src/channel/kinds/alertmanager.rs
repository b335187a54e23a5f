//! Prometheus' Alertmanager: an alert for each check, which ends by itself unless it is sent again.

use serde_json::{Value, json};

use crate::channel::alert::{Alert, Subject};
use crate::channel::answer::Verdict;
use crate::channel::kinds::Sender;
use crate::channel::outgoing::{Request, Step, put};
use crate::channel::render::clean::one_line;
use crate::channel::template::stamp;
use crate::channel::words;
use crate::domain::alert::Event;
use crate::domain::channel::ChannelSettings;
use crate::domain::check::NameSet;
use crate::domain::moment::Moment;

/// Seconds for which an alert holds that is not sent again.
const HOLDS: i64 = 300;

pub(super) const ALERTMANAGER: Sender = Sender {
    name: "alertmanager",
    has_plain_form: false,
    sustain: Some(request),
    send: |call| request(call.settings, &[call.alert], call.attempt.at),
    judge: |_, _, response, now| match response.status {
        // The valid ones may have been stored; the next minute sends all of them again.
        400 => Verdict::LATER,
        _ => response.usual(now),
    },
    ..Sender::BASE
};

/// One request for several alerts, at most 500 as the receiver's limit on bodies goes; those about no check are left out.
fn request(settings: &ChannelSettings, alerts: &[&Alert], now: Moment) -> Vec<Step> {
    let of = |alert: &&Alert| alert.check.as_ref().map(|subject| one(settings, alert, subject, now));
    let alerts: Vec<Value> = alerts.iter().filter_map(of).collect();
    if alerts.is_empty() {
        return Vec::new();
    }
    let url = format!("{}/api/v2/alerts", settings.get("url").unwrap_or_default().trim_end_matches('/'));
    let request = Request::post(url).own();
    let request = match (settings.get("token"), settings.get("user"), settings.get("password")) {
        (Some(token), ..) => request.bearer(token),
        (None, Some(user), Some(password)) => request.basic(user, password),
        _ => request,
    };
    request.json(&Value::from(alerts)).step()
}

fn one(settings: &ChannelSettings, alert: &Alert, subject: &Subject, now: Moment) -> Value {
    // As long as a downtime lasts, the receiver knows it by the names under which it was told.
    let told = subject.facts.told_as.as_ref().map(|names| NameSet::clone(names).settings());
    let check = told.as_ref().unwrap_or(&subject.facts.settings);
    let mut labels = serde_json::Map::new();
    let mut label = |name: String, value: String| {
        // An empty label is none.
        if !value.is_empty() {
            labels.insert(name, value.into());
        }
    };
    label("alertname".into(), "CheckDown".into());
    label("check".into(), words::name(check));
    label("slug".into(), check.slug.as_str().into());
    label("project".into(), one_line(&subject.facts.project));
    label("unique_key".into(), subject.facts.unique_key.to_string());
    for tag in check.tags.iter() {
        let name: String = tag.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        label(format!("tag_{name}"), "on".into());
    }
    let own = settings.pairs().filter_map(|(key, value)| Some((key.strip_prefix("label.")?, value)));
    own.for_each(|(name, value)| label(name.to_owned(), value.to_owned()));
    let is_over = matches!(alert.event, Event::Up | Event::Closed);
    let began = subject.downtime.map_or(alert.at, |(from, _)| from);
    // What is only tried ends within a minute.
    let ends = match alert.event {
        _ if is_over => now,
        Event::Test => now.plus_secs(60),
        _ => now.plus_secs(HOLDS),
    };
    let mut alert_json = json!({
        "labels": labels,
        "annotations": { "summary": alert.title, "description": alert.lead },
        "endsAt": stamp(ends),
    });
    // A closed one began before; when, Alertmanager knows.
    if alert.event != Event::Closed {
        put(&mut alert_json, "startsAt", stamp(began.min(ends)).into());
    }
    if let Some(link) = &alert.link {
        put(&mut alert_json, "generatorURL", link.as_str().into());
    }
    alert_json
}
