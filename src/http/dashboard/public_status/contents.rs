//! Contents of a status page: checks with their status and uptime, and incidents. Nothing else of
//! a check is on it: no UUID, URL, tag, description or output.

use std::fmt::Write as _;

use askama::Template;

use crate::domain::check::Check;
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::project::Project;
use crate::domain::status::{Status, VisibleStatus};
use crate::domain::status_page::StatusPage;
use crate::domain::timestamp::Timestamp;
use crate::domain::uptime::{
    StatusInterval, UptimeHistory, UptimePeriod, status_intervals, uptime_history,
};
use crate::http::dashboard::DashboardState;
use crate::http::dashboard::check::history::{self, UptimeBar};
use crate::http::dashboard::check_list::{compare_natural, visible_name};
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::time_display::DisplayTime;
use crate::operations::window;

/// Maximum number of checks on a page: see [limits](crate::docs::limits).
const MAX_CHECKS: usize = 200;
/// Maximum number of incidents on a page.
const MAX_INCIDENTS: usize = 50;

#[derive(Template)]
#[template(path = "public_status.html", config = "src/http/dashboard/askama.toml")]
struct PublicStatusPage<'a> {
    layout: Layout,
    title: &'a str,
    /// Style and words of the overall status.
    style: &'static str,
    summary: String,
    /// Time at which it was rendered, to the minute, so that a page without changes stays the same.
    as_of: String,
    zone: &'a str,
    checks: Vec<PublicCheck>,
    /// Number of checks that the page does not show.
    more: usize,
    incidents: Vec<Incident>,
    /// First day that is shown.
    since: String,
}

/// A check on the page.
struct PublicCheck {
    name: String,
    style: &'static str,
    word: &'static str,
    /// End of the maintenance that covers it.
    maintenance: Option<DisplayTime>,
    uptime: Option<String>,
    bar: UptimeBar,
    /// Path of the days on which it was monitored, and of those on which it was not.
    days: [String; 2],
}

/// A downtime.
struct Incident {
    name: String,
    from: DisplayTime,
    /// `None` while it lasts.
    until: Option<DisplayTime>,
    duration: String,
}

/// Numbers of monitored checks by status.
#[derive(Default)]
struct PublicCounts {
    up: usize,
    late: usize,
    down: usize,
}

impl PublicCounts {
    fn add(&mut self, status: VisibleStatus) {
        match status {
            VisibleStatus::Up => self.up += 1,
            VisibleStatus::Grace => self.late += 1,
            VisibleStatus::Down => self.down += 1,
            VisibleStatus::New | VisibleStatus::Paused => {}
        }
    }

    /// Style and words for all checks together.
    fn summary(&self) -> (&'static str, String) {
        let monitored = self.up + self.late + self.down;
        let state = |count: usize| match count {
            1 => format!("1 of {} is", format_count(monitored, "check")),
            _ => format!("{count} of {} are", format_count(monitored, "check")),
        };
        match self {
            Self { down: 1.., .. } => ("down", format!("{} down", state(self.down))),
            Self { late: 1.., .. } => ("late", format!("{} late", state(self.late))),
            _ if monitored == 0 => ("off", "Nothing is monitored at the moment".into()),
            _ if monitored == 1 => ("up", "The check is up".into()),
            _ => ("up", format!("All {monitored} checks are up")),
        }
    }
}

/// Renders a page.
///
/// # Errors
/// If the database cannot be read.
pub(super) fn render(
    dashboard: &DashboardState,
    project: &Project,
    page: &StatusPage,
) -> Result<String, PageError> {
    let handle = &dashboard.handle;
    let now = handle.now();
    let zone = &dashboard.config.default_zone;
    let times = TimeFormatter { now, zone };
    let mut checks = Vec::new();
    handle.for_each_check(project.id, |check| {
        if page.shows(&check.settings.tags) {
            checks.push(check);
        }
    });
    let mut counts = PublicCounts::default();
    for check in &checks {
        counts.add(visible_status(check, now));
    }
    let more = checks.len().saturating_sub(MAX_CHECKS);
    // What is not up is never left out.
    checks.sort_by_key(|check| severity(visible_status(check, now)));
    checks.truncate(MAX_CHECKS);
    let name = |check: &Check| visible_name(&check.settings).to_owned();
    checks.sort_by(|one, other| compare_natural(&name(one), &name(other)));
    let windows = window::list(handle, Some(project.id));
    let mut incidents = Vec::new();
    let mut shown = Vec::new();
    let mut since = now;
    for check in &checks {
        let flips = history::recent_flips(handle, check, now)?;
        let history = uptime_history(&flips, check.state.status, now, zone);
        since = history
            .days
            .first()
            .map_or(since, |day| since.min(day.start));
        let start = history.days.first().map_or(now, |day| day.start);
        let intervals = status_intervals(&flips, check.state.status, start, now);
        let downtimes = intervals
            .iter()
            .filter(|interval| interval.status == Status::Down);
        incidents.extend(downtimes.map(|interval| (name(check), *interval)));
        let status = visible_status(check, now);
        let closes = windows
            .iter()
            .filter(|(_, window)| window.applies_to(&check.settings.tags))
            .filter_map(|(_, window)| window.open_until(now))
            .max();
        shown.push(PublicCheck {
            name: name(check),
            style: style(status),
            word: word(status),
            maintenance: closes.map(|until| DisplayTime::clock_time(until, &times)),
            uptime: history::overall_uptime(&history),
            days: [true, false].map(|monitored| path_of_days(&history, monitored)),
            bar: history::uptime_bar(&history, &times),
        });
    }
    incidents.sort_by_key(|(_, interval)| std::cmp::Reverse(interval.from));
    let incident = |(name, interval): (String, StatusInterval)| Incident {
        name,
        from: DisplayTime::clock_time(interval.from, &times),
        until: (interval.until < now).then(|| DisplayTime::clock_time(interval.until, &times)),
        duration: format_duration(interval.until.micros_since(interval.from)),
    };
    let (style, summary) = counts.summary();
    let contents = PublicStatusPage {
        layout: Layout::without_user(dashboard, page.title.as_str()),
        title: page.title.as_str(),
        style,
        summary,
        as_of: times.at(now),
        zone: zone.name(),
        checks: shown,
        more,
        incidents: incidents
            .into_iter()
            .take(MAX_INCIDENTS)
            .map(incident)
            .collect(),
        since: times.date(since),
    };
    // Rendering only formats values and does not fail.
    Ok(contents.render().unwrap_or_default())
}

fn visible_status(check: &Check, now: Timestamp) -> VisibleStatus {
    check.state.visible_status(&check.settings, now)
}

/// Order in which checks are kept if there are too many.
fn severity(status: VisibleStatus) -> u8 {
    match status {
        VisibleStatus::Down => 0,
        VisibleStatus::Grace => 1,
        VisibleStatus::Up => 2,
        VisibleStatus::New | VisibleStatus::Paused => 3,
    }
}

/// Word of a status. Badges have the same words, except for checks that wait for no ping.
fn word(status: VisibleStatus) -> &'static str {
    match status {
        VisibleStatus::Up => "up",
        VisibleStatus::Grace => "late",
        VisibleStatus::Down => "down",
        VisibleStatus::New | VisibleStatus::Paused => "not monitored",
    }
}

fn style(status: VisibleStatus) -> &'static str {
    match status {
        VisibleStatus::New | VisibleStatus::Paused => "off",
        _ => word(status),
    }
}

/// Path of one vertical line for each day that was monitored, or for each other day. One path is
/// shorter than a rectangle for each day.
fn path_of_days(history: &UptimeHistory, monitored: bool) -> String {
    let mut path = String::new();
    let is_drawn = |(_, day): &(usize, &UptimePeriod)| (day.monitored > 0) == monitored;
    for (place, _) in history.days.iter().enumerate().filter(is_drawn) {
        let x = place * history::DAY_WIDTH + 3;
        let _ = write!(path, "M{x} 0V{}", history::HEIGHT);
    }
    path
}
