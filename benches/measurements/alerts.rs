//! Time from a failure, or from a deadline, to the first byte of the alert at a receiver, and the
//! effect of many at once.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::setup::BenchSetup;
use super::{TableRow, thousands};
use crate::driver::{LoadPlan, LoadResult, Request, Result, StopCondition};
use crate::server_process::MeasuredServer;

/// Time from a ping to the deadline, with the shortest period and the shortest grace time.
const TO_DEADLINE: Duration = Duration::from_secs(60 + 60);
const CHECK: &str = r#"{"name": "due-{n}", "slug": "due-{n}", "timeout": 60, "grace": 60}"#;
/// Number of failures, and of deadlines, one at a time.
const SINGLE_ALERTS: u64 = 500;
/// Interval between the pings of the checks that become due.
const ALERT_INTERVAL: Duration = Duration::from_millis(20);
/// Number of other checks that are pinged meanwhile, and their pings a second.
const PINGED_CHECKS: u64 = 10_000;
const PINGS_PER_SECOND: u32 = 2000;
const MEASURED: Duration = Duration::from_secs(3);
/// Time after which a missing alert is an error.
const ALERT_TIMEOUT: Duration = Duration::from_secs(60);

/// Arrival of the first byte of the alert about each check.
#[derive(Clone, Default)]
pub(super) struct AlertReceiver(Arc<Mutex<HashMap<String, Instant>>>);

/// Result of ten thousand failures at once.
struct AlertBurst {
    count: u64,
    /// Time until the last alert arrived.
    until_last: Duration,
    /// Other pings before and meanwhile.
    pings_before: LoadResult,
    pings_meanwhile: LoadResult,
}

/// Measures the delays, and the effect of ten thousand alerts on pings.
pub(super) fn alerts(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let server = setup.start_filled_server(setup.scaled(PINGED_CHECKS), 1)?;
    let receiver = AlertReceiver::default();
    receiver.create_channel(&server)?;
    let failures = single_alert_delays(setup, &server, &receiver)?;
    let deadlines = deadline_delays(setup, &server, &receiver)?;
    let AlertBurst {
        count,
        until_last,
        pings_before,
        pings_meanwhile,
    } = alert_burst(setup, &server, &receiver)?;
    let p99 = |run: &LoadResult| run.latency.value_at_quantile(0.99) as f64 / 1000.0;
    let slower = format!(
        "{:.2}× ({:.2} ms, otherwise {:.2} ms)",
        p99(&pings_meanwhile) / p99(&pings_before),
        p99(&pings_meanwhile),
        p99(&pings_before)
    );
    let at_once = format!("{} failures at once, one webhook", thousands(count as f64));
    Ok(vec![
        TableRow::new(
            "fail ping to the first byte at a webhook",
            "p99 < 50 ms",
            delay_summary(failures),
        ),
        TableRow::new(
            "deadline to the first byte at a webhook, 10,000 checks",
            "p50 < 90 ms, p99 < 250 ms",
            delay_summary(deadlines),
        ),
        TableRow::new(
            at_once,
            "all within 10 s",
            format!("{:.2} s", until_last.as_secs_f64()),
        ),
        TableRow::new(
            format!("p99 of {PINGS_PER_SECOND} pings a second of others meanwhile"),
            "not slower than 2×",
            slower,
        ),
    ])
}

fn delay_summary(mut delays: Vec<Duration>) -> String {
    delays.sort_unstable();
    let at = |percent: usize| {
        let index = (delays.len() * percent / 100).min(delays.len().saturating_sub(1));
        delays.get(index).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    format!(
        "p50 {:.1} ms, p99 {:.1} ms of {}",
        at(50),
        at(99),
        delays.len()
    )
}

/// Fails one check after the other.
fn single_alert_delays(
    setup: &BenchSetup,
    server: &MeasuredServer,
    receiver: &AlertReceiver,
) -> Result<Vec<Duration>> {
    setup.bar.set_prefix("failures one by one");
    let mut delays = Vec::new();
    for number in 0..setup.scaled(SINGLE_ALERTS) {
        let name = format!("one-{number}");
        let start = Instant::now();
        ping(server, &format!("{name}/fail?create=1"))?;
        delays.push(receiver.arrival(&name)?.saturating_duration_since(start));
    }
    Ok(delays)
}

/// Lets one check after the other become due; the smoke test does not wait for them.
fn deadline_delays(
    setup: &BenchSetup,
    server: &MeasuredServer,
    receiver: &AlertReceiver,
) -> Result<Vec<Duration>> {
    let count = setup.scaled(SINGLE_ALERTS);
    let endpoint = &server.endpoint;
    let create = &Request::new(
        endpoint,
        "POST",
        "/api/v3/checks/",
        &[("X-Api-Key", &server.api_key)],
        CHECK,
        count,
    );
    setup.bar.set_prefix("checks that become due");
    setup.send(&LoadPlan {
        endpoint,
        request: create,
        connections: 4,
        threads: 1,
        rate: None,
        until: StopCondition::Count(count),
    })?;
    let mut pinged = Vec::new();
    for number in 0..count {
        std::thread::sleep(ALERT_INTERVAL);
        // The time on the server is between this and the response.
        let start = Instant::now();
        let name = format!("due-{number:07}");
        ping(server, &name)?;
        pinged.push((name, start));
    }
    if setup.smoke {
        return Ok(Vec::new());
    }
    let mut delays = Vec::new();
    for (name, start) in pinged {
        let deadline = start + TO_DEADLINE;
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        delays.push(receiver.arrival(&name)?.saturating_duration_since(deadline));
    }
    Ok(delays)
}

/// Fails many checks as fast as possible.
fn alert_burst(
    setup: &BenchSetup,
    server: &MeasuredServer,
    receiver: &AlertReceiver,
) -> Result<AlertBurst> {
    let count = setup.scaled(10_000);
    let endpoint = &server.endpoint;
    let others = |warm_up| {
        let request = &Request::ping(
            endpoint,
            &server.ping_key,
            setup.scaled(PINGED_CHECKS),
            false,
        );
        let until = StopCondition::Time {
            warm_up,
            measured: MEASURED,
        };
        setup.send(&LoadPlan {
            endpoint,
            request,
            connections: 16,
            threads: 1,
            rate: Some(PINGS_PER_SECOND),
            until,
        })
    };
    setup.bar.set_prefix("pings while many alerts are sent");
    let pings_before = others(Duration::from_millis(500))?;
    let earlier_count = receiver.locked().len();
    let path = format!("/ping/{}/many-{{n}}/fail?create=1", server.ping_key);
    let fail = &Request::new(endpoint, "POST", &path, &[], "", count);
    std::thread::scope(|scope| {
        let pinging = scope.spawn(|| others(Duration::ZERO));
        let start = Instant::now();
        setup.send(&LoadPlan {
            endpoint,
            request: fail,
            connections: 64,
            threads: 1,
            rate: None,
            until: StopCondition::Count(count),
        })?;
        while receiver.locked().len() < earlier_count + usize::try_from(count)? {
            if start.elapsed() > ALERT_TIMEOUT {
                return Err("not all alerts arrived".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let until_last = start.elapsed();
        Ok(AlertBurst {
            count,
            until_last,
            pings_before,
            pings_meanwhile: pinging.join().map_err(|_| "the pings panicked")??,
        })
    })
}

/// Pings by slug; `rest` follows the key.
fn ping(server: &MeasuredServer, rest: &str) -> Result<()> {
    let path = format!("/ping/{}/{rest}", server.ping_key);
    let answer = server.endpoint.call("POST", &path, &[], "")?;
    if matches!(answer.status, 200 | 201) {
        Ok(())
    } else {
        Err(format!("a ping was answered {}", answer.status).into())
    }
}

impl AlertReceiver {
    fn locked(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the arrival of the alert about a check.
    fn arrival(&self, name: &str) -> Result<Instant> {
        let start = Instant::now();
        while start.elapsed() < ALERT_TIMEOUT {
            if let Some(at) = self.locked().get(name) {
                return Ok(*at);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Err(format!("no alert about {name} arrived").into())
    }

    /// Creates a channel that sends alerts about every check to this receiver.
    pub(super) fn create_channel(&self, server: &MeasuredServer) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("down-url=http://{}/", listener.local_addr()?);
        self.listen(listener);
        let words = [
            "channel",
            "create",
            "--project",
            "default",
            "--kind",
            "webhook",
            "--name",
            "hook",
            "--set",
            "every=on",
        ];
        server
            .run(&[&words[..], &["--set", &url, "--set", "body=$NAME"]].concat())
            .map(drop)
    }

    /// Accepts every alert on this listener.
    pub(super) fn listen(&self, listener: TcpListener) {
        let receiver = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let receiver = receiver.clone();
                // The thread ends with its connection.
                std::thread::spawn(move || drop(receiver.receive(stream)));
            }
        });
    }

    /// Returns the number of checks with an alert.
    pub(super) fn count(&self) -> usize {
        self.locked().len()
    }

    fn receive(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut line = String::new();
            let mut length = 0;
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let at = Instant::now();
            while line != "\r\n" {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse()?;
                }
                line.clear();
                reader.read_line(&mut line)?;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            self.locked().entry(String::from_utf8(body)?).or_insert(at);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
        }
    }
}
