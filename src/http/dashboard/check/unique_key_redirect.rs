//! Finds a check by its unique key. Messages link to pages by this key, because anyone who knows a
//! UUID can ping.

use crate::domain::ids::{ProjectId, UniqueKey};
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::PageResponse;
use crate::http::dashboard::page_routes::{Page, RequiredRight};

/// Redirects to the check, if the viewer may see it. A key is a hash, so the checks of all projects
/// that the viewer may see are hashed.
pub(crate) fn redirect_from_key(
    request: &PageRequest,
    key: UniqueKey,
) -> Result<PageResponse, PageError> {
    let projects: Vec<ProjectId> = request
        .handle()
        .with_state(|state| state.projects().map(|found| found.project.id).collect());
    let mut found = None;
    for project in projects.into_iter().filter(|project| {
        request
            .viewer
            .is_allowed(RequiredRight::Read, Some(*project))
    }) {
        request.handle().for_each_check(project, |check| {
            if found.is_none() && UniqueKey::of_check(check.uuid) == key {
                found = Some(check.uuid);
            }
        });
    }
    found
        .map(|uuid| PageResponse::Redirect(Page::Check(uuid), None))
        .ok_or_else(PageError::not_found)
}
