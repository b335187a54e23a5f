//! Exports a project as a file that `overdue apply` reads, like `overdue export`, without secrets.

use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::PageResponse;
use crate::config;

/// Sends the file.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let objects = config::export_config(request.handle(), Some(project.id), false);
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        project = project.name.as_str(),
        "exported a project"
    );
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    };
    let name: String = project.name.as_str().chars().map(plain).collect();
    Ok(PageResponse::Download {
        name: format!("overdue-{name}.toml"),
        content: config::to_toml(&objects, config::HEADER_COMMENTS).into_bytes(),
    })
}
