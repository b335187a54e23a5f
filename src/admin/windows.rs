//! Maintenance windows.

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::context::AdminContext;
use super::error::AdminError;
use super::reply::CreatedObject;
use super::request::AdminRequest;
use super::{field_format, format_timestamp};
use crate::domain::maintenance_window::{WindowTimes, WindowTimesInput};
use crate::domain::text::{Name, Tags};
use crate::operations::window;

/// A maintenance window in a list.
#[derive(Serialize, Deserialize)]
pub struct WindowRow {
    /// UUID, which `window delete` takes.
    pub uuid: Uuid,
    /// Name of its project.
    pub project: String,
    /// Name of the window.
    pub name: String,
    /// Tags that a check must have.
    pub tags: String,
    /// Start of a window that does not recur, RFC 3339.
    pub from: Option<String>,
    /// End of a window that does not recur, RFC 3339.
    pub to: Option<String>,
    /// Schedule of a window that recurs.
    pub schedule: Option<String>,
    /// Duration of a window that recurs, in minutes.
    pub minutes: Option<u32>,
    /// Time zone of the schedule.
    pub tz: Option<String>,
    /// Time until which it is open now, RFC 3339.
    pub until: Option<String>,
}

/// [`WindowTimesInput`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "WindowTimesInput", deny_unknown_fields)]
struct Times {
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    schedule: Option<String>,
    #[serde(default)]
    minutes: Option<u64>,
    #[serde(default)]
    tz: Option<String>,
}

/// Lists the maintenance windows of a project or of all, oldest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWindows {
    /// Project to list; `None` for all.
    pub project: Option<String>,
}

impl AdminRequest for ListWindows {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/windows";
    type Output = Vec<WindowRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<WindowRow>, AdminError> {
        let handle = context.handle();
        let project = context.project_filter(self.project.as_deref())?;
        let now = handle.now();
        let rows = window::list(handle, project)
            .into_iter()
            .map(|(project, window)| {
                let (once, recurring) = match &window.times {
                    WindowTimes::Once { from, to } => (Some((*from, *to)), None),
                    WindowTimes::Recurring {
                        schedule,
                        tz,
                        minutes,
                    } => (None, Some((schedule, tz, *minutes))),
                };
                WindowRow {
                    uuid: window.uuid,
                    project: project.name.as_str().into(),
                    name: window.name.as_str().into(),
                    tags: window.tags.as_str().into(),
                    from: once.map(|(from, _)| format_timestamp(from)),
                    to: once.map(|(_, to)| format_timestamp(to)),
                    schedule: recurring.map(|(schedule, ..)| schedule.text().into()),
                    minutes: recurring.map(|(.., minutes)| minutes),
                    tz: recurring.map(|(_, tz, _)| tz.name().into()),
                    until: window.open_until(now).map(format_timestamp),
                }
            });
        Ok(rows.collect())
    }
}

/// Creates a maintenance window.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateWindow {
    /// Project of the window; `None` if there is only one project.
    pub project: Option<String>,
    /// Name of the window.
    #[serde(with = "field_format::name")]
    pub name: Name,
    /// Tags that a check must have.
    #[serde(default, with = "field_format::tags")]
    pub tags: Tags,
    /// Times at which it is open.
    #[serde(with = "Times")]
    pub times: WindowTimesInput,
}

impl AdminRequest for CreateWindow {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/windows";
    type Output = CreatedObject;

    async fn run(self, context: &AdminContext) -> Result<CreatedObject, AdminError> {
        let project = context.target_project(self.project.as_deref())?;
        let window =
            window::create(context.handle(), project, self.name, self.tags, self.times).await?;
        Ok(CreatedObject { uuid: window.uuid })
    }
}

/// Deletes a maintenance window.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteWindow {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the window, or its name if only one has it.
    pub window: String,
}

impl AdminRequest for DeleteWindow {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/windows/{window}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let project = context.project_filter(self.project.as_deref())?;
        let window = window::find(context.handle(), project, &self.window)?;
        Ok(window::delete(context.handle(), &window).await?)
    }
}
