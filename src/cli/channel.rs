//! `overdue channel`: the flags of its subcommands.

mod assign;
mod kinds;
mod test_result;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::{FalseyValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Subcommand};
use uuid::Uuid;

use super::common_args::{JsonFlag, ProjectFilter, TargetProject, YesFlag, read_limited};
use super::outbound_flags::OutboundFlags;
use super::{AdminCall, CliError};
use super::{send_request, table};
use crate::admin::channel::{ChannelAction, ChannelRow, CheckSelectionRow, RefusedRow};
use crate::admin::{AdminReply, AdminRequest};
use crate::channels;
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::project::ChannelName;
use assign::AssignedChecksArgs;
use kinds::KindsArgs;
use test_result::{member_test_lines, require_delivery, test_message};
pub(super) use test_result::{print_group_test_results, print_test_result};

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
    assign: Option<CheckSelectionRow>,

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

impl ChannelSelector {
    fn request(self, what: ChannelAction) -> AdminRequest {
        AdminRequest::OfChannel {
            project: self.project.project,
            channel: self.channel,
            what,
        }
    }
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
    /// Returns the request.
    pub(super) fn into_call(self) -> Result<AdminCall, CliError> {
        Ok(match self {
            Self::List {
                project: ProjectFilter { project },
                show_settings,
                json: JsonFlag { json },
            } => AdminCall::new(
                AdminRequest::ListChannels {
                    project,
                    show_settings,
                },
                json,
            ),
            Self::Rename {
                which:
                    ChannelSelector {
                        channel,
                        project: ProjectFilter { project },
                    },
                name,
            } => AdminRequest::SetChannel {
                project,
                channel,
                name: Some(name),
                settings: None,
                keep: false,
            }
            .into(),
            Self::Set {
                which:
                    ChannelSelector {
                        channel,
                        project: ProjectFilter { project },
                    },
                settings,
                keep,
            } => AdminRequest::SetChannel {
                project,
                channel,
                name: None,
                settings: Some(settings.into_pairs()?),
                keep,
            }
            .into(),
            Self::Test {
                which,
                event: up,
                json: JsonFlag { json },
                outbound,
            } => AdminCall {
                notifier_config: Some(outbound.notifier_config()?),
                ..AdminCall::new(which.request(ChannelAction::Test { up }), json)
            },
            Self::Enable { which } => which.request(ChannelAction::Enable).into(),
            Self::Disable { which } => which.request(ChannelAction::Disable).into(),
            Self::Assign {
                which,
                checks,
                json: JsonFlag { json },
            } => AdminCall::new(which.request(ChannelAction::Assign(checks.into())), json),
            Self::Unassign {
                which,
                checks,
                json: JsonFlag { json },
            } => AdminCall::new(which.request(ChannelAction::Unassign(checks.into())), json),
            Self::Delete {
                which:
                    ChannelSelector {
                        channel,
                        project: ProjectFilter { project },
                    },
                yes: YesFlag { yes },
            } => {
                let deletion_target = (!yes).then(|| format!("the channel {channel:?}"));
                AdminCall {
                    deletion_target,
                    ..AdminRequest::DeleteChannel { project, channel }.into()
                }
            }
        })
    }
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
        let channels = AdminRequest::ListChannels {
            project: project.clone(),
            show_settings: false,
        };
        let settings =
            ChannelSettings::parse(kind, settings.into_pairs()?).map_err(CliError::usage)?;
        // Invalid flags are reported before anything is created.
        let notifier_config = test.then(|| outbound.notifier_config()).transpose()?;
        let warnings = settings.warnings();
        let kind = kind.name;
        let channel_name = name.as_str().to_owned();
        let AdminReply::Made(uuid) = send_request(
            data,
            AdminRequest::CreateChannel {
                project,
                name,
                settings,
            },
            None,
        )?
        else {
            return Ok(());
        };
        table::print_created(
            &uuid.to_string(),
            &serde_json::json!({ "uuid": uuid }),
            json,
        )
        .map_err(CliError::output_failed)?;
        print_warnings(&warnings);
        // The channel exists, even if the channels cannot be listed.
        if let Ok(AdminReply::Channels(rows)) = send_request(data, channels, None) {
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
        let ask = |what| AdminRequest::OfChannel {
            project: None,
            channel: uuid.to_string(),
            what,
        };
        if let Some(selection) = assign
            && let AdminReply::Assigned(count) =
                send_request(data, ask(ChannelAction::Assign(selection)), None)?
        {
            let _ = writeln!(io::stderr(), "{}", assignment_message(count));
        }
        if test {
            match send_request(
                data,
                ask(ChannelAction::Test { up: false }),
                notifier_config,
            )? {
                AdminReply::ChannelTestResults(row) => {
                    _ = writeln!(io::stderr(), "{}", test_message(&row)?)
                }
                AdminReply::TestedGroup(rows) => {
                    let _ = writeln!(io::stderr(), "{}", member_test_lines(&rows).join("\n"));
                    require_delivery(&rows)?;
                }
                _ => {}
            }
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
pub(super) fn assignment_message(count: usize) -> String {
    format!(
        "{count} {} changed",
        if count == 1 { "check" } else { "checks" }
    )
}

/// Headings of the table.
pub(super) const HEADINGS: [&str; 8] = [
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
pub(super) fn cells(row: &ChannelRow) -> [String; 8] {
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
