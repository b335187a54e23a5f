//! `overdue check`: the flags of its subcommands, and the output of checks, pings and flips.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, FromArgMatches, Subcommand};
use serde::de::DeserializeOwned;

use super::common_args::{
    JsonFlag, ProjectFilter, TargetProject, YesFlag, confirm_deletion_on_terminal,
};
use super::window::parse_minutes;
use super::{CliError, send, table};
use crate::admin::AdminRequest;
use crate::admin::checks::{
    AlertingRow, CheckRow, CreateCheck, DeleteCheck, FlipRow, ListChecks, ListFlips, ListPings,
    PauseCheck, PingRow, ResumeCheck, ShowAlerting, ShowCheck, UpdateAlerting, UpdateCheck,
};
use crate::domain::check::CheckSettings;
use crate::domain::check_edit::field_value::{CheckFieldType, CheckFieldValue};
use crate::domain::check_edit::fields::{self, CheckField};
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::number::FailureThreshold;
use crate::domain::status::VisibleStatus;

#[derive(Subcommand)]
pub(super) enum CheckCommand {
    /// List the checks
    List {
        #[command(flatten)]
        project: ProjectFilter,

        /// Tag that a check must have; may be given several times, with commas in the variable
        #[arg(long, env = "OVERDUE_TAG", value_delimiter = ',')]
        tag: Vec<String>,

        /// Status that a check must have; may be given several times, with commas in the variable
        /// [default: any]
        #[arg(
            long,
            env = "OVERDUE_STATUS",
            value_delimiter = ',',
            value_parser = PossibleValuesParser::new(
                VisibleStatus::BY_URGENCY.map(VisibleStatus::name)
            )
        )]
        status: Vec<String>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Show all fields of a check
    Show {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Create a check and print its UUID. On a terminal and with --json its ping URL is printed,
    /// too
    Create {
        #[command(flatten)]
        project: TargetProject,

        /// Update the existing check with the same values in these fields, if there is one; may be
        /// given several times, with commas in the variable
        #[arg(
            long,
            env = "OVERDUE_UNIQUE",
            value_name = "FIELD",
            value_delimiter = ',',
            value_parser = unique_parser()
        )]
        unique: Vec<UniqueField>,

        #[command(flatten)]
        fields: Box<CheckFieldsArgs>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Change the given fields of a check
    #[command(arg_required_else_help = true)]
    Set {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        fields: Box<CheckFieldsArgs>,
    },
    /// Stop monitoring a check until it is pinged or resumed, or for a time
    Pause {
        #[command(flatten)]
        which: CheckSelector,

        /// Duration of the pause, as in 90m, 2h or 1d. Then the check has its former status, and
        /// expected pings count from then on [default: no end]
        #[arg(long = "for", env = "OVERDUE_FOR", value_name = "TIME", value_parser = parse_minutes)]
        minutes: Option<u64>,

        /// End of the pause, such as 2026-11-20T10:00:00+00:00
        #[arg(
            long,
            env = "OVERDUE_UNTIL",
            value_name = "TIME",
            conflicts_with = "minutes"
        )]
        until: Option<String>,
    },
    /// Resume a paused check; monitoring begins with its next ping
    Resume {
        #[command(flatten)]
        which: CheckSelector,
    },
    /// Show or change when a check alerts
    Alerting {
        #[command(flatten)]
        which: CheckSelector,

        /// Alert only after this number of consecutive failures; the status and the pages show the
        /// first failure at once [new checks: 1]
        #[arg(
            long,
            env = "OVERDUE_AFTER",
            value_name = "N",
            value_parser = parse_failures,
            allow_negative_numbers = true
        )]
        after: Option<FailureThreshold>,

        /// Check that this check depends on, such as that of a router. While the parent is down and
        /// has alerted, missing pings of this check cause no alert; may be given several times,
        /// with commas in the variable; '' for none
        #[arg(
            long,
            env = "OVERDUE_PARENT",
            value_name = "CHECK",
            value_delimiter = ','
        )]
        parent: Option<Vec<String>>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Delete a check and its logs
    Delete {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        yes: YesFlag,
    },
    /// List the pings of a check, newest first
    Pings {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// List the status changes of a check, newest first
    Flips {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        json: JsonFlag,
    },
}

#[derive(Args)]
pub(super) struct CheckSelector {
    /// UUID of the check, or its slug or name if no other check has the same
    check: String,

    #[command(flatten)]
    project: ProjectFilter,
}

/// Flags for the fields of a check.
pub(super) struct CheckFieldsArgs(CheckEdit);

impl Args for CheckFieldsArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(fields::FLAG_FIELDS.map(field_flag))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CheckFieldsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut fields = Self(CheckEdit::default());
        fields.update_from_arg_matches(matches)?;
        Ok(fields)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for field in fields::FLAG_FIELDS {
            if let Some(value) = matches.get_one::<CheckFieldValue<'static>>(field.name) {
                set_field(&mut self.0, field, value)
                    .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))?;
            }
        }
        Ok(())
    }
}

fn set_field(
    edit: &mut CheckEdit,
    field: &CheckField,
    value: &CheckFieldValue<'_>,
) -> Result<(), String> {
    field
        .set(edit, value, Some(&CheckSettings::default()))
        .map_err(|error| error.explanation)
}

/// Returns the flag of a field.
fn field_flag(field: &'static CheckField) -> Arg {
    let flag = Arg::new(field.name)
        .long(field.name.replace('_', "-"))
        .env(format!("OVERDUE_{}", field.name.to_uppercase()))
        .value_name(field.value_name)
        .help(field.flag_help);
    let parse = move |text: &str| {
        let value = field
            .field_type
            .parse_text(text)
            .map_err(|error| error.explanation)?;
        set_field(&mut CheckEdit::default(), field, &value).map(|()| value)
    };
    match field.field_type {
        CheckFieldType::Flag => flag
            .value_parser(BoolishValueParser::new().map(CheckFieldValue::Flag))
            .hide_possible_values(true),
        CheckFieldType::Choice { words, empty_word } => {
            flag.value_parser(choice_parser(words, empty_word))
        }
        CheckFieldType::Duration { .. } => flag.value_parser(parse).allow_negative_numbers(true),
        _ => flag.value_parser(parse),
    }
}

/// Returns a parser of words. `empty_word` stands for the empty one.
fn choice_parser(
    words: &'static [&'static str],
    empty_word: &'static str,
) -> impl TypedValueParser<Value = CheckFieldValue<'static>> {
    let shown = words
        .iter()
        .map(move |word| if word.is_empty() { empty_word } else { word });
    PossibleValuesParser::new(shown.collect::<Vec<_>>()).map(move |word| {
        let is_empty = word == empty_word;
        if is_empty { "".into() } else { word.into() }
    })
}

fn unique_parser() -> impl TypedValueParser<Value = UniqueField> {
    PossibleValuesParser::new(UniqueField::ALL.map(UniqueField::name))
        .try_map(|word| UniqueField::parse(&word).ok_or("no such field"))
}

fn parse_failures(text: &str) -> Result<FailureThreshold, &'static str> {
    FailureThreshold::parse(text.parse().unwrap_or(0))
}

impl CheckCommand {
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let printed = match self {
            Self::List {
                project: ProjectFilter { project },
                tag,
                status,
                json: JsonFlag { json },
            } => {
                let request = ListChecks {
                    project,
                    tag,
                    status,
                };
                let rows = sort_by_urgency(send(data, request)?.into_rows(), json);
                table::print_list(&rows, json, &HEADINGS, cells)
            }
            Self::Show { which, json } => {
                let row = which.send(data, |project, check| ShowCheck { project, check })?;
                table::print_record(&row, json.json)
            }
            Self::Create {
                project: TargetProject { project },
                unique,
                fields,
                json: JsonFlag { json },
            } => {
                let request = CreateCheck {
                    project,
                    edit: Box::new(fields.0),
                    unique,
                };
                let created = send(data, request)?;
                if !json && io::stderr().is_terminal() {
                    // Standard output has the UUID alone, for scripts.
                    let url = table::sanitize(&created.ping_url);
                    let _ = writeln!(io::stderr(), "ping URL: {url}");
                }
                table::print_created(&created.uuid.to_string(), &created, json)
            }
            Self::Set { which, fields } => return which.update(data, *fields),
            Self::Pause {
                which,
                minutes,
                until,
            } => {
                return which.send(data, |project, check| PauseCheck {
                    project,
                    check,
                    until,
                    minutes,
                });
            }
            Self::Resume { which } => {
                return which.send(data, |project, check| ResumeCheck { project, check });
            }
            Self::Alerting {
                which,
                after,
                parent,
                json: JsonFlag { json },
            } => print_alerting(which.alerting(data, after, parent)?, json),
            Self::Delete { which, yes } => {
                if !yes.yes {
                    let target = format!("the check {:?} with its logs", which.check);
                    confirm_deletion_on_terminal(&target)?;
                }
                return which.send(data, |project, check| DeleteCheck { project, check });
            }
            Self::Pings { which, json } => {
                let rows = which.send(data, |project, check| ListPings { project, check })?;
                table::print_list(&rows, json.json, &PING_HEADINGS, ping_cells)
            }
            Self::Flips { which, json } => {
                let rows = which.send(data, |project, check| ListFlips { project, check })?;
                table::print_list(&rows, json.json, &FLIP_HEADINGS, flip_cells)
            }
        };
        printed.map_err(CliError::output_failed)
    }
}

impl CheckSelector {
    /// Sends a request about the check. `request`: makes it from the project and the check.
    fn send<R>(
        self,
        data: &Path,
        request: impl FnOnce(Option<String>, String) -> R,
    ) -> Result<R::Output, CliError>
    where
        R: AdminRequest<Output: DeserializeOwned>,
    {
        send(data, request(self.project.project, self.check))
    }

    /// Changes the settings.
    fn update(self, data: &Path, fields: CheckFieldsArgs) -> Result<(), CliError> {
        self.send(data, |project, check| UpdateCheck {
            project,
            check,
            edit: Box::new(fields.0),
        })
    }

    /// Returns the alert settings, after a change if any is given.
    fn alerting(
        self,
        data: &Path,
        after: Option<FailureThreshold>,
        parents: Option<Vec<String>>,
    ) -> Result<AlertingRow, CliError> {
        if after.is_none() && parents.is_none() {
            return self.send(data, |project, check| ShowAlerting { project, check });
        }
        let parents = parents.map(|mut parents| {
            parents.retain(|parent| !parent.is_empty());
            parents
        });
        self.send(data, |project, check| UpdateAlerting {
            project,
            check,
            after,
            parents,
        })
    }
}

fn print_alerting(row: AlertingRow, json: bool) -> io::Result<()> {
    let row = if json { row } else { row.with_labels() };
    table::print_record(&row, json)
}

/// Returns the checks in the order of the output: in a table the most urgent first, for programs
/// oldest first.
fn sort_by_urgency(mut rows: Vec<CheckRow>, json: bool) -> Vec<CheckRow> {
    if !json {
        rows.sort_by_key(|row| {
            VisibleStatus::BY_URGENCY
                .iter()
                .position(|status| status.name() == row.status)
        });
    }
    rows
}

/// Headings of the table of checks.
const HEADINGS: [&str; 8] = [
    "UUID",
    "PROJECT",
    "NAME",
    "SLUG",
    "TAGS",
    "STATUS",
    "LAST PING",
    "NEXT PING",
];

/// Returns a row of that table.
fn cells(row: &CheckRow) -> [String; 8] {
    let last = row.last_ping.clone().unwrap_or_default();
    let next = row.next_ping.clone().unwrap_or_default();
    let [project, name, slug, tags, status] =
        [&row.project, &row.name, &row.slug, &row.tags, &row.status].map(Clone::clone);
    [
        row.uuid.to_string(),
        project,
        name,
        slug,
        tags,
        status,
        last,
        next,
    ]
}

/// Headings of the table of pings.
const PING_HEADINGS: [&str; 9] = [
    "N",
    "DATE",
    "TYPE",
    "EXIT",
    "DURATION",
    "METHOD",
    "FROM",
    "USER AGENT",
    "BODY BYTES",
];

/// Returns a row of that table.
fn ping_cells(row: &PingRow) -> [String; 9] {
    fn shown(value: Option<impl ToString>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let method = if row.method.is_empty() {
        &row.scheme
    } else {
        &row.method
    };
    let duration = row.duration.map(|seconds| format!("{seconds:.2}"));
    let body = row.body_bytes.to_string();
    let from = shown(row.remote_addr);
    [
        row.n.to_string(),
        row.date.clone(),
        row.kind.clone(),
        shown(row.exit),
        shown(duration),
        method.clone(),
        from,
        row.ua.clone(),
        body,
    ]
}

/// Headings of the table of flips.
const FLIP_HEADINGS: [&str; 3] = ["TIMESTAMP", "FROM", "TO"];

/// Returns a row of that table.
fn flip_cells(row: &FlipRow) -> [String; 3] {
    [row.timestamp.clone(), row.from.clone(), row.to.clone()]
}
