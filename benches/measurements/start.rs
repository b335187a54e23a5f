//! Time to the first response of a server that was stopped or killed.

use std::time::Duration;

use super::setup::BenchSetup;
use super::{TableRow, median, thousands};
use crate::driver::{self, LoadPlan, Request, Result, StopCondition};
use crate::server_process::MeasuredServer;

/// Duration of a load that SIGKILL ends long before.
const LONG: Duration = Duration::from_secs(3600);

/// Measures the time to the first answered ping after a clean stop.
pub(super) fn after_stop(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let mut lines = Vec::new();
    for (checks, target) in [
        (setup.scaled(10_000), "0.2 s"),
        (setup.scaled(100_000), "1.0 s"),
    ] {
        let mut server = setup.start_filled_server(checks, 1)?;
        let mut times = Vec::new();
        for _ in 0..setup.rounds {
            server.stop()?;
            times.push(server.restart()?.as_secs_f64());
            setup.fill(&server, checks, 1)?;
        }
        let what = format!(
            "ready to answer after a clean stop, {} checks",
            thousands(checks as f64)
        );
        lines.push(TableRow::new(
            what,
            target,
            format!("{:.3} s", median(times)),
        ));
    }
    Ok(lines)
}

/// Measures the time to the first answered ping after SIGKILL under load, and tests that all
/// answered pings are stored.
pub(super) fn after_kill(setup: &BenchSetup) -> Result<Vec<TableRow>> {
    let checks = setup.scaled(100_000);
    let mut server = setup.start_filled_server(checks, 10)?;
    let mut times = Vec::new();
    let mut answered = 0;
    let mut logged = 0;
    for _ in 0..setup.rounds {
        let before = server.endpoint.logged_pings(&server.api_key)?;
        answered += killed_while_pinged(setup, &mut server, checks)?;
        times.push(server.restart()?.as_secs_f64());
        // One ping has shown that it is ready.
        logged += server.endpoint.logged_pings(&server.api_key)? - before - 1;
    }
    if logged < answered {
        return Err(format!(
            "{answered} pings were answered before SIGKILL, {logged} of them are in the log"
        )
        .into());
    }
    let pings = thousands(10.0 * checks as f64);
    let checks = thousands(checks as f64);
    let what = format!(
        "ready to answer after SIGKILL under load, {checks} checks, {pings} and more logged pings"
    );
    let counts = format!(
        "{} answered, {} logged",
        thousands(answered as f64),
        thousands(logged as f64)
    );
    Ok(vec![
        TableRow::new(what, "2.0 s", format!("{:.3} s", median(times))),
        TableRow::new("pings before SIGKILL", "none lost", counts),
    ])
}

/// Kills the server under load; returns the number of pings that it answered successfully until
/// then.
fn killed_while_pinged(
    setup: &BenchSetup,
    server: &mut MeasuredServer,
    checks: u64,
) -> Result<u64> {
    let endpoint = server.endpoint.clone();
    let request = Request::ping(&endpoint, &server.ping_key, checks, false);
    let until = StopCondition::Time {
        warm_up: Duration::ZERO,
        measured: LONG,
    };
    let plan = LoadPlan {
        endpoint: &endpoint,
        request: &request,
        connections: 64,
        threads: 1,
        rate: None,
        until,
    };
    setup.bar.set_prefix("pings until SIGKILL");
    let run = std::thread::scope(|scope| {
        let pinging = scope.spawn(|| driver::run(&plan, &setup.bar));
        std::thread::sleep(setup.warm_up + setup.measured);
        server.child.kill()?;
        server.child.wait()?;
        pinging.join().map_err(|_| "the pings panicked")?
    })?;
    Ok(run.succeeded())
}
