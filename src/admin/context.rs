//! State that the requests of one connection share. It also finds the objects that requests name.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};

use crate::domain::audit::Actor;
use crate::domain::check::Check;
use crate::domain::ids::ProjectId;
use crate::domain::import_item::ImportId;
use crate::domain::project::Channel;
use crate::engine::Handle;
use crate::operations::{self, OperationError};
use crate::util::sync::{Mutex, MutexGuard};

/// Address of the service: the start of URLs in replies.
#[derive(Clone)]
pub struct ServiceUrls {
    /// Base URL without a trailing slash.
    pub base_url: String,
    /// Addresses on which the server accepts HTTP requests.
    pub listen: Box<[SocketAddr]>,
    /// True if the dashboard is enabled, so that links to pages work.
    pub has_pages: bool,
}

/// Context of the requests of one connection.
pub struct AdminContext {
    handle: Handle,
    /// `None` without a server: the address of the service is unknown.
    urls: Option<ServiceUrls>,
    /// Open import of the connection, at most one. It is abandoned when the connection ends.
    import: Mutex<Option<ImportId>>,
}

impl AdminContext {
    /// Creates the context of a new connection. Without a server there are no URLs.
    pub fn new(handle: &Handle, urls: Option<ServiceUrls>) -> Self {
        Self::with_actor(handle, urls, Actor::command_line())
    }

    /// Creates the context of a request with the instance key.
    pub(super) fn of_instance_key(handle: &Handle, urls: ServiceUrls, address: IpAddr) -> Self {
        Self::with_actor(handle, Some(urls), Actor::instance_key(address))
    }

    fn with_actor(handle: &Handle, urls: Option<ServiceUrls>, actor: Actor) -> Self {
        Self {
            handle: handle.with_actor(actor),
            urls,
            import: Mutex::default(),
        }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Addresses of the service; `None` without a server.
    pub(super) fn urls(&self) -> Option<&ServiceUrls> {
        self.urls.as_ref()
    }

    /// Returns the project that a filter names; `None` for all projects.
    pub(super) fn project_filter(
        &self,
        project: Option<&str>,
    ) -> Result<Option<ProjectId>, OperationError> {
        project.map(|project| self.project(project)).transpose()
    }

    /// Returns the project that a new object belongs to: the only one, if none is named.
    pub(super) fn target_project(
        &self,
        project: Option<&str>,
    ) -> Result<ProjectId, OperationError> {
        operations::project::find_or_only(&self.handle, project).map(|project| project.id)
    }

    pub(super) fn project(&self, project: &str) -> Result<ProjectId, OperationError> {
        operations::project::find(&self.handle, project).map(|project| project.id)
    }

    pub(super) fn channel(
        &self,
        project: Option<&str>,
        channel: &str,
    ) -> Result<Arc<Channel>, OperationError> {
        operations::channel::find(&self.handle, self.project_filter(project)?, channel)
    }

    pub(super) fn check(
        &self,
        project: Option<&str>,
        check: &str,
    ) -> Result<Check, OperationError> {
        operations::check::find(&self.handle, self.project_filter(project)?, check)
    }

    /// Returns the URL of a path of the service; `None` without a server.
    pub(super) fn service_url(&self, path: &str) -> Option<String> {
        let urls = self.urls.as_ref()?;
        Some(format!("{}{path}", urls.base_url))
    }

    /// Returns the URL of a page; `None` without a dashboard.
    pub(super) fn page_url(&self, path: &str) -> Option<String> {
        self.service_url(path)
            .filter(|_| self.urls.as_ref().is_some_and(|urls| urls.has_pages))
    }

    fn import(&self) -> MutexGuard<'_, Option<ImportId>> {
        self.import.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_import(&self) -> bool {
        self.import().is_some()
    }

    pub(super) fn record_import(&self, import: ImportId) {
        *self.import() = Some(import);
    }

    /// Forgets an import that has ended.
    pub(super) fn forget_import(&self, import: ImportId) {
        self.import().take_if(|own| *own == import);
    }
}

impl Drop for AdminContext {
    fn drop(&mut self) {
        let import = self.import().take();
        if let Some(import) = import {
            operations::import::queue_abandonment(&self.handle, import);
        }
    }
}
