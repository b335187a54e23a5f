//! Delay of checks that are all due in the same second, and the effect on pings; without channels
//! and with one for each check.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::alerts::AlertReceiver;
use super::setup::BenchSetup;
use super::{TableRow, thousands};
use crate::driver::{BenchError, LoadPlan, LoadResult, Request, Result, StopCondition};
use crate::server_process::MeasuredServer;

/// Time from a ping to the deadline, with the shortest period and the shortest grace time.
const TO_DEADLINE: SignedDuration = SignedDuration::from_secs(60 + 60);
const CHECK: &str = r#"{"name": "due-{n}", "slug": "due-{n}", "timeout": 60, "grace": 60}"#;
/// One in this number of checks is watched.
const WATCH_EVERY: usize = 100;
/// Interval at which they are read.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which a missing flip is an error.
const DETECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of checks that are pinged meanwhile, and their pings a second.
const PINGED_CHECKS: u64 = 1000;
const PINGS_PER_SECOND: u32 = 2000;
/// Time for which those pings are measured: from the first deadline on, and long before it.
const MEASURED: Duration = Duration::from_secs(2);
const QUIET_PERIOD: Duration = Duration::from_secs(10);

/// A check that becomes due.
#[derive(Deserialize)]
struct DueCheck {
    slug: String,
    uuid: String,
    status: String,
    /// `None` for a check that is stored as down.
    next_ping: Option<String>,
}

/// A watched check, and its deadline.
struct WatchedCheck {
    uuid: String,
    deadline: Timestamp,
}

/// Measures the delay from each deadline to the time at which the flip can be read.
pub(super) fn detection(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let mut lines = measured(setup, false)?;
    lines.extend(measured(setup, true)?);
    Ok(lines)
}

/// Measures the delay with a webhook for every check, or without channels.
fn measured(setup: &BenchSetup, has_channels: bool) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(10_000);
    let server = setup.start_filled_server(PINGED_CHECKS, 1)?;
    if has_channels {
        AlertReceiver::default().create_channel(&server)?;
    }
    make_due(setup, &server, checks)?;
    let watched = pick_watched(&server)?;
    let deadlines = || watched.iter().map(|check| check.deadline);
    let (Some(first), Some(last)) = (deadlines().min(), deadlines().max()) else {
        return Err("no check is due".into());
    };
    let quiet = pings(setup, &server, Duration::from_secs(1), QUIET_PERIOD)?;
    let wait = Duration::try_from(Timestamp::now().duration_until(first))?;
    let (delay, meanwhile) = std::thread::scope(|scope| {
        let pinging = scope.spawn(|| pings(setup, &server, wait, MEASURED));
        let delay = longest_delay(&server, watched.iter().collect(), wait);
        Ok::<_, BenchError>((delay?, pinging.join().map_err(|_| "the pings panicked")??))
    })?;
    let down = due_checks(&server)?
        .iter()
        .filter(|check| check.status == "down" && check.next_ping.is_none())
        .count();
    let within = last.duration_since(first).as_secs_f64();
    let with = if has_channels {
        " with a channel each"
    } else {
        ""
    };
    let what = format!(
        "flip on disk and readable after its deadline, {} checks{with} due within {within:.2} s",
        thousands(checks as f64)
    );
    let delays = format!(
        "{:.2} s at the most of {} watched; {} are down",
        delay.as_secs_f64(),
        watched.len(),
        thousands(down as f64)
    );
    let at = |run: &LoadResult, quantile| run.latency.value_at_quantile(quantile) as f64 / 1000.0;
    let slower = |quantile| {
        let meanwhile = at(&meanwhile, quantile);
        let quiet = at(&quiet, quantile);
        format!(
            "{:.2}× ({meanwhile:.2} ms, otherwise {quiet:.2} ms)",
            meanwhile / quiet
        )
    };
    let pinged = format!("in those {} s{with}", MEASURED.as_secs());
    Ok(vec![
        TableRow::new(
            what,
            if has_channels {
                "all within 0.2 s"
            } else {
                "all within 1 s"
            },
            delays,
        ),
        TableRow::new(
            format!("p50 of {PINGS_PER_SECOND} pings a second {pinged}"),
            "not slower than 2×",
            slower(0.5),
        ),
        TableRow::new(
            format!("p99 of {PINGS_PER_SECOND} pings a second {pinged}"),
            "not slower than 2×",
            slower(0.99),
        ),
    ])
}

/// Creates the checks and pings them all at once.
fn make_due(setup: &BenchSetup, server: &MeasuredServer, checks: u64) -> Result<()> {
    let endpoint = &server.endpoint;
    let create = Request::new(
        endpoint,
        "POST",
        "/api/v3/checks/",
        &[("X-Api-Key", &server.api_key)],
        CHECK,
        checks,
    );
    let ping = Request::new(
        endpoint,
        "POST",
        &format!("/ping/{}/due-{{n}}", server.ping_key),
        &[],
        "",
        checks,
    );
    for (name, request) in [("checks that become due", &create), ("their pings", &ping)] {
        setup.bar.set_prefix(name);
        setup.send(&LoadPlan {
            endpoint,
            request,
            connections: 64,
            threads: 1,
            rate: None,
            until: StopCondition::Count(checks),
        })?;
    }
    Ok(())
}

/// Returns the checks that become due.
fn due_checks(server: &MeasuredServer) -> Result<Vec<DueCheck>> {
    #[derive(Deserialize)]
    struct List {
        checks: Vec<DueCheck>,
    }
    let List { mut checks } = get(server, "/api/v3/checks/")?;
    checks.retain(|check| check.slug.starts_with("due-"));
    Ok(checks)
}

/// Picks some of them, with the deadline that follows from the exact time of their one ping.
fn pick_watched(server: &MeasuredServer) -> Result<Vec<WatchedCheck>> {
    #[derive(Deserialize)]
    struct Log {
        pings: Vec<Ping>,
    }
    #[derive(Deserialize)]
    struct Ping {
        date: String,
    }
    let due = due_checks(server)?;
    let watched = due
        .into_iter()
        .rev()
        .step_by(WATCH_EVERY)
        .map(|DueCheck { uuid, .. }| {
            let Log { pings } = get(server, &format!("/api/v3/checks/{uuid}/pings/"))?;
            let pinged: Timestamp = pings
                .first()
                .ok_or("a check was not pinged")?
                .date
                .parse()?;
            Ok(WatchedCheck {
                uuid,
                deadline: pinged.checked_add(TO_DEADLINE)?,
            })
        });
    watched.collect()
}

/// Returns the response of the API to a GET.
fn get<T: DeserializeOwned>(server: &MeasuredServer, path: &str) -> Result<T> {
    let answer = server
        .endpoint
        .call("GET", path, &[("X-Api-Key", &server.api_key)], "")?;
    if answer.status != 200 {
        return Err(format!(
            "GET {path} was answered {}: {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        )
        .into());
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Pings other checks at a fixed rate.
fn pings(
    setup: &BenchSetup,
    server: &MeasuredServer,
    warm_up: Duration,
    measured: Duration,
) -> Result<LoadResult> {
    let request = &Request::ping(&server.endpoint, &server.ping_key, PINGED_CHECKS, false);
    let until = StopCondition::Time { warm_up, measured };
    setup.bar.set_prefix("pings while checks become due");
    setup.send(&LoadPlan {
        endpoint: &server.endpoint,
        request,
        connections: 16,
        threads: 1,
        rate: Some(PINGS_PER_SECOND),
        until,
    })
}

/// Waits, then reads these checks until each has its flip; returns the longest delay.
fn longest_delay(
    server: &MeasuredServer,
    mut watched: Vec<&WatchedCheck>,
    wait: Duration,
) -> Result<SignedDuration> {
    std::thread::sleep(wait);
    let start = Instant::now();
    let mut longest = SignedDuration::ZERO;
    while !watched.is_empty() {
        if start.elapsed() > DETECTION_TIMEOUT {
            return Err(format!("{} of the watched checks did not go down", watched.len()).into());
        }
        let mut remaining = Vec::new();
        for check in watched {
            let flips: Vec<serde_json::Value> =
                get(server, &format!("/api/v3/checks/{}/flips/", check.uuid))?;
            if flips.is_empty() {
                remaining.push(check);
            } else {
                longest = longest.max(Timestamp::now().duration_since(check.deadline));
            }
        }
        watched = remaining;
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(longest)
}
