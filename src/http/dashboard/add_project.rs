//! Page that creates a project.

use askama::Template;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, KeyAccess, KeyLabel, ProjectName};
use crate::operations::{self, OperationError};

#[derive(Template)]
#[template(path = "add_project.html", config = "src/http/dashboard/askama.toml")]
struct AddProjectPage<'a> {
    layout: Layout,
    page_url: String,
    name: &'a str,
    name_error: Option<String>,
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, "", None).into())
}

fn render_page(request: &PageRequest, name: &str, name_error: Option<String>) -> HtmlPage {
    let is_refused = name_error.is_some();
    let html = HtmlPage::from_template(&AddProjectPage {
        layout: request.layout("New project"),
        page_url: request.page_url(&Page::AddProject()),
        name,
        name_error,
    });
    if is_refused {
        html.with_invalid_form()
    } else {
        html
    }
}

/// Creates the project, with a ping key.
pub(super) async fn post(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let text = form.get("name").trim();
    let name = match ProjectName::parse(text) {
        Ok(name) => name,
        Err(reason) => return Ok(render_page(request, text, Some(reason.into())).into()),
    };
    let project =
        match operations::project::create(request.handle(), name, None, DEFAULT_PING_LOG_LIMIT)
            .await
        {
            Err(error @ OperationError::ProjectNameTaken) => {
                return Ok(render_page(request, text, Some(error.to_string())).into());
            }
            result => result?,
        };
    operations::key::create(
        request.handle(),
        project.id,
        KeyAccess::Ping,
        KeyLabel::default(),
    )
    .await?;
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        project = text,
        "created a project"
    );
    Ok(PageResponse::Redirect(Page::Checks(project.uuid), None))
}
