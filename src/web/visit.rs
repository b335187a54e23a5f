//! A request that was let in: who asks, for which page, and what the page belongs to.

use std::sync::Arc;

use super::Site;
use super::error::Trouble;
use super::frame::Frame;
use super::guard::Came;
use super::list::Back;
use super::route::{Link, Need, Page, Scope};
use super::who::Viewer;
use crate::domain::check::Check;
use crate::domain::moment::Moment;
use crate::domain::project::{Channel, Project};
use crate::domain::words::Times;
use crate::engine::Handle;
use crate::wire::request::BaseUrl;

/// See the module.
pub(crate) struct Visit {
    pub(crate) site: Arc<Site>,
    pub(crate) page: Page,
    pub(crate) viewer: Viewer,
    /// How the request came.
    pub(crate) came: Came,
    /// The decoded parameters of the URL.
    pub(crate) query: Query,
    /// The part of the page that a script asks for alone; empty: the whole page.
    pub(crate) fragment: Box<str>,
    /// When it came.
    pub(crate) now: Moment,
    place: Place,
}

/// What a page belongs to, found and allowed.
enum Place {
    Server,
    Project(Arc<Project>),
    Check(Arc<Project>, Box<Check>),
    Channel(Arc<Project>, Arc<Channel>),
}

/// A request on its way to a page.
pub(super) struct Asked {
    pub(super) page: Page,
    pub(super) viewer: Viewer,
    pub(super) came: Came,
    pub(super) query: Query,
    pub(super) fragment: Box<str>,
}

impl Visit {
    /// Finds what the page belongs to. What is not there, and what is not the viewer's, cannot be told apart.
    pub(super) fn find(site: &Arc<Site>, asked: Asked, need: Need) -> Result<Self, Trouble> {
        let Asked { page, viewer, came, query, fragment } = asked;
        let place = find(&site.handle, page.scope()).ok_or_else(Trouble::nothing_here)?;
        let project = place.project().map(|project| project.id);
        if !viewer.may(Need::Read, project) && project.is_some() {
            return Err(Trouble::nothing_here());
        }
        if !viewer.may(need, project) {
            return Err(Trouble::not_allowed(need));
        }
        let now = site.handle.now();
        Ok(Self { site: Arc::clone(site), page, viewer, came, query, fragment, now, place })
    }

    /// The engine.
    pub(crate) fn handle(&self) -> &Handle {
        &self.site.handle
    }

    /// The project that the page belongs to, or that of its check or channel.
    pub(crate) fn project(&self) -> Result<&Arc<Project>, Trouble> {
        self.place.project().ok_or_else(Trouble::nothing_here)
    }

    /// The check that the page belongs to.
    pub(crate) fn check(&self) -> Result<&Check, Trouble> {
        match &self.place {
            Place::Check(_, check) => Ok(check),
            _ => Err(Trouble::nothing_here()),
        }
    }

    /// The channel that the page belongs to.
    pub(crate) fn channel(&self) -> Result<&Arc<Channel>, Trouble> {
        match &self.place {
            Place::Channel(_, channel) => Ok(channel),
            _ => Err(Trouble::nothing_here()),
        }
    }

    /// Whether the viewer may do this with what the page belongs to.
    pub(crate) fn may(&self, need: Need) -> bool {
        self.viewer.may(need, self.place.project().map(|project| project.id))
    }

    /// What the viewer is called, for the log.
    pub(crate) fn user_name(&self) -> &str {
        self.viewer.person.as_ref().map_or("", |person| person.user.name.as_str())
    }

    /// Where the service is reached.
    pub(crate) fn base_url(&self) -> &BaseUrl {
        &self.site.base_url
    }

    /// The clock that the viewer reads times by.
    pub(crate) fn times(&self) -> Times<'_> {
        Times { now: self.now, zone: &self.viewer.zone }
    }

    /// Which source of files owns the check or channel of this number.
    pub(crate) fn declared_in(&self, number: u64) -> Option<String> {
        self.handle().with_state(|state| state.managed.source(number).map(|source| source.as_str().to_owned()))
    }

    /// The URL of a page.
    pub(crate) fn link(&self, page: &Page) -> String {
        Link { base: &self.site.base_url, page }.to_string()
    }

    /// The list that the viewer came from.
    pub(crate) fn back(&self) -> Back {
        Back::read(self.query.get("back"), self.viewer.list)
    }

    /// The URL of a page of a check, from which it is known on which list the viewer was.
    pub(crate) fn onward(&self, page: &Page) -> String {
        self.back().along(&self.link(page))
    }

    /// What the layout needs; the title begins with this.
    pub(crate) fn frame(&self, title: impl Into<String>) -> Frame {
        Frame::of(self, title.into())
    }
}

impl Place {
    fn project(&self) -> Option<&Arc<Project>> {
        match self {
            Self::Server => None,
            Self::Project(project) | Self::Check(project, _) | Self::Channel(project, _) => Some(project),
        }
    }
}

fn find(handle: &Handle, scope: Scope) -> Option<Place> {
    handle.with_state(|state| {
        let project = |id| state.project(id).map(|found| Arc::clone(&found.project));
        Some(match scope {
            Scope::Server => Place::Server,
            Scope::Project(uuid) => {
                Place::Project(state.projects().map(|found| &found.project).find(|project| project.uuid == uuid).cloned()?)
            }
            Scope::Check(uuid) => {
                let check = state.check_by_uuid(uuid)?;
                Place::Check(project(check.project)?, Box::new(check.clone()))
            }
            Scope::Channel(uuid) => {
                let channel = state.projects().flat_map(|found| found.channels.values()).find(|channel| channel.uuid == uuid)?;
                Place::Channel(project(channel.project)?, Arc::clone(channel))
            }
        })
    })
}

/// The decoded parameters of a URL or the fields of a form, in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Query(pub(super) Vec<(String, String)>);

impl Query {
    /// The last parameter of this name; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.all(name).last().unwrap_or_default()
    }

    /// All parameters of this name.
    pub(crate) fn all<'q>(&'q self, name: &str) -> impl DoubleEndedIterator<Item = &'q str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether there is such a parameter, as of a box that is ticked or of the button that was pressed.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}
