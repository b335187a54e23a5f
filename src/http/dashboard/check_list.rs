//! List of the checks of a project.

mod bulk;
mod bulk_confirmation;
mod filter_menu;
mod list_return;
mod query;
mod row;
mod scan;

use std::collections::HashSet;

use askama::Template;

use super::layout::Layout;
use super::live_updates::LiveSubscription;
use super::page_error::PageError;
use super::page_messages::Banner;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use super::pause_length::PauseLength;
use super::windows::{OpenWindow, open_windows};
use crate::domain::formatting::format_count;
use crate::domain::ids::ProjectId;
use crate::domain::project::{Channel, KeySecret, PingKey};
use crate::domain::text::Slug;
use crate::domain::user::preferences::{ListPreferences, SortOrder};
use crate::http::common::ping_path::creating_ping_url;
use crate::operations::channel::unnotified_reason;
use crate::operations::check::latest_downtime;
use bulk::BulkFormInput;
pub(super) use bulk::{BulkAction, apply_bulk_action, undo_steps};
use filter_menu::FilterMenu;
pub(super) use list_return::ListReturn;
use query::{CheckListItem, CheckListQuery, Grouping, SortKey, sort_page};
pub(super) use query::{DisplayStatus, compare_natural};
use row::{CheckListRow, RowProject};
pub(super) use row::{Next, last_run_duration, visible_name};
use scan::{ListScan, scan_checks};

/// Slug used in the getting-started example.
const EXAMPLE_SLUG: &str = "my-first-check";

#[derive(Template)]
#[template(path = "checks.html", config = "src/http/dashboard/askama.toml")]
struct CheckListPage {
    layout: Layout,
    list: CheckList,
    live: Option<LiveSubscription>,
}

/// Tiles and rows without the page, for the script that searches without a reload.
#[derive(Template)]
#[template(path = "_list.html", config = "src/http/dashboard/askama.toml")]
struct CheckListFragment {
    list: CheckList,
}

/// Values for the templates.
struct CheckList {
    query: CheckListQuery,
    page_url: String,
    tiles: Vec<StatusTile>,
    tags: Vec<TagOption>,
    rows: Vec<CheckListRow>,
    /// Number of checks in the project; `found` is the number in the list.
    all: usize,
    found: usize,
    /// URL that creates a first check. `None` if there are checks, or if the viewer may create
    /// none.
    example_url: Option<String>,
    /// URL of the page that creates ping keys.
    keys: Option<String>,
    /// URL of the form for a new check, if the viewer may create one.
    add: Option<String>,
    /// Prefix of ping URLs by UUID.
    ping: String,
    /// Target of bulk actions, if the viewer may use them.
    bulk: Option<String>,
    /// Target of the form that saves list preferences, if the viewer has an account.
    account: Option<String>,
    /// Lengths of a pause: value and label.
    pause_lengths: [(String, String); 7],
    /// Target of the form that pins checks, if the viewer has an account.
    pins: Option<String>,
    /// Saved filters of the viewer, if the viewer has an account.
    filters: Option<FilterMenu>,
    /// Channels of the project: UUID and name.
    channels: Vec<(String, String)>,
    /// Maintenance windows that are open.
    windows: Vec<OpenWindow>,
    /// True if the list has the checks of all projects.
    is_of_all_projects: bool,
    /// Submitted bulk form that was incomplete.
    submitted: Option<BulkFormInput>,
}

/// Status with its number of checks. It is a link that adds the status to the filter, or removes
/// it.
struct StatusTile {
    shown: DisplayStatus,
    count: usize,
    is_on: bool,
    link: String,
}

struct TagOption {
    tag: String,
    worst: DisplayStatus,
    is_on: bool,
}

/// Renders the page, or its rows alone.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let query = CheckListQuery::parse(&request.query.0, request.viewer.list_preferences);
    let undo = request.dashboard.undo_history.url(request);
    let banner = bulk::result_banner(&request.query).map(|banner| banner.with_undo(undo));
    Ok(render_list(request, query, banner, None)?.into())
}

/// Renders the list for this query, below this message.
fn render_list(
    request: &PageRequest,
    query: CheckListQuery,
    banner: Option<Banner>,
    submitted: Option<BulkFormInput>,
) -> Result<HtmlPage, PageError> {
    let live = request.live_subscription();
    let has_no_channels = !request.has_channels();
    let scan = scan_checks(request, &query);
    let layout = request.layout("Checks").with_check_counts(
        scan.status_count(DisplayStatus::Late),
        scan.status_count(DisplayStatus::Down),
    );
    let layout = layout.with_banner(banner).with_banner(no_alerts_banner(
        request,
        &scan,
        &query,
        has_no_channels,
    ));
    let list = CheckList {
        submitted,
        ..CheckList::new(request, query, scan, has_no_channels)?
    };
    let shows_key = list.example_url.is_some();
    let html = match &*request.fragment {
        "list" => HtmlPage::from_template(&CheckListFragment { list }),
        _ => HtmlPage::from_template(&CheckListPage { layout, list, live }),
    };
    Ok(if shows_key {
        html.without_caching()
    } else {
        html
    })
}

/// Warns if alerts about checks reach no recipient.
fn no_alerts_banner(
    request: &PageRequest,
    scan: &ListScan,
    query: &CheckListQuery,
    has_no_channels: bool,
) -> Option<Banner> {
    if scan.unnotified == 0 || query.only_unnotified {
        return None;
    }
    if has_no_channels {
        let text = "No alerts are sent. Without a channel, overdue shows which checks are down but \
                    notifies no one.";
        let link = request
            .project()
            .ok()
            .map(|project| request.page_url(&Page::Channels(project.uuid)));
        let banner = Banner::warning(text);
        return Some(match link {
            Some(link) if request.is_allowed(RequiredRight::Write) => {
                banner.with_link("Add a channel", link)
            }
            _ => banner,
        });
    }
    let text = format!(
        "No one is notified about {}.",
        format_count(scan.unnotified, "check")
    );
    let link = format!(
        "{}{}",
        request.page_url(&request.page),
        query
            .with_change(|query| query.only_unnotified = true)
            .to_query_string()
    );
    Some(Banner::info(text).with_link("Show them", link))
}

fn channel_names(request: &PageRequest) -> Result<Vec<(String, String)>, PageError> {
    let project = request.project()?.id;
    request.handle().with_state(|state| {
        let name = |channel: &Channel| match channel.name.as_str() {
            "" => channel.settings.kind().title.to_owned(),
            name => name.to_owned(),
        };
        let channels = state
            .project(project)
            .into_iter()
            .flat_map(|project| project.channels.values());
        Ok(channels
            .map(|channel| (channel.uuid.to_string(), name(channel)))
            .collect())
    })
}

/// List that the request belongs to: that of a project, or that of all.
fn list_page(request: &PageRequest) -> Page {
    match request.project() {
        Ok(project) => Page::Checks(project.uuid),
        Err(_) => Page::AllChecks(),
    }
}

/// Target of the bulk actions of that list.
fn bulk_page(request: &PageRequest) -> Page {
    match request.project() {
        Ok(project) => Page::Bulk(project.uuid),
        Err(_) => Page::BulkOfAll(),
    }
}

/// Rows of a page of the list.
fn list_rows(
    request: &PageRequest,
    query: &CheckListQuery,
    items: Vec<CheckListItem>,
    writable: &HashSet<ProjectId>,
    has_no_channels: bool,
) -> Vec<CheckListRow> {
    let handle = request.handle();
    let transports = handle.transports();
    let times = request.time_formatter();
    let back = ListReturn::from_query(query);
    let is_of_all_projects = request.project().is_err();
    let mut rows = Vec::with_capacity(items.len());
    let mut last_heading = None;
    for item in items {
        // A check that was deleted in the meantime is left out. The lock is held for one check at a
        // time.
        let found = handle.with_state(|state| {
            let check = state.check(item.id)?;
            // If there is no channel at all, a banner says so above all rows.
            let unnotified = (!has_no_channels)
                .then(|| unnotified_reason(state, check, transports))
                .flatten();
            Some((check.clone(), unnotified))
        });
        let Some((check, unnotified)) = found else {
            continue;
        };
        let row = CheckListRow::new(
            &check,
            back.url_with_return(&request.page_url(&Page::Check(check.uuid))),
            latest_downtime(handle, &check),
            unnotified,
            &times,
        );
        let heading = query.grouping.map(|by| by.heading(&item).to_owned());
        rows.push(CheckListRow {
            is_pinned: item.is_pinned,
            is_selectable: writable.contains(&check.project),
            heading: heading.clone().filter(|_| heading != last_heading),
            project: is_of_all_projects.then(|| RowProject {
                name: item.project.name.as_str().to_owned(),
                page: request.page_url(&Page::Checks(item.project.uuid)),
            }),
            ..row
        });
        last_heading = heading;
    }
    rows
}

impl CheckList {
    fn new(
        request: &PageRequest,
        query: CheckListQuery,
        scan: ListScan,
        has_no_channels: bool,
    ) -> Result<Self, PageError> {
        let page_url = request.page_url(&request.page);
        let project = request.project().ok().map(|project| project.uuid);
        let tiles = DisplayStatus::ALL
            .into_iter()
            .map(|shown| StatusTile::new(shown, &scan, &query, &page_url))
            .collect();
        let tags = scan.tags.iter().map(|(tag, worst)| TagOption {
            tag: tag.clone(),
            worst: *worst,
            is_on: query.tags.contains(tag),
        });
        let mut tags: Vec<_> = tags.collect();
        tags.sort_by(|one, other| compare_natural(&one.tag, &other.tag));
        let all = scan.all;
        let found = scan.items.len();
        let example_url = if all == 0 && project.is_some() {
            example_ping_url(request)?
        } else {
            None
        };
        // If the last rows of a list were deleted, the page before is shown.
        let query = CheckListQuery {
            page: query.page.min(found.div_ceil(query.page_size).max(1)),
            ..query
        };
        let shown = sort_page(scan.items, &query);
        let writable: HashSet<_> = request
            .writable_projects()
            .iter()
            .map(|project| project.id)
            .collect();
        let rows = list_rows(request, &query, shown, &writable, has_no_channels);
        let filters = FilterMenu::new(request, &query);
        let keys = project.map(|project| request.page_url(&Page::Settings(project)));
        let bulk = (!writable.is_empty()).then(|| request.page_url(&bulk_page(request)));
        let project = project.filter(|_| request.is_allowed(RequiredRight::Write));
        let channels = match project {
            Some(_) => channel_names(request)?,
            None => Vec::new(),
        };
        let add = project.map(|project| request.page_url(&Page::AddCheck(project)));
        let account = request
            .viewer
            .signed_in
            .as_ref()
            .map(|_| request.page_url(&Page::AccountList()));
        let ping = format!("{}/ping/", request.base_url().as_str());
        Ok(Self {
            query,
            page_url,
            tiles,
            tags,
            rows,
            all,
            found,
            example_url,
            keys,
            add,
            bulk,
            account,
            pins: request
                .viewer
                .signed_in
                .as_ref()
                .map(|_| request.page_url(&Page::AccountPins())),
            filters,
            channels,
            pause_lengths: PauseLength::options(),
            ping,
            windows: open_windows(request, None),
            is_of_all_projects: request.project().is_err(),
            submitted: None,
        })
    }

    /// URL of the list, if this page has another one.
    fn address(&self) -> Option<String> {
        self.submitted.is_some().then(|| self.url_for(&self.query))
    }

    /// Range of the rows that are shown: `1–250`.
    fn span(&self) -> String {
        let first = (self.query.page - 1) * self.query.page_size + 1;
        format!("{first}–{}", first + self.rows.len().max(1) - 1)
    }

    /// URL of the previous page.
    fn earlier(&self) -> Option<String> {
        (self.query.page > 1).then(|| {
            self.url_for(&CheckListQuery {
                page: self.query.page - 1,
                ..self.query.clone()
            })
        })
    }

    fn later(&self) -> Option<String> {
        let more = self.query.page * self.query.page_size < self.found;
        more.then(|| {
            self.url_for(&CheckListQuery {
                page: self.query.page + 1,
                ..self.query.clone()
            })
        })
    }

    /// True if the check was ticked in the submitted form.
    fn is_ticked(&self, row: &CheckListRow) -> bool {
        self.submitted
            .as_ref()
            .is_some_and(|submitted| submitted.selected.contains(&row.id))
    }

    fn is_all(&self) -> bool {
        self.submitted
            .as_ref()
            .is_some_and(|submitted| submitted.is_all)
    }

    fn tag(&self) -> &str {
        self.submitted
            .as_ref()
            .map_or("", |submitted| &submitted.tag)
    }

    fn is_chosen(&self, channel: &str) -> bool {
        self.submitted
            .as_ref()
            .is_some_and(|submitted| submitted.channel == channel)
    }

    fn url_for(&self, query: &CheckListQuery) -> String {
        format!("{}{}", self.page_url, query.to_query_string())
    }

    /// URL of the same list sorted by this column, or in reverse if it is already.
    fn sorted(&self, by: SortKey) -> String {
        let is_reversed = self.query.order.key == by && !self.query.order.is_reversed;
        self.full_url_for(&self.query.with_change(|query| {
            query.order = SortOrder {
                key: by,
                is_reversed,
            }
        }))
    }

    fn full_url_for(&self, query: &CheckListQuery) -> String {
        format!("{}{}", self.page_url, query.to_full_query_string())
    }

    /// Value of `aria-sort` for a column.
    fn order(&self, by: SortKey) -> &'static str {
        match (self.query.order.key == by, self.query.order.is_reversed) {
            (false, _) => "none",
            (true, false) => "ascending",
            (true, true) => "descending",
        }
    }

    /// Page sizes: number, true for the current one, and URL.
    fn sizes(&self) -> Vec<(usize, bool, String)> {
        let size = |size| {
            (
                size,
                size == self.query.page_size,
                self.full_url_for(&self.query.with_change(|query| query.page_size = size)),
            )
        };
        ListPreferences::PAGE_SIZES.into_iter().map(size).collect()
    }

    /// Groupings of the menu: name and true for the current one.
    fn groupings(&self) -> Vec<(&'static str, bool)> {
        let groupings = Grouping::ALL
            .into_iter()
            .filter(|grouping| *grouping != Grouping::Project || self.is_of_all_projects);
        groupings
            .map(|grouping| (grouping.name(), self.query.grouping == Some(grouping)))
            .collect()
    }

    /// Hidden fields of the search form: the filter without the search, tags and groups.
    fn kept(&self) -> Vec<(&'static str, String)> {
        let query = self.query.with_change(|query| {
            query.search.clear();
            query.tags.clear();
            query.grouping = None;
        });
        query.pairs()
    }
}

impl StatusTile {
    fn new(shown: DisplayStatus, scan: &ListScan, query: &CheckListQuery, page_url: &str) -> Self {
        let is_on = query.statuses.contains(&shown);
        let toggled = query.with_change(|query| {
            if !query.statuses.remove(&shown) {
                query.statuses.insert(shown);
            }
        });
        Self {
            shown,
            count: scan.status_count(shown),
            is_on,
            link: format!("{page_url}{}", toggled.to_query_string()),
        }
    }
}

/// URL whose first ping creates a check.
fn example_ping_url(request: &PageRequest) -> Result<Option<String>, PageError> {
    if !request.is_allowed(RequiredRight::Write) {
        return Ok(None);
    }
    let project = request.project()?.id;
    request.handle().with_state(|state| {
        let keys = state
            .project(project)
            .into_iter()
            .flat_map(|found| found.keys())
            .filter_map(|id| state.key(id));
        let ping_key = |secret: &KeySecret| match secret {
            KeySecret::Ping(key) => Some(PingKey::clone(key)),
            KeySecret::ReadWrite(_) | KeySecret::ReadOnly(_) | KeySecret::Legacy(_) => None,
        };
        let key = keys.filter_map(|key| ping_key(&key.secret)).next();
        Ok(key
            .zip(Slug::parse(EXAMPLE_SLUG).ok())
            .map(|(key, slug)| creating_ping_url(request.base_url(), key, slug)))
    })
}
