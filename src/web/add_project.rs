//! Making a project.

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::route::Page;
use super::visit::Visit;
use crate::domain::project::{Access, DEFAULT_PING_LOG_LIMIT, KeyLabel, ProjectName};
use crate::manage::{self, ManageError};

#[derive(Template)]
#[template(path = "add_project.html", config = "src/web/askama.toml")]
struct AddProject<'a> {
    frame: Frame,
    own: String,
    name: &'a str,
    is_wrong: Option<String>,
}

/// The form.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, "", None).into())
}

fn page(visit: &Visit, name: &str, is_wrong: Option<String>) -> Html {
    let is_refused = is_wrong.is_some();
    let html = Html::of(&AddProject { frame: visit.frame("New project"), own: visit.link(&Page::AddProject()), name, is_wrong });
    if is_refused { html.refused() } else { html }
}

/// Makes the project, with a ping key.
pub(super) async fn post(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let text = typed.get("name").trim();
    let name = match ProjectName::parse(text) {
        Ok(name) => name,
        Err(reason) => return Ok(page(visit, text, Some(reason.into())).into()),
    };
    let project = match manage::project::create(visit.handle(), name, None, DEFAULT_PING_LOG_LIMIT).await {
        Err(error @ ManageError::ProjectNameTaken) => return Ok(page(visit, text, Some(error.to_string())).into()),
        made => made?,
    };
    manage::key::create(visit.handle(), project.id, Access::Ping, KeyLabel::default()).await?;
    tracing::info!(user = visit.user_name(), address = %visit.came.client.addr, project = text, "made a project");
    Ok(Done::Go(Page::Checks(project.uuid), None))
}
