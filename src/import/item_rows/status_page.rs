//! Row of a status page.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::status_page::{
    MAX_STATUS_PAGES, StatusPage, StatusPageAddress, StatusPageDomain, StatusPageError,
    StatusPageTitle,
};
use crate::domain::text::Tags;

/// A public status page.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::status_page::StatusPage`")]
pub struct StatusPageRow {
    pub uuid: Uuid,
    pub address: String,
    pub title: String,
    pub tags: String,
    pub domain: Option<String>,
}

impl From<&StatusPage> for StatusPageRow {
    fn from(page: &StatusPage) -> Self {
        Self {
            uuid: page.uuid,
            address: page.address.as_str().into(),
            title: page.title.as_str().into(),
            tags: page.tags.as_str().into(),
            domain: page.domain.as_ref().map(|domain| domain.as_str().into()),
        }
    }
}

impl StatusPageRow {
    /// Parses the row.
    ///
    /// # Errors
    /// If a field is invalid.
    fn into_page(self) -> Result<StatusPage, &'static str> {
        Ok(StatusPage {
            uuid: self.uuid,
            address: StatusPageAddress::parse(&self.address)?,
            title: StatusPageTitle::parse(&self.title)?,
            tags: Tags::from_stored(&self.tags),
            domain: self
                .domain
                .as_deref()
                .map(StatusPageDomain::parse)
                .transpose()?,
        })
    }
}

/// Parses the status pages of a project.
///
/// # Errors
/// If there are too many, or a field is invalid.
pub(super) fn parse_pages(rows: Vec<StatusPageRow>) -> Result<Vec<StatusPage>, String> {
    if rows.len() > MAX_STATUS_PAGES {
        return Err(StatusPageError::TooMany.to_string());
    }
    let pages: Result<_, _> = rows.into_iter().map(StatusPageRow::into_page).collect();
    Ok(pages?)
}
