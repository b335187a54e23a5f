//! Command line: every subcommand and flag, defined once with its help, its environment variable
//! and its default.
//!
//! Arguments (clap's structures) are converted to domain values (a request of the admin API, the
//! configuration of the server). Later code does not validate them again.

mod audit;
mod backup;
mod backup_flags;
mod channel;
mod check;
mod client;
mod cluster;
mod command_groups;
mod common_args;
mod compact;
mod completions;
mod config_diff;
mod config_files;
mod dashboard_flags;
mod data_directory;
mod deliveries;
mod discover;
mod docs;
mod env_variables;
mod health;
mod import;
mod key;
mod man;
mod outbound_flags;
mod project;
mod run_and_ping;
mod schedule;
mod serve;
mod server_config_file;
mod session;
mod settings_file;
mod status;
mod table;
mod user;
mod window;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use crate::admin::{self, AdminClientError, AdminRequest};
use crate::metrics::COMMIT;
use crate::notifier::NotifierConfig;
use crate::outbound::SESSION_LAUNCHER;
use crate::util::clock::Clock;
use channel::ChannelCommand;
pub use client::run_client;
use server_config_file::{CompletedWords, ServerConfigFile};

/// Release, commit, and version of the database's layout.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} (commit {COMMIT}, schema {})",
        env!("CARGO_PKG_VERSION"),
        crate::store::SCHEMA
    )
});

/// Sends alerts when a scheduled job does not report.
#[derive(Parser)]
#[command(
    name = "overdue",
    version = VERSION.as_str(),
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    /// Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else
    /// ~/.local/state/overdue]
    #[arg(long, global = true, env = "OVERDUE_DATA", value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run the server
    Serve(Box<serve::ServeArgs>),
    /// Create, list, change and delete projects
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Create, list and revoke API keys and ping keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Create, list, test, change and delete notification channels, and assign checks to them
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Create, list, change, pause and delete checks, and show their pings and flips
    #[command(subcommand)]
    Check(check::CheckCommand),
    /// Create, list, change and delete users of the dashboard, and print links for choosing a
    /// password
    #[command(subcommand)]
    User(user::UserSubcommand),
    /// Create, list and delete maintenance windows
    #[command(subcommand)]
    Window(window::WindowCommand),
    /// Silence alerts for a duration; checks that are still down afterwards alert then
    Mute(window::MuteArgs),
    /// List alerts with their delivery results, newest first, or retry a failed delivery
    Deliveries(deliveries::DeliveriesArgs),
    /// List who changed what and when, newest first: sign-ins, and changes of users, projects,
    /// keys, channels, checks and windows
    Audit(audit::AuditArgs),
    /// Show when a schedule expects its job to run
    Schedule(schedule::ScheduleArgs),
    /// Export the configuration as a file for `apply`, or all data as JSON lines for `import
    /// overdue`
    Export(config_files::ExportArgs),
    /// Show the changes that `apply` would make; the exit status is 3 if there are any
    Diff(config_files::ConfigFilesArgs),
    /// Apply configuration files atomically
    Apply(config_files::ApplyArgs),
    /// Find jobs in crontabs and systemd timers. For each job, propose a check, and an edit that
    /// makes the job report. Nothing is edited
    Discover(Box<discover::DiscoverArgs>),
    /// Import data from another program, or preview the import. The source is not modified
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Print the JSON Schema of configuration files, for editors
    Schema,
    /// Show the checks that are down or late and why, the channels that fail, the last backup and
    /// the server; the exit status is 3 if something needs attention
    Status(status::StatusArgs),
    /// Run a job and report its start, its exit status and the end of its output
    Run(run_and_ping::RunArgs),
    /// Send a ping
    Ping(run_and_ping::PingArgs),
    /// Back up the database to a file; the server may be running
    Backup(backup::BackupArgs),
    /// List the backups in a bucket
    Backups(backup::BackupsArgs),
    /// Restore a backup into the data directory; the server must be stopped
    Restore(backup::RestoreArgs),
    /// Check that the database or a backup is undamaged, and show the size of its tables
    Verify(backup::VerifyArgs),
    /// Release disk space that the database no longer uses; the server must be stopped
    Compact(common_args::JsonFlag),
    /// Create a cluster of several machines, and show or change its machines
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Check that the server on this machine accepts pings; the exit status is 0 if it does
    Health(health::HealthArgs),
    /// Print the completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages to a directory
    Man(man::ManArgs),
    /// Write the documentation to a directory, as a web site with search
    Docs(docs::DocsArgs),
}

/// Error of a command: one line for a person, and the exit status.
struct CliError {
    status: u8,
    message: String,
    /// True to print the message without a prefix.
    is_verbatim: bool,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "used as functions in `map_err`"
)]
impl CliError {
    /// Returns an error for invalid arguments.
    fn usage(message: impl ToString) -> Self {
        Self {
            status: 2,
            message: message.to_string(),
            is_verbatim: false,
        }
    }

    /// Returns an error for valid arguments whose execution failed.
    fn other(message: impl ToString) -> Self {
        Self {
            status: 1,
            message: message.to_string(),
            is_verbatim: false,
        }
    }

    /// Returns an error whose lines are printed without a prefix.
    fn verbatim(status: u8, lines: String) -> Self {
        Self {
            status,
            message: lines,
            is_verbatim: true,
        }
    }

    /// Returns an error for output that could not be written to standard output.
    fn output_failed(error: io::Error) -> Self {
        Self::other(format!("cannot write the output: {error}"))
    }
}

impl From<AdminClientError> for CliError {
    fn from(error: AdminClientError) -> Self {
        match error {
            AdminClientError::Refused(error) if error.is_invalid() => Self::usage(error),
            error => Self::other(error),
        }
    }
}

/// Runs the command line and returns its exit status. The first word is the program's name.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    if let Some((_, command)) = words
        .split_first()
        .filter(|(name, _)| *name == SESSION_LAUNCHER)
    {
        return session::run(command);
    }
    let words = match words
        .split_first()
        .filter(|(name, _)| *name == session::OWNER_LAUNCHER)
    {
        None => words,
        Some((_, with_ids)) => match session::take_ids(with_ids) {
            Ok(words) => words.to_vec(),
            Err(error) => {
                let _ = writeln!(
                    io::stderr(),
                    "overdue: root cannot act as the owner of the data directory ({error}): run \
                     it as that user"
                );
                return ExitCode::FAILURE;
            }
        },
    };
    let program = words.first().map(PathBuf::from).unwrap_or_default();
    let variable = |name: &OsStr| std::env::var_os(name);
    let completed = server_config_file::complete_words(words.clone(), built_tree, variable);
    let (result, file) = match completed {
        Ok(completed) => (run_words(&completed, &program), completed.file),
        Err(error) => (Err(error), None),
    };
    match result {
        Ok(status) => status,
        Err(error) => print_error(error, &words, file.as_ref()),
    }
}

/// Prints an error with the sources of the values that it mentions, and returns its exit status.
fn print_error(error: CliError, words: &[OsString], file: Option<&ServerConfigFile>) -> ExitCode {
    let CliError {
        status,
        message,
        is_verbatim,
    } = error;
    let message = if is_verbatim {
        message
    } else {
        let variable = |name: &OsStr| std::env::var_os(name);
        env_variables::annotate_sources(&message, words, variable, file)
    };
    let prefix = if is_verbatim { "" } else { "overdue: " };
    let message: Vec<_> = message
        .trim_end_matches('\n')
        .split('\n')
        .map(table::sanitize)
        .collect();
    // If standard error is closed, the exit status has to suffice.
    let _ = writeln!(io::stderr(), "{prefix}{}", message.join("\n"));
    ExitCode::from(status)
}

/// Returns the command line with all its inherited flags.
fn built_tree() -> clap::Command {
    let mut tree = Cli::command();
    tree.build();
    tree
}

/// Parses the words and runs their command.
fn run_words(completed: &CompletedWords, program: &Path) -> Result<ExitCode, CliError> {
    let CompletedWords { words, file } = completed;
    match parse_args(words.clone(), |name| std::env::var_os(name)) {
        Ok((cli, matches)) => match cli.command {
            CliCommand::Serve(args) if args.print_config => {
                // Refuses what the server would refuse.
                args.config(PathBuf::new(), program)
                    .map_err(CliError::usage)?;
                server_config_file::print(&built_tree(), &matches, file.as_ref())
                    .map(|()| ExitCode::SUCCESS)
            }
            _ => dispatch(cli, program),
        },
        Err(error) => parse_failure(&error, words),
    }
}

/// Returns success if the words asked for help, which is printed. Otherwise the error of the words.
fn parse_failure(error: &clap::Error, words: &[OsString]) -> Result<ExitCode, CliError> {
    let is_job = words.get(1).is_some_and(|word| word == "run");
    if is_job && error.kind() == ErrorKind::UnknownArgument {
        return Err(CliError::usage(format!(
            "{}; write -- before the command of the job",
            one_line_message(&error.render().to_string())
        )));
    }
    help_or_usage(error).map(|()| ExitCode::SUCCESS)
}

/// Parses the words. An empty variable counts as unset.
fn parse_args(
    words: Vec<OsString>,
    variable: impl Fn(&OsStr) -> Option<OsString> + Copy,
) -> Result<(Cli, clap::ArgMatches), clap::Error> {
    let mut command = command_groups::with_groups(env_variables::ignore_empty_variables(
        Cli::command(),
        variable,
    ));
    let matches = command.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((cli, matches))
}

fn dispatch(cli: Cli, program: &Path) -> Result<ExitCode, CliError> {
    let Cli { data, command } = cli;
    // A server must not run on the directory of the installed service by default.
    let is_explicit = data.is_some() || matches!(command, CliCommand::Serve(_));
    let data = || {
        let directory = data_directory::resolve(data, |name| std::env::var_os(name))
            .map_err(CliError::usage)?;
        Ok::<_, CliError>(if is_explicit {
            directory
        } else {
            data_directory::service_directory_or(directory, data_directory::has_database)
        })
    };
    let result = match command {
        // The exit status of the job.
        CliCommand::Run(args) => return args.run().map(ExitCode::from),
        CliCommand::Ping(args) => args.run(),
        CliCommand::Serve(args) => {
            let data = data()?;
            data_directory::restart_as_owner(&data)?;
            let mut config = args.config(data, program).map_err(CliError::usage)?;
            config
                .warnings
                .extend(env_variables::unknown_variable_warnings(
                    &Cli::command(),
                    std::env::vars_os().map(|(name, _)| name),
                ));
            crate::server::run(config).map_err(CliError::other)
        }
        CliCommand::Project(command) => {
            let data = data()?;
            let creates_database = !is_explicit && command.creates_database(&data);
            command.run(&data)?;
            if creates_database {
                let _ = writeln!(
                    io::stderr(),
                    "overdue: created a new database in {}",
                    data.display()
                );
            }
            Ok(())
        }
        CliCommand::Key(command) => command.run(&data()?),
        CliCommand::Channel(ChannelCommand::Kinds(args)) => args.show(),
        CliCommand::Channel(ChannelCommand::Create(args)) => args.run(&data()?),
        CliCommand::Channel(ChannelCommand::Manage(command)) => command.run(&data()?),
        CliCommand::User(command) => command.run(&data()?),
        CliCommand::Deliveries(args) => args.run(&data()?),
        CliCommand::Audit(args) => args.run(&data()?),
        CliCommand::Check(command) => command.run(&data()?),
        CliCommand::Status(args) => return args.run(&data()?),
        CliCommand::Window(command) => command.run(&data()?),
        CliCommand::Mute(args) => args.run(&data()?),
        CliCommand::Export(args) => args.run(&data()?),
        CliCommand::Diff(args) => return args.diff(&data()?),
        CliCommand::Apply(args) if args.needs_data() => args.run(&data()?),
        CliCommand::Apply(args) => args.check(),
        CliCommand::Discover(args) => args.run(),
        CliCommand::Import(command) => command.run(data),
        CliCommand::Schema => config_files::print_schema(),
        CliCommand::Schedule(args) => {
            let now = Clock::System.now();
            schedule::run(
                &args,
                now,
                io::stdin().lock(),
                io::stdout().lock(),
                io::stderr().lock(),
            )
            .map_err(CliError::other)
        }
        CliCommand::Backup(args) => args.run(&data()?),
        CliCommand::Backups(args) => args.run(),
        CliCommand::Restore(args) => args.run(&data()?),
        CliCommand::Verify(args) => args.run(&data()?),
        CliCommand::Compact(common_args::JsonFlag { json }) => compact::run(&data()?, json),
        CliCommand::Cluster(command) => command.run(data),
        CliCommand::Health(args) => args.run(),
        CliCommand::Completions(args) => args.run(),
        CliCommand::Man(args) => args.run(),
        CliCommand::Docs(args) => args.run(),
    };
    result.map(|()| ExitCode::SUCCESS)
}

/// Sends a request to the server, or to the database.
fn send<R>(data: &Path, request: R) -> Result<R::Output, CliError>
where
    R: AdminRequest<Output: DeserializeOwned>,
{
    send_as_owner(data, request, None)
}

/// Sends a request that may send tests of channels. Without a server they are sent with this
/// configuration, after the rights of root are dropped.
fn send_with_tests<R>(
    data: &Path,
    request: R,
    config: NotifierConfig,
) -> Result<R::Output, CliError>
where
    R: AdminRequest<Output: DeserializeOwned>,
{
    data_directory::switch_to_owner(data)?;
    send_as_owner(data, request, Some(config))
}

fn send_as_owner<R>(
    data: &Path,
    request: R,
    tests: Option<NotifierConfig>,
) -> Result<R::Output, CliError>
where
    R: AdminRequest<Output: DeserializeOwned>,
{
    let _owner = data_directory::assume_owner(data)?;
    Ok(new_runtime()?.block_on(admin::send_request(data, request, tests))?)
}

fn new_runtime() -> Result<Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::other)
}

/// Prints help and version to standard output, without an error. Other errors become one line.
fn help_or_usage(error: &clap::Error) -> Result<(), CliError> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // The reader may close the pipe early.
        let _ = error.print();
        return Ok(());
    }
    let text = error.render().to_string();
    if error.kind() == ErrorKind::InvalidSubcommand {
        return Err(CliError::usage(unknown_command_message(error)));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = io::stderr().write_all(text.as_bytes());
        return Err(CliError::usage(
            "no command given: use one of the commands above",
        ));
    }
    Err(CliError::usage(one_line_message(&text)))
}

/// Subcommands that users may look for, and their replacements.
const COMMAND_HINTS: [(&str, &str); 2] = [
    ("version", "`overdue --version` prints the version"),
    ("start", "`overdue serve` runs the server"),
];

/// Returns the message about an unknown subcommand, with the most similar one.
fn unknown_command_message(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        // The last one is the most similar.
        Some(ContextValue::Strings(texts)) => texts.last().map(String::as_str),
        _ => None,
    };
    let name = text(ContextKind::InvalidSubcommand).unwrap_or_default();
    let hint = match COMMAND_HINTS.iter().find(|(command, _)| *command == name) {
        Some((_, hint)) => format!("; {hint}"),
        None => text(ContextKind::SuggestedSubcommand)
            .map(|similar| format!("; a similar command exists: '{similar}'"))
            .unwrap_or_default(),
    };
    format!("there is no command '{name}'{hint} (see --help)")
}

/// Returns the part of clap's message with the error and its tip. The usage is left to `--help`.
fn one_line_message(text: &str) -> String {
    let text = text
        .split("\nUsage:")
        .next()
        .unwrap_or_default()
        .split("\nFor more information")
        .next()
        .unwrap_or_default();
    let text = text.replace("\n\n  tip:", ";");
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_owned() + " (see --help)"
}

#[cfg(test)]
mod tests;
