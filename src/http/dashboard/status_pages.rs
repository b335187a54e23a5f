//! Pages on which the public status pages of a project are created, changed and deleted.

use askama::Template;
use uuid::Uuid;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use crate::domain::formatting::format_count;
use crate::domain::status_page::{StatusPage, StatusPageError};
use crate::engine::command::CommandError;
use crate::operations::status_page::StatusPageInput;
use crate::operations::{OperationError, status_page};

#[derive(Template)]
#[template(path = "status_pages.html", config = "src/http/dashboard/askama.toml")]
struct StatusPageList {
    layout: Layout,
    rows: Vec<StatusPageListItem>,
    form: StatusPageForm,
}

#[derive(Template)]
#[template(path = "status_page.html", config = "src/http/dashboard/askama.toml")]
struct StatusPageSettings {
    layout: Layout,
    row: StatusPageListItem,
    list: String,
    form: StatusPageForm,
}

/// A status page in the list.
struct StatusPageListItem {
    title: String,
    /// Its public URL.
    url: String,
    /// URL at its domain.
    domain_url: Option<String>,
    /// Checks that it shows, in words.
    checks: String,
    edit: String,
    delete: String,
}

/// Form with the settings of a page.
struct StatusPageForm {
    action: String,
    /// Start of the URLs of status pages.
    prefix: String,
    input: StatusPageInput,
    /// Field with an error, and the error.
    error: Option<(&'static str, String)>,
    /// True if the viewer may set a domain.
    may_set_domain: bool,
    submit: &'static str,
}

impl StatusPageForm {
    /// Error at a field.
    fn error_at(&self, field: &str) -> Option<&str> {
        let (at, reason) = self.error.as_ref()?;
        (*at == field).then_some(reason.as_str())
    }
}

/// Renders the list.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_list(request, StatusPageInput::default(), None)?.into())
}

/// Renders the form of a page.
pub(super) fn show_edit(request: &PageRequest, uuid: Uuid) -> Result<PageResponse, PageError> {
    let input = StatusPageInput::from_page(find_page(request, uuid)?);
    Ok(render_settings(request, uuid, input, None)?.into())
}

/// Creates a page.
pub(super) async fn create(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let input = read_input(request, form, None);
    let uuid = request.handle().random().uuid();
    match save(request, &input, uuid).await? {
        Ok(()) => Ok(PageResponse::Redirect(
            Page::StatusPages(project.uuid),
            FlashMessage::from_code("status-page-made"),
        )),
        Err(error) => Ok(render_list(request, input, Some(error))?.into()),
    }
}

/// Changes a page.
pub(super) async fn update(
    request: &PageRequest,
    uuid: Uuid,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let input = read_input(request, form, Some(find_page(request, uuid)?));
    match save(request, &input, uuid).await? {
        Ok(()) => Ok(PageResponse::Redirect(
            Page::StatusPages(project.uuid),
            FlashMessage::from_code("saved"),
        )),
        Err(error) => Ok(render_settings(request, uuid, input, Some(error))?.into()),
    }
}

/// Deletes a page.
pub(super) async fn delete(request: &PageRequest, uuid: Uuid) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    status_page::delete(request.handle(), project.id, uuid).await?;
    Ok(PageResponse::Redirect(
        Page::StatusPages(project.uuid),
        FlashMessage::from_code("status-page-deleted"),
    ))
}

/// Reads the form. Only owners set the domain, because it answers for the whole host.
fn read_input(
    request: &PageRequest,
    form: &FormData,
    existing: Option<&StatusPage>,
) -> StatusPageInput {
    let text = |name: &str| form.get(name).trim().to_owned();
    let domain = if request.is_allowed(RequiredRight::Owner) {
        text("domain")
    } else {
        existing.map_or_else(String::new, |page| StatusPageInput::from_page(page).domain)
    };
    StatusPageInput {
        title: text("title"),
        tags: text("tags"),
        address: text("address"),
        domain,
    }
}

/// Saves a page. The inner result is the field with an error.
async fn save(
    request: &PageRequest,
    input: &StatusPageInput,
    uuid: Uuid,
) -> Result<Result<(), (&'static str, String)>, PageError> {
    let page = match input.parse(request.handle(), uuid) {
        Ok(page) => page,
        Err(error) => return Ok(Err(error)),
    };
    let saved = status_page::put(request.handle(), request.project()?.id, page).await;
    match saved {
        Err(OperationError::Command(CommandError::StatusPage(error))) => {
            let field = match error {
                StatusPageError::TooMany => "title",
                StatusPageError::AddressTaken => "address",
                StatusPageError::DomainTaken => "domain",
            };
            Ok(Err((field, error.to_string())))
        }
        saved => Ok(Ok(saved.map(drop)?)),
    }
}

fn find_page(request: &PageRequest, uuid: Uuid) -> Result<&StatusPage, PageError> {
    let pages = &request.project()?.status_pages;
    pages
        .iter()
        .find(|page| page.uuid == uuid)
        .ok_or_else(PageError::not_found)
}

fn render_list(
    request: &PageRequest,
    input: StatusPageInput,
    error: Option<(&'static str, String)>,
) -> Result<HtmlPage, PageError> {
    let project = request.project()?;
    let is_refused = error.is_some();
    let action = request.page_url(&Page::StatusPages(project.uuid));
    let mut counts = vec![0; project.status_pages.len()];
    request.handle().for_each_check(project.id, |check| {
        for (page, count) in project.status_pages.iter().zip(&mut counts) {
            *count += usize::from(page.shows(&check.settings.tags));
        }
    });
    let rows = project.status_pages.iter().zip(counts);
    let html = HtmlPage::from_template(&StatusPageList {
        layout: request.layout("Status pages"),
        rows: rows
            .map(|(page, count)| StatusPageListItem::new(request, project.uuid, page, count))
            .collect(),
        form: new_form(request, action, input, error, "Create status page"),
    });
    Ok(if is_refused {
        html.with_invalid_form()
    } else {
        html
    })
}

fn render_settings(
    request: &PageRequest,
    uuid: Uuid,
    input: StatusPageInput,
    error: Option<(&'static str, String)>,
) -> Result<HtmlPage, PageError> {
    let project = request.project()?;
    let is_refused = error.is_some();
    let page = find_page(request, uuid)?;
    let action = request.page_url(&Page::EditStatusPage(project.uuid, uuid));
    let html = HtmlPage::from_template(&StatusPageSettings {
        layout: request.layout("Status page"),
        row: StatusPageListItem::new(request, project.uuid, page, 0),
        list: request.page_url(&Page::StatusPages(project.uuid)),
        form: new_form(request, action, input, error, "Save"),
    });
    Ok(if is_refused {
        html.with_invalid_form()
    } else {
        html
    })
}

fn new_form(
    request: &PageRequest,
    action: String,
    input: StatusPageInput,
    error: Option<(&'static str, String)>,
    submit: &'static str,
) -> StatusPageForm {
    StatusPageForm {
        action,
        prefix: format!("{}/status/", request.base_url().as_str()),
        input,
        error,
        may_set_domain: request.is_allowed(RequiredRight::Owner),
        submit,
    }
}

impl StatusPageListItem {
    fn new(request: &PageRequest, project: Uuid, page: &StatusPage, count: usize) -> Self {
        let tags: Vec<_> = page.tags.iter().collect();
        let public_page = Page::PublicStatus(page.address.clone());
        Self {
            title: page.title.as_str().to_owned(),
            url: format!("{}{public_page}", request.base_url().as_str()),
            domain_url: page
                .domain
                .as_ref()
                .map(|domain| format!("https://{}/", domain.as_str())),
            checks: match tags.as_slice() {
                [] => format!("all checks ({count})"),
                tags => format!("{} with {}", format_count(count, "check"), tags.join(" ")),
            },
            edit: request.page_url(&Page::EditStatusPage(project, page.uuid)),
            delete: request.page_url(&Page::DeleteStatusPage(project, page.uuid)),
        }
    }
}
