//! Projects.

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::context::AdminContext;
use super::error::AdminError;
use super::field_format;
use super::reply::CreatedObject;
use super::request::AdminRequest;
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, ProjectName};
use crate::operations;
use crate::operations::project::{self, ProjectChanges};

/// Maximum number of checks in a project.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(try_from = "CheckLimitInput", into = "CheckLimitInput")]
pub enum CheckLimit {
    /// No limit.
    #[default]
    None,
    /// This maximum.
    At(u32),
}

/// A [`CheckLimit`] in JSON: a number, or a word that [`CheckLimit::parse`] takes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CheckLimitInput {
    Number(u32),
    Word(String),
}

impl TryFrom<CheckLimitInput> for CheckLimit {
    type Error = &'static str;

    fn try_from(input: CheckLimitInput) -> Result<Self, &'static str> {
        match input {
            CheckLimitInput::Number(limit) => Ok(Self::At(limit)),
            CheckLimitInput::Word(word) => Self::parse(&word),
        }
    }
}

impl From<CheckLimit> for CheckLimitInput {
    fn from(limit: CheckLimit) -> Self {
        match limit {
            CheckLimit::None => Self::Word("none".into()),
            CheckLimit::At(limit) => Self::Number(limit),
        }
    }
}

impl CheckLimit {
    /// Parses a number or `none`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "none" => Ok(Self::None),
            number => number
                .parse()
                .map(Self::At)
                .map_err(|_| "give a number of checks, or none for no limit"),
        }
    }

    /// Returns the limit, `None` for no limit.
    fn get(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::At(limit) => Some(limit),
        }
    }
}

/// A project in a list.
#[derive(Serialize, Deserialize)]
#[allow(missing_docs, reason = "see `domain::project::Project`")]
pub struct ProjectRow {
    pub uuid: Uuid,
    pub name: String,
    /// Number of checks in the project.
    pub checks: usize,
    pub check_limit: Option<u32>,
    pub ping_log_limit: u32,
    #[serde(default)]
    pub ping_settings: bool,
    /// True if it is on trial: no alerts are sent.
    #[serde(default)]
    pub trial: bool,
}

/// Lists all projects, oldest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListProjects {}

impl AdminRequest for ListProjects {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/projects";
    type Output = Vec<ProjectRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<ProjectRow>, AdminError> {
        let rows = project::list(context.handle())
            .into_iter()
            .map(|(project, checks)| ProjectRow {
                uuid: project.uuid,
                name: project.name.as_str().into(),
                checks,
                check_limit: project.check_limit,
                ping_log_limit: project.ping_log_limit,
                ping_settings: project.allows_ping_settings,
                trial: project.is_on_trial(),
            });
        Ok(rows.collect())
    }
}

/// Creates a project.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateProject {
    /// Name of the project.
    #[serde(with = "field_format::project_name")]
    pub name: ProjectName,
    /// Maximum number of its checks.
    #[serde(default)]
    pub check_limit: CheckLimit,
    /// Number of pings that are kept of each check.
    #[serde(default = "default_ping_log_limit")]
    pub ping_log_limit: u32,
}

fn default_ping_log_limit() -> u32 {
    DEFAULT_PING_LOG_LIMIT
}

impl AdminRequest for CreateProject {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/projects";
    type Output = CreatedObject;

    fn creates_database(&self) -> bool {
        true
    }

    async fn run(self, context: &AdminContext) -> Result<CreatedObject, AdminError> {
        let limit = self.check_limit.get();
        let project =
            project::create(context.handle(), self.name, limit, self.ping_log_limit).await?;
        Ok(CreatedObject { uuid: project.uuid })
    }
}

/// Changes a project; `None` leaves a field as it is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateProject {
    /// Name or UUID of the project.
    pub project: String,
    /// New name.
    #[serde(default, with = "field_format::optional_project_name")]
    pub name: Option<ProjectName>,
    /// Maximum number of its checks.
    pub check_limit: Option<CheckLimit>,
    /// Number of pings that are kept of each check.
    pub ping_log_limit: Option<u32>,
    /// True to let pings give the settings of checks that they create.
    pub ping_settings: Option<bool>,
}

impl AdminRequest for UpdateProject {
    const METHOD: Method = Method::PATCH;
    const PATH: &'static str = "/projects/{project}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let changes = ProjectChanges {
            name: self.name,
            check_limit: self.check_limit.map(CheckLimit::get),
            ping_log_limit: self.ping_log_limit,
            allows_ping_settings: self.ping_settings,
        };
        let project = context.project(&self.project)?;
        Ok(project::update(context.handle(), project, changes).await?)
    }
}

/// Deletes a project with all that belongs to it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteProject {
    /// Name or UUID of the project.
    pub project: String,
}

impl AdminRequest for DeleteProject {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/projects/{project}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let project = context.project(&self.project)?;
        Ok(project::delete(context.handle(), project).await?)
    }
}

/// Ends the trial of an imported project.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseProject {
    /// Name or UUID of the project.
    pub project: String,
}

impl AdminRequest for ReleaseProject {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/projects/{project}/release";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let project = context.project(&self.project)?;
        Ok(operations::import::end_trial(context.handle(), project).await?)
    }
}
