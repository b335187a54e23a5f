//! Creates, changes and deletes public status pages.

use uuid::Uuid;

use super::super::command::CommandError;
use super::{ApplyResult, WorkingState};
use crate::domain::ids::ProjectId;
use crate::domain::project::Project;
use crate::domain::status_page::{MAX_STATUS_PAGES, StatusPage, StatusPageError};

impl WorkingState {
    /// Creates a status page, or replaces the one with its UUID. Address and domain are unique on
    /// the server.
    pub(super) fn put_status_page(&mut self, id: ProjectId, page: StatusPage) -> ApplyResult {
        let mut project = self.cloned_project(id)?;
        let other_pages = self
            .state
            .projects()
            .flat_map(|project_state| &project_state.project.status_pages)
            .filter(|other| other.uuid != page.uuid);
        for other in other_pages {
            if other.address == page.address {
                return Err(CommandError::StatusPage(StatusPageError::AddressTaken));
            }
            if page.domain.is_some() && other.domain == page.domain {
                return Err(CommandError::StatusPage(StatusPageError::DomainTaken));
            }
        }
        let pages = &mut project.status_pages;
        let count = pages.len();
        match pages.iter_mut().find(|existing| existing.uuid == page.uuid) {
            Some(existing) => *existing = page,
            None if count >= MAX_STATUS_PAGES => {
                return Err(CommandError::StatusPage(StatusPageError::TooMany));
            }
            None => pages.push(page),
        }
        Ok(self.put_project(project))
    }

    pub(super) fn delete_status_page(&mut self, id: ProjectId, page: Uuid) -> ApplyResult {
        let mut project = self.cloned_project(id)?;
        let count = project.status_pages.len();
        project
            .status_pages
            .retain(|existing| existing.uuid != page);
        if project.status_pages.len() == count {
            return Err(CommandError::NotFound);
        }
        Ok(self.put_project(project))
    }

    fn cloned_project(&self, id: ProjectId) -> Result<Project, CommandError> {
        let project_state = self.state.project(id).ok_or(CommandError::NotFound)?;
        Ok(Project::clone(&project_state.project))
    }
}
