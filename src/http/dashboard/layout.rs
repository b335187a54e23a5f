//! Data for the layout of a page, besides its content.

use uuid::Uuid;

use super::page_messages::{Banner, FlashMessage};
use super::page_request::PageRequest;
use super::page_routes::{Page, PageLink, RequiredRight, Scope};
use super::{DashboardState, assets};
use crate::docs::Chapter;
use crate::domain::formatting::TimeFormatter;
use crate::domain::status::VisibleStatus;
use crate::domain::user::Theme;
use crate::http::common::request::BaseUrl;

/// Data for the layout of a page.
pub(crate) struct Layout {
    /// Title of the page, before the name of the program.
    pub(crate) title: String,
    /// URL of the page, to return to.
    pub(crate) here: String,
    /// Name of the time zone of the viewer.
    pub(crate) zone: String,
    /// Value of `data-theme`.
    pub(crate) theme: &'static str,
    /// True if the viewer has keyboard shortcuts enabled.
    pub(crate) has_shortcuts: bool,
    /// Message about the action that led to the page.
    pub(crate) flash: Option<FlashMessage>,
    /// URL that undoes that action.
    pub(crate) undo: Option<String>,
    /// Messages for the viewer.
    pub(crate) banners: Vec<Banner>,
    /// Project that the page belongs to.
    pub(crate) project: Option<CurrentProject>,
    /// Name of the signed-in user.
    pub(crate) user: Option<Box<str>>,
    /// True if the viewer may use the pages of the dashboard.
    pub(crate) is_signed_in: bool,
    /// True if the viewer is an owner.
    pub(crate) is_owner: bool,
    /// True if the viewer has an account without a time zone, which then gets that of the browser.
    pub(crate) needs_zone: bool,
    /// Favicon: `up`, `late` or `down`.
    pub(crate) favicon: &'static str,
    /// Time at which the page was rendered, in seconds since 1970.
    pub(crate) now: i64,
    /// Prefix of the title with the number of checks that are down: `3 down – `.
    pub(crate) title_prefix: String,
    page: Option<Page>,
    base_url: BaseUrl,
}

/// Project in the top bar.
pub(crate) struct CurrentProject {
    pub(crate) uuid: Uuid,
    pub(crate) name: Box<str>,
    /// Projects that the viewer may see, including this one: names and UUIDs.
    pub(crate) all: Vec<(Box<str>, Uuid)>,
}

/// Maximum number of projects in the menu of the top bar. The page of projects lists all.
pub(super) const MAX_PROJECTS_IN_MENU: usize = 20;

impl Layout {
    pub(super) fn for_request(request: &PageRequest, title: String) -> Self {
        let project = request.project().ok().map(|project| CurrentProject {
            uuid: project.uuid,
            name: project.name.as_str().into(),
            all: menu_projects(request),
        });
        Self {
            title,
            here: request.page_url(&request.page),
            zone: request.viewer.zone.name().to_owned(),
            theme: request.viewer.theme.name(),
            has_shortcuts: request.viewer.has_shortcuts,
            flash: FlashMessage::from_code(request.query.get("m")),
            undo: request.dashboard.undo_history.url(request),
            banners: collect_banners(request),
            project,
            user: request
                .viewer
                .signed_in
                .as_ref()
                .map(|signed_in| signed_in.user.name.as_str().into()),
            is_signed_in: request
                .viewer
                .is_allowed(super::RequiredRight::SignedIn, None),
            is_owner: request.viewer.is_allowed(super::RequiredRight::Owner, None),
            needs_zone: request
                .viewer
                .signed_in
                .as_ref()
                .is_some_and(|signed_in| signed_in.user.preferences.zone.is_none()),
            page: Some(request.page.clone()),
            ..Self::without_user(&request.dashboard, "")
        }
    }

    /// Layout of a page without a viewer.
    pub(super) fn without_user(dashboard: &DashboardState, title: &str) -> Self {
        Self {
            title: title.into(),
            here: String::new(),
            zone: String::new(),
            theme: "system",
            has_shortcuts: true,
            flash: None,
            undo: None,
            banners: Vec::new(),
            project: None,
            user: None,
            is_signed_in: false,
            is_owner: false,
            needs_zone: false,
            favicon: "up",
            now: dashboard.handle.now().secs(),
            title_prefix: String::new(),
            page: None,
            base_url: dashboard.base_url.clone(),
        }
    }

    /// Adds a favicon and a title that show the state of the checks.
    pub(crate) fn with_check_counts(mut self, late: usize, down: usize) -> Self {
        self.favicon = match (late, down) {
            (_, 1..) => "down",
            (1.., _) => "late",
            _ => "up",
        };
        if down > 0 {
            self.title_prefix = format!("{down} down – ");
        }
        self
    }

    /// Adds a message.
    pub(crate) fn with_banner(mut self, banner: Option<Banner>) -> Self {
        self.banners.extend(banner);
        self
    }

    /// Sets the favicon to the status of one check.
    pub(crate) fn with_status_icon(self, status: VisibleStatus) -> Self {
        let favicon = match status {
            VisibleStatus::Grace => "late",
            VisibleStatus::Down => "down",
            VisibleStatus::Up | VisibleStatus::New | VisibleStatus::Paused => "up",
        };
        Self { favicon, ..self }
    }

    /// URL of the search. It lists the pages of the current project first.
    pub(crate) fn search(&self) -> String {
        let page = self.link_to(&Page::Search());
        match &self.project {
            Some(project) => format!("{page}?project={}", project.uuid),
            None => page,
        }
    }

    /// URL of the list of the checks of all projects.
    pub(crate) fn all_checks(&self) -> String {
        self.link_to(&Page::AllChecks())
    }

    /// URL of a page.
    pub(crate) fn link_to(&self, page: &Page) -> String {
        PageLink {
            base_url: &self.base_url,
            page,
        }
        .to_string()
    }

    /// URL of the list of checks of a project.
    pub(crate) fn checks(&self, project: &Uuid) -> String {
        self.link_to(&Page::Checks(*project))
    }

    /// URL of a chapter of the documentation.
    pub(crate) fn chapter(&self, chapter: &'static Chapter) -> String {
        self.link_to(&Page::Chapter(chapter))
    }

    /// URL of the preview of a schedule.
    pub(crate) fn preview(&self) -> String {
        self.link_to(&Page::Preview())
    }

    /// URL of the list of chapters.
    pub(crate) fn chapters(&self) -> String {
        self.link_to(&Page::Chapters())
    }

    /// URL of the channels of a project.
    pub(crate) fn channels(&self, project: &Uuid) -> String {
        self.link_to(&Page::Channels(*project))
    }

    /// URL of the page of projects.
    pub(crate) fn projects(&self) -> String {
        self.link_to(&Page::Projects())
    }

    /// URL of the sign-in page.
    pub(crate) fn login(&self) -> String {
        self.link_to(&Page::Login())
    }

    /// Target of the form for the second step of signing in.
    pub(crate) fn second_step(&self) -> String {
        self.link_to(&Page::SecondStep())
    }

    /// Target of the form that signs out.
    pub(crate) fn logout(&self) -> String {
        self.link_to(&Page::Logout())
    }

    /// URL of the settings of a project.
    pub(crate) fn settings(&self, project: &Uuid) -> String {
        self.link_to(&Page::Settings(*project))
    }

    /// URL of the badges of a project.
    pub(crate) fn badges(&self, project: &Uuid) -> String {
        self.link_to(&Page::Badges(*project))
    }

    /// URL of the deliveries of a project.
    pub(crate) fn deliveries(&self, project: &Uuid) -> String {
        self.link_to(&Page::Deliveries(*project))
    }

    /// True on the page of deliveries.
    pub(crate) fn is_on_deliveries(&self) -> bool {
        matches!(self.page, Some(Page::Deliveries(_)))
    }

    /// URL of the maintenance windows of a project.
    pub(crate) fn windows(&self, project: &Uuid) -> String {
        self.link_to(&Page::Windows(*project))
    }

    /// True on the page of maintenance windows.
    pub(crate) fn is_on_windows(&self) -> bool {
        matches!(self.page, Some(Page::Windows(_)))
    }

    /// True on the page of badges, and on the pages of status pages.
    pub(crate) fn is_on_badges(&self) -> bool {
        matches!(
            self.page,
            Some(Page::Badges(_) | Page::StatusPages(_) | Page::EditStatusPage(..))
        )
    }

    /// URL of the page about the server.
    pub(crate) fn system(&self) -> String {
        self.link_to(&Page::System())
    }

    /// Target of the form that deletes the project of the page.
    pub(crate) fn delete_project(&self) -> String {
        self.project
            .as_ref()
            .map(|project| self.link_to(&Page::DeleteProject(project.uuid)))
            .unwrap_or_default()
    }

    /// URL of the export of the project of the page.
    pub(crate) fn export(&self) -> String {
        self.project
            .as_ref()
            .map(|project| self.link_to(&Page::Export(project.uuid)))
            .unwrap_or_default()
    }

    /// URL of the audit log of the project of the page.
    pub(crate) fn audit(&self) -> String {
        self.project
            .as_ref()
            .map(|project| self.link_to(&Page::AuditOfProject(project.uuid)))
            .unwrap_or_default()
    }

    /// Name of the project of the page.
    pub(crate) fn project_name(&self) -> &str {
        self.project.as_ref().map_or("", |project| &project.name)
    }

    /// URL of the page that creates a project.
    pub(crate) fn add_project(&self) -> String {
        self.link_to(&Page::AddProject())
    }

    /// URL of the list of users.
    pub(crate) fn users(&self) -> String {
        self.link_to(&Page::Users())
    }

    /// URL of the account page of the viewer.
    pub(crate) fn account(&self) -> String {
        self.link_to(&Page::Account())
    }

    /// Target of requests of scripts that store preferences of the viewer.
    pub(crate) fn preferences(&self) -> String {
        self.link_to(&Page::AccountList())
    }

    /// Themes of the menu: name, and true for the current one.
    pub(crate) fn themes(&self) -> [(&'static str, bool); 3] {
        Theme::ALL.map(|theme| (theme.name(), theme.name() == self.theme))
    }

    /// True on a page of project settings.
    pub(crate) fn is_on_settings(&self) -> bool {
        matches!(self.page, Some(Page::Settings(_) | Page::Key(..)))
    }

    /// URL of the setup page for the first owner.
    pub(crate) fn setup(&self) -> String {
        self.link_to(&Page::Setup())
    }

    /// Version of the program.
    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// URL of a static file.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{}", self.base_url.path(), assets::asset_path(name))
    }

    /// URL of the favicon.
    pub(crate) fn favicon(&self) -> String {
        self.file(&format!("favicon-{}.svg", self.favicon))
    }

    /// True on the list of channels, or on a page below it.
    pub(crate) fn is_on_channels(&self) -> bool {
        let page = self.page.as_ref();
        page.is_some_and(|page| {
            matches!(page, Page::Channels(_) | Page::AddChannel(..))
                || matches!(page.scope(), Scope::Channel(_))
        })
    }

    /// True on the list of checks, or on a page below it.
    pub(crate) fn is_on_checks(&self) -> bool {
        let page = self.page.as_ref();
        page.is_some_and(|page| {
            matches!(page, Page::Checks(_) | Page::AddCheck(_))
                || matches!(page.scope(), Scope::Check(_))
        })
    }
}

/// Messages about the server: for all viewers, or only for viewers who can act on them.
fn collect_banners(request: &PageRequest) -> Vec<Banner> {
    let mut banners = Vec::new();
    // A fragment of a page shows no messages.
    let taken = || {
        request
            .dashboard
            .one_time_texts
            .take(request, &Page::SecondStep().to_string())
    };
    let wrong_codes = request.fragment.is_empty().then(taken).flatten();
    banners.extend(wrong_codes.map(|text| {
        Banner::warning(text).with_link("Your account", request.page_url(&Page::Account()))
    }));
    if let Some(as_of) = request.handle().as_of() {
        let times = TimeFormatter {
            now: as_of,
            zone: &request.viewer.zone,
        };
        let text = format!(
            "No machine of the cluster leads. Shown as of {}. Pings are answered with 503, and \
             clients retry. Nothing can be changed.",
            times.exact(as_of)
        );
        banners.push(Banner::error(text));
    } else if !request.handle().is_writable() {
        let text = "The database does not accept writes. Pings are answered with 503, and clients \
                    retry. Changes are not saved.";
        banners.push(Banner::error(text));
    }
    let base_url = request.base_url();
    if let Some(address) = request
        .origin
        .mismatched_address(base_url)
        .filter(|_| request.is_allowed(RequiredRight::Write))
    {
        let base_url = base_url.as_str();
        let text = format!(
            "Ping URLs on these pages begin with {base_url}, but you reached this page at \
             {address}. Start overdue with --base-url {address}."
        );
        banners.push(Banner::warning(text));
    }
    if let Ok(project) = request.project()
        && project.is_on_trial()
    {
        let name = project.name.as_str();
        banners.push(Banner::warning(format!(
            "This project is on trial: no alerts are sent. To end the trial, run overdue project \
             release {name:?}."
        )));
    }
    banners
}

fn menu_projects(request: &PageRequest) -> Vec<(Box<str>, Uuid)> {
    let projects = request.visible_projects();
    let shown = projects.iter().take(MAX_PROJECTS_IN_MENU);
    shown
        .map(|project| (project.name.as_str().into(), project.uuid))
        .collect()
}
