//! The command line: every subcommand and flag, stated once with its help, its environment variable and its default.
//!
//! What was typed (clap's structures) becomes what the program works with (an admin request, the configuration of the server); past
//! that border nothing is looked at again.

mod backup;
mod changes;
mod channel;
mod check;
mod compact;
mod completions;
mod data;
mod declare;
mod deliveries;
mod discover;
mod health;
mod import;
mod job;
mod key;
mod man;
mod outbound;
mod project;
mod schedule;
mod serve;
mod session;
mod shared;
mod table;
mod user;
mod variables;
mod web;
mod window;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::admin::{self, Reply, Request};
use crate::clock::Clock;
use crate::metrics::COMMIT;
use crate::notify;
use crate::outbound::SESSION_LAUNCHER;
use channel::ChannelCommand;

/// The release, the commit that it was built from, and the version of the database's layout.
static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} (commit {COMMIT}, schema {})", env!("CARGO_PKG_VERSION"), crate::store::SCHEMA));

/// Notices when a scheduled job did not report.
#[derive(Parser)]
#[command(name = "overdue", version = VERSION.as_str(), propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]
    #[arg(long, global = true, env = "OVERDUE_DATA", value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server
    Serve(Box<serve::ServeArgs>),
    /// Make, list, change and delete projects
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Make, list and revoke API keys and ping keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Make, list, test, change and delete notification channels, and assign checks to them
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Make, list, change, pause and delete checks, and show their pings and flips
    #[command(subcommand)]
    Check(check::CheckCommand),
    /// Make, list, change and delete users of the dashboard, and print the links by which they choose their passwords
    #[command(subcommand)]
    User(user::UserCommand),
    /// Make, list and delete maintenance windows
    #[command(subcommand)]
    Window(window::WindowCommand),
    /// Silence alerts for a duration; checks that are still down afterwards alert then
    Mute(window::MuteArgs),
    /// List alerts with their results, newest first, or send a failed one again
    Deliveries(deliveries::DeliveriesArgs),
    /// Show when a schedule expects its job to run
    Schedule(schedule::ScheduleArgs),
    /// Export the configuration as a file for `apply`, or everything with logs as lines for `import overdue`
    Export(declare::ExportArgs),
    /// Show the changes that `apply` would make; the exit status is 3 if there are any
    Diff(declare::FilesArgs),
    /// Apply configuration files atomically
    Apply(declare::ApplyArgs),
    /// Find jobs in crontabs and timers, and propose a check for each, with the edit that makes it report. Nothing is edited
    Discover(Box<discover::DiscoverArgs>),
    /// Import data from another program, or preview the import. The source is not modified
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Print the JSON Schema of configuration files, for editors
    Schema,
    /// Run a job and report its start, its exit status and the end of its output
    Run(job::RunArgs),
    /// Send a ping
    Ping(job::PingArgs),
    /// Back up the database to a file, also while a server runs
    Backup(backup::BackupArgs),
    /// Restore a backup into the data directory, while no server runs
    Restore(backup::RestoreArgs),
    /// Check that the database, or a backup, can be read completely, and show what takes space in it
    Verify(backup::VerifyArgs),
    /// Give back the disk space that the database no longer uses, while no server runs
    Compact(shared::Json),
    /// Check that the server on this machine takes pings; the exit status is 0 if it does
    Health(health::HealthArgs),
    /// Print the completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages into a directory
    Man(man::ManArgs),
}

/// Why a command failed: one line for a person, and the exit status.
struct Failure {
    status: u8,
    message: String,
    /// Nothing stands before the message.
    lines: bool,
}

#[allow(clippy::needless_pass_by_value, reason = "so that they stand in `map_err`")]
impl Failure {
    /// What was typed cannot be right.
    fn usage(message: impl ToString) -> Self {
        Self { status: 2, message: message.to_string(), lines: false }
    }

    /// What was typed could be right, but it did not work.
    fn other(message: impl ToString) -> Self {
        Self { status: 1, message: message.to_string(), lines: false }
    }

    /// Several lines that stand for themselves.
    fn lines(status: u8, lines: String) -> Self {
        Self { status, message: lines, lines: true }
    }

    /// The answer could not be written to standard output.
    fn unwritten(error: io::Error) -> Self {
        Self::other(format!("cannot write the answer: {error}"))
    }
}

/// What a subcommand of the admin door asks, and how its reply is shown.
struct Question {
    request: Request,
    json: bool,
    /// The one row of the answer is shown with all its fields.
    whole: bool,
    /// What a test is sent with when no server runs.
    sending: Option<notify::Config>,
    /// What the request deletes, if a terminal is asked first.
    deletes: Option<String>,
}

impl Question {
    /// A question whose answer is shown as JSON or as a table.
    fn shown(request: Request, json: bool) -> Self {
        Self { request, json, whole: false, sending: None, deletes: None }
    }
}

impl From<Request> for Question {
    fn from(request: Request) -> Self {
        Self::shown(request, false)
    }
}

/// Runs the command line `words`, the first of which is the program's name, and gives its exit status.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    if let Some((_, command)) = words.split_first().filter(|(name, _)| *name == SESSION_LAUNCHER) {
        return session::run(command);
    }
    let program = words.first().map(PathBuf::from).unwrap_or_default();
    let is_job = words.get(1).is_some_and(|word| word == "run");
    let done = match parse(words.clone(), |name| std::env::var_os(name)) {
        Ok(cli) => dispatch(cli, &program),
        Err(error) if is_job && error.kind() == ErrorKind::UnknownArgument => {
            Err(Failure::usage(format!("{}; write -- before the command of the job", one_line(&error.render().to_string()))))
        }
        Err(error) => help_or_usage(&error).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(status) => status,
        Err(Failure { status, message, lines }) => {
            let message = if lines { message } else { variables::name_sources(&message, &words, |name| std::env::var_os(name)) };
            let said = if lines { "" } else { "overdue: " };
            let message: Vec<_> = message.trim_end_matches('\n').split('\n').map(table::clean).collect();
            // With nobody left to tell, the exit status has to do.
            let _ = writeln!(io::stderr(), "{said}{}", message.join("\n"));
            ExitCode::from(status)
        }
    }
}

/// Reads the words. A variable that is empty is one that is not set.
fn parse(words: Vec<OsString>, variable: impl Fn(&OsStr) -> Option<OsString> + Copy) -> Result<Cli, clap::Error> {
    fn without_empty(command: clap::Command, variable: impl Fn(&OsStr) -> Option<OsString> + Copy) -> clap::Command {
        let is_empty = |flag: &clap::Arg| flag.get_env().and_then(variable).is_some_and(|value| value.is_empty());
        let command = command.mut_args(|flag| if is_empty(&flag) { flag.env(clap::builder::Resettable::Reset) } else { flag });
        command.mut_subcommands(|command| without_empty(command, variable))
    }
    let mut command = without_empty(Cli::command(), variable);
    let matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn dispatch(cli: Cli, program: &Path) -> Result<ExitCode, Failure> {
    let Cli { data, command } = cli;
    // A server is not meant to take the place of the one that a package installed.
    let is_definite = data.is_some() || matches!(command, Command::Serve(_));
    let data = || {
        let found = data::directory(data, |name| std::env::var_os(name)).map_err(Failure::usage)?;
        Ok::<_, Failure>(if is_definite { found } else { data::of_service_or(found, data::has_database) })
    };
    let done = match command {
        // Its exit status is the job's.
        Command::Run(args) => return args.run().map(ExitCode::from),
        Command::Ping(args) => args.run(),
        Command::Serve(args) => {
            let data = data()?;
            data::restart_as_owner(&data)?;
            let mut config = args.config(data, program).map_err(Failure::usage)?;
            config.warnings.extend(variables::unknown(&Cli::command(), std::env::vars_os().map(|(name, _)| name)));
            crate::serve::run(config).map_err(Failure::other)
        }
        Command::Project(command) => {
            let data = data()?;
            let makes = !is_definite && command.makes_database(&data);
            command.confirm(|request| reply(&data, request, None))?;
            ask(&data, command.into())?;
            if makes {
                let _ = writeln!(io::stderr(), "overdue: made a new database in {}", data.display());
            }
            Ok(())
        }
        Command::Key(command) => ask(&data()?, command.into()),
        Command::Channel(ChannelCommand::Kinds(args)) => args.show(),
        Command::Channel(ChannelCommand::Create(args)) => args.run(&data()?),
        Command::Channel(ChannelCommand::Manage(command)) => ask(&data()?, command.question()?),
        Command::User(command) => ask(&data()?, command.question()?),
        Command::Deliveries(args) => ask(&data()?, args.into()),
        Command::Check(command) => ask(&data()?, command.into()),
        Command::Window(command) => window::ask(&data()?, command.into()),
        Command::Mute(args) => window::ask(&data()?, args.into()),
        Command::Export(args) => args.run(&data()?),
        Command::Diff(args) => return args.diff(&data()?),
        Command::Apply(args) if args.needs_data() => args.run(&data()?),
        Command::Apply(args) => args.check(),
        Command::Discover(args) => args.run(),
        Command::Import(command) => command.run(data),
        Command::Schema => declare::schema(),
        Command::Schedule(args) => {
            let now = Clock::System.now();
            schedule::run(&args, now, io::stdin().lock(), io::stdout().lock(), io::stderr().lock()).map_err(Failure::other)
        }
        Command::Backup(args) => args.run(&data()?),
        Command::Restore(args) => args.run(&data()?),
        Command::Verify(args) => args.run(&data()?),
        Command::Compact(shared::Json { json }) => compact::run(&data()?, json),
        Command::Health(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Man(args) => args.run(),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Puts a request to the server, or to the database. A refusal is a failure. After one that may send something, root's rights are gone.
fn reply(data: &Path, request: Request, sending: Option<notify::Config>) -> Result<Reply, Failure> {
    if sending.is_some() {
        data::stay_owner(data)?;
    }
    let _owner = data::as_owner(data)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::other)?;
    match runtime.block_on(admin::ask(data, request, sending)).map_err(Failure::other)? {
        Reply::Invalid(reason) => Err(Failure::usage(reason)),
        Reply::Refused(reason) => Err(Failure::other(reason)),
        reply => Ok(reply),
    }
}

/// Asks and shows the answer.
fn ask(data: &Path, question: Question) -> Result<(), Failure> {
    let Question { request, json, whole, sending, deletes } = question;
    deletes.map_or(Ok(()), |what| shared::confirm_on_terminal(&what))?;
    let shown = match reply(data, request, sending)? {
        Reply::Done | Reply::Piece(_) | Reply::Invalid(_) | Reply::Refused(_) => Ok(()),
        // Those who ask for these show them.
        Reply::Changes(_) | Reply::Conflicts(_) | Reply::Objects(_) => Ok(()),
        Reply::ImportBegun(_) | Reply::Imported(..) | Reply::Touched(_) => Ok(()),
        Reply::Imports(rows) => table::show(&rows, json, &import::HEADINGS, import::cells),
        Reply::Made(uuid) => table::made(&uuid.to_string(), &serde_json::json!({ "uuid": uuid }), json),
        Reply::MadeKey(made) => table::made(&made.key, &made, json),
        Reply::Projects(rows) => table::show(&rows, json, &project::HEADINGS, project::cells),
        Reply::Keys(rows) => table::show(&rows, json, &key::HEADINGS, key::cells),
        Reply::Users(rows) => table::show(&rows, json, &user::HEADINGS, user::cells),
        Reply::MadeLink(row) => user::show_link(&row, json),
        Reply::Checks(rows) if whole => table::show_whole(&rows, json),
        Reply::Checks(rows) => table::show(&check::sorted(rows, json), json, &check::HEADINGS, check::cells),
        Reply::Pings(rows) => table::show(&rows, json, &check::PING_HEADINGS, check::ping_cells),
        Reply::Flips(rows) => table::show(&rows, json, &["TIMESTAMP", "FROM", "TO"], check::flip_cells),
        Reply::Channels(rows) => table::show(&rows, json, &channel::HEADINGS, channel::cells),
        Reply::Windows(rows) => table::show(&rows, json, &window::HEADINGS, window::cells),
        Reply::Alerting(row) if json => table::show_whole(&[row], json),
        Reply::Alerting(row) => table::show_whole(&[row.in_words()], json),
        Reply::Deliveries(rows) => table::show(&rows, json, &deliveries::HEADINGS, deliveries::cells),
        Reply::Queued(number) => table::made(&format!("waits to be sent as {number}"), &serde_json::json!({ "number": number }), json),
        Reply::Assigned(count) => table::made(&channel::assigned(count), &serde_json::json!({ "checks": count }), json),
        Reply::Tested(row) => return channel::tested(&row, json),
        Reply::TestedGroup(rows) => return channel::tested_group(&rows, json),
        Reply::Warnings(warnings) => {
            channel::warn(&warnings);
            Ok(())
        }
    };
    shown.map_err(Failure::unwritten)
}

/// Help and version go to standard output and are no failure; an error becomes one line.
fn help_or_usage(error: &clap::Error) -> Result<(), Failure> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A reader that has seen enough closes the pipe.
        let _ = error.print();
        return Ok(());
    }
    let text = error.render().to_string();
    if error.kind() == ErrorKind::InvalidSubcommand {
        return Err(Failure::usage(unknown_subcommand(error)));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = io::stderr().write_all(text.as_bytes());
        return Err(Failure::usage("a command is missing: give one of those above"));
    }
    Err(Failure::usage(one_line(&text)))
}

/// What else users look for, and where it is.
const ELSEWHERE: [(&str, &str); 3] = [
    ("version", "`overdue --version` prints the version"),
    ("status", "`overdue check list` shows the checks, `overdue health` tells whether the server takes pings"),
    ("start", "`overdue serve` runs the server"),
];

/// Returns what to say of a subcommand that there is none of, with the most similar one.
fn unknown_subcommand(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        // The last one is the most similar.
        Some(ContextValue::Strings(texts)) => texts.last().map(String::as_str),
        _ => None,
    };
    let name = text(ContextKind::InvalidSubcommand).unwrap_or_default();
    let hint = match ELSEWHERE.iter().find(|(wanted, _)| *wanted == name) {
        Some((_, hint)) => format!("; {hint}"),
        None => {
            text(ContextKind::SuggestedSubcommand).map(|similar| format!("; a similar command exists: '{similar}'")).unwrap_or_default()
        }
    };
    format!("there is no command '{name}'{hint} (see --help)")
}

/// The part of clap's message that says what is wrong, and its tip; the usage that follows is left to `--help`.
fn one_line(text: &str) -> String {
    let text = text.split("\nUsage:").next().unwrap_or_default().split("\nFor more information").next().unwrap_or_default();
    let text = text.replace("\n\n  tip:", ";");
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_owned() + " (see --help)"
}

#[cfg(test)]
mod tests;
