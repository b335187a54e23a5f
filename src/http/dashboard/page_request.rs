//! Authorized request to a page: the viewer, the page, and the resource that the page belongs to.

use std::sync::Arc;

use uuid::Uuid;

use super::DashboardState;
use super::browser_security::RequestOrigin;
use super::check_list::ListReturn;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_routes::{Page, PageLink, RequiredRight, Scope};
use super::viewer::Viewer;
use crate::domain::check::Check;
use crate::domain::formatting::TimeFormatter;
use crate::domain::ids::{SessionId, UserId};
use crate::domain::project::{Channel, Project};
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::http::common::request::BaseUrl;
use crate::http::common::response_body::ResponseWriter;
use crate::http::common::work_owner::WorkOwner;

/// User and session of a request. A user of a proxy has no session. Without sign-in there is no
/// user either.
pub(super) type ClientId = (Option<UserId>, Option<SessionId>);

/// An authorized request to a page.
pub(crate) struct PageRequest {
    pub(crate) dashboard: Arc<DashboardState>,
    pub(crate) page: Page,
    pub(crate) viewer: Viewer,
    /// Origin of the request.
    pub(crate) origin: RequestOrigin,
    /// Decoded parameters of the URL.
    pub(crate) query: Query,
    /// Fragment of the page that a script requests. Empty: the whole page.
    pub(crate) fragment: Box<str>,
    /// Time of the request.
    pub(crate) now: Timestamp,
    /// Handle of the engine, with the viewer as the actor.
    handle: Handle,
    resource: PageResource,
}

/// Resource that a page belongs to.
enum PageResource {
    Server,
    Project(Arc<Project>),
    Check(Arc<Project>, Box<Check>),
    Channel(Arc<Project>, Arc<Channel>),
}

/// Request that is not authorized yet.
pub(super) struct PendingRequest {
    pub(super) page: Page,
    pub(super) viewer: Viewer,
    pub(super) origin: RequestOrigin,
    pub(super) query: Query,
    pub(super) fragment: Box<str>,
}

impl PageRequest {
    /// Finds the resource of the page and checks the access to it. A missing resource and one that
    /// the viewer may not see give the same error.
    pub(super) fn authorize(
        dashboard: &Arc<DashboardState>,
        pending: PendingRequest,
        need: RequiredRight,
    ) -> Result<Self, PageError> {
        let PendingRequest {
            page,
            viewer,
            origin,
            query,
            fragment,
        } = pending;
        let resource =
            find_resource(&dashboard.handle, page.scope()).ok_or_else(PageError::not_found)?;
        let project = resource.project().map(|project| project.id);
        if !viewer.is_allowed(RequiredRight::Read, project) && project.is_some() {
            return Err(PageError::not_found());
        }
        if !viewer.is_allowed(need, project) {
            return Err(PageError::forbidden(need));
        }
        let now = dashboard.handle.now();
        let handle = match viewer.is_anonymous() {
            true => dashboard.handle.clone(),
            false => dashboard.handle.with_actor(viewer.actor(&origin)),
        };
        Ok(Self {
            dashboard: Arc::clone(dashboard),
            page,
            viewer,
            origin,
            query,
            fragment,
            now,
            handle,
            resource,
        })
    }

    /// Owner of the work for this request: the project of the page, or its viewer.
    pub(crate) fn owner(&self) -> WorkOwner {
        match (self.resource.project(), &self.viewer.signed_in) {
            (Some(project), _) => WorkOwner::Project(project.id),
            (None, Some(signed_in)) => WorkOwner::User(signed_in.user.id),
            (None, None) => WorkOwner::Other,
        }
    }

    /// Returns a writer of responses whose work counts as that of this request.
    pub(crate) fn response_writer(&self) -> ResponseWriter {
        self.dashboard.response_writer.for_owner(self.owner())
    }

    /// Handle of the engine.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Project of the page, or of its check or channel.
    pub(crate) fn project(&self) -> Result<&Arc<Project>, PageError> {
        self.resource.project().ok_or_else(PageError::not_found)
    }

    /// Projects that the viewer may see, in the order of their names.
    pub(crate) fn visible_projects(&self) -> Vec<Arc<Project>> {
        let mut projects: Vec<_> = self.handle().with_state(|state| {
            let all = state.projects().map(|found| &found.project);
            all.cloned().collect()
        });
        projects.retain(|project| {
            self.viewer
                .is_allowed(RequiredRight::Read, Some(project.id))
        });
        projects.sort_unstable_by(|one, other| {
            (one.name.as_str(), one.uuid).cmp(&(other.name.as_str(), other.uuid))
        });
        projects
    }

    /// Projects whose data the page shows: its own, or all that the viewer may see.
    pub(crate) fn shown_projects(&self) -> Vec<Arc<Project>> {
        match self.resource.project() {
            Some(project) => vec![Arc::clone(project)],
            None => self.visible_projects(),
        }
    }

    /// Projects among the shown ones that the viewer may change.
    pub(crate) fn writable_projects(&self) -> Vec<Arc<Project>> {
        let mut projects = self.shown_projects();
        projects.retain(|project| {
            self.viewer
                .is_allowed(RequiredRight::Write, Some(project.id))
        });
        projects
    }

    /// Check that the page belongs to.
    pub(crate) fn check(&self) -> Result<&Check, PageError> {
        match &self.resource {
            PageResource::Check(_, check) => Ok(check),
            _ => Err(PageError::not_found()),
        }
    }

    /// Channel that the page belongs to.
    pub(crate) fn channel(&self) -> Result<&Arc<Channel>, PageError> {
        match &self.resource {
            PageResource::Channel(_, channel) => Ok(channel),
            _ => Err(PageError::not_found()),
        }
    }

    /// True if the viewer has this right for the resource of the page.
    pub(crate) fn is_allowed(&self, need: RequiredRight) -> bool {
        self.viewer
            .is_allowed(need, self.resource.project().map(|project| project.id))
    }

    /// Name of the viewer, for the log.
    pub(crate) fn user_name(&self) -> &str {
        self.viewer
            .signed_in
            .as_ref()
            .map_or("", |signed_in| signed_in.user.name.as_str())
    }

    /// User and session of the viewer.
    pub(super) fn client_id(&self) -> ClientId {
        let signed_in = self.viewer.signed_in.as_ref();
        let session = signed_in.and_then(|signed_in| signed_in.session.as_ref());
        (
            signed_in.map(|signed_in| signed_in.user.id),
            session.map(|session| session.id),
        )
    }

    /// UUIDs of the checks that the viewer has pinned.
    pub(crate) fn pinned_checks(&self) -> &[Uuid] {
        let signed_in = self.viewer.signed_in.as_ref();
        signed_in.map_or(&[], |signed_in| &signed_in.user.preferences.pinned)
    }

    /// Base URL of the service.
    pub(crate) fn base_url(&self) -> &BaseUrl {
        &self.dashboard.base_url
    }

    /// Formatter for times in the zone of the viewer.
    pub(crate) fn time_formatter(&self) -> TimeFormatter<'_> {
        TimeFormatter {
            now: self.now,
            zone: &self.viewer.zone,
        }
    }

    /// True if a project of the page has a channel.
    pub(crate) fn has_channels(&self) -> bool {
        let projects = self.shown_projects();
        self.handle().with_state(|state| {
            projects.iter().any(|project| {
                state
                    .project(project.id)
                    .is_some_and(|found| !found.channels.is_empty())
            })
        })
    }

    /// Configuration source that owns the check or channel of this number.
    pub(crate) fn declaring_source(&self, number: u64) -> Option<String> {
        self.handle().with_state(|state| {
            state
                .managed
                .source(number)
                .map(|source| source.as_str().to_owned())
        })
    }

    /// URL of a page.
    pub(crate) fn page_url(&self, page: &Page) -> String {
        PageLink {
            base_url: &self.dashboard.base_url,
            page,
        }
        .to_string()
    }

    /// URL of a page with the scheme and host of this server.
    pub(crate) fn absolute_url(&self, page: &Page) -> String {
        format!("{}{page}", self.base_url().as_str())
    }

    /// Link to the list that the viewer came from.
    pub(crate) fn list_return(&self) -> ListReturn {
        ListReturn::parse(self.query.get("back"), self.viewer.list_preferences)
    }

    /// URL of a page of a check that keeps the list that the viewer came from.
    pub(crate) fn page_url_with_return(&self, page: &Page) -> String {
        self.list_return().url_with_return(&self.page_url(page))
    }

    /// Data for the layout. The title of the page begins with `title`.
    pub(crate) fn layout(&self, title: impl Into<String>) -> Layout {
        Layout::for_request(self, title.into())
    }
}

impl PageResource {
    fn project(&self) -> Option<&Arc<Project>> {
        match self {
            Self::Server => None,
            Self::Project(project) | Self::Check(project, _) | Self::Channel(project, _) => {
                Some(project)
            }
        }
    }
}

fn find_resource(handle: &Handle, scope: Scope) -> Option<PageResource> {
    handle.with_state(|state| {
        let project = |id| state.project(id).map(|found| Arc::clone(&found.project));
        Some(match scope {
            Scope::Server => PageResource::Server,
            Scope::Project(uuid) => PageResource::Project(
                state
                    .projects()
                    .map(|found| &found.project)
                    .find(|project| project.uuid == uuid)
                    .cloned()?,
            ),
            Scope::Check(uuid) => {
                let check = state.check_by_uuid(uuid)?;
                PageResource::Check(project(check.project)?, Box::new(check.clone()))
            }
            Scope::Channel(uuid) => {
                let channel = state
                    .projects()
                    .flat_map(|found| found.channels.values())
                    .find(|channel| channel.uuid == uuid)?;
                PageResource::Channel(project(channel.project)?, Arc::clone(channel))
            }
        })
    })
}

/// Decoded parameters of a URL or fields of a form, in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Query(pub(super) Vec<(String, String)>);

impl Query {
    /// Last parameter of this name. Empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.get_all(name).last().unwrap_or_default()
    }

    /// All parameters of this name.
    pub(crate) fn get_all<'q>(&'q self, name: &str) -> impl DoubleEndedIterator<Item = &'q str> {
        self.0
            .iter()
            .filter(move |(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }

    /// True if there is such a parameter, for example a ticked box or the pressed button.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get_all(name).next().is_some()
    }
}
