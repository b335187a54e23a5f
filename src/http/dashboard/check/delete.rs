//! Deletes a check, after a confirmation page.

use askama::Template;

use super::CheckHeader;
use crate::domain::formatting::format_count;
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_messages::FlashMessage;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::Page;
use crate::operations::check;

#[derive(Template)]
#[template(path = "delete_check.html", config = "src/http/dashboard/askama.toml")]
struct DeleteCheckPage {
    layout: Layout,
    top: CheckHeader,
    pings: String,
    path: String,
}

/// Renders the confirmation page.
pub(crate) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    let page = DeleteCheckPage {
        layout: request.layout("Delete a check"),
        top: CheckHeader::new(request)?,
        pings: format_count(
            usize::try_from(check.state.n_pings).unwrap_or(usize::MAX),
            "ping",
        ),
        path: request.page_url_with_return(&Page::DeleteCheck(check.uuid)),
    };
    Ok(HtmlPage::from_template(&page).into())
}

pub(crate) async fn delete_check(request: &PageRequest) -> Result<PageResponse, PageError> {
    check::delete(request.handle(), request.check()?.id).await?;
    Ok(PageResponse::Redirect(
        Page::Checks(request.project()?.uuid),
        FlashMessage::from_code("deleted"),
    ))
}
