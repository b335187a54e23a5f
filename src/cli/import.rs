//! `overdue import`: imports data from another program, or previews that.

mod api;
mod mode_args;
mod overdue;
mod upload;

use std::io;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::common_args::{JsonFlag, read_limited};
use super::{CliError, table};
use crate::admin::imports::{AbandonImport, ImportRow, ListImports};
use crate::domain::timezone::Timezone;
use crate::import::environment::{MAX_FILE_BYTES, ServerEnvironment};
use crate::import::{
    self, ImportError, ImportOptions, ImportProgress, ImportSource, PingLogSelection, SourceReader,
};
use crate::util::clock::Clock;
use crate::util::random::Random;
use api::ImportApiArgs;
use mode_args::ImportModeArgs;
use overdue::ImportOverdueArgs;

/// Progress updates in a second.
const PROGRESS_UPDATES_PER_SECOND: u8 = 5;

#[derive(Subcommand)]
pub(super) enum ImportCommand {
    /// Import from Healthchecks: its SQLite file, or the output of pg_dump or manage.py dumpdata
    Healthchecks(Box<ImportHealthchecksArgs>),
    /// Import from another overdue: the output of its `export --format jsonl`
    Overdue(Box<ImportOverdueArgs>),
    /// List unfinished imports, and projects on trial
    List {
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Abandon an unfinished import. Nothing of it is kept
    Abandon {
        /// Number of the import, as shown by `import list`
        import: u64,
    },
}

/// Pings to import.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogsArg {
    All,
    Heads,
    None,
}

#[derive(Args)]
pub(super) struct ImportHealthchecksArgs {
    /// File to read: a SQLite database (with its log or journal beside it), the text output of
    /// pg_dump, or a dumpdata; `-` for standard input
    #[arg(value_name = "SOURCE", required_unless_present = "api")]
    source: Option<PathBuf>,

    #[command(flatten)]
    how: ImportModeArgs,

    /// Do not import the check with this name, slug or UUID; may be given several times, with
    /// commas in the variable
    #[arg(
        long,
        env = "OVERDUE_SKIP",
        value_name = "CHECK",
        value_delimiter = ','
    )]
    skip: Vec<String>,

    /// Replacement for a time zone that is unknown here; may be given several times, with commas in
    /// the variable
    #[arg(
        long,
        env = "OVERDUE_TZ",
        value_name = "OLD=NEW",
        value_delimiter = ',',
        value_parser = parse_zone_mapping
    )]
    tz: Vec<(String, Timezone)>,

    /// Pings to import: all, with their bodies; heads, without bodies; or none [default: all; from
    /// an API heads, because each body takes a request]
    #[arg(long, env = "OVERDUE_LOGS", value_enum)]
    logs: Option<LogsArg>,

    /// Import users, with their passwords where possible
    #[arg(long, env = "OVERDUE_USERS", value_parser = FalseyValueParser::new())]
    users: bool,

    /// File with the environment variables of the old server, in the format of Docker Compose: its
    /// SECRET_KEY, and tokens that belong to channels here
    #[arg(long, env = "OVERDUE_ENV_FILE", value_name = "FILE")]
    env_file: Option<PathBuf>,

    /// File with only the SECRET_KEY of the old server
    #[arg(long, env = "OVERDUE_SECRET_KEY_FILE", value_name = "FILE")]
    secret_key_file: Option<PathBuf>,

    #[command(flatten)]
    api: ImportApiArgs,
}

fn parse_zone_mapping(text: &str) -> Result<(String, Timezone), String> {
    let (old, new) = text
        .split_once('=')
        .ok_or("give two names with = between them, as in US/Pacific-New=America/Los_Angeles")?;
    Ok((
        old.to_owned(),
        Timezone::parse(new).map_err(|error| format!("{new:?} is {error}"))?,
    ))
}

/// Reads a small file that the user names.
fn read_small_file(path: &Path) -> Result<String, CliError> {
    let read_failed =
        |error: io::Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
    let bytes = read_limited(path, MAX_FILE_BYTES as u64).map_err(read_failed)?;
    String::from_utf8(bytes)
        .map_err(|error| read_failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// Headings of the table of imports.
const HEADINGS: [&str; 4] = ["STATE", "NAME", "CHECKS", "BEGUN"];

/// Returns a row of the table.
fn cells(row: &ImportRow) -> [String; 4] {
    [
        row.state.clone(),
        row.name.clone(),
        row.checks.to_string(),
        row.begun.clone().unwrap_or_default(),
    ]
}

impl ImportCommand {
    pub(super) fn run(
        self,
        data: impl FnOnce() -> Result<PathBuf, CliError>,
    ) -> Result<(), CliError> {
        match self {
            Self::Healthchecks(args) => args.run(data),
            Self::Overdue(args) => args.run(data),
            Self::List {
                json: JsonFlag { json },
            } => {
                let rows = super::send(&data()?, ListImports {})?;
                table::print_list(&rows, json, &HEADINGS, cells).map_err(CliError::output_failed)
            }
            Self::Abandon { import } => super::send(&data()?, AbandonImport { import }),
        }
    }
}

impl ImportHealthchecksArgs {
    fn run(self, data: impl FnOnce() -> Result<PathBuf, CliError>) -> Result<(), CliError> {
        self.how.require_mode()?;
        let options = self.import_options()?;
        let bar = progress_bar();
        let Some(mut source) = self.open_source(options.logs, &bar)? else {
            return Ok(());
        };
        let mut on_progress = progress_callback(&bar);
        let now = Clock::System.now();
        if self.how.is_dry_run() {
            let preview = import::dry_run(&mut source, &options, now, &mut on_progress);
            bar.finish_and_clear();
            let (imported, report) = preview.map_err(import_failed)?;
            return self.how.finish_dry_run(data, imported, report, NEXT_STEPS);
        }
        let mut reader = SourceReader::read_objects(&mut source, &options, now, &mut on_progress)
            .map_err(import_failed)?;
        let mut upload = upload::begin(upload::open_target(&data()?)?, reader.contents())?;
        reader
            .read_logs(&mut on_progress, &mut |entry| upload.add_log_entry(entry))
            .map_err(import_failed)?;
        let (imported, report) = reader.finish();
        bar.finish_and_clear();
        let summary = self.how.finish(upload, imported)?;
        self.how.print_report(&report, &[], &summary)
    }

    /// Returns the source: the responses of the API, or the file.
    fn open_source(
        &self,
        logs: PingLogSelection,
        bar: &ProgressBar,
    ) -> Result<Option<ImportSource>, CliError> {
        let fetched = self.api.fetch_source(&self.how.project, logs, bar)?;
        let open =
            |path: &PathBuf| ImportSource::open(path, &Random::System).map_err(CliError::usage);
        fetched
            .map(Ok)
            .or_else(|| self.source.as_ref().map(open))
            .transpose()
    }

    fn import_options(&self) -> Result<ImportOptions, CliError> {
        let mut environment = match &self.env_file {
            None => ServerEnvironment::default(),
            Some(path) => {
                let parsed = ServerEnvironment::parse(&read_small_file(path)?);
                parsed
                    .map_err(|problem| CliError::usage(format!("{}: {problem}", path.display())))?
            }
        };
        if let Some(path) = &self.secret_key_file {
            environment =
                environment.with_secret(read_small_file(path)?.trim_end_matches(['\r', '\n']));
        }
        let logs = match self.logs {
            None if self.api.api.is_some() => PingLogSelection::WithoutBodies,
            None | Some(LogsArg::All) => PingLogSelection::All,
            Some(LogsArg::Heads) => PingLogSelection::WithoutBodies,
            Some(LogsArg::None) => PingLogSelection::None,
        };
        let projects = self.how.project.clone();
        let skip = self.skip.clone();
        let zones = self.tz.clone();
        Ok(ImportOptions {
            projects,
            skipped_checks: skip,
            timezone_map: zones,
            logs,
            with_users: self.users,
            environment,
        })
    }
}

fn import_failed(error: ImportError) -> CliError {
    match error {
        ImportError::Source(problem) => CliError::usage(problem),
        ImportError::Rows { .. } => CliError::verbatim(1, error.to_string()),
    }
}

/// Steps from an import to the switch.
const NEXT_STEPS: &[&str] = &[
    "next steps:",
    "  1. at any time: overdue import healthchecks SOURCE --trial; try the pages and the API; no \
     alerts are sent",
    "  2. for the switch: stop the old server, and import its last state with --live instead of \
     --trial",
    "  3. point the old address to this server, in the proxy or in DNS; clients that retry send \
     the pings that fail meanwhile again",
    "  to go back, start the old server: it was never changed",
];

/// Returns a progress bar; hidden unless standard error is a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(
        None,
        ProgressDrawTarget::stderr_with_hz(PROGRESS_UPDATES_PER_SECOND),
    );
    match ProgressStyle::with_template("{prefix} {percent} %, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Returns a callback that shows the progress of reading.
fn progress_callback(bar: &ProgressBar) -> impl FnMut(ImportProgress) + '_ {
    |ImportProgress {
         is_reading_logs: logs,
         done,
         total,
     }| {
        bar.set_length(total);
        bar.set_prefix(if logs { "logs" } else { "settings" });
        bar.set_position(done.min(total));
    }
}
