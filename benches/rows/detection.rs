//! How late checks go down that are all due in the same second, and what pings notice of it.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::setup::Setup;
use super::{Line, thousands};
use crate::driver::{Plan, Request, Result, Run, Until};
use crate::subject::Subject;

/// From a ping to the deadline, with the shortest period and the shortest grace time.
const TO_DEADLINE: SignedDuration = SignedDuration::from_secs(60 + 60);
const CHECK: &str = r#"{"name": "due-{n}", "slug": "due-{n}", "timeout": 60, "grace": 60}"#;
/// Checks that are watched, of those that come due.
const WATCHED: usize = 100;
/// How often they are looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// When it is too late.
const PATIENCE: Duration = Duration::from_secs(60);
/// Checks that are pinged meanwhile, and how often a second.
const PINGED: u64 = 1000;
const PINGS: u32 = 2000;
/// How long those pings are measured: from the first deadline on, and long before it.
const MEASURED: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct List {
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    slug: String,
    uuid: String,
    status: String,
    /// Of a check that is stored as down, none.
    next_ping: Option<String>,
    #[serde(deserialize_with = "timestamp")]
    last_ping: Timestamp,
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

impl Check {
    fn deadline(&self) -> Timestamp {
        self.last_ping.saturating_add(TO_DEADLINE).unwrap_or(Timestamp::MAX)
    }
}

/// The delay from each deadline to the moment at which the flip can be read.
pub(super) fn detection(setup: &Setup) -> Result<Vec<Line>> {
    let checks = setup.size(10_000);
    let subject = setup.filled(PINGED, 1)?;
    make_due(setup, &subject, checks)?;
    let due = list(&subject)?;
    let (Some(first), Some(last)) = (due.first(), due.last()) else { return Err("no check is due".into()) };
    let quiet = pings(setup, &subject, Duration::from_secs(1), QUIET)?;
    let wait = Duration::try_from(Timestamp::now().duration_until(first.deadline()))?;
    let (delays, meanwhile) = std::thread::scope(|scope| {
        let pinging = scope.spawn(|| pings(setup, &subject, wait, MEASURED));
        let delays = watch(&subject, &due, wait);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((delays?, pinging.join().map_err(|_| "the pings panicked")??))
    })?;
    let down = list(&subject)?.iter().filter(|check| check.status == "down" && check.next_ping.is_none()).count();
    let within = last.deadline().duration_since(first.deadline());
    let what = format!("flip on disk and readable after its deadline, {} checks due within {within:#}", thousands(checks as f64));
    let seen = format!("{:.2} s at the most of {WATCHED} watched; {} are down", delays.as_secs_f64(), thousands(down as f64));
    let at = |run: &Run, quantile| run.latency.value_at_quantile(quantile) as f64 / 1000.0;
    let slower = |quantile| {
        let (meanwhile, quiet) = (at(&meanwhile, quantile), at(&quiet, quantile));
        format!("{:.2}× ({meanwhile:.2} ms, otherwise {quiet:.2} ms)", meanwhile / quiet)
    };
    let pinged = format!("in those {} s", MEASURED.as_secs());
    Ok(vec![
        Line::new(what, "all within 1 s", seen),
        Line::new(format!("p50 of {PINGS} pings a second {pinged}"), "not slower than 2×", slower(0.5)),
        Line::new(format!("p99 of {PINGS} pings a second {pinged}"), "not slower than 2×", slower(0.99)),
    ])
}

/// Makes the checks and pings them all at once.
fn make_due(setup: &Setup, subject: &Subject, checks: u64) -> Result<()> {
    let endpoint = &subject.endpoint;
    let create = Request::new(endpoint, "POST", "/api/v3/checks/", &[("X-Api-Key", &subject.api_key)], CHECK, checks);
    let ping = Request::new(endpoint, "POST", &format!("/ping/{}/due-{{n}}", subject.ping_key), &[], "", checks);
    for (name, request) in [("checks that come due", &create), ("their pings", &ping)] {
        setup.bar.set_prefix(name);
        setup.send(&Plan { endpoint, request, connections: 64, threads: 1, rate: None, until: Until::Count(checks) })?;
    }
    Ok(())
}

/// The checks that come due, the first of them first.
fn list(subject: &Subject) -> Result<Vec<Check>> {
    let body = subject.endpoint.call("GET", "/api/v3/checks/", &[("X-Api-Key", &subject.api_key)], "")?.body;
    let List { mut checks } = serde_json::from_slice(&body)?;
    checks.retain(|check| check.slug.starts_with("due-"));
    checks.sort_by_key(|check| check.last_ping);
    Ok(checks)
}

/// Pings to other checks at a fixed rate.
fn pings(setup: &Setup, subject: &Subject, warm_up: Duration, measured: Duration) -> Result<Run> {
    let request = &Request::ping(&subject.endpoint, &subject.ping_key, PINGED, false);
    let until = Until::Time { warm_up, measured };
    setup.bar.set_prefix("pings while checks come due");
    setup.send(&Plan { endpoint: &subject.endpoint, request, connections: 16, threads: 1, rate: Some(PINGS), until })
}

/// Waits, then looks at every so many of the checks and at the last until each has its flip; the longest delay of one.
fn watch(subject: &Subject, due: &[Check], wait: Duration) -> Result<SignedDuration> {
    std::thread::sleep(wait);
    let begun = Instant::now();
    let mut watched: Vec<_> = due.iter().rev().step_by((due.len() / WATCHED).max(1)).collect();
    let mut longest = SignedDuration::ZERO;
    while !watched.is_empty() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{} of {WATCHED} watched checks did not go down", watched.len()).into());
        }
        let mut left = Vec::new();
        for check in watched {
            let path = format!("/api/v3/checks/{}/flips/", check.uuid);
            let flips = subject.endpoint.call("GET", &path, &[("X-Api-Key", &subject.api_key)], "")?;
            if flips.status != 200 {
                return Err(format!("flips were answered {}", flips.status).into());
            }
            if flips.body == b"[]" {
                left.push(check);
            } else {
                longest = longest.max(Timestamp::now().duration_since(check.deadline()));
            }
        }
        watched = left;
        std::thread::sleep(GLANCE);
    }
    Ok(longest)
}
