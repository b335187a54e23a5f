//! `overdue window` and `overdue mute`: the flags of maintenance windows, and how they are shown.

use std::path::Path;

use clap::{ArgGroup, Args, Subcommand};

use super::channel::warn;
use super::shared::{AnyProject, Json, OneProject};
use super::{Failure, Question};
use crate::admin::check;
use crate::admin::window::WindowRow;
use crate::admin::{Reply, Request};
use crate::domain::channel::seconds_of;
use crate::domain::text::{Name, Tags};
use crate::domain::window::{GivenTimes, Window};

#[derive(Subcommand)]
pub(super) enum WindowCommand {
    /// Make a maintenance window and print its UUID. Who goes down in it is told when it closes, if still down
    #[command(group = ArgGroup::new("begin").args(["at", "from"]).required(true), group = ArgGroup::new("end").args(["to", "minutes"]).required(true))]
    Create {
        #[command(flatten)]
        project: OneProject,

        /// Its name, which alerts mention
        #[arg(value_parser = check::name)]
        name: Name,

        #[command(flatten)]
        about: About,

        /// When it opens, again and again: a cron expression of five fields, or an OnCalendar expression of systemd
        #[arg(long, env = "OVERDUE_AT", value_name = "EXPR", conflicts_with = "to")]
        at: Option<String>,

        /// Time zone of --at, such as Europe/Riga [default: UTC]
        #[arg(long, env = "OVERDUE_TZ", value_name = "ZONE", requires = "at")]
        tz: Option<String>,

        /// When it opens, once: 2026-11-20T10:00:00+00:00
        #[arg(long, env = "OVERDUE_FROM", value_name = "TIME")]
        from: Option<String>,

        /// When it closes
        #[arg(long, env = "OVERDUE_TO", value_name = "TIME")]
        to: Option<String>,

        /// For how long it is open: 90m, 2h or 1d
        #[arg(long = "for", env = "OVERDUE_FOR", value_name = "TIME", value_parser = minutes)]
        minutes: Option<u64>,

        #[command(flatten)]
        json: Json,
    },
    /// List the maintenance windows
    List {
        #[command(flatten)]
        project: AnyProject,

        #[command(flatten)]
        json: Json,
    },
    /// Delete a maintenance window. What it held back is told
    Delete {
        /// Its UUID; or its name, if no other one has it
        window: String,

        #[command(flatten)]
        project: AnyProject,
    },
}

#[derive(Args)]
pub(super) struct About {
    /// Tag that a check must have to be meant; may be given several times, with commas in the variable [default: all checks]
    #[arg(long, env = "OVERDUE_TAG", value_delimiter = ',')]
    tag: Vec<String>,
}

impl About {
    fn tags(&self) -> Tags {
        Tags::stored(&self.tag.join(" "))
    }
}

#[derive(Args)]
pub(super) struct MuteArgs {
    /// For how long: 10m, 2h or 1d
    #[arg(value_parser = minutes, value_name = "TIME")]
    minutes: u64,

    #[command(flatten)]
    project: OneProject,

    #[command(flatten)]
    about: About,

    #[command(flatten)]
    json: Json,
}

fn minutes(text: &str) -> Result<u64, String> {
    let most = Window::MOST_MINUTES_ONCE.cast_signed() * 60;
    Ok(seconds_of(text, 60, most)?.unsigned_abs() / 60)
}

impl From<WindowCommand> for Question {
    fn from(command: WindowCommand) -> Self {
        match command {
            WindowCommand::Create { project: OneProject { project }, name, about, at, tz, from, to, minutes, json: Json { json } } => {
                let times = GivenTimes { from, to, schedule: at, minutes, tz };
                Self::shown(Request::CreateWindow { project, name, tags: about.tags(), times }, json)
            }
            WindowCommand::List { project: AnyProject { project }, json: Json { json } } => {
                Self::shown(Request::ListWindows { project }, json)
            }
            WindowCommand::Delete { window, project: AnyProject { project } } => Request::DeleteWindow { project, window }.into(),
        }
    }
}

impl From<MuteArgs> for Question {
    fn from(MuteArgs { minutes, project: OneProject { project }, about, json: Json { json } }: MuteArgs) -> Self {
        let times = GivenTimes { minutes: Some(minutes), ..GivenTimes::default() };
        let name = Name::parse("mute").unwrap_or_default();
        Self::shown(Request::CreateWindow { project, name, tags: about.tags(), times }, json)
    }
}

/// Asks, and warns of a new window whose tags no check has. It is made all the same: checks may get them before it opens.
pub(super) fn ask(data: &Path, question: Question) -> Result<(), Failure> {
    let listed = match &question.request {
        Request::CreateWindow { project, tags, .. } if tags.iter().next().is_some() => Some((project.clone(), tags.clone())),
        _ => None,
    };
    super::ask(data, question)?;
    let Some((project, tags)) = listed else { return Ok(()) };
    let checks = Request::ListChecks { project, tags: tags.iter().map(str::to_owned).collect(), statuses: None };
    // The window is there, whether this is answered or not.
    if let Ok(Reply::Checks(rows)) = super::reply(data, checks, None)
        && rows.is_empty()
    {
        warn(&[no_check(&tags)]);
    }
    Ok(())
}

/// The warning that no check has all of these tags.
fn no_check(tags: &Tags) -> String {
    let names = tags.iter().map(|tag| format!("{tag:?}")).collect::<Vec<_>>();
    match names.as_slice() {
        [name] => format!("no check has the tag {name}, so the window is about none yet"),
        _ => format!("no check has all of the tags {}, so the window is about none yet", names.join(", ")),
    }
}

/// The headings of the table.
pub(super) const HEADINGS: [&str; 6] = ["UUID", "PROJECT", "NAME", "TAGS", "OPEN", "NOW"];

/// A row of it.
pub(super) fn cells(row: &WindowRow) -> [String; 6] {
    let open = match (&row.schedule, row.minutes) {
        (Some(schedule), Some(minutes)) => format!("{schedule} ({}), {minutes} min", row.tz.as_deref().unwrap_or_default()),
        _ => [&row.from, &row.to].map(|at| at.clone().unwrap_or_default()).join(" to "),
    };
    let now = row.until.as_ref().map_or_else(String::new, |until| format!("open until {until}"));
    [row.uuid.to_string(), row.project.clone(), row.name.clone(), row.tags.clone(), open, now]
}
