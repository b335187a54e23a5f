//! `overdue project`: the flags of its subcommands.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args, Subcommand};

use super::shared::{ANY_U32, Json, confirm, number};
use super::{Failure, Question};
use crate::admin::import::ImportRequest;
use crate::admin::{CheckLimit, ProjectRow, Reply, Request};
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, ProjectName};

#[derive(Subcommand)]
pub(super) enum ProjectCommand {
    /// Make a project and print its UUID
    Create {
        /// Its name, which no other project has
        #[arg(value_parser = ProjectName::parse)]
        name: ProjectName,

        #[command(flatten)]
        limits: Limits,

        #[command(flatten)]
        json: Json,
    },
    /// List the projects
    List {
        #[command(flatten)]
        json: Json,
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

        /// Do not ask; needed where nobody can be asked
        #[arg(long, env = "OVERDUE_YES", value_parser = FalseyValueParser::new())]
        yes: bool,
    },
    /// End the trial of a project that was imported: from now on it tells. What is down and was not told where it came from is told
    Release {
        /// Its name or UUID
        project: String,
    },
    /// Change the limits of a project
    #[command(group = ArgGroup::new("limits").args(["check_limit", "ping_log_limit"]).required(true).multiple(true))]
    Set {
        /// Its name or UUID
        project: String,

        #[command(flatten)]
        limits: Limits,
    },
}

#[derive(Args)]
pub(super) struct Limits {
    /// Checks that it may have, or none for no limit [new projects: none]
    #[arg(long, env = "OVERDUE_CHECK_LIMIT", value_name = "N|none", value_parser = CheckLimit::parse, allow_negative_numbers = true)]
    check_limit: Option<CheckLimit>,

    /// Pings of each check that are kept [new projects: 100]
    #[arg(long, env = "OVERDUE_PING_LOG_LIMIT", value_name = "N", value_parser = number::<u32>(ANY_U32), allow_negative_numbers = true)]
    ping_log_limit: Option<u32>,
}

impl From<ProjectCommand> for Question {
    fn from(command: ProjectCommand) -> Self {
        match command {
            ProjectCommand::Create { name, limits: Limits { check_limit, ping_log_limit }, json: Json { json } } => {
                let check_limit = check_limit.unwrap_or(CheckLimit::None);
                let ping_log_limit = ping_log_limit.unwrap_or(DEFAULT_PING_LOG_LIMIT);
                Self::shown(Request::CreateProject { name, check_limit, ping_log_limit }, json)
            }
            ProjectCommand::List { json: Json { json } } => Self::shown(Request::ListProjects {}, json),
            ProjectCommand::Rename { project, name } => {
                Request::SetProject { project, name: Some(name), check_limit: None, ping_log_limit: None }.into()
            }
            ProjectCommand::Delete { project, yes: _ } => Request::DeleteProject { project }.into(),
            ProjectCommand::Release { project } => Request::Import(ImportRequest::Release { project }).into(),
            ProjectCommand::Set { project, limits: Limits { check_limit, ping_log_limit } } => {
                Request::SetProject { project, name: None, check_limit, ping_log_limit }.into()
            }
        }
    }
}

impl ProjectCommand {
    /// Whether a database is going to be made in this directory.
    pub(super) fn makes_database(&self, data: &Path) -> bool {
        matches!(self, Self::Create { .. }) && !super::data::has_database(data)
    }

    /// Before a project is deleted somebody says yes: on the terminal, or with `--yes`. `ask` asks the admin door.
    pub(super) fn confirm(&self, ask: impl FnOnce(Request) -> Result<Reply, Failure>) -> Result<(), Failure> {
        let Self::Delete { project, yes: false } = self else { return Ok(()) };
        let Reply::Projects(rows) = ask(Request::ListProjects {})? else { return Ok(()) };
        let found = rows.iter().find(|row| row.name == *project).or_else(|| rows.iter().find(|row| row.uuid.to_string() == *project));
        // The door says that there is none.
        let Some(ProjectRow { name, checks, .. }) = found else { return Ok(()) };
        let what = format!("the project {name:?} with its {checks} checks and all keys and channels");
        if !io::stdin().is_terminal() {
            return Err(Failure::usage(format!("this deletes {what}: if that is meant, add --yes")));
        }
        confirm(&what, io::stdin().lock(), io::stderr())
    }
}

/// What a table of projects shows.
pub(super) const HEADINGS: [&str; 6] = ["UUID", "NAME", "CHECKS", "CHECK LIMIT", "PING LOG LIMIT", "TRIAL"];

/// A row of the table.
pub(super) fn cells(row: &ProjectRow) -> [String; 6] {
    let limit = row.check_limit.map_or("none".into(), |limit| limit.to_string());
    [
        row.uuid.to_string(),
        row.name.clone(),
        row.checks.to_string(),
        limit,
        row.ping_log_limit.to_string(),
        if row.trial { "yes" } else { "" }.into(),
    ]
}
