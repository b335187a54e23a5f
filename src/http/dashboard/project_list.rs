//! `/`: the start page of the dashboard. It is the list of checks of the only project, or a list of
//! all projects with the state of their checks.

use std::collections::BTreeMap;

use askama::Template;
use uuid::Uuid;

use super::check_list::DisplayStatus;
use super::layout::{Layout, MAX_PROJECTS_IN_MENU};
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::time_display::DisplayTime;
use crate::channels::alert_text::check_display_name;
use crate::domain::formatting::format_count;
use crate::domain::project::Project;

/// Maximum number of projects shown: see [limits](crate::docs::limits).
const MAX_SHOWN: usize = 250;
/// Maximum number of down checks that are named.
const MAX_NAMED_DOWN: usize = 3;

#[derive(Template)]
#[template(path = "projects.html", config = "src/http/dashboard/askama.toml")]
struct ProjectListPage {
    layout: Layout,
    projects: Vec<ProjectListRow>,
    hidden: Option<String>,
}

/// The list without the page, for the script that updates it.
#[derive(Template)]
#[template(path = "_projects.html", config = "src/http/dashboard/askama.toml")]
struct ProjectListFragment {
    layout: Layout,
    projects: Vec<ProjectListRow>,
}

/// The menu of projects without the page, for the script that updates its counts when it is opened.
#[derive(Template)]
#[template(path = "_switcher.html", config = "src/http/dashboard/askama.toml")]
struct ProjectMenuFragment {
    layout: Layout,
    projects: Vec<ProjectListRow>,
}

struct ProjectListRow {
    uuid: Uuid,
    name: String,
    checks: usize,
    counts: Vec<(DisplayStatus, usize)>,
    /// Most urgent status of its checks.
    worst: DisplayStatus,
    last: Option<DisplayTime>,
    /// True if the project was imported and sends no alerts yet.
    trial: bool,
    /// Names of checks that are down; `more_down` counts the others.
    down: Vec<String>,
    more_down: usize,
}

/// Renders the checks of the only project, or all projects, the most urgent first.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let mut projects = request.visible_projects();
    if &*request.fragment == "switcher" {
        projects.truncate(MAX_PROJECTS_IN_MENU);
        let projects = projects
            .iter()
            .map(|project| project_row(request, project))
            .collect();
        return Ok(HtmlPage::from_template(&ProjectMenuFragment {
            layout: request.layout("Projects"),
            projects,
        })
        .into());
    }
    if let [only] = projects.as_slice() {
        return Ok(PageResponse::Redirect(Page::Checks(only.uuid), None));
    }
    let mut rows: Vec<_> = projects
        .iter()
        .map(|project| project_row(request, project))
        .collect();
    rows.sort_by(|one, other| {
        one.worst
            .cmp(&other.worst)
            .then_with(|| one.name.cmp(&other.name))
    });
    let hidden_count = rows.len().saturating_sub(MAX_SHOWN);
    let hidden = (hidden_count > 0).then(|| format_count(hidden_count, "less urgent project"));
    rows.truncate(MAX_SHOWN);
    let count = |shown| {
        rows.iter()
            .flat_map(|row| &row.counts)
            .filter(|(own, _)| *own == shown)
            .map(|(_, count)| count)
            .sum()
    };
    let layout = request
        .layout("Projects")
        .with_check_counts(count(DisplayStatus::Late), count(DisplayStatus::Down));
    Ok(match &*request.fragment {
        "projects" => HtmlPage::from_template(&ProjectListFragment {
            layout,
            projects: rows,
        }),
        _ => HtmlPage::from_template(&ProjectListPage {
            layout,
            projects: rows,
            hidden,
        }),
    }
    .into())
}

fn project_row(request: &PageRequest, project: &Project) -> ProjectListRow {
    let mut counts = BTreeMap::<DisplayStatus, usize>::new();
    let mut down = Vec::new();
    let mut last = None;
    request.handle().for_each_check(project.id, |check| {
        let shown = DisplayStatus::from_status(
            check.state.visible_status(&check.settings, request.now),
            check.state.run.is_some(),
        );
        *counts.entry(shown).or_default() += 1;
        last = last.max(check.state.last_ping);
        if shown == DisplayStatus::Down && down.len() < MAX_NAMED_DOWN {
            down.push(check_display_name(&check.settings));
        }
    });
    ProjectListRow {
        uuid: project.uuid,
        name: project.name.as_str().into(),
        checks: counts.values().sum(),
        last: last.map(|at| DisplayTime::relative(at, &request.time_formatter())),
        worst: counts.keys().next().copied().unwrap_or(DisplayStatus::New),
        more_down: counts
            .get(&DisplayStatus::Down)
            .copied()
            .unwrap_or_default()
            .saturating_sub(down.len()),
        counts: counts.into_iter().collect(),
        trial: project.is_on_trial(),
        down,
    }
}
