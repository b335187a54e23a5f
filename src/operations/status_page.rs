//! Public status pages of projects.

use uuid::Uuid;

use super::{OperationError, submit};
use crate::domain::ids::ProjectId;
use crate::domain::project::Project;
use crate::domain::status_page::{
    StatusPage, StatusPageAddress, StatusPageDomain, StatusPageTitle,
};
use crate::domain::text::Tags;
use crate::engine::Handle;
use crate::engine::command::Command;

/// Settings of a status page, as entered.
#[derive(Clone, Default)]
pub struct StatusPageInput {
    /// Title.
    pub title: String,
    /// Tags of the checks that it shows; empty for all.
    pub tags: String,
    /// Last part of its URL; empty for a random one.
    pub address: String,
    /// Host name, or empty.
    pub domain: String,
}

impl StatusPageInput {
    /// Creates the input that shows a page in a form.
    pub fn from_page(page: &StatusPage) -> Self {
        Self {
            title: page.title.as_str().into(),
            tags: page.tags.as_str().into(),
            address: page.address.as_str().into(),
            domain: page
                .domain
                .as_ref()
                .map_or_else(String::new, |domain| domain.as_str().into()),
        }
    }

    /// Parses the input.
    ///
    /// # Errors
    /// If a field is invalid: its name, and what is wrong with it.
    pub fn parse(&self, handle: &Handle, uuid: Uuid) -> Result<StatusPage, (&'static str, String)> {
        let field = |name: &'static str| move |reason: &'static str| (name, reason.to_owned());
        let tags = Tags::parse(&self.tags)
            .ok()
            .filter(Tags::is_within_limit)
            .ok_or_else(|| {
                let reason = format!(
                    "at most {} characters and {} tags are allowed",
                    Tags::MAX_CHARS,
                    Tags::MAX_TAGS
                );
                ("tags", reason)
            })?;
        let random = || {
            handle
                .random()
                .url_safe::<{ StatusPageAddress::GENERATED_LENGTH }>()
        };
        let address = match self.address.trim() {
            "" => random(),
            address => address.to_owned(),
        };
        let domain = Some(self.domain.trim()).filter(|domain| !domain.is_empty());
        Ok(StatusPage {
            uuid,
            title: StatusPageTitle::parse(&self.title).map_err(field("title"))?,
            tags,
            address: StatusPageAddress::parse(&address).map_err(field("address"))?,
            domain: domain
                .map(StatusPageDomain::parse)
                .transpose()
                .map_err(field("domain"))?,
        })
    }
}

/// Creates a status page, or replaces the one with its UUID.
///
/// # Errors
/// If its address or domain is taken, the project has too many or is gone, or the writer does not
/// answer.
pub async fn put(
    handle: &Handle,
    project: ProjectId,
    page: StatusPage,
) -> Result<Box<Project>, OperationError> {
    submit(handle, Command::PutStatusPage(project, Box::new(page))).await
}

/// Deletes a status page.
///
/// # Errors
/// If it is gone, or the writer does not answer.
pub async fn delete(
    handle: &Handle,
    project: ProjectId,
    page: Uuid,
) -> Result<Box<Project>, OperationError> {
    submit(handle, Command::DeleteStatusPage(project, page)).await
}
