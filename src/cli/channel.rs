//! `overdue channel`: the flags of its subcommands.

mod assign;
mod kinds;
mod test_result;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::{FalseyValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Subcommand};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::common_args::{
    JsonFlag, ProjectFilter, TargetProject, YesFlag, confirm_deletion_on_terminal, read_limited,
};
use super::outbound_flags::OutboundFlags;
use super::{CliError, send, send_with_tests, table};
use crate::admin::channels::{
    AssignChecks, AssignedChecks, ChannelRow, CreateChannel, DeleteChannel, DisableChannel,
    EnableChannel, ListChannels, RefusedRow, TestChannel, UnassignChecks, UpdateChannel,
};
use crate::admin::{AdminRequest, SettingPairs};
use crate::channels;
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::project::ChannelName;
use crate::operations::channel::CheckSelection;
use assign::AssignedChecksArgs;
use kinds::KindsArgs;
use test_result::{print_test_result, report_test_result};

/// Maximum bytes of a file of settings: see [limits](crate::docs::limits).
const MAX_SETTINGS_FILE_BYTES: u64 = 1 << 20;

#[derive(Subcommand)]
pub(super) enum ChannelCommand {
    /// Create a channel and print its UUID
    #[command(after_help = kinds::kinds_help() + "\n\n" + TEST_HELP)]
    Create(Box<CreateChannelArgs>),
    #[command(flatten)]
    Manage(ManageChannelCommand),
    /// List the kinds of channel and their settings
    Kinds(KindsArgs),
}

/// Explanation of the flags for alerts.
const TEST_HELP: &str = "A running server sends the test, with its own flags. If no server is \
                         running, this command sends it, with the flags for alerts above.";

/// Explanation of the value that keeps a secret.
const KEEP_SECRET_HELP: &str = "The value *** keeps the stored secret.";

/// Explanation of the exit status of a test.
const TEST_STATUS: &str = "The exit status is 0 if the test reached at least one recipient of a \
                           mail, or one channel of a group. Otherwise it is 1.";

/// The flags of `create`.
#[derive(Args)]
pub(super) struct CreateChannelArgs {
    #[command(flatten)]
    project: TargetProject,

    /// Kind of the channel
    #[arg(long, env = "OVERDUE_KIND", value_parser = kind_parser())]
    kind: &'static ChannelKind,

    /// Name of the channel; it need not be unique
    #[arg(long, env = "OVERDUE_NAME", value_parser = ChannelName::parse)]
    name: ChannelName,

    #[command(flatten)]
    settings: ChannelSettingsArgs,

    /// Checks to assign: all existing checks of the project, or tag:TAG for those with a tag
    #[arg(
        long,
        env = "OVERDUE_ASSIGN",
        value_name = "all|tag:TAG",
        value_parser = assign::parse_initial_checks
    )]
    assign: Option<CheckSelection>,

    /// Send a test to the channel
    #[arg(long, env = "OVERDUE_TEST", value_parser = FalseyValueParser::new())]
    test: bool,

    #[command(flatten)]
    json: JsonFlag,

    #[command(flatten)]
    outbound: OutboundFlags,
}

/// Subcommands that send one admin request.
#[derive(Subcommand)]
pub(super) enum ManageChannelCommand {
    /// List the channels with their status
    List {
        #[command(flatten)]
        project: ProjectFilter,

        /// Show settings, with *** in place of secrets
        #[arg(long, env = "OVERDUE_SHOW_SETTINGS", value_parser = FalseyValueParser::new())]
        show_settings: bool,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Rename a channel
    Rename {
        #[command(flatten)]
        which: ChannelSelector,

        /// New name
        #[arg(value_parser = ChannelName::parse)]
        name: ChannelName,
    },
    /// Replace the settings of a channel, or change some of them with --keep
    #[command(after_help = kinds::kinds_help() + "\n\n" + KEEP_SECRET_HELP)]
    Set {
        #[command(flatten)]
        which: ChannelSelector,

        #[command(flatten)]
        settings: ChannelSettingsArgs,

        /// Change only the given settings; the others stay
        #[arg(long, env = "OVERDUE_KEEP", value_parser = FalseyValueParser::new())]
        keep: bool,
    },
    /// Send a test to a channel, or to each channel of a group, and print the result. A delivered
    /// test enables the channel
    #[command(after_help = format!("{TEST_HELP}\n\n{TEST_STATUS}"))]
    Test {
        #[command(flatten)]
        which: ChannelSelector,

        /// Message to test: that of a check that is down, or up again
        #[arg(
            long,
            env = "OVERDUE_EVENT",
            default_value = "down",
            value_parser = event_parser(),
            action = ArgAction::Set
        )]
        event: bool,

        #[command(flatten)]
        json: JsonFlag,

        #[command(flatten)]
        outbound: Box<OutboundFlags>,
    },
    /// Enable a channel
    Enable {
        #[command(flatten)]
        which: ChannelSelector,
    },
    /// Disable a channel; its waiting alerts are skipped
    Disable {
        #[command(flatten)]
        which: ChannelSelector,
    },
    /// Assign checks to a channel, so that it is notified about them
    Assign {
        #[command(flatten)]
        which: ChannelSelector,

        #[command(flatten)]
        checks: AssignedChecksArgs,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Remove checks from a channel, so that it is no longer notified about them
    Unassign {
        #[command(flatten)]
        which: ChannelSelector,

        #[command(flatten)]
        checks: AssignedChecksArgs,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Delete a channel and remove it from its checks
    Delete {
        #[command(flatten)]
        which: ChannelSelector,

        #[command(flatten)]
        yes: YesFlag,
    },
}

#[derive(Args)]
pub(super) struct ChannelSelector {
    /// UUID of the channel, or its name if no other channel has the same
    channel: String,

    #[command(flatten)]
    project: ProjectFilter,
}

#[derive(Args)]
pub(super) struct ChannelSettingsArgs {
    /// Setting of the channel's kind; may be given several times, the variable holds one
    #[arg(
        long,
        env = "OVERDUE_SET",
        hide_env_values = true,
        value_name = "KEY=VALUE",
        value_parser = parse_setting
    )]
    set: Vec<(String, String)>,

    /// File with more settings, one on each line, to keep secrets out of the command line
    #[arg(long, env = "OVERDUE_SET_FILE", value_name = "FILE")]
    set_file: Option<PathBuf>,
}

fn kind_parser() -> impl clap::builder::TypedValueParser<Value = &'static ChannelKind> {
    let words =
        channels::all_kinds().map(|kind| PossibleValue::new(kind.name).aliases(kind.aliases));
    PossibleValuesParser::new(words)
        .try_map(|word| channels::find_kind(&word).ok_or("no such kind"))
}

/// Returns a parser of an event; `true` for a check that is up again.
fn event_parser() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["down", "up"]).map(|word| word == "up")
}

fn parse_setting(text: &str) -> Result<(String, String), &'static str> {
    text.split_once('=')
        .map(|(key, value)| (key.into(), value.into()))
        .ok_or("give a setting as KEY=VALUE")
}

impl ChannelSettingsArgs {
    fn into_pairs(self) -> Result<Vec<(String, String)>, CliError> {
        let mut pairs = self.set;
        if let Some(path) = self.set_file {
            let file_error = |reason: String| {
                CliError::usage(format!(
                    "cannot use the settings in {}: {reason}",
                    path.display()
                ))
            };
            let bytes = read_limited(&path, MAX_SETTINGS_FILE_BYTES)
                .map_err(|error| file_error(error.to_string()))?;
            let text = String::from_utf8(bytes).map_err(|error| file_error(error.to_string()))?;
            for (number, line) in text
                .lines()
                .enumerate()
                .filter(|(_, line)| !line.is_empty())
            {
                pairs.push(
                    parse_setting(line)
                        .map_err(|reason| file_error(format!("line {}: {reason}", number + 1)))?,
                );
            }
        }
        Ok(pairs)
    }
}

impl ManageChannelCommand {
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        match self {
            Self::List {
                project: ProjectFilter { project },
                show_settings,
                json: JsonFlag { json },
            } => {
                let request = ListChannels {
                    project,
                    show_settings,
                };
                table::print_list(&send(data, request)?, json, &HEADINGS, cells)
                    .map_err(CliError::output_failed)
            }
            Self::Rename { which, name } => which.update(data, Some(name), None, false),
            Self::Set {
                which,
                settings,
                keep,
            } => which.update(data, None, Some(settings.into_pairs()?), keep),
            Self::Test {
                which,
                event: up,
                json: JsonFlag { json },
                outbound,
            } => {
                let request = TestChannel {
                    project: which.project.project,
                    channel: which.channel,
                    up,
                };
                let result = send_with_tests(data, request, outbound.notifier_config()?)?;
                print_test_result(&result, json)
            }
            Self::Enable { which } => {
                which.send(data, |project, channel| EnableChannel { project, channel })
            }
            Self::Disable { which } => {
                which.send(data, |project, channel| DisableChannel { project, channel })
            }
            Self::Assign {
                which,
                checks,
                json,
            } => print_assignment(
                &which.send(data, |project, channel| AssignChecks {
                    project,
                    channel,
                    checks: checks.into(),
                })?,
                json.json,
            ),
            Self::Unassign {
                which,
                checks,
                json,
            } => print_assignment(
                &which.send(data, |project, channel| UnassignChecks {
                    project,
                    channel,
                    checks: checks.into(),
                })?,
                json.json,
            ),
            Self::Delete { which, yes } => which.delete(data, yes),
        }
    }
}

impl ChannelSelector {
    /// Sends a request about the channel. `request`: makes it from the project and the channel.
    fn send<R>(
        self,
        data: &Path,
        request: impl FnOnce(Option<String>, String) -> R,
    ) -> Result<R::Output, CliError>
    where
        R: AdminRequest<Output: DeserializeOwned>,
    {
        send(data, request(self.project.project, self.channel))
    }

    /// Changes the channel, and prints warnings.
    fn update(
        self,
        data: &Path,
        name: Option<ChannelName>,
        settings: Option<Vec<(String, String)>>,
        keep: bool,
    ) -> Result<(), CliError> {
        let updated = self.send(data, |project, channel| UpdateChannel {
            project,
            channel,
            name,
            settings: settings.map(SettingPairs),
            keep,
        })?;
        print_warnings(&updated.warnings);
        Ok(())
    }

    /// Deletes the channel, and prints warnings.
    fn delete(self, data: &Path, YesFlag { yes }: YesFlag) -> Result<(), CliError> {
        if !yes {
            confirm_deletion_on_terminal(&format!("the channel {:?}", self.channel))?;
        }
        let deleted = self.send(data, |project, channel| DeleteChannel { project, channel })?;
        print_warnings(&deleted.warnings);
        Ok(())
    }
}

fn print_assignment(assigned: &AssignedChecks, json: bool) -> Result<(), CliError> {
    table::print_created(&assignment_message(assigned.checks), assigned, json)
        .map_err(CliError::output_failed)
}

impl CreateChannelArgs {
    /// Creates the channel and prints its UUID, then assigns checks and sends a test. Messages
    /// about these go to standard error, so that standard output contains the UUID only.
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let Self {
            project: TargetProject { project },
            kind,
            name,
            settings,
            assign,
            test,
            json: JsonFlag { json },
            outbound,
        } = self;
        let channels = ListChannels {
            project: project.clone(),
            show_settings: false,
        };
        let pairs = settings.into_pairs()?;
        let settings = ChannelSettings::parse(kind, pairs.clone()).map_err(CliError::usage)?;
        // Invalid flags are reported before anything is created.
        let notifier_config = test.then(|| outbound.notifier_config()).transpose()?;
        let warnings = settings.warnings();
        let channel_name = name.as_str().to_owned();
        let request = CreateChannel {
            project,
            name,
            kind,
            settings: SettingPairs(pairs),
        };
        let kind = kind.name;
        let created = send(data, request)?;
        table::print_uuid(&created, json).map_err(CliError::output_failed)?;
        let uuid = created.uuid;
        print_warnings(&warnings);
        // The channel exists, even if the channels cannot be listed.
        if let Ok(rows) = send(data, channels) {
            // Only a running server knows its flags.
            if let Some(row) = rows
                .iter()
                .find(|row| row.uuid == uuid && row.status == CANNOT_DELIVER)
            {
                let _ = writeln!(
                    io::stderr(),
                    "the channel cannot deliver yet: {}",
                    table::sanitize(row.last_error.as_deref().unwrap_or_default())
                );
            }
            print_warnings(duplicate_warning(&rows, uuid, kind, &channel_name).as_slice());
        }
        let channel = uuid.to_string();
        if let Some(checks) = assign {
            let request = AssignChecks {
                project: None,
                channel: channel.clone(),
                checks,
            };
            let assigned = send(data, request)?;
            let _ = writeln!(io::stderr(), "{}", assignment_message(assigned.checks));
        }
        if let Some(config) = notifier_config {
            let request = TestChannel {
                project: None,
                channel,
                up: false,
            };
            let result = send_with_tests(data, request, config)?;
            report_test_result(&result)?;
        }
        Ok(())
    }
}

/// Returns a warning if the project of a new channel has another one of this kind and name.
fn duplicate_warning(rows: &[ChannelRow], new: Uuid, kind: &str, name: &str) -> Option<String> {
    let project = &rows.iter().find(|row| row.uuid == new)?.project;
    let is_twin = |row: &&ChannelRow| {
        row.uuid != new && row.project == *project && row.kind == kind && row.name == name
    };
    let twins: Vec<_> = rows
        .iter()
        .filter(is_twin)
        .map(|row| row.uuid.to_string())
        .collect();
    (!twins.is_empty()).then(|| {
        format!(
            "the project {project:?} already has a channel of kind {kind} named {name:?} ({}); if \
             both have the same receiver, delete one with `channel delete UUID`",
            twins.join(", ")
        )
    })
}

/// Writes warnings to standard error.
pub(super) fn print_warnings(warnings: &[String]) {
    for warning in warnings {
        // Standard error is closed.
        let _ = writeln!(io::stderr(), "overdue: {}", table::sanitize(warning));
    }
}

/// Returns the message for this number of assigned or unassigned checks.
fn assignment_message(count: usize) -> String {
    format!(
        "{count} {} changed",
        if count == 1 { "check" } else { "checks" }
    )
}

/// Headings of the table.
const HEADINGS: [&str; 8] = [
    "UUID",
    "PROJECT",
    "KIND",
    "NAME",
    "STATUS",
    "WAITING",
    "LAST ERROR",
    "SETTINGS",
];

/// Status of a channel that lacks something.
const CANNOT_DELIVER: &str = "cannot deliver";

/// Returns a row of the table.
fn cells(row: &ChannelRow) -> [String; 8] {
    let settings = row
        .settings
        .iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect::<Vec<_>>()
        .join(" ");
    let error = row.last_error.clone().unwrap_or_default();
    let (status, error) = match (row.status.as_str(), &row.since) {
        (status @ (CANNOT_DELIVER | "test failed"), _) => {
            (format!("{status}: {error}"), String::new())
        }
        (status, Some(since)) => (format!("{status} since {since}"), error),
        (status, None) => (status.into(), error),
    };
    let refused =
        |what: fn(&RefusedRow) -> &str| row.refused.iter().map(what).collect::<Vec<_>>().join(", ");
    let status = if row.refused.is_empty() {
        status
    } else {
        format!("{status}; not taken for {}", refused(|row| &row.recipient))
    };
    let error = if error.is_empty() {
        refused(|row| &row.error)
    } else {
        error
    };
    let status = if row.unsubscribed.is_empty() {
        status
    } else {
        format!("{status}; unsubscribed: {}", row.unsubscribed.join(", "))
    };
    let project = row.project.clone();
    let kind = row.kind.clone();
    let name = row.name.clone();
    [
        row.uuid.to_string(),
        project,
        kind,
        name,
        status,
        row.waiting.to_string(),
        error,
        settings,
    ]
}
