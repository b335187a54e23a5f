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
    let server = setup.start_filled_server(checks, 1)?;
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
    let bytes_before = server.resident_bytes()?;
    let written = server.database_bytes()?;
    server.run(&[&words[..], &["--set", &url]].concat())?;
    let endpoint = &server.endpoint;
    let path = format!("/ping/{}/load-{{n}}/fail", server.ping_key);
    let fail = &Request::new(endpoint, "POST", &path, &[], "", checks);
    setup
        .bar
        .set_prefix("failures whose alerts cannot be delivered");
    setup.send(&LoadPlan {
        endpoint,
        request: fail,
        connections: 256,
        threads: 1,
        rate: None,
        until: StopCondition::Count(checks),
    })?;
    if waiting_alerts(&server)? != checks {
        return Err("not all alerts are waiting".into());
    }
    let bytes_after = server.resident_bytes()?;
    let grown = server.database_bytes()? - written;
    let cpu_before = server.cpu_seconds()?;
    let receiver = AlertReceiver::default();
    receiver.listen(TcpListener::bind(address)?);
    // Delivery is retried at once, and not at the end of the pause.
    server.run(&["channel", "enable", "phone"])?;
    let back = Instant::now();
    while waiting_alerts(&server)? > 0 {
        if back.elapsed() > WAIT_TIMEOUT {
            return Err("not all alerts were delivered".into());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let drained = back.elapsed();
    let cpu_seconds = server.cpu_seconds()? - cpu_before;
    let what = format!(
        "{} alerts that wait for a channel that is dead: memory, file",
        thousands(checks as f64)
    );
    let memory_and_file = format!(
        "{} more, {} more",
        megabytes(bytes_after - bytes_before),
        megabytes(grown)
    );
    let delivery = format!(
        "{:.1} s, {cpu_seconds:.1} s of processor time, {} messages",
        drained.as_secs_f64(),
        receiver.count()
    );
    Ok(vec![
        TableRow::new(what, "40 MB more", memory_and_file),
        TableRow::new(
            "until they are delivered once it is back",
            "60 s, 30 s of processor time",
            delivery,
        ),
    ])
}

/// Returns the number of waiting alerts.
fn waiting_alerts(server: &MeasuredServer) -> Result<u64> {
    let list: Vec<WaitingChannel> =
        serde_json::from_str(&server.run(&["channel", "list", "--json"])?)?;
    Ok(list.iter().map(|channel| channel.waiting).sum())
}
