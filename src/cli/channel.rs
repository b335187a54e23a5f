//! `overdue channel`: the flags of its subcommands.

mod assign;
mod kinds;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::{FalseyValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Subcommand};
use uuid::Uuid;

use super::outbound::OutboundFlags;
use super::shared::{AnyProject, Json, OneProject, Yes, read_at_most};
use super::{Failure, Question};
use super::{reply, table};
use crate::admin::channel::{ChannelRow, Chosen, MemberTestRow, OfChannel, RefusedRow, TestRow};
use crate::admin::{Reply, Request};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::project::ChannelName;
use assign::Checks;
use kinds::Kinds;

/// Bytes of a file of settings: see [limits](crate::docs::limits).
const MOST_SET: u64 = 1 << 20;

#[derive(Subcommand)]
pub(super) enum ChannelCommand {
    /// Make a channel and print its UUID
    #[command(after_help = kinds::help() + "\n\n" + SENT_BY)]
    Create(Box<Create>),
    #[command(flatten)]
    Manage(Manage),
    /// Show what kinds of channel there are and what can be set
    Kinds(Kinds),
}

/// What the flags for alerts are for.
const SENT_BY: &str =
    "A test is sent by the server that runs, by its own flags. When none runs, this command sends it, by the flags for alerts above.";

/// The exit status of a test.
const TEST_STATUS: &str =
    "The exit status is 0 if anybody got the test: one of several recipients of a mail, one channel of a group. It is 1 if nobody did.";

/// The flags of `create`.
#[derive(Args)]
pub(super) struct Create {
    #[command(flatten)]
    project: OneProject,

    /// How it notifies
    #[arg(long, env = "OVERDUE_KIND", value_parser = kind())]
    kind: &'static ChannelKind,

    /// Its name, which others may have too
    #[arg(long, env = "OVERDUE_NAME", value_parser = ChannelName::parse)]
    name: ChannelName,

    #[command(flatten)]
    settings: SettingsArgs,

    /// Checks that it is told about from now on: all there are in the project, or tag:TAG for those with a tag
    #[arg(long, env = "OVERDUE_ASSIGN", value_name = "all|tag:TAG", value_parser = assign::at_creation)]
    assign: Option<Chosen>,

    /// Send a test to it
    #[arg(long, env = "OVERDUE_TEST", value_parser = FalseyValueParser::new())]
    test: bool,

    #[command(flatten)]
    json: Json,

    #[command(flatten)]
    outbound: OutboundFlags,
}

/// What the admin door is asked.
#[derive(Subcommand)]
pub(super) enum Manage {
    /// List the channels, and show which do not work
    List {
        #[command(flatten)]
        project: AnyProject,

        /// Show settings, with *** in place of secrets
        #[arg(long, env = "OVERDUE_SHOW_SETTINGS", value_parser = FalseyValueParser::new())]
        show_settings: bool,

        #[command(flatten)]
        json: Json,
    },
    /// Give a channel another name
    Rename {
        #[command(flatten)]
        which: Which,

        /// Its new name
        #[arg(value_parser = ChannelName::parse)]
        name: ChannelName,
    },
    /// Give a channel other settings, in place of all that it had or beside them
    #[command(after_help = kinds::help() + "\n\n*** in place of a secret keeps the one that is stored.")]
    Set {
        #[command(flatten)]
        which: Which,

        #[command(flatten)]
        settings: SettingsArgs,

        /// Change only the settings that are given; the others stay
        #[arg(long, env = "OVERDUE_KEEP", value_parser = FalseyValueParser::new())]
        keep: bool,
    },
    /// Send a test to a channel, or to each channel of a group, and say what came of it; one that arrives enables the channel
    #[command(after_help = format!("{SENT_BY}\n\n{TEST_STATUS}"))]
    Test {
        #[command(flatten)]
        which: Which,

        /// Whether to try what is sent when a check is down, or when it is up again
        #[arg(long, env = "OVERDUE_EVENT", default_value = "down", value_parser = is_up(), action = ArgAction::Set)]
        event: bool,

        #[command(flatten)]
        json: Json,

        #[command(flatten)]
        outbound: Box<OutboundFlags>,
    },
    /// Enable a channel
    Enable {
        #[command(flatten)]
        which: Which,
    },
    /// Disable a channel; alerts that wait for it are skipped
    Disable {
        #[command(flatten)]
        which: Which,
    },
    /// Notify a channel about checks
    Assign {
        #[command(flatten)]
        which: Which,

        #[command(flatten)]
        checks: Checks,

        #[command(flatten)]
        json: Json,
    },
    /// Stop notifying a channel about checks
    Unassign {
        #[command(flatten)]
        which: Which,

        #[command(flatten)]
        checks: Checks,

        #[command(flatten)]
        json: Json,
    },
    /// Delete a channel; checks are no longer assigned to it
    Delete {
        #[command(flatten)]
        which: Which,

        #[command(flatten)]
        yes: Yes,
    },
}

#[derive(Args)]
pub(super) struct Which {
    /// Its UUID, or its name if no other channel has it
    channel: String,

    #[command(flatten)]
    project: AnyProject,
}

impl Which {
    fn ask(self, what: OfChannel) -> Request {
        Request::OfChannel { project: self.project.project, channel: self.channel, what }
    }
}

#[derive(Args)]
pub(super) struct SettingsArgs {
    /// A setting of its kind; may be given several times, the variable holds one
    #[arg(long, env = "OVERDUE_SET", hide_env_values = true, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,

    /// File with more settings, one on each line, so that secrets stand in no command line
    #[arg(long, env = "OVERDUE_SET_FILE", value_name = "FILE")]
    set_file: Option<PathBuf>,
}

fn kind() -> impl clap::builder::TypedValueParser<Value = &'static ChannelKind> {
    let words = ChannelKind::ALL.map(|kind| PossibleValue::new(kind.name).aliases(kind.aliases));
    PossibleValuesParser::new(words).try_map(|word| ChannelKind::named(&word).ok_or("no such kind"))
}

/// Whether the event is that of a check that is up again.
fn is_up() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["down", "up"]).map(|word| word == "up")
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    text.split_once('=').map(|(key, value)| (key.into(), value.into())).ok_or("a setting is KEY=VALUE")
}

impl SettingsArgs {
    fn pairs(self) -> Result<Vec<(String, String)>, Failure> {
        let mut pairs = self.set;
        if let Some(path) = self.set_file {
            let told = |reason: String| Failure::usage(format!("cannot use the settings in {}: {reason}", path.display()));
            let bytes = read_at_most(&path, MOST_SET).map_err(|error| told(error.to_string()))?;
            let text = String::from_utf8(bytes).map_err(|error| told(error.to_string()))?;
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
                pairs.push(setting(line).map_err(|reason| told(format!("line {}: {reason}", number + 1)))?);
            }
        }
        Ok(pairs)
    }
}

impl Manage {
    /// What is asked.
    pub(super) fn question(self) -> Result<Question, Failure> {
        Ok(match self {
            Self::List { project: AnyProject { project }, show_settings, json: Json { json } } => {
                Question::shown(Request::ListChannels { project, show_settings }, json)
            }
            Self::Rename { which: Which { channel, project: AnyProject { project } }, name } => {
                Request::SetChannel { project, channel, name: Some(name), settings: None, keep: false }.into()
            }
            Self::Set { which: Which { channel, project: AnyProject { project } }, settings, keep } => {
                Request::SetChannel { project, channel, name: None, settings: Some(settings.pairs()?), keep }.into()
            }
            Self::Test { which, event: up, json: Json { json }, outbound } => {
                Question { sending: Some(outbound.sending()?), ..Question::shown(which.ask(OfChannel::Test { up }), json) }
            }
            Self::Enable { which } => which.ask(OfChannel::Enable).into(),
            Self::Disable { which } => which.ask(OfChannel::Disable).into(),
            Self::Assign { which, checks, json: Json { json } } => Question::shown(which.ask(OfChannel::Assign(checks.into())), json),
            Self::Unassign { which, checks, json: Json { json } } => Question::shown(which.ask(OfChannel::Unassign(checks.into())), json),
            Self::Delete { which: Which { channel, project: AnyProject { project } }, yes: Yes { yes } } => {
                let deletes = (!yes).then(|| format!("the channel {channel:?}"));
                Question { deletes, ..Request::DeleteChannel { project, channel }.into() }
            }
        })
    }
}

impl Create {
    /// Makes the channel and prints its UUID, then assigns checks and sends a test. What is said of these goes to standard error, so that
    /// whoever reads the UUID finds it alone.
    pub(super) fn run(self, data: &Path) -> Result<(), Failure> {
        let Self { project: OneProject { project }, kind, name, settings, assign, test, json: Json { json }, outbound } = self;
        let channels = Request::ListChannels { project: project.clone(), show_settings: false };
        let settings = ChannelSettings::parse(kind, settings.pairs()?).map_err(Failure::usage)?;
        // Flags that are wrong are told before anything is made.
        let sending = test.then(|| outbound.sending()).transpose()?;
        let warnings = settings.warnings();
        let (kind, called) = (kind.name, name.as_str().to_owned());
        let Reply::Made(uuid) = reply(data, Request::CreateChannel { project, name, settings }, None)? else { return Ok(()) };
        table::made(&uuid.to_string(), &serde_json::json!({ "uuid": uuid }), json).map_err(Failure::unwritten)?;
        warn(&warnings);
        // The channel is made, whether or not it and the others can be listed.
        if let Ok(Reply::Channels(rows)) = reply(data, channels, None) {
            // Only a server that runs knows its flags.
            if let Some(row) = rows.iter().find(|row| row.uuid == uuid && row.status == CANNOT_DELIVER) {
                let _ = writeln!(io::stderr(), "it cannot deliver yet: {}", table::clean(row.last_error.as_deref().unwrap_or_default()));
            }
            warn(twins(&rows, uuid, kind, &called).as_slice());
        }
        let ask = |what| Request::OfChannel { project: None, channel: uuid.to_string(), what };
        if let Some(chosen) = assign
            && let Reply::Assigned(count) = reply(data, ask(OfChannel::Assign(chosen)), None)?
        {
            let _ = writeln!(io::stderr(), "{}", assigned(count));
        }
        if test {
            match reply(data, ask(OfChannel::Test { up: false }), sending)? {
                Reply::Tested(row) => _ = writeln!(io::stderr(), "{}", delivered(&row)?),
                Reply::TestedGroup(rows) => {
                    let _ = writeln!(io::stderr(), "{}", delivered_to_members(&rows).join("\n"));
                    reached(&rows)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns a warning if the project of a new channel has another one of this kind and name.
fn twins(rows: &[ChannelRow], new: Uuid, kind: &str, name: &str) -> Option<String> {
    let project = &rows.iter().find(|row| row.uuid == new)?.project;
    let is_twin = |row: &&ChannelRow| row.uuid != new && row.project == *project && row.kind == kind && row.name == name;
    let twins: Vec<_> = rows.iter().filter(is_twin).map(|row| row.uuid.to_string()).collect();
    (!twins.is_empty()).then(|| {
        format!(
            "the project {project:?} has another {kind} channel named {name:?} already ({}); if that is the same receiver, delete one with `channel delete UUID`",
            twins.join(", ")
        )
    })
}

/// Writes warnings to standard error.
pub(super) fn warn(warnings: &[String]) {
    for warning in warnings {
        // Nobody reads it.
        let _ = writeln!(io::stderr(), "overdue: {}", table::clean(warning));
    }
}

/// How many checks were assigned or unassigned, in words.
pub(super) fn assigned(count: usize) -> String {
    format!("{count} {} changed", if count == 1 { "check" } else { "checks" })
}

/// The result of a test that somebody got, in words; else a failure.
fn delivered(row: &TestRow) -> Result<String, Failure> {
    let text = test_words(row);
    if row.delivered { Ok(text) } else { Err(Failure::other(text)) }
}

/// The result of a test in words.
fn test_words(row: &TestRow) -> String {
    match (row.delivered, &row.error) {
        (false, error) => format!("not delivered: {}", error.as_deref().unwrap_or_default()),
        // By some of its recipients, which this says.
        (true, Some(missed)) => missed.clone(),
        (true, None) => {
            let status = row.status.map(|status| format!(" ({status})")).unwrap_or_default();
            format!("delivered in {} ms{status}", row.millis)
        }
    }
}

/// The results of the tests of a group: a line for each of its channels.
fn delivered_to_members(rows: &[MemberTestRow]) -> Vec<String> {
    rows.iter().map(|row| table::clean(&format!("{}: {}", row.name, test_words(&row.test)))).collect()
}

/// A failure if no channel of a group took its test.
fn reached(rows: &[MemberTestRow]) -> Result<(), Failure> {
    let is_reached = rows.iter().any(|row| row.test.delivered);
    if is_reached { Ok(()) } else { Err(Failure::other("not delivered: no channel of the group took it")) }
}

/// Shows the results of the tests of a group.
pub(super) fn tested_group(rows: &[MemberTestRow], json: bool) -> Result<(), Failure> {
    let lines = if json { vec![serde_json::to_string(rows).map_err(Failure::other)?] } else { delivered_to_members(rows) };
    table::lines(&lines).map_err(Failure::unwritten)?;
    reached(rows)
}

/// Shows what has come of a test.
pub(super) fn tested(row: &TestRow, json: bool) -> Result<(), Failure> {
    let text = delivered(row);
    if json || text.is_ok() {
        table::made(text.as_deref().unwrap_or_default(), row, json).map_err(Failure::unwritten)?;
    }
    text.map(drop)
}

/// The headings of the table.
pub(super) const HEADINGS: [&str; 8] = ["UUID", "PROJECT", "KIND", "NAME", "STATUS", "WAITING", "LAST ERROR", "SETTINGS"];

/// The status of a channel that lacks something.
const CANNOT_DELIVER: &str = "cannot deliver";

/// A row of it.
pub(super) fn cells(row: &ChannelRow) -> [String; 8] {
    let settings = row.settings.iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join(" ");
    let error = row.last_error.clone().unwrap_or_default();
    let (status, error) = match (row.status.as_str(), &row.since) {
        (status @ (CANNOT_DELIVER | "test failed"), _) => (format!("{status}: {error}"), String::new()),
        (status, Some(since)) => (format!("{status} since {since}"), error),
        (status, None) => (status.into(), error),
    };
    let refused = |what: fn(&RefusedRow) -> &str| row.refused.iter().map(what).collect::<Vec<_>>().join(", ");
    let status = if row.refused.is_empty() { status } else { format!("{status}; not taken for {}", refused(|row| &row.recipient)) };
    let error = if error.is_empty() { refused(|row| &row.error) } else { error };
    let status = if row.unsubscribed.is_empty() { status } else { format!("{status}; unsubscribed: {}", row.unsubscribed.join(", ")) };
    let (project, kind, name) = (row.project.clone(), row.kind.clone(), row.name.clone());
    [row.uuid.to_string(), project, kind, name, status, row.waiting.to_string(), error, settings]
}
