//! `overdue run` and `overdue ping`: their flags.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use uuid::Uuid;

use super::CliError;
use crate::agent::{self, JobEvent, JobSpec, PingResult, PingSender, PingUrl, Spool};
use crate::domain::channel::parse_duration;
use crate::domain::ids::parse_hyphenated_uuid;
use crate::outbound::{Outbound, OutboundConfig};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Maximum bytes of a body that is sent: as much as a server reads.
const MAX_BODY_BYTES: u64 = 10 * 1024 * 1024;

#[derive(Args)]
pub(super) struct RunArgs {
    /// Ping URL of the job's check, on any server that is compatible with Healthchecks
    #[arg(env = "OVERDUE_PING_URL", value_parser = PingUrl::parse, hide_env_values = true)]
    url: PingUrl,

    /// Time limit of the job, in seconds or as in 5m or 2h. A job that exceeds it gets SIGTERM, and
    /// is reported as failed [default: none]
    #[arg(
        long,
        env = "OVERDUE_TIMEOUT",
        value_name = "TIME",
        value_parser = duration_parser(31_536_000),
        allow_negative_numbers = true
    )]
    timeout: Option<u32>,

    /// Time from SIGTERM to SIGKILL, in seconds or as in 5m
    #[arg(
        long,
        env = "OVERDUE_KILL_AFTER",
        value_name = "TIME",
        default_value_t = 10,
        value_parser = duration_parser(86_400),
        allow_negative_numbers = true
    )]
    kill_after: u32,

    /// Do not send the job's output
    #[arg(long, env = "OVERDUE_NO_OUTPUT", value_parser = FalseyValueParser::new())]
    no_output: bool,

    #[command(flatten)]
    delivery: PingDeliveryArgs,

    /// Program of the job, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

#[derive(Args)]
pub(super) struct PingArgs {
    /// Ping URL of a check, on any server that is compatible with Healthchecks
    #[arg(env = "OVERDUE_PING_URL", value_parser = PingUrl::parse, hide_env_values = true)]
    url: PingUrl,

    /// Event to report: start, fail, log, or an exit status from 0 to 255 [default: as in the URL]
    #[arg(long, env = "OVERDUE_ACTION", value_name = "EVENT", value_parser = JobEvent::parse)]
    action: Option<JobEvent>,

    /// Run id, which connects the start and the end of a run
    #[arg(long, env = "OVERDUE_RID", value_name = "UUID", value_parser = parse_run_id)]
    rid: Option<Uuid>,

    /// File to send as the body; - for standard input
    #[arg(long, env = "OVERDUE_BODY_FILE", value_name = "FILE")]
    body_file: Option<PathBuf>,

    #[command(flatten)]
    delivery: PingDeliveryArgs,
}

/// Options for the delivery of pings.
#[derive(Args)]
struct PingDeliveryArgs {
    /// Directory for pings that the server did not accept; the next run sends them again
    #[arg(long, env = "OVERDUE_SPOOL", value_name = "DIR")]
    spool: Option<PathBuf>,

    /// Time for which the last ping is retried, in seconds or as in 5m
    #[arg(
        long,
        env = "OVERDUE_DELIVER_WITHIN",
        value_name = "TIME",
        default_value_t = 30,
        value_parser = duration_parser(86_400),
        allow_negative_numbers = true
    )]
    deliver_within: u32,

    /// PEM file with certificate authorities to trust in addition to the system's
    #[arg(long, env = "OVERDUE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Parses a UUID with hyphens, or without, as systemd's `INVOCATION_ID` is.
fn parse_run_id(text: &str) -> Result<Uuid, &'static str> {
    let digits = || Uuid::try_parse(text).ok().filter(|_| text.len() == 32);
    parse_hyphenated_uuid(text)
        .or_else(digits)
        .ok_or("give a UUID, as in 123e4567-e89b-42d3-a456-426614174000")
}

/// Returns a parser of a duration of at least a second: a number of seconds, or a number with its
/// unit.
fn duration_parser(max_secs: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let with_unit = || u32::try_from(parse_duration(text, 1, max_secs.into()).ok()?).ok();
        let number = text
            .parse()
            .ok()
            .filter(|number| (1..=max_secs).contains(number))
            .or_else(with_unit);
        number.ok_or_else(|| {
            format!(
                "give a whole number of seconds from 1 to {max_secs}, or a time such as 90s, 5m or \
                 2h"
            )
        })
    }
}

fn duration_from_secs(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

impl PingDeliveryArgs {
    fn into_sender(self) -> PingSender {
        let clock = Clock::System;
        let random = Random::System;
        let config = OutboundConfig {
            ca_file: self.ca_file,
            mentions_tls_pin: false,
            ..OutboundConfig::default()
        };
        let outbound =
            Outbound::new(config, &clock, random.clone()).map_err(|error| error.to_string());
        PingSender {
            outbound,
            spool: self.spool.as_deref().map(Spool::new),
            deliver_within: duration_from_secs(self.deliver_within),
            clock,
            random,
        }
    }
}

impl RunArgs {
    /// Runs the job and returns its exit status.
    pub(super) fn run(self) -> Result<u8, CliError> {
        let mut words = self.command.into_iter();
        let job = JobSpec {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            url: self.url,
            timeout: self.timeout.map(duration_from_secs),
            kill_after: duration_from_secs(self.kill_after),
            sends_output: !self.no_output,
        };
        block_on(agent::run(job, self.delivery.into_sender()))?.map_err(CliError::other)
    }
}

impl PingArgs {
    /// Sends the ping. A ping that waits in the spool is no failure.
    pub(super) fn run(self) -> Result<(), CliError> {
        let body = match self.body_file {
            Some(path) => {
                let read_failed =
                    |error| CliError::other(format!("cannot read {}: {error}", path.display()));
                read_body(&path).map_err(read_failed)?
            }
            None => Vec::new(),
        };
        let url = self.url.url_for(self.action, self.rid);
        let delivery = self.delivery.into_sender();
        match block_on(agent::ping(url, body, &delivery))? {
            PingResult::Accepted => Ok(()),
            PingResult::Spooled(reason) => {
                let _ = writeln!(
                    io::stderr(),
                    "overdue: the server did not accept the ping: {reason}; the next run sends it \
                     again"
                );
                Ok(())
            }
            PingResult::Lost(reason) => Err(CliError::other(format!(
                "the server did not accept the ping: {reason}"
            ))),
        }
    }
}

fn read_body(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin()
            .lock()
            .take(MAX_BODY_BYTES)
            .read_to_end(&mut bytes)?;
    } else {
        File::open(path)?
            .take(MAX_BODY_BYTES)
            .read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Runs a future without waiting for blocked threads at the end, such as for a stopped terminal or
/// a hanging directory.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::other)?;
    let output = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(output)
}
