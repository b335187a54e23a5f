//! `overdue import`: what another program kept is read, and brought here or only looked at.

mod api;
mod handover;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::shared::{Json, read_at_most};
use super::{Failure, Question, table};
use crate::admin::Request;
use crate::admin::import::{ImportRequest, ImportRow};
use crate::clock::Clock;
use crate::domain::project::ProjectName;
use crate::domain::timezone::Timezone;
use crate::domain::words::count;
use crate::import::environment::{Environment, LONGEST_FILE};
use crate::import::{self, Chosen, ImportError, Logs, Options, Progress, Reading, Report, Source};
use crate::random::Random;
use api::ApiArgs;
use handover::{Ending, Handover};

/// How often a second progress is shown.
const SHOWN_A_SECOND: u8 = 5;

#[derive(Subcommand)]
pub(super) enum ImportCommand {
    /// From a Healthchecks: its SQLite file, or what pg_dump or manage.py dumpdata writes
    Healthchecks(Box<HealthchecksArgs>),
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
#[command(group = ArgGroup::new("mode").args(["dry_run", "trial", "live"]).required(true).multiple(false))]
pub(super) struct HealthchecksArgs {
    /// File to read: a SQLite database (with what lies beside it), a plain pg_dump or a dumpdata; `-` for standard input
    #[arg(value_name = "SOURCE", required_unless_present = "api")]
    source: Option<PathBuf>,

    /// Show what would become of everything, and change nothing
    #[arg(long, env = "OVERDUE_DRY_RUN", value_parser = FalseyValueParser::new())]
    dry_run: bool,

    /// Bring everything here, but tell nobody: projects are served and pinged, and go down in silence until they are released
    #[arg(long, env = "OVERDUE_TRIAL", value_parser = FalseyValueParser::new())]
    trial: bool,

    /// Bring everything here, and tell from now on
    #[arg(long, env = "OVERDUE_LIVE", value_parser = FalseyValueParser::new())]
    live: bool,

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

    /// Take the place of projects whose checks were pinged or changed here since the last import, too: what was done and logged is lost
    #[arg(long, env = "OVERDUE_REPLACE", value_parser = FalseyValueParser::new())]
    replace: bool,

    /// Do not ask whether that is meant; needed where nobody can be asked
    #[arg(long, env = "OVERDUE_YES", value_parser = FalseyValueParser::new())]
    yes: bool,

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
            Self::List { json: Json { json } } => super::ask(&data()?, Question::shown(Request::Import(ImportRequest::List), json)),
            Self::Abandon { import } => super::ask(&data()?, Request::Import(ImportRequest::Abandon { import }).into()),
        }
    }
}

impl HealthchecksArgs {
    fn run(self, data: impl FnOnce() -> Result<PathBuf, Failure>) -> Result<(), Failure> {
        if !(self.dry_run || self.trial || self.live) {
            return Err(Failure::usage("say --dry-run, --trial or --live"));
        }
        let options = self.options()?;
        let bar = bar();
        let Some(mut source) = self.source(options.logs, &bar)? else { return Ok(()) };
        let mut tell = |Progress { logs, done, total }: Progress| {
            bar.set_length(total);
            bar.set_prefix(if logs { "logs" } else { "settings" });
            bar.set_position(done.min(total));
        };
        let now = Clock::System.now();
        if self.dry_run {
            let looked = import::look(&mut source, &options, now, &mut tell);
            bar.finish_and_clear();
            let (_, report) = looked.map_err(failed)?;
            return self.show(&report, RUN_BOOK, "nothing was changed: this was a dry run");
        }
        let mut reading = Reading::begin(&mut source, &options, now, &mut tell).map_err(failed)?;
        let mut handover = Handover::begin(&data()?, reading.imported())?;
        reading.logs(&mut tell, &mut |entry| handover.take(entry)).map_err(failed)?;
        let (imported, report) = reading.end();
        bar.finish_and_clear();
        let (newest, secret, projects) = (imported.newest, imported.secret.clone(), imported.projects.len());
        handover.objects(imported)?;
        let replaced = handover.finish(newest, &Ending { live: self.live, secret, replace: self.replace, yes: self.yes })?;
        let mode = if self.trial { "is on trial and tells nobody; `overdue project release` ends that" } else { "tells from now on" };
        let again = if replaced > 0 { format!(", {replaced} of them in the place of what was imported before") } else { String::new() };
        let what = if projects == 1 { "the project" } else { "each project" };
        let mut done = format!("{} imported{again}: {what} {mode}", count(projects, "project"));
        if handover.has_empty_default() {
            done += "; the empty project \"default\" stays as it is";
        }
        self.show(&report, &[], &done)
    }

    /// What is read: what the API tells, or the file.
    fn source(&self, logs: Logs, bar: &ProgressBar) -> Result<Option<Source>, Failure> {
        let fetched = self.api.fetched(&self.project, logs, bar)?;
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
        let (projects, skip, zones) = (self.project.clone(), self.skip.clone(), self.tz.clone());
        Ok(Options { projects, skip, zones, logs, users: self.users, environment })
    }

    /// Shows what has become of everything, and what there is to do next.
    fn show(&self, report: &Report, next: &[&str], done: &str) -> Result<(), Failure> {
        let mut lines = report.lines();
        lines.extend(next.iter().map(|line| (*line).to_owned()));
        let lines = if self.json.json {
            vec![serde_json::to_string(report).map_err(Failure::other)?]
        } else {
            lines.iter().map(|line| table::clean(line)).collect()
        };
        match table::lines(&lines) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            shown => shown.map_err(Failure::unwritten),
        }?;
        if !self.json.json {
            // For whoever reads it, not for what reads the report.
            let _ = writeln!(io::stderr(), "overdue: {done}");
        }
        Ok(())
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
