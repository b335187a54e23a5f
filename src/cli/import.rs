//! `overdue import`: what another program kept is read, and what would become of it is shown.

mod api;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::shared::{Json, read_at_most};
use super::{Failure, table};
use crate::clock::Clock;
use crate::domain::project::ProjectName;
use crate::domain::timezone::Timezone;
use crate::import::environment::{Environment, LONGEST_FILE};
use crate::import::{self, Chosen, ImportError, Logs, Options, Progress, Source};
use crate::random::Random;
use api::ApiArgs;

/// How often a second progress is shown.
const SHOWN_A_SECOND: u8 = 5;

#[derive(Subcommand)]
pub(super) enum ImportCommand {
    /// From a Healthchecks: its SQLite file, or what pg_dump or manage.py dumpdata writes
    Healthchecks(Box<HealthchecksArgs>),
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

    /// Show what would become of everything, and change nothing
    #[arg(long, env = "OVERDUE_DRY_RUN", required = true, value_parser = FalseyValueParser::new())]
    dry_run: bool,

    /// Take only the project of this name or UUID, under another name if one is given; may be given several times, with commas in the variable
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "OLD[=NEW]", value_delimiter = ',', value_parser = chosen)]
    project: Vec<Chosen>,

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

    #[command(flatten)]
    json: Json,
}

fn chosen(text: &str) -> Result<Chosen, &'static str> {
    let (old, new) = text.split_once('=').map_or((text, None), |(old, new)| (old, Some(new)));
    Ok(Chosen { old: old.to_owned(), new: new.map(ProjectName::parse).transpose()? })
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

impl ImportCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Healthchecks(args) => args.run(),
        }
    }
}

impl HealthchecksArgs {
    fn run(self) -> Result<(), Failure> {
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
        let bar = bar();
        let fetched = self.api.fetched(&self.project, logs, &bar)?;
        let options = Options { projects: self.project, skip: self.skip, zones: self.tz, logs, users: self.users, environment };
        let open = |path: PathBuf| Source::open(&path, &Random::System).map_err(Failure::usage);
        let Some(mut source) = fetched.map(Ok).or_else(|| self.source.map(open)).transpose()? else { return Ok(()) };
        let mut tell = |Progress { logs, done, total }: Progress| {
            bar.set_length(total);
            bar.set_prefix(if logs { "logs" } else { "settings" });
            bar.set_position(done.min(total));
        };
        let looked = import::look(&mut source, &options, Clock::System.now(), &mut tell);
        bar.finish_and_clear();
        let (_, report) = looked.map_err(|error| match error {
            ImportError::Source(problem) => Failure::usage(problem),
            ImportError::Rows { .. } => Failure::lines(1, error.to_string()),
        })?;
        let lines = if self.json.json {
            vec![serde_json::to_string(&report).map_err(Failure::other)?]
        } else {
            report.lines().iter().map(|line| table::clean(line)).collect()
        };
        match table::lines(&lines) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            shown => shown.map_err(Failure::unwritten),
        }?;
        if !self.json.json {
            // For whoever reads it, not for what reads the report.
            let _ = writeln!(io::stderr(), "overdue: nothing was changed: this was a dry run");
        }
        Ok(())
    }
}

/// What shows progress, if standard error is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(SHOWN_A_SECOND));
    match ProgressStyle::with_template("{prefix} {percent} %, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
