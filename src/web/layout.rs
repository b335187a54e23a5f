//! What the layout of a page needs beside its content.

use std::sync::Arc;

use uuid::Uuid;

use super::page_messages::{Banner, FlashMessage};
use super::page_request::PageRequest;
use super::page_routes::{Need, Page, PageLink, Scope};
use super::{DashboardState, assets};
use crate::docs::Chapter;
use crate::domain::status::VisibleStatus;
use crate::wire::request::BaseUrl;

/// See the module.
pub(crate) struct Layout {
    /// What stands in the browser's title, before the name of the program.
    pub(crate) title: String,
    /// The value of `data-theme`.
    pub(crate) theme: &'static str,
    /// Whether the viewer wants keys to do something.
    pub(crate) shortcuts: bool,
    /// What was done on the way to the page.
    pub(crate) notice: Option<FlashMessage>,
    /// What the viewer should know.
    pub(crate) notes: Vec<Banner>,
    /// The project that the page belongs to.
    pub(crate) project: Option<CurrentProject>,
    /// The name of whoever has signed in with one.
    pub(crate) user: Option<Box<str>>,
    /// Whether they may do everything.
    pub(crate) is_owner: bool,
    /// The picture of the tab: `up`, `warning`, `error`, or `off`.
    pub(crate) picture: &'static str,
    /// When the page was made, in seconds since 1970.
    pub(crate) now: i64,
    /// How a title says how many are down: `3 down – `.
    pub(crate) alarm: String,
    page: Option<Page>,
    base_url: BaseUrl,
}

/// A project in the top bar.
pub(crate) struct CurrentProject {
    pub(crate) uuid: Uuid,
    pub(crate) name: Box<str>,
    /// Those that the viewer sees, this one among them: their names and UUIDs.
    pub(crate) all: Vec<(Box<str>, Uuid)>,
}

/// Projects in the menu of the top bar. Whoever has more finds them on the page of projects.
pub(super) const MAX_PROJECTS_IN_MENU: usize = 20;

impl Layout {
    pub(super) fn for_request(visit: &PageRequest, title: String) -> Self {
        let here = visit.project().ok().map(|project| CurrentProject {
            uuid: project.uuid,
            name: project.name.as_str().into(),
            all: menu_projects(visit),
        });
        Self {
            title,
            theme: visit.viewer.theme.name(),
            shortcuts: visit.viewer.shortcuts,
            notice: FlashMessage::from_code(visit.query.get("m")),
            notes: collect_banners(visit),
            project: here,
            user: visit.viewer.signed_in.as_ref().map(|person| person.user.name.as_str().into()),
            is_owner: visit.viewer.is_allowed(super::Need::Owner, None),
            page: Some(visit.page.clone()),
            ..Self::without_user(&visit.dashboard, "")
        }
    }

    /// For a page that belongs to nobody.
    pub(super) fn without_user(site: &DashboardState, title: &str) -> Self {
        Self {
            title: title.into(),
            theme: "system",
            shortcuts: true,
            notice: None,
            notes: Vec::new(),
            project: None,
            user: None,
            is_owner: false,
            picture: "up",
            now: site.handle.now().secs(),
            alarm: String::new(),
            page: None,
            base_url: site.base_url.clone(),
        }
    }

    /// The same with a picture and a title that say how checks are.
    pub(crate) fn with_check_counts(mut self, late: usize, down: usize) -> Self {
        self.picture = match (late, down) {
            (_, 1..) => "down",
            (1.., _) => "late",
            _ => "up",
        };
        if down > 0 {
            self.alarm = format!("{down} down – ");
        }
        self
    }

    /// The same with one more note.
    pub(crate) fn with_banner(mut self, note: Option<Banner>) -> Self {
        self.notes.extend(note);
        self
    }

    /// The same with the picture of one check's status.
    pub(crate) fn with_status_icon(self, status: VisibleStatus) -> Self {
        let picture = match status {
            VisibleStatus::Grace => "late",
            VisibleStatus::Down => "down",
            VisibleStatus::Up | VisibleStatus::New | VisibleStatus::Paused => "up",
        };
        Self { picture, ..self }
    }

    /// A link to a page.
    pub(crate) fn link_to(&self, page: &Page) -> String {
        PageLink { base_url: &self.base_url, page }.to_string()
    }

    /// A link to the list of checks of a project.
    pub(crate) fn checks(&self, project: &Uuid) -> String {
        self.link_to(&Page::Checks(*project))
    }

    /// A link to a chapter of the documentation.
    pub(crate) fn chapter(&self, chapter: &'static Chapter) -> String {
        self.link_to(&Page::Chapter(chapter))
    }

    /// A link to what a schedule that is being typed comes to.
    pub(crate) fn preview(&self) -> String {
        self.link_to(&Page::Preview())
    }

    /// A link to the list of chapters.
    pub(crate) fn chapters(&self) -> String {
        self.link_to(&Page::Chapters())
    }

    /// A link to the integrations of a project.
    pub(crate) fn integrations(&self, project: &Uuid) -> String {
        self.link_to(&Page::Integrations(*project))
    }

    /// A link to the page of projects.
    pub(crate) fn projects(&self) -> String {
        self.link_to(&Page::Projects())
    }

    /// A link to the page of signing in.
    pub(crate) fn login(&self) -> String {
        self.link_to(&Page::Login())
    }

    /// Where the form of the second step of signing in goes.
    pub(crate) fn second_step(&self) -> String {
        self.link_to(&Page::SecondStep())
    }

    /// Where the form of signing out goes.
    pub(crate) fn logout(&self) -> String {
        self.link_to(&Page::Logout())
    }

    /// A link to the settings of a project.
    pub(crate) fn settings(&self, project: &Uuid) -> String {
        self.link_to(&Page::Settings(*project))
    }

    /// A link to the badges of a project.
    pub(crate) fn badges(&self, project: &Uuid) -> String {
        self.link_to(&Page::Badges(*project))
    }

    /// Whether this is the page of badges.
    pub(crate) fn is_at_badges(&self) -> bool {
        matches!(self.page, Some(Page::Badges(_)))
    }

    /// A link to the page about the server.
    pub(crate) fn system(&self) -> String {
        self.link_to(&Page::System())
    }

    /// Where the form that deletes the project of the page goes.
    pub(crate) fn remove_project(&self) -> String {
        self.project.as_ref().map(|here| self.link_to(&Page::RemoveProject(here.uuid))).unwrap_or_default()
    }

    /// Where the project of the page is to be had as a file.
    pub(crate) fn export(&self) -> String {
        self.project.as_ref().map(|here| self.link_to(&Page::Export(here.uuid))).unwrap_or_default()
    }

    /// The name of the project of the page.
    pub(crate) fn project_name(&self) -> &str {
        self.project.as_ref().map_or("", |here| &here.name)
    }

    /// A link to the page on which projects are made.
    pub(crate) fn add_project(&self) -> String {
        self.link_to(&Page::AddProject())
    }

    /// A link to the users.
    pub(crate) fn users(&self) -> String {
        self.link_to(&Page::Users())
    }

    /// A link to the viewer's own account.
    pub(crate) fn account(&self) -> String {
        self.link_to(&Page::Account())
    }

    /// Whether this is a page of settings.
    pub(crate) fn is_at_settings(&self) -> bool {
        matches!(self.page, Some(Page::Settings(_) | Page::Key(..)))
    }

    /// A link to the page for the first owner.
    pub(crate) fn setup(&self) -> String {
        self.link_to(&Page::Setup())
    }

    /// The release.
    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The URL of a file that pages load.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{}", self.base_url.path(), assets::asset_path(name))
    }

    /// The URL of the picture of the tab.
    pub(crate) fn favicon(&self) -> String {
        self.file(&format!("favicon-{}.svg", self.picture))
    }

    /// Whether this is the page of integrations, or one below it.
    pub(crate) fn is_at_integrations(&self) -> bool {
        let page = self.page.as_ref();
        page.is_some_and(|page| {
            matches!(page, Page::Integrations(_) | Page::AddIntegration(..)) || matches!(page.scope(), Scope::Channel(_))
        })
    }

    /// Whether this is the list of checks, or a page below it.
    pub(crate) fn is_at_checks(&self) -> bool {
        let page = self.page.as_ref();
        page.is_some_and(|page| matches!(page, Page::Checks(_) | Page::AddCheck(_)) || matches!(page.scope(), Scope::Check(_)))
    }
}

/// What everybody, or whoever could change it, should know of the server.
fn collect_banners(visit: &PageRequest) -> Vec<Banner> {
    let mut notes = Vec::new();
    // A part of a page shows no notes.
    let taken = || visit.dashboard.one_time_secrets.take(visit, &Page::SecondStep().to_string());
    let wrong_codes = visit.fragment.is_empty().then(taken).flatten();
    notes.extend(wrong_codes.map(|text| Banner::warning(text).with_link("Your account", visit.page_url(&Page::Account()))));
    if !visit.handle().is_writable() {
        let text = "The database takes no writes. Pings are answered 503 and their senders try again; nothing you change is saved.";
        notes.push(Banner::error(text));
    }
    let base_url = visit.base_url();
    if let Some(address) = visit.origin.mismatched_address(base_url).filter(|_| visit.is_allowed(Need::Write)) {
        let base_url = base_url.as_str();
        let text = format!("Ping URLs here begin with {base_url}, but you came by {address}. Start overdue with --base-url {address}.");
        notes.push(Banner::warning(text));
    }
    if let Ok(project) = visit.project()
        && project.is_on_trial()
    {
        let name = project.name.as_str();
        notes.push(Banner::warning(format!(
            "This project is on trial: nobody is told what goes down here. overdue project release {name:?} ends that."
        )));
    }
    notes
}

fn menu_projects(visit: &PageRequest) -> Vec<(Box<str>, Uuid)> {
    let projects: Vec<_> = visit.handle().with_state(|state| state.projects().map(|found| Arc::clone(&found.project)).collect());
    let seen = projects.into_iter().filter(|project| visit.viewer.is_allowed(Need::Read, Some(project.id)));
    let mut seen: Vec<_> = seen.map(|project| (project.name.as_str().into(), project.uuid)).collect();
    seen.sort_unstable();
    seen.truncate(MAX_PROJECTS_IN_MENU);
    seen
}
