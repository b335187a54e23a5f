//! Cost of many alerts that wait for a dead channel, and their delivery once it is back.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::alerts::AlertReceiver;
use super::setup::BenchSetup;
use super::{TableRow, megabytes, thousands};
use crate::driver::{LoadPlan, Request, Result, StopCondition};
use crate::server_process::MeasuredServer;

/// Time after which the measurement fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A channel as it is listed.
#[derive(Deserialize)]
struct WaitingChannel {
    waiting: u64,
}

/// Measures memory with and without waiting alerts, and the time until all are delivered.
pub(super) fn waiting(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(100_000);
    let subject = setup.start_filled_server(checks, 1)?;
    // No server listens at this address until later.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("url=http://{address}");
    let words = [
        "channel",
        "create",
        "--project",
        "default",
        "--kind",
        "ntfy",
        "--name",
        "phone",
        "--set",
        "topic=home",
        "--set",
        "every=on",
    ];
    // Without waiting alerts, to measure the cost of a failure itself.
    let before = subject.resident_bytes()?;
    let written = subject.database_bytes()?;
    subject.run(&[&words[..], &["--set", &url]].concat())?;
    let endpoint = &subject.endpoint;
    let path = format!("/ping/{}/load-{{n}}/fail", subject.ping_key);
    let fail = &Request::new(endpoint, "POST", &path, &[], "", checks);
    setup.bar.set_prefix("failures that nobody can be told");
    setup.send(&LoadPlan {
        endpoint,
        request: fail,
        connections: 256,
        threads: 1,
        rate: None,
        until: StopCondition::Count(checks),
    })?;
    if waiting_alerts(&subject)? != checks {
        return Err("not all failures wait to be told".into());
    }
    let after = subject.resident_bytes()?;
    let grown = subject.database_bytes()? - written;
    let used = subject.cpu_seconds()?;
    let came = AlertReceiver::default();
    came.listen(TcpListener::bind(address)?);
    // It is tried at once, and not at the end of its pause.
    subject.run(&["channel", "enable", "phone"])?;
    let back = Instant::now();
    while waiting_alerts(&subject)? > 0 {
        if back.elapsed() > WAIT_TIMEOUT {
            return Err("not everything was told".into());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let drained = back.elapsed();
    let used = subject.cpu_seconds()? - used;
    let what = format!(
        "{} alerts that wait for a channel that is dead: memory, file",
        thousands(checks as f64)
    );
    let kept = format!(
        "{} more, {} more",
        megabytes(after - before),
        megabytes(grown)
    );
    let told = format!(
        "{:.1} s, {used:.1} s of processor time, {} messages",
        drained.as_secs_f64(),
        came.count()
    );
    Ok(vec![
        TableRow::new(what, "40 MB more", kept),
        TableRow::new(
            "until they are told once it is back",
            "60 s, 30 s of processor time",
            told,
        ),
    ])
}

/// Returns the number of waiting alerts.
fn waiting_alerts(subject: &MeasuredServer) -> Result<u64> {
    let list: Vec<WaitingChannel> =
        serde_json::from_str(&subject.run(&["channel", "list", "--json"])?)?;
    Ok(list.iter().map(|channel| channel.waiting).sum())
}
