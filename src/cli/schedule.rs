//! `overdue schedule`: shows the occurrences of an expression, for people and for programs that
//! compare.

use std::io::{self, BufRead, Read as _, Write};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::common_args::{JsonFlag, number_parser};
use super::table;
use crate::domain::schedule::{Schedule, ScheduleKind};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;

/// Maximum bytes in a line of `--batch`; an expression of 100 characters, all escaped, takes a
/// tenth.
const MAX_LINE_BYTES: u64 = 16_384;

#[derive(Args)]
pub(super) struct ScheduleArgs {
    /// Cron expression of five fields, or OnCalendar expression of systemd
    #[arg(
        required_unless_present = "batch",
        conflicts_with = "batch",
        value_parser = Schedule::parse
    )]
    expr: Option<Schedule>,

    /// Time zone of the schedule, such as Europe/Riga [default: UTC]
    #[arg(long, env = "OVERDUE_TZ", value_name = "ZONE", value_parser = Timezone::parse)]
    tz: Option<Timezone>,

    /// Time after which to show occurrences, such as 2027-01-31T08:00:00+02:00 [default: now]
    #[arg(long, env = "OVERDUE_FROM", value_name = "RFC3339", value_parser = parse_timestamp)]
    from: Option<Timestamp>,

    /// Maximum number of occurrences to show
    #[arg(
        long,
        env = "OVERDUE_COUNT",
        value_name = "N",
        default_value_t = 5,
        value_parser = number_parser::<u16>(0..=u64::from(u16::MAX)),
        allow_negative_numbers = true
    )]
    count: u16,

    #[command(flatten)]
    json: JsonFlag,

    /// Answer JSON lines {"expr","tz","start"} from standard input, one by one
    #[arg(long, env = "OVERDUE_BATCH")]
    batch: bool,
}

/// Prints the next occurrences, or answers a batch. The reader may close the pipe early.
pub(super) fn run(
    args: &ScheduleArgs,
    now: Timestamp,
    stdin: impl BufRead,
    stdout: impl Write,
    stderr: impl Write,
) -> io::Result<()> {
    let printed = match &args.expr {
        Some(schedule) => print_next_runs(schedule, args, now, stdout, stderr),
        None => answer_batch(args, now, stdin, stdout),
    };
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

fn print_next_runs(
    schedule: &Schedule,
    args: &ScheduleArgs,
    now: Timestamp,
    mut stdout: impl Write,
    mut stderr: impl Write,
) -> io::Result<()> {
    let zone = args.tz.clone().unwrap_or(Timezone::utc());
    if args.tz.is_none() {
        writeln!(
            stderr,
            "overdue: times are in UTC; --tz sets the time zone of the schedule, as in --tz \
             Europe/Riga"
        )?;
    }
    let mut next = schedule
        .occurrences(args.from.unwrap_or(now), &zone)
        .peekable();
    if next.peek().is_none() {
        writeln!(stderr, "overdue: the schedule has ended")?;
    }
    let lines = next
        .take(args.count.into())
        .map(|moment| format_timestamp(moment, &zone, "%Y-%m-%dT%H:%M:%S%:z"));
    if args.json.json {
        writeln!(stdout, "{}", table::to_json(&lines.collect::<Vec<_>>())?)?;
    } else {
        lines
            .into_iter()
            .try_for_each(|line| writeln!(stdout, "{line}"))?;
    }
    stdout.flush()
}

/// A line of `--batch`. The flags provide fields that it omits.
#[derive(Deserialize)]
struct BatchQuery {
    expr: String,
    tz: Option<String>,
    start: Option<String>,
}

/// Answer to a line of `--batch`.
#[derive(Serialize)]
#[serde(untagged)]
enum BatchAnswer {
    Next {
        kind: &'static str,
        next: Vec<String>,
    },
    Error {
        error: String,
    },
}

fn answer_batch(
    args: &ScheduleArgs,
    now: Timestamp,
    mut stdin: impl BufRead,
    mut stdout: impl Write,
) -> io::Result<()> {
    let mut line = Vec::new();
    while stdin
        .by_ref()
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut line)?
        > 0
    {
        let answer = if line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
            stdin.skip_until(b'\n')?;
            Err(format!("a line is at most {MAX_LINE_BYTES} bytes"))
        } else {
            answer_query(&line, args, now)
        };
        writeln!(
            stdout,
            "{}",
            table::to_json(&answer.unwrap_or_else(|error| BatchAnswer::Error { error }))?
        )?;
        line.clear();
    }
    stdout.flush()
}

fn answer_query(line: &[u8], args: &ScheduleArgs, now: Timestamp) -> Result<BatchAnswer, String> {
    let query: BatchQuery = serde_json::from_slice(line)
        .map_err(|error| format!(r#"not a line {{"expr","tz","start"}}: {error}"#))?;
    let schedule = Schedule::parse(&query.expr).map_err(|error| format!("expr: {error}"))?;
    let zone = query
        .tz
        .map(|name| Timezone::parse(&name))
        .transpose()
        .map_err(|error| format!("tz: {error}"))?;
    let start = query
        .start
        .map(|text| parse_timestamp(&text))
        .transpose()
        .map_err(|error| format!("start: {error}"))?;

    let zone = zone.or_else(|| args.tz.clone()).unwrap_or(Timezone::utc());
    let next = schedule
        .occurrences(start.or(args.from).unwrap_or(now), &zone)
        .take(args.count.into());
    let kind = match schedule.kind() {
        ScheduleKind::Cron => "cron",
        ScheduleKind::OnCalendar => "oncalendar",
    };
    Ok(BatchAnswer::Next {
        kind,
        next: next
            .map(|moment| format_timestamp(moment, &Timezone::utc(), "%Y-%m-%dT%H:%M:%SZ"))
            .collect(),
    })
}

pub(super) fn parse_timestamp(text: &str) -> Result<Timestamp, &'static str> {
    let stamp: jiff::Timestamp = text
        .parse()
        .map_err(|_| "give an RFC 3339 time, as in 2027-01-31T08:00:00+02:00")?;
    Ok(Timestamp::from_micros(stamp.as_microsecond()))
}

fn format_timestamp(moment: Timestamp, zone: &Timezone, format: &str) -> String {
    // No series leaves the years that a timestamp can have.
    let stamp = jiff::Timestamp::from_second(moment.secs()).unwrap_or_default();
    stamp
        .to_zoned(zone.rules().clone())
        .strftime(format)
        .to_string()
}

#[cfg(test)]
mod tests;
