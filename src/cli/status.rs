//! `overdue status`: the checks that are down, the channels that fail, the backups and the server.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::common_args::{JsonFlag, ProjectFilter};
use super::schedule::parse_timestamp;
use super::{CliError, new_runtime, send, table};
use crate::admin::status::{
    BackupRow, ChannelProblem, CheckProblem, RunningServer, ServerStatus, ShowStatus,
};
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::domain::timezone::Timezone;
use crate::util::clock::Clock;

/// Exit status if something needs attention.
const EXIT_NEEDS_ATTENTION: u8 = 3;
/// Time between two outputs of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Moves the cursor of a terminal to the top, and clears the screen.
const CLEAR_SCREEN: &str = "\u{1b}[H\u{1b}[2J";

#[derive(Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    project: ProjectFilter,

    /// Show the status again every two seconds, until Ctrl-C
    #[arg(long, env = "OVERDUE_WATCH", value_parser = FalseyValueParser::new())]
    watch: bool,

    #[command(flatten)]
    json: JsonFlag,
}

impl StatusArgs {
    pub(super) fn run(&self, data: &Path) -> Result<ExitCode, CliError> {
        let is_terminal = io::stdout().is_terminal();
        let clear = if self.watch && is_terminal && !self.json.json {
            CLEAR_SCREEN
        } else {
            ""
        };
        loop {
            let result = self.request(data);
            let (lines, exit_status) = match &result {
                Ok(status) => (self.lines(status, is_terminal)?, exit_status(status)),
                // The server may be restarting.
                Err(error) if self.watch => (vec![error.message.clone()], ExitCode::FAILURE),
                Err(_) => return result.map(|_| ExitCode::SUCCESS),
            };
            match table::print_lines(&[format!("{clear}{}", lines.join("\n"))]) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(exit_status),
                printed => printed.map_err(CliError::output_failed)?,
            }
            if !self.watch {
                return Ok(exit_status);
            }
            new_runtime()?.block_on(async { tokio::time::sleep(WATCH_INTERVAL).await });
        }
    }

    fn request(&self, data: &Path) -> Result<ServerStatus, CliError> {
        let project = self.project.project.clone();
        send(data, ShowStatus { project })
    }

    fn lines(&self, status: &ServerStatus, is_terminal: bool) -> Result<Vec<String>, CliError> {
        if self.json.json {
            return Ok(vec![table::to_json(status).map_err(CliError::other)?]);
        }
        let zone = Timezone::utc();
        let times = TimeFormatter {
            now: Clock::System.now(),
            zone: &zone,
        };
        let has_colours = is_terminal && std::env::var_os("NO_COLOR").is_none();
        Ok(text_lines(status, &times, has_colours))
    }
}

fn exit_status(status: &ServerStatus) -> ExitCode {
    if status.needs_attention() {
        ExitCode::from(EXIT_NEEDS_ATTENTION)
    } else {
        ExitCode::SUCCESS
    }
}

/// Returns the status as text.
fn text_lines(status: &ServerStatus, times: &TimeFormatter<'_>, has_colours: bool) -> Vec<String> {
    let facts = [
        ["server", &server_text(status)],
        ["checks", &check_text(status)],
        ["alerts", &alert_text(status)],
        ["backups", &backup_text(status, times)],
    ];
    let facts = facts.map(|[name, text]| format!("{name:<8} {}", table::sanitize(text)));
    let mut lines = Vec::from(facts);
    if !status.checks.is_empty() {
        lines.push(String::new());
        let rows = status.checks.iter().map(|row| check_cells(row, times));
        let headings = ["STATUS", "CHECK", "PROJECT", "REASON"];
        let mut table = table::format_table(&headings, rows);
        if has_colours {
            table.iter_mut().skip(1).for_each(colour);
        }
        lines.append(&mut table);
        let listed = status.checks.len();
        let all: usize = [VisibleStatus::Down, VisibleStatus::Grace]
            .map(|kind| count_of(status, kind))
            .iter()
            .sum();
        if all > listed {
            lines.push(format!(
                "and {} more: see `overdue check list --status down,grace`",
                all - listed
            ));
        }
    }
    if !status.channels.is_empty() {
        lines.push(String::new());
        let rows = status.channels.iter().map(|row| channel_cells(row, times));
        let headings = ["STATUS", "CHANNEL", "PROJECT", "REASON"];
        lines.append(&mut table::format_table(&headings, rows));
    }
    lines
}

/// Colours the status at the start of a line.
fn colour(line: &mut String) {
    for (status, code) in [("down", "1;31"), ("late", "33")] {
        if let Some(rest) = line.strip_prefix(status) {
            *line = format!("\u{1b}[{code}m{status}\u{1b}[0m{rest}");
        }
    }
}

fn count_of(status: &ServerStatus, kind: VisibleStatus) -> usize {
    status.counts.get(kind.name()).copied().unwrap_or_default()
}

fn server_text(status: &ServerStatus) -> String {
    let version = &status.version;
    let Some(server) = &status.server else {
        return format!("NOT RUNNING; this program is overdue {version}");
    };
    let RunningServer {
        base_url,
        listen,
        uptime_secs,
        is_writable,
    } = server;
    let uptime = i64::try_from(*uptime_secs).unwrap_or(i64::MAX);
    let uptime = format_duration(uptime.saturating_mul(MICROS_PER_SEC));
    let fault = if *is_writable {
        ""
    } else {
        "; IT CANNOT WRITE ITS DATABASE and accepts no pings: see its log"
    };
    format!(
        "overdue {version} at {base_url}, listening on {}, running for {uptime}{fault}",
        listen.join(", ")
    )
}

fn check_text(status: &ServerStatus) -> String {
    let counts = VisibleStatus::BY_URGENCY.map(|kind| (count_of(status, kind), label(kind.name())));
    let counts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, label)| format!("{count} {label}"))
        .collect();
    let projects = format_count(status.projects, "project");
    if counts.is_empty() {
        format!("none in {projects}")
    } else {
        format!("{} in {projects}", counts.join(", "))
    }
}

fn alert_text(status: &ServerStatus) -> String {
    let mut facts = Vec::new();
    if !status.channels.is_empty() {
        let channels = format_count(status.channels.len(), "channel");
        facts.push(format!("{channels} cannot deliver"));
    }
    if status.without_alerts > 0 {
        let checks = format_count(status.without_alerts, "check");
        facts.push(format!("{checks} without a working channel"));
    }
    if status.waiting > 0 {
        let messages = format_count(status.waiting, "message");
        facts.push(format!("{messages} waiting"));
    }
    if facts.is_empty() {
        facts.push("all channels work".into());
    }
    facts.join(", ")
}

fn backup_text(status: &ServerStatus, times: &TimeFormatter<'_>) -> String {
    let when = |text: &Option<String>| Some(times.relative(parse(text)?));
    match &status.backups {
        None if status.server.is_none() => "unknown, since no server is running".into(),
        None => "off; `serve --backup-to DIR` makes one every day".into(),
        Some(BackupRow {
            newest,
            next,
            failing_since,
            reason,
        }) => {
            let newest =
                when(newest).map_or_else(|| "none yet".into(), |at| format!("newest {at}"));
            match (when(failing_since), when(next)) {
                (Some(since), _) => format!(
                    "FAILING since {since}: {}; {newest}",
                    reason.as_deref().unwrap_or_default()
                ),
                (None, Some(next)) => format!("{newest}, next {next}"),
                (None, None) => newest,
            }
        }
    }
}

/// Word for a status, as pages have it.
fn label(status: &str) -> &str {
    if status == VisibleStatus::Grace.name() {
        "late"
    } else {
        status
    }
}

fn check_cells(row: &CheckProblem, times: &TimeFormatter<'_>) -> [String; 4] {
    let mut reason = row.reason.clone();
    if let Some(since) = parse(&row.since) {
        reason = format!("{reason}, {}", times.relative(since));
    }
    if let Some(at) = parse(&row.down_at) {
        reason = format!("{reason}; down {}", times.relative(at));
    }
    if let Some(held) = &row.held {
        reason = format!("{reason}; alert held: {held}");
    }
    [
        label(&row.status).into(),
        row.name.clone(),
        row.project.clone(),
        reason,
    ]
}

fn channel_cells(row: &ChannelProblem, times: &TimeFormatter<'_>) -> [String; 4] {
    let reason = row.reason.clone().unwrap_or_default();
    [
        row.status.clone(),
        row.name.clone(),
        row.project.clone(),
        match parse(&row.since) {
            Some(since) => format!("since {}: {reason}", times.relative(since)),
            None => reason,
        },
    ]
}

fn parse(text: &Option<String>) -> Option<Timestamp> {
    parse_timestamp(text.as_deref()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use uuid::Uuid;

    fn status() -> ServerStatus {
        ServerStatus {
            version: "1.2.3".into(),
            server: Some(RunningServer {
                base_url: "https://checks.example.org".into(),
                listen: vec!["127.0.0.1:8000".into(), "[::1]:8000".into()],
                uptime_secs: 7200,
                is_writable: true,
            }),
            projects: 1,
            counts: BTreeMap::new(),
            checks: Vec::new(),
            without_alerts: 0,
            channels: Vec::new(),
            waiting: 0,
            backups: None,
        }
    }

    fn text(status: &ServerStatus) -> Vec<String> {
        let zone = Timezone::utc();
        let times = TimeFormatter {
            now: parse_timestamp("2026-11-20T12:00:00Z").unwrap(),
            zone: &zone,
        };
        text_lines(status, &times, false)
    }

    #[test]
    fn a_quiet_server_has_four_lines() {
        assert_eq!(
            text(&status()),
            [
                "server   overdue 1.2.3 at https://checks.example.org, listening on \
                 127.0.0.1:8000, [::1]:8000, running for 2 hours",
                "checks   none in 1 project",
                "alerts   all channels work",
                "backups  off; `serve --backup-to DIR` makes one every day",
            ]
        );
        assert!(!status().needs_attention());
    }

    #[test]
    fn problems_are_listed_with_their_reasons() {
        let at = |text: &str| Some(format!("2026-11-20T{text}Z"));
        let check = |name: &str, status: &str| CheckProblem {
            uuid: Uuid::nil(),
            project: "home".into(),
            name: name.into(),
            status: status.into(),
            reason: "exit status 3".into(),
            since: at("07:00:00"),
            down_at: None,
            held: None,
        };
        let late = CheckProblem {
            reason: "late".into(),
            since: at("11:48:00"),
            down_at: at("12:03:00"),
            ..check("sync", "grace")
        };
        let status = ServerStatus {
            counts: [("down", 2), ("grace", 1), ("up", 40), ("new", 0)]
                .map(|(name, count)| (name.into(), count))
                .into(),
            checks: vec![check("nightly \u{1b}backup", "down"), late],
            without_alerts: 1,
            channels: vec![ChannelProblem {
                uuid: Uuid::nil(),
                project: "home".into(),
                name: "phone".into(),
                status: "failing".into(),
                since: at("10:00:00"),
                reason: Some("404 Not Found".into()),
            }],
            waiting: 3,
            backups: Some(BackupRow {
                newest: at("02:00:00"),
                next: at("14:00:00"),
                failing_since: at("11:00:00"),
                reason: Some("Read-only file system".into()),
            }),
            ..status()
        };
        assert_eq!(
            text(&status)[1..],
            [
                "checks   2 down, 1 late, 40 up in 1 project",
                "alerts   1 channel cannot deliver, 1 check without a working channel, 3 messages \
                 waiting",
                "backups  FAILING since 1 h ago: Read-only file system; newest 10 h ago",
                "",
                "STATUS  CHECK            PROJECT  REASON",
                "down    nightly �backup  home     exit status 3, 5 h ago",
                "late    sync             home     late, 12 min ago; down in 3 min",
                "and 1 more: see `overdue check list --status down,grace`",
                "",
                "STATUS   CHANNEL  PROJECT  REASON",
                "failing  phone    home     since 2 h ago: 404 Not Found",
            ]
        );
        let mut line = text(&status)[6].clone();
        colour(&mut line);
        assert!(line.starts_with("\u{1b}[1;31mdown\u{1b}[0m  "), "{line:?}");
    }

    #[test]
    fn attention_is_needed_if_something_fails() {
        let with = |change: fn(&mut ServerStatus)| {
            let mut status = status();
            change(&mut status);
            status.needs_attention()
        };
        assert!(with(|status| status.server = None));
        assert!(with(|status| {
            if let Some(server) = &mut status.server {
                server.is_writable = false;
            }
        }));
        assert!(with(|status| {
            status.counts.insert("down".into(), 1);
        }));
        assert!(!with(|status| {
            status.counts.insert("grace".into(), 1);
        }));
        let backups = |failing_since| {
            Some(BackupRow {
                newest: None,
                next: None,
                failing_since,
                reason: None,
            })
        };
        for (failing, needed) in [(None, false), (Some("2026-11-20T11:00:00Z".into()), true)] {
            let status = ServerStatus {
                backups: backups(failing),
                ..status()
            };
            assert_eq!(status.needs_attention(), needed);
        }
    }
}
