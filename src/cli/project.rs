//! `overdue project`: the flags of its subcommands.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use clap::builder::{BoolishValueParser, FalseyValueParser};
use clap::{ArgGroup, Args, Subcommand};

use super::common_args::{ANY_U32, JsonFlag, confirm_deletion, number_parser};
use super::{CliError, send, table};
use crate::admin::projects::{
    CheckLimit, CreateProject, DeleteProject, ListProjects, ProjectRow, ReleaseProject,
    UpdateProject,
};
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, ProjectName};

#[derive(Subcommand)]
pub(super) enum ProjectCommand {
    /// Create a project and print its UUID
    Create {
        /// Name of the project; it must be unique
        #[arg(value_parser = ProjectName::parse)]
        name: ProjectName,

        #[command(flatten)]
        limits: ProjectLimitsArgs,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// List the projects
    List {
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Rename a project
    Rename {
        /// Name or UUID of the project
        project: String,

        /// New name
        #[arg(value_parser = ProjectName::parse)]
        name: ProjectName,
    },
    /// Delete a project with its checks, keys and channels
    Delete {
        /// Name or UUID of the project
        project: String,

        /// Do not ask for confirmation; required if the command does not run on a terminal
        #[arg(long, env = "OVERDUE_YES", value_parser = FalseyValueParser::new())]
        yes: bool,
    },
    /// End the trial of an imported project: alerts are sent from now on, also for checks that are
    /// down and that the old server had not reported
    Release {
        /// Name or UUID of the project
        project: String,
    },
    /// Change the limits of a project, or the permission for settings in pings
    #[command(
        group = ArgGroup::new("limits")
            .args(["check_limit", "ping_log_limit", "ping_settings"])
            .required(true)
            .multiple(true)
    )]
    Set {
        /// Name or UUID of the project
        project: String,

        #[command(flatten)]
        limits: ProjectLimitsArgs,

        /// Let a ping that creates a check give its settings in the URL, as in
        /// ?create=1&grace=15m: yes or no [new projects: no]
        #[arg(
            long,
            env = "OVERDUE_PING_SETTINGS",
            value_name = "yes|no",
            value_parser = BoolishValueParser::new(),
            hide_possible_values = true
        )]
        ping_settings: Option<bool>,
    },
}

#[derive(Args)]
pub(super) struct ProjectLimitsArgs {
    /// Maximum number of checks, or none for no limit [new projects: none]
    #[arg(
        long,
        env = "OVERDUE_CHECK_LIMIT",
        value_name = "N|none",
        value_parser = CheckLimit::parse,
        allow_negative_numbers = true
    )]
    check_limit: Option<CheckLimit>,

    /// Number of pings to keep for each check [new projects: 100]
    #[arg(
        long,
        env = "OVERDUE_PING_LOG_LIMIT",
        value_name = "N",
        value_parser = number_parser::<u32>(ANY_U32),
        allow_negative_numbers = true
    )]
    ping_log_limit: Option<u32>,
}

impl ProjectCommand {
    /// True if a database would be created in this directory.
    pub(super) fn creates_database(&self, data: &Path) -> bool {
        matches!(self, Self::Create { .. }) && !super::data_directory::has_database(data)
    }

    pub(super) fn run(self, data: &Path) -> Result<(), CliError> {
        match self {
            Self::Create {
                name,
                limits,
                json: JsonFlag { json },
            } => {
                let request = CreateProject {
                    name,
                    check_limit: limits.check_limit.unwrap_or_default(),
                    ping_log_limit: limits.ping_log_limit.unwrap_or(DEFAULT_PING_LOG_LIMIT),
                };
                let created = send(data, request)?;
                table::print_uuid(&created, json).map_err(CliError::output_failed)
            }
            Self::List {
                json: JsonFlag { json },
            } => {
                let rows = send(data, ListProjects {})?;
                table::print_list(&rows, json, &HEADINGS, cells).map_err(CliError::output_failed)
            }
            Self::Rename { project, name } => {
                let request = UpdateProject {
                    project,
                    name: Some(name),
                    check_limit: None,
                    ping_log_limit: None,
                    ping_settings: None,
                };
                send(data, request)
            }
            Self::Delete { project, yes } => {
                if !yes {
                    confirm_project_deletion(data, &project)?;
                }
                send(data, DeleteProject { project })
            }
            Self::Release { project } => send(data, ReleaseProject { project }),
            Self::Set {
                project,
                limits,
                ping_settings,
            } => {
                let request = UpdateProject {
                    project,
                    name: None,
                    check_limit: limits.check_limit,
                    ping_log_limit: limits.ping_log_limit,
                    ping_settings,
                };
                send(data, request)
            }
        }
    }
}

/// Requires a confirmation on the terminal before a project is deleted.
fn confirm_project_deletion(data: &Path, project: &str) -> Result<(), CliError> {
    let rows = send(data, ListProjects {})?;
    let row = rows
        .iter()
        .find(|row| row.name == project)
        .or_else(|| rows.iter().find(|row| row.uuid.to_string() == project));
    // The deletion itself reports that there is no such project.
    let Some(ProjectRow { name, checks, .. }) = row else {
        return Ok(());
    };
    let what = format!("the project {name:?} with its {checks} checks and all keys and channels");
    if !io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "this deletes {what}; add --yes to confirm"
        )));
    }
    confirm_deletion(&what, io::stdin().lock(), io::stderr())
}

/// Headings of the table of projects.
const HEADINGS: [&str; 6] = [
    "UUID",
    "NAME",
    "CHECKS",
    "CHECK LIMIT",
    "PING LOG LIMIT",
    "TRIAL",
];

/// Returns a row of the table.
fn cells(row: &ProjectRow) -> [String; 6] {
    let limit = row
        .check_limit
        .map_or("none".into(), |limit| limit.to_string());
    [
        row.uuid.to_string(),
        row.name.clone(),
        row.checks.to_string(),
        limit,
        row.ping_log_limit.to_string(),
        if row.trial { "yes" } else { "" }.into(),
    ]
}
