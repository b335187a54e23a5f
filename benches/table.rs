//! Table of the speed, memory, disk usage and start time of overdue, measured on this machine with
//! a binary that is built in `target/bench` as `cargo build --release` builds it. Compared loads
//! take turns in one run; each figure is the median of its rounds.
//!
//! ```text
//! cargo bench --bench table                   the usual rows, about 10 minutes
//! cargo bench --bench table -- pings list     these alone
//! cargo bench --bench table -- --help         all names
//! cargo bench --bench table -- detection alerts waiting    three of the long ones
//! cargo bench --bench table -- backup turnovers journal growth    the other long ones
//! cargo bench --bench wheel                   the row of the timing wheel
//! ```
//!
//! Except for the wheel, the same requests can be sent to any server with `wrk`. These are the
//! commands for the servers here, with `ping.lua` containing `wrk.method = "POST"` and
//! `wrk.body = string.rep("x", 64)`:
//!
//! ```text
//! cargo bench --bench table -- --serve-bare 127.0.0.1:9000 &
//! wrk -t1 -c64 -d10 -s ping.lua http://127.0.0.1:9000/
//! overdue serve --data /var/tmp/bench --api-rate 0 &
//! curl -d '' "http://127.0.0.1:8000/ping/$PING_KEY/one?create=1"
//! wrk -t1 -c64 -d10 -s ping.lua --latency "http://127.0.0.1:8000/ping/$PING_KEY/one"
//! wrk -t1 -c16 -d10 -H "X-Api-Key: $API_KEY" http://127.0.0.1:8000/api/v3/checks/
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures time, and its receiver has one lock"
)]

mod baseline;
mod driver;
mod measurements;
mod server_process;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use driver::Result;
use measurements::{BenchSetup, Measurement, TableRow};

/// Measures the performance of overdue.
#[derive(Parser)]
#[command(name = "table")]
struct TableOptions {
    /// Measurements to run; the long ones (turnovers, detection, alerts, waiting, backup, journal,
    /// growth) have to be named
    rows: Vec<Measurement>,
    /// Turns of each load
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of a turn
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before each turn
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Number of times that the full logs of 10,000 checks turn over, 1,000,000 pings each time
    #[arg(long, default_value_t = 20)]
    turnovers: u64,
    /// Directory of databases [default: in `target/`]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Measure this binary, of an earlier release for instance, in place of one that is built
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Answer "OK" on this address and do nothing else, until killed
    #[arg(long, value_name = "ADDRESS")]
    serve_bare: Option<SocketAddr>,
    /// Only test that it works, on small numbers
    #[arg(long)]
    test: bool,
    /// Flag that `cargo bench` sets and `cargo test` does not: without it the same as --test
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let mut options = TableOptions::parse();
    if let Some(listen) = options.serve_bare {
        return baseline::serve(listen);
    }
    if options.rows.is_empty() {
        options.rows.extend(Measurement::DEFAULT);
    }
    let smoke = options.test || !options.bench;
    if smoke {
        (
            options.rounds,
            options.seconds,
            options.warm_up,
            options.turnovers,
        ) = (1, 0.1, 0.05, 1);
    }
    let setup = BenchSetup {
        rounds: options.rounds.max(1),
        measured: Duration::try_from_secs_f64(options.seconds)?,
        warm_up: Duration::try_from_secs_f64(options.warm_up)?,
        directory: options.directory,
        server: options.server,
        turnovers: options.turnovers,
        smoke,
        bar: BenchSetup::progress_bar()?,
    };
    let mut lines = Vec::new();
    for row in options.rows {
        let measured = row.measure(&setup)?;
        // The rows so far are shown to the person who waits for the table.
        setup.bar.suspend(|| {
            measured.iter().try_for_each(|line| {
                writeln!(std::io::stderr(), "{}: {}", line.what, line.measured)
            })
        })?;
        lines.extend(measured);
    }
    setup.bar.finish_and_clear();
    print_table(&lines)
}

/// Prints the table, in Markdown, its columns aligned.
fn print_table(lines: &[TableRow]) -> Result<()> {
    let header = TableRow {
        what: "what".into(),
        target: "target",
        measured: "measured".into(),
    };
    let cells = |line: &TableRow| {
        [
            line.what.clone(),
            line.target.to_owned(),
            line.measured.clone(),
        ]
    };
    let rows: Vec<_> = std::iter::once(&header).chain(lines).map(cells).collect();
    let mut widths = [0; 3];
    for row in &rows {
        widths
            .iter_mut()
            .zip(row)
            .for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    let mut out = std::io::stdout().lock();
    for (nth, [what, target, measured]) in rows.iter().enumerate() {
        let [first, second, third] = widths;
        writeln!(
            out,
            "| {what:first$} | {target:second$} | {measured:third$} |"
        )?;
        if nth == 0 {
            writeln!(
                out,
                "| {:-<first$} | {:-<second$} | {:-<third$} |",
                "", "", ""
            )?;
        }
    }
    Ok(())
}
