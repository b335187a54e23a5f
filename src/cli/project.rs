//! `overdue project`: the flags of its subcommands.

use clap::{ArgGroup, Subcommand};

use super::Question;
use crate::admin::{CheckLimit, ProjectRow, Request};
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, ProjectName};

#[derive(Subcommand)]
pub(super) enum ProjectCommand {
    /// Make a project and print its UUID
    Create {
        /// Its name, which no other project has
        #[arg(value_parser = ProjectName::parse)]
        name: ProjectName,

        /// Checks that it may have, or none for no limit
        #[arg(long, env = "OVERDUE_CHECK_LIMIT", value_name = "N|none", default_value = "none", value_parser = CheckLimit::parse, allow_negative_numbers = true)]
        check_limit: CheckLimit,

        /// Pings of each check that are kept
        #[arg(long, env = "OVERDUE_PING_LOG_LIMIT", value_name = "N", default_value_t = DEFAULT_PING_LOG_LIMIT)]
        ping_log_limit: u32,
    },
    /// List the projects
    List {
        /// Print JSON
        #[arg(long, env = "OVERDUE_JSON")]
        json: bool,
    },
    /// Give a project another name
    Rename {
        /// Its name or UUID
        project: String,

        /// Its new name
        #[arg(value_parser = ProjectName::parse)]
        name: ProjectName,
    },
    /// Delete a project with its checks, keys and channels
    Delete {
        /// Its name or UUID
        project: String,
    },
    /// Change the limits of a project
    #[command(group = ArgGroup::new("limits").args(["check_limit", "ping_log_limit"]).required(true).multiple(true))]
    Set {
        /// Its name or UUID
        project: String,

        /// Checks that it may have, or none for no limit
        #[arg(long, env = "OVERDUE_CHECK_LIMIT", value_name = "N|none", value_parser = CheckLimit::parse, allow_negative_numbers = true)]
        check_limit: Option<CheckLimit>,

        /// Pings of each check that are kept
        #[arg(long, env = "OVERDUE_PING_LOG_LIMIT", value_name = "N")]
        ping_log_limit: Option<u32>,
    },
}

impl From<ProjectCommand> for Question {
    fn from(command: ProjectCommand) -> Self {
        match command {
            ProjectCommand::Create { name, check_limit, ping_log_limit } => {
                Request::CreateProject { name, check_limit, ping_log_limit }.into()
            }
            ProjectCommand::List { json } => Self { request: Request::ListProjects {}, json },
            ProjectCommand::Rename { project, name } => {
                Request::SetProject { project, name: Some(name), check_limit: None, ping_log_limit: None }.into()
            }
            ProjectCommand::Delete { project } => Request::DeleteProject { project }.into(),
            ProjectCommand::Set { project, check_limit, ping_log_limit } => {
                Request::SetProject { project, name: None, check_limit, ping_log_limit }.into()
            }
        }
    }
}

/// A row of the table.
pub(super) fn cells(row: &ProjectRow) -> [String; 5] {
    let limit = row.check_limit.map_or("none".into(), |limit| limit.to_string());
    [row.uuid.to_string(), row.name.clone(), row.checks.to_string(), limit, row.ping_log_limit.to_string()]
}
