//! `/`: where whoever opens the dashboard begins. The list of the only project, or all projects with how their checks are.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::frame::{Frame, MOST_IN_MENU};
use super::list::Shown;
use super::route::{Need, Page};
use super::visit::Visit;
use super::when::When;
use crate::domain::project::Project;

/// Projects that are shown: see [limits](crate::docs::limits).
const MOST_SHOWN: usize = 250;
/// Checks that are named because they are down.
const MOST_NAMED: usize = 3;

#[derive(Template)]
#[template(path = "projects.html", config = "src/web/askama.toml")]
struct Projects {
    frame: Frame,
    projects: Vec<Row>,
    left_out: usize,
}

/// The list alone, for the script that keeps it true.
#[derive(Template)]
#[template(path = "_projects.html", config = "src/web/askama.toml")]
struct ProjectsAlone {
    frame: Frame,
    projects: Vec<Row>,
}

/// The menu of projects alone, for the script that counts what is in them when it is opened.
#[derive(Template)]
#[template(path = "_switcher.html", config = "src/web/askama.toml")]
struct Switcher {
    frame: Frame,
    projects: Vec<Row>,
}

/// A project in the list.
struct Row {
    uuid: Uuid,
    name: String,
    checks: usize,
    counts: Vec<(Shown, usize)>,
    /// The most urgent of what its checks are.
    worst: Shown,
    last: Option<When>,
    /// It was imported and tells nobody yet.
    trial: bool,
    /// Names of checks that are down, and how many more are.
    down: Vec<String>,
    more_down: usize,
}

/// The list of the only project, or all projects, the most urgent first.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let mut projects: Vec<_> = visit.handle().with_state(|state| state.projects().map(|found| Arc::clone(&found.project)).collect());
    projects.retain(|project| visit.viewer.may(Need::Read, Some(project.id)));
    if &*visit.fragment == "switcher" {
        projects.sort_unstable_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
        projects.truncate(MOST_IN_MENU);
        let projects = projects.iter().map(|project| row(visit, project)).collect();
        return Ok(Html::of(&Switcher { frame: visit.frame("Projects"), projects }).into());
    }
    if let [only] = projects.as_slice() {
        return Ok(Done::Go(Page::Checks(only.uuid), None));
    }
    let mut rows: Vec<_> = projects.iter().map(|project| row(visit, project)).collect();
    rows.sort_by(|one, other| one.worst.cmp(&other.worst).then_with(|| one.name.cmp(&other.name)));
    let left_out = rows.len().saturating_sub(MOST_SHOWN);
    rows.truncate(MOST_SHOWN);
    let count = |shown| rows.iter().flat_map(|row| &row.counts).filter(|(own, _)| *own == shown).map(|(_, count)| count).sum();
    let frame = visit.frame("Projects").alarmed(count(Shown::Late), count(Shown::Down));
    Ok(match &*visit.fragment {
        "projects" => Html::of(&ProjectsAlone { frame, projects: rows }),
        _ => Html::of(&Projects { frame, projects: rows, left_out }),
    }
    .into())
}

fn row(visit: &Visit, project: &Project) -> Row {
    let (mut counts, mut down, mut last) = (BTreeMap::<Shown, usize>::new(), Vec::new(), None);
    visit.handle().each_check(project.id, |check| {
        let shown = Shown::of(check.state.visible_status(&check.settings, visit.now), check.state.run.is_some());
        *counts.entry(shown).or_default() += 1;
        last = last.max(check.state.last_ping);
        if shown == Shown::Down && down.len() < MOST_NAMED {
            let name = check.settings.name.as_str();
            down.push(if name.is_empty() { check.uuid.to_string() } else { name.into() });
        }
    });
    Row {
        uuid: project.uuid,
        name: project.name.as_str().into(),
        checks: counts.values().sum(),
        last: last.map(|at| When::of(at, &visit.times())),
        worst: counts.keys().next().copied().unwrap_or(Shown::New),
        more_down: counts.get(&Shown::Down).copied().unwrap_or_default().saturating_sub(down.len()),
        counts: counts.into_iter().collect(),
        trial: project.is_held(),
        down,
    }
}
