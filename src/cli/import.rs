//! `overdue import`: what another program kept is read, and brought here or only looked at.

mod api;
mod handover;
mod how;
mod overdue;

use std::io;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::shared::{Json, read_at_most};
use super::{Failure, Question};
use crate::admin::Request;
use crate::admin::import::{ImportRequest, ImportRow};
use crate::clock::Clock;
use crate::domain::timezone::Timezone;
use crate::import::environment::{Environment, LONGEST_FILE};
use crate::import::{self, ImportError, Logs, Options, Progress, Reading, Source};
use crate::random::Random;
use api::ApiArgs;
use handover::Handover;
use how::How;
use overdue::OverdueArgs;

/// How often a second progress is shown.
const SHOWN_A_SECOND: u8 = 5;

#[derive(Subcommand)]
pub(super) enum ImportCommand {
    /// From a Healthchecks: its SQLite file, or what pg_dump or manage.py dumpdata writes
    Healthchecks(Box<HealthchecksArgs>),
    /// From another overdue: what its `export --format jsonl` writes
    Overdue(Box<OverdueArgs>),
    /// List the imports that are under way, and the projects that are on trial
    List {
        #[command(flatten)]
        json: Json,
    },
    /// End an import that is under way: nothing of it is kept
    Abandon {
        /// Its number in the list
        import: u64,
    },
}

/// Which pings come along.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogsArg {
    All,
    Heads,
    None,
}

#[derive(Args)]
pub(super) struct HealthchecksArgs {
    /// File to read: a SQLite database (with what lies beside it), a plain pg_dump or a dumpdata; `-` for standard input
    #[arg(value_name = "SOURCE", required_unless_present = "api")]
    source: Option<PathBuf>,

    #[command(flatten)]
    how: How,

    /// Leave behind the check of this name, slug or UUID; may be given several times, with commas in the variable
    #[arg(long, env = "OVERDUE_SKIP", value_name = "CHECK", value_delimiter = ',')]
    skip: Vec<String>,

    /// Read one name of a time zone as another, where it is unknown here; may be given several times, with commas in the variable
    #[arg(long, env = "OVERDUE_TZ", value_name = "OLD=NEW", value_delimiter = ',', value_parser = zone)]
    tz: Vec<(String, Timezone)>,

    /// Which pings come along: all with their bodies, all without, or none [default: all; of an API heads, since each body is a request]
    #[arg(long, env = "OVERDUE_LOGS", value_enum)]
    logs: Option<LogsArg>,

    /// Bring users along, with their passwords where those can be taken over
    #[arg(long, env = "OVERDUE_USERS", value_parser = FalseyValueParser::new())]
    users: bool,

    /// File with the variables of the old server, as compose files have it: its SECRET_KEY, and tokens that belong to channels here
    #[arg(long, env = "OVERDUE_ENV_FILE", value_name = "FILE")]
    env_file: Option<PathBuf>,

    /// File with the SECRET_KEY of the old server alone
    #[arg(long, env = "OVERDUE_SECRET_KEY_FILE", value_name = "FILE")]
    secret_key_file: Option<PathBuf>,

    #[command(flatten)]
    api: ApiArgs,
}

fn zone(text: &str) -> Result<(String, Timezone), String> {
    let (old, new) = text.split_once('=').ok_or("give two names with = between them, as in US/Pacific-New=America/Los_Angeles")?;
    Ok((old.to_owned(), Timezone::parse(new).map_err(|error| format!("{new:?} is {error}"))?))
}

/// Reads a small file that whoever imports names.
fn read(path: &Path) -> Result<String, Failure> {
    let told = |error: io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let bytes = read_at_most(path, LONGEST_FILE as u64).map_err(told)?;
    String::from_utf8(bytes).map_err(|error| told(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// What a table of imports shows.
pub(super) const HEADINGS: [&str; 4] = ["STATE", "NAME", "CHECKS", "BEGUN"];

/// A row of the table.
pub(super) fn cells(row: &ImportRow) -> [String; 4] {
    [row.state.clone(), row.name.clone(), row.checks.to_string(), row.begun.clone().unwrap_or_default()]
}

impl ImportCommand {
    pub(super) fn run(self, data: impl FnOnce() -> Result<PathBuf, Failure>) -> Result<(), Failure> {
        match self {
            Self::Healthchecks(args) => args.run(data),
            Self::Overdue(args) => args.run(data),
            Self::List { json: Json { json } } => super::ask(&data()?, Question::shown(Request::Import(ImportRequest::List), json)),
            Self::Abandon { import } => super::ask(&data()?, Request::Import(ImportRequest::Abandon { import }).into()),
        }
    }
}

impl HealthchecksArgs {
    fn run(self, data: impl FnOnce() -> Result<PathBuf, Failure>) -> Result<(), Failure> {
        self.how.check()?;
        let options = self.options()?;
        let bar = bar();
        let Some(mut source) = self.source(options.logs, &bar)? else { return Ok(()) };
        let mut tell = told(&bar);
        let now = Clock::System.now();
        if self.how.is_dry() {
            let looked = import::look(&mut source, &options, now, &mut tell);
            bar.finish_and_clear();
            let (imported, report) = looked.map_err(failed)?;
            return self.how.look(data, imported, report, RUN_BOOK);
        }
        let mut reading = Reading::begin(&mut source, &options, now, &mut tell).map_err(failed)?;
        let mut handover = Handover::begin(handover::open(&data()?)?, reading.imported())?;
        reading.logs(&mut tell, &mut |entry| handover.take(entry)).map_err(failed)?;
        let (imported, report) = reading.end();
        bar.finish_and_clear();
        let done = self.how.finish(handover, imported)?;
        self.how.show(&report, &[], &done)
    }

    /// What is read: what the API tells, or the file.
    fn source(&self, logs: Logs, bar: &ProgressBar) -> Result<Option<Source>, Failure> {
        let fetched = self.api.fetched(&self.how.project, logs, bar)?;
        let open = |path: &PathBuf| Source::open(path, &Random::System).map_err(Failure::usage);
        fetched.map(Ok).or_else(|| self.source.as_ref().map(open)).transpose()
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut environment = match &self.env_file {
            None => Environment::default(),
            Some(path) => {
                let parsed = Environment::parse(&read(path)?);
                parsed.map_err(|problem| Failure::usage(format!("{}: {problem}", path.display())))?
            }
        };
        if let Some(path) = &self.secret_key_file {
            environment = environment.with_secret(read(path)?.trim_end_matches(['\r', '\n']));
        }
        let logs = match self.logs {
            None if self.api.api.is_some() => Logs::Heads,
            None | Some(LogsArg::All) => Logs::All,
            Some(LogsArg::Heads) => Logs::Heads,
            Some(LogsArg::None) => Logs::None,
        };
        let (projects, skip, zones) = (self.how.project.clone(), self.skip.clone(), self.tz.clone());
        Ok(Options { projects, skip, zones, logs, users: self.users, environment })
    }
}

fn failed(error: ImportError) -> Failure {
    match error {
        ImportError::Source(problem) => Failure::usage(problem),
        ImportError::Rows { .. } => Failure::lines(1, error.to_string()),
    }
}

/// The way from here to the switch.
const RUN_BOOK: &[&str] = &[
    "what to do next:",
    "  1. any day: overdue import healthchecks SOURCE --trial; look at pages and the API; nobody is told anything",
    "  2. for the switch: stop the old server, and import its last state with --live in place of --trial",
    "  3. have the old address lead here, by the proxy or by DNS; pings that fail meanwhile are sent again by clients that retry",
    "  to go back, start the old server: it was never written to",
];

/// What shows progress, if standard error is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(SHOWN_A_SECOND));
    match ProgressStyle::with_template("{prefix} {percent} %, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Shows how far reading is.
fn told(bar: &ProgressBar) -> impl FnMut(Progress) + '_ {
    |Progress { logs, done, total }| {
        bar.set_length(total);
        bar.set_prefix(if logs { "logs" } else { "settings" });
        bar.set_position(done.min(total));
    }
}
