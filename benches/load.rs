//! Load driver for any server and machine: pings a second, percentiles, errors, and a test that
//! answered pings are stored.
//!
//! ```text
//! cargo bench --bench load                            its own server, built in `target/bench`
//! cargo bench --bench load -- --url http://127.0.0.1:8000 --ping-key KEY --api-key KEY
//! cargo bench --bench load -- --checks 100000 --connections 256 --seconds 30
//! cargo bench --bench load -- --rate 20000            at a fixed rate; latency from the due time
//! cargo bench --bench load -- --list --checks 1000    reads `GET /api/v3/checks/` instead
//! ```
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

#[allow(dead_code, reason = "shared with the table, which uses the rest")]
mod driver;
mod server_process;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use driver::{Endpoint, LoadPlan, LoadResult, Request, Result, StopCondition};
use indicatif::{ProgressBar, ProgressStyle};
use server_process::MeasuredServer;

/// Sends pings to a server and measures its rate and latency.
#[derive(Parser)]
#[command(name = "load")]
struct LoadOptions {
    /// The server's base URL; without it a server of its own is started and stopped
    #[arg(long, requires = "ping_key")]
    url: Option<Endpoint>,
    /// The project's ping key: pings go to URL/ping/KEY/load-0000000 and so on
    #[arg(long)]
    ping_key: Option<String>,
    /// A read-write API key of the project: logged pings are counted before and after
    #[arg(long)]
    api_key: Option<String>,
    /// Checks that are pinged in turn; missing ones are created first
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    checks: u64,
    /// Keep-alive connections
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Threads of the driver; one is enough for about 200,000 requests a second
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Pings a second, open loop; without it each answer is followed by the next ping
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds of load before that
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Read the list of checks instead of pinging; needs an API key
    #[arg(long)]
    list: bool,
    /// Directory of the database of a server that is started here
    #[arg(long, conflicts_with = "url")]
    directory: Option<PathBuf>,
    /// Only test that it works, on small numbers
    #[arg(long)]
    test: bool,
    /// Flag that `cargo bench` sets and `cargo test` does not: without it the same as --test
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let mut options = LoadOptions::parse();
    if options.test || !options.bench {
        options.checks = options.checks.min(100);
        (options.seconds, options.warm_up) = (0.5, 0.1);
    }
    match options.url.take().zip(options.ping_key.take()) {
        Some((endpoint, ping_key)) => {
            measure(&options, &endpoint, &ping_key, options.api_key.as_deref())
        }
        None => {
            let mut server = MeasuredServer::start(options.directory.as_deref(), None)?;
            measure(
                &options,
                &server.endpoint,
                &server.ping_key,
                Some(&server.api_key),
            )?;
            server.stop()
        }
    }
}

fn measure(
    options: &LoadOptions,
    endpoint: &Endpoint,
    ping_key: &str,
    api_key: Option<&str>,
) -> Result<()> {
    let style = ProgressStyle::with_template("{prefix:>9} {bar:40} {percent:>3} %  {msg}")?;
    let bar = |prefix| {
        ProgressBar::new(0)
            .with_style(style.clone())
            .with_prefix(prefix)
    };
    let ping = |create| Request::ping(endpoint, ping_key, options.checks, create);
    let connections = options.connections.into();
    let threads = options.threads.into();

    let create = LoadPlan {
        endpoint,
        request: &ping(true),
        connections,
        threads,
        rate: None,
        until: StopCondition::Count(options.checks),
    };
    let created = run_with(&create, &bar("create"))?;
    if created.failed() > 0 {
        return Err(format!(
            "not all checks could be created: {:?}, {} without answer",
            created.statuses, created.lost
        )
        .into());
    }
    let request = match (options.list, api_key) {
        (true, Some(key)) => Request::new(
            endpoint,
            "GET",
            "/api/v3/checks/",
            &[("X-Api-Key", key)],
            "",
            1,
        ),
        (true, None) => return Err("--list needs --api-key".into()),
        (false, _) => ping(false),
    };
    let counted = api_key.filter(|_| !options.list);
    let before = counted.map(|key| endpoint.logged_pings(key)).transpose()?;
    let warm_up = Duration::try_from_secs_f64(options.warm_up)?;
    let measured = Duration::try_from_secs_f64(options.seconds)?;
    let until = StopCondition::Time { warm_up, measured };
    let run = run_with(
        &LoadPlan {
            endpoint,
            request: &request,
            connections,
            threads,
            rate: options.rate,
            until,
        },
        &bar("load"),
    )?;
    let after = counted.map(|key| endpoint.logged_pings(key)).transpose()?;
    report(&run, before.zip(after))
}

fn run_with(plan: &LoadPlan<'_>, bar: &ProgressBar) -> Result<LoadResult> {
    let run = driver::run(plan, bar);
    bar.finish_and_clear();
    run
}

/// Prints the result; an error if an answered ping is not in the log.
fn report(run: &LoadResult, logged: Option<(u64, u64)>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let millis = |quantile| {
        Duration::from_micros(run.latency.value_at_quantile(quantile)).as_secs_f64() * 1000.0
    };
    writeln!(
        out,
        "{:.0} answers/s, {} in {:.1} s",
        run.per_second(),
        run.latency.len(),
        run.took.as_secs_f64()
    )?;
    writeln!(
        out,
        "latency in ms: p50 {:.2}, p90 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}",
        millis(0.5),
        millis(0.9),
        millis(0.99),
        millis(0.999),
        millis(1.0)
    )?;
    let statuses: Vec<_> = run
        .statuses
        .iter()
        .map(|(status, count)| format!("{count} times {status}"))
        .collect();
    writeln!(out, "answers, the warm-up's too: {}", statuses.join(", "))?;
    if run.lost + run.unsent > 0 {
        writeln!(
            out,
            "without answer: {}; due, but not sent before the end: {}",
            run.lost, run.unsent
        )?;
    }
    match logged {
        None => writeln!(out, "logged pings were not counted: no --api-key")?,
        Some((before, after)) => {
            let accepted = run.succeeded();
            let logged = after - before;
            writeln!(
                out,
                "logged pings: {logged} more than before, {accepted} were accepted"
            )?;
            if logged < accepted {
                return Err(
                    format!("{} accepted pings are not in the log", accepted - logged).into(),
                );
            }
        }
    }
    Ok(())
}
