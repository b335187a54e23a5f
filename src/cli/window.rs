//! `overdue window` and `overdue mute`: the flags of maintenance windows, and their output.

use std::path::Path;

use clap::{ArgGroup, Args, Subcommand};

use super::channel::print_warnings;
use super::common_args::{JsonFlag, ProjectFilter, TargetProject};
use super::{CliError, send, table};
use crate::admin::checks::ListChecks;
use crate::admin::windows::{CreateWindow, DeleteWindow, ListWindows, WindowRow};
use crate::domain::channel::parse_duration;
use crate::domain::check_input;
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimesInput};
use crate::domain::text::{Name, Tags};

#[derive(Subcommand)]
pub(super) enum WindowCommand {
    /// Create a maintenance window and print its UUID. A check that goes down in the window alerts
    /// when the window closes, if the check is still down
    #[command(
        group = ArgGroup::new("begin").args(["at", "from"]).required(true),
        group = ArgGroup::new("end").args(["to", "minutes"]).required(true)
    )]
    Create {
        #[command(flatten)]
        project: TargetProject,

        /// Name of the window, which alerts mention
        #[arg(value_parser = check_input::parse_name)]
        name: Name,

        #[command(flatten)]
        tags: WindowTagArgs,

        /// Schedule of a recurring window: a cron expression of five fields, or an OnCalendar
        /// expression of systemd
        #[arg(long, env = "OVERDUE_AT", value_name = "EXPR", conflicts_with = "to")]
        at: Option<String>,

        /// Time zone of --at, such as Europe/Riga [default: UTC]
        #[arg(long, env = "OVERDUE_TZ", value_name = "ZONE", requires = "at")]
        tz: Option<String>,

        /// Start of a single window, such as 2026-11-20T10:00:00+00:00
        #[arg(long, env = "OVERDUE_FROM", value_name = "TIME")]
        from: Option<String>,

        /// End of a single window
        #[arg(long, env = "OVERDUE_TO", value_name = "TIME")]
        to: Option<String>,

        /// Duration of the window, as in 90m, 2h or 1d
        #[arg(long = "for", env = "OVERDUE_FOR", value_name = "TIME", value_parser = parse_minutes)]
        minutes: Option<u64>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// List the maintenance windows
    List {
        #[command(flatten)]
        project: ProjectFilter,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Delete a maintenance window. Checks that went down in it and are still down alert then
    Delete {
        /// UUID of the window, or its name if no other window has the same
        window: String,

        #[command(flatten)]
        project: ProjectFilter,
    },
}

#[derive(Args)]
pub(super) struct WindowTagArgs {
    /// Tag of the checks to silence; may be given several times for checks with all of the tags,
    /// with commas in the variable [default: all checks]
    #[arg(long, env = "OVERDUE_TAG", value_delimiter = ',')]
    tag: Vec<String>,
}

impl WindowTagArgs {
    fn to_tags(&self) -> Tags {
        Tags::from_stored(&self.tag.join(" "))
    }
}

#[derive(Args)]
pub(super) struct MuteArgs {
    /// Duration, as in 10m, 2h or 1d
    #[arg(value_parser = parse_minutes, value_name = "TIME")]
    minutes: u64,

    #[command(flatten)]
    project: TargetProject,

    #[command(flatten)]
    tags: WindowTagArgs,

    #[command(flatten)]
    json: JsonFlag,
}

/// Parses a duration of a window or a pause into minutes.
pub(super) fn parse_minutes(text: &str) -> Result<u64, String> {
    let max_secs = MaintenanceWindow::MAX_MINUTES.cast_signed() * 60;
    Ok(parse_duration(text, 60, max_secs)?.unsigned_abs() / 60)
}

impl WindowCommand {
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        match self {
            Self::Create {
                project: TargetProject { project },
                name,
                tags,
                at,
                tz,
                from,
                to,
                minutes,
                json,
            } => {
                let times = WindowTimesInput {
                    from,
                    to,
                    schedule: at,
                    minutes,
                    tz,
                };
                let request = CreateWindow {
                    project,
                    name,
                    tags: tags.to_tags(),
                    times,
                };
                create(data, request, &json)
            }
            Self::List {
                project: ProjectFilter { project },
                json: JsonFlag { json },
            } => {
                let rows = send(data, ListWindows { project })?;
                table::print_list(&rows, json, &HEADINGS, cells).map_err(CliError::output_failed)
            }
            Self::Delete {
                window,
                project: ProjectFilter { project },
            } => send(data, DeleteWindow { project, window }),
        }
    }
}

impl MuteArgs {
    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        let request = CreateWindow {
            project: self.project.project,
            name: Name::parse(MaintenanceWindow::MUTE_NAME).unwrap_or_default(),
            tags: self.tags.to_tags(),
            times: WindowTimesInput {
                minutes: Some(self.minutes),
                ..WindowTimesInput::default()
            },
        };
        create(data, request, &self.json)
    }
}

/// Creates a window, and warns if no check has its tags. The window is created all the same: checks
/// may get the tags before it opens.
fn create(data: &Path, request: CreateWindow, json: &JsonFlag) -> Result<(), CliError> {
    let project = request.project.clone();
    let tags = request.tags.clone();
    let created = send(data, request)?;
    table::print_uuid(&created, json.json).map_err(CliError::output_failed)?;
    if tags.iter().next().is_none() {
        return Ok(());
    }
    let checks = ListChecks {
        project,
        tag: tags.iter().map(str::to_owned).collect(),
        status: Vec::new(),
    };
    // The window exists, even if this request fails.
    if send(data, checks).is_ok_and(|checks| checks.into_rows().is_empty()) {
        print_warnings(&[no_check_warning(&tags)]);
    }
    Ok(())
}

/// Returns the warning that no check has all of these tags.
fn no_check_warning(tags: &Tags) -> String {
    let names = tags
        .iter()
        .map(|tag| format!("{tag:?}"))
        .collect::<Vec<_>>();
    match names.as_slice() {
        [name] => {
            format!("no check has the tag {name}, so the window does not apply to any check yet")
        }
        _ => format!(
            "no check has all of the tags {}, so the window does not apply to any check yet",
            names.join(", ")
        ),
    }
}

/// Headings of the table.
const HEADINGS: [&str; 6] = ["UUID", "PROJECT", "NAME", "TAGS", "OPEN", "NOW"];

/// Returns a row of the table.
fn cells(row: &WindowRow) -> [String; 6] {
    let open = match (&row.schedule, row.minutes) {
        (Some(schedule), Some(minutes)) => format!(
            "{schedule} ({}), {minutes} min",
            row.tz.as_deref().unwrap_or_default()
        ),
        _ => [&row.from, &row.to]
            .map(|at| at.clone().unwrap_or_default())
            .join(" to "),
    };
    let now = row
        .until
        .as_ref()
        .map_or_else(String::new, |until| format!("open until {until}"));
    [
        row.uuid.to_string(),
        row.project.clone(),
        row.name.clone(),
        row.tags.clone(),
        open,
        now,
    ]
}
