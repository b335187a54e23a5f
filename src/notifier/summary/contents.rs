//! Contents of a summary: what was down in a period and for how long, what is down now, and which
//! jobs have become slower.

use std::sync::Arc;

use crate::channels::alert_text::check_display_name;
use crate::channels::render::sanitize::to_one_line;
use crate::domain::check::Check;
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::ids::{CheckId, ProjectId, UniqueKey};
use crate::domain::slowdown::{Slowdown, detect_slowdown};
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::uptime::{MAX_FLIPS, UptimePeriod, status_intervals};
use crate::domain::user::User;
use crate::domain::user::summary::{SummaryPeriod, SummarySubscription};
use crate::engine::Handle;
use crate::store::StoreError;

/// Maximum number of checks in each list of a summary: see [limits](crate::docs::limits).
const MAX_LISTED: usize = 50;
/// Number of checks that are read from the state at a time.
const CHECKS_PER_PAGE: usize = 100;
/// Maximum number of pings of a check that are examined for its runs.
const MAX_EXAMINED_PINGS: u64 = 500;

/// Summary of a period, as words for the templates.
pub(super) struct SummaryContents {
    /// Days of the period: `16 Nov to 22 Nov 2026`.
    pub(super) period: String,
    /// `week` or `month`.
    pub(super) noun: &'static str,
    /// Checks and projects: `14 checks in 2 projects`.
    pub(super) scope: String,
    /// Number of checks that were down in the period.
    pub(super) outage_count: usize,
    /// Total time that checks were down: `3 h 20 min`.
    pub(super) downtime: String,
    /// Checks that are down now.
    pub(super) down_now: CheckLines,
    /// Checks that were down, the longest first.
    pub(super) outages: CheckLines,
    /// Checks whose runs have become slower.
    pub(super) slower: CheckLines,
    /// Number of checks that are paused.
    pub(super) paused: usize,
    /// Projects with their checks and uptime.
    pub(super) projects: Vec<ProjectLine>,
    /// Name of the time zone.
    pub(super) zone: String,
}

/// List of checks, of limited length.
#[derive(Default)]
pub(super) struct CheckLines {
    /// Lines of the list.
    pub(super) lines: Vec<CheckLine>,
    /// Number of checks that are left out.
    pub(super) omitted: usize,
}

/// Line about a check.
pub(super) struct CheckLine {
    /// Name of the check.
    pub(super) name: String,
    /// Name of its project. Empty if there is only one.
    pub(super) project: String,
    /// Duration, time or share.
    pub(super) text: String,
    /// Page of the check, if the URL of this server is known.
    pub(super) url: Option<String>,
    /// Lines with the greatest value come first.
    rank: i64,
}

/// Line about a project.
pub(super) struct ProjectLine {
    pub(super) name: String,
    /// Such as `10 checks, 99.2 % up, 2 downtimes`.
    pub(super) text: String,
}

impl CheckLines {
    /// Adds a line. The list is cut to the first ones by rank, so that it stays short.
    fn add(&mut self, line: CheckLine) {
        let index = self.lines.partition_point(|other| other.rank >= line.rank);
        self.lines.insert(index, line);
        if self.lines.len() > MAX_LISTED {
            self.lines.pop();
            self.omitted += 1;
        }
    }
}

/// Request for the contents of a summary.
pub(super) struct SummaryRequest {
    pub(super) user: Arc<User>,
    pub(super) period: SummaryPeriod,
    pub(super) zone: Timezone,
    /// Base URL of the pages of checks.
    pub(super) pages_url: Option<String>,
}

/// Gathers the contents of a summary. `None` if no check of the user is covered.
///
/// # Errors
/// If the database cannot be read now.
pub(super) fn gather(
    handle: &Handle,
    request: &SummaryRequest,
) -> Result<Option<SummaryContents>, StoreError> {
    let mut gathering = Gathering {
        handle,
        request,
        now: handle.now(),
        check_count: 0,
        paused: 0,
        total: empty_period(request.period),
        down_now: CheckLines::default(),
        outages: CheckLines::default(),
        slower: CheckLines::default(),
        projects: Vec::new(),
    };
    let projects = gathering.covered_projects();
    let is_single = projects.len() == 1;
    for (id, name) in &projects {
        gathering.add_project(*id, name, is_single)?;
    }
    Ok((gathering.check_count > 0).then(|| gathering.finish()))
}

/// State of gathering the contents.
struct Gathering<'a> {
    handle: &'a Handle,
    request: &'a SummaryRequest,
    now: Timestamp,
    check_count: usize,
    paused: usize,
    total: UptimePeriod,
    down_now: CheckLines,
    outages: CheckLines,
    slower: CheckLines,
    projects: Vec<ProjectLine>,
}

impl Gathering<'_> {
    /// Projects that the user may see, has selected, and that are not on trial.
    fn covered_projects(&self) -> Vec<(ProjectId, String)> {
        let user = &self.request.user;
        let selected = user
            .summary
            .as_ref()
            .map_or(&[][..], |SummarySubscription { settings, .. }| {
                &settings.projects
            });
        self.handle.with_state(|state| {
            let projects = state.projects().map(|project_state| &project_state.project);
            projects
                .filter(|project| {
                    user.grant.membership_in(project.id).is_some()
                        && (selected.is_empty() || selected.contains(&project.uuid))
                        && !project.is_on_trial()
                })
                .map(|project| (project.id, to_one_line(project.name.as_str())))
                .collect()
        })
    }

    fn add_project(
        &mut self,
        project: ProjectId,
        name: &str,
        is_single: bool,
    ) -> Result<(), StoreError> {
        let mut sum = empty_period(self.request.period);
        let mut count = 0;
        let mut after: Option<CheckId> = None;
        let shown_name = if is_single { "" } else { name };
        loop {
            let checks: Vec<Check> = self.handle.with_state(|state| {
                state
                    .checks_after(project, after)
                    .take(CHECKS_PER_PAGE)
                    .cloned()
                    .collect()
            });
            for check in &checks {
                let uptime = self.add_check(check, shown_name)?;
                add_period(&mut sum, &uptime);
            }
            count += checks.len();
            after = checks.last().map(|check| check.id);
            if checks.len() < CHECKS_PER_PAGE {
                break;
            }
        }
        if count > 0 {
            self.projects.push(ProjectLine {
                name: name.into(),
                text: describe_project(count, &sum),
            });
        }
        self.check_count += count;
        add_period(&mut self.total, &sum);
        Ok(())
    }

    /// Adds a check to the lists. Returns its uptime in the period.
    fn add_check(&mut self, check: &Check, project: &str) -> Result<UptimePeriod, StoreError> {
        let SummaryPeriod { start, end, .. } = self.request.period;
        let line = |text, rank| CheckLine {
            name: check_display_name(&check.settings),
            project: project.into(),
            text,
            url: self.check_url(check),
            rank,
        };
        let times = TimeFormatter {
            now: self.now,
            zone: &self.request.zone,
        };
        let status = check.state.visible_status(&check.settings, self.now);
        let is_down = status == VisibleStatus::Down;
        let down_line = is_down.then(|| {
            let since = check.state.changed;
            line(format!("since {}", times.at(since)), -since.micros())
        });
        let flips = self.handle.newest_flips(check, start, MAX_FLIPS)?;
        let intervals = status_intervals(&flips, check.state.status, start, self.now);
        let uptime = UptimePeriod::new([start, end], &intervals);
        let outage_line = (uptime.down > 0).then(|| {
            let share = uptime.format_uptime().unwrap_or_default();
            let text = format!(
                "{}, {}, {share} up",
                format_duration(uptime.down),
                format_count(uptime.downtimes, "downtime")
            );
            line(text, uptime.down)
        });
        let slower_line = self
            .detect_slowdown(check)?
            .map(|Slowdown { before, after }| {
                let text = format!(
                    "usually {}, before {}",
                    format_duration(after),
                    format_duration(before)
                );
                // The greatest factor first, in thousandths.
                line(text, after.saturating_mul(1000) / before.max(1))
            });
        down_line
            .into_iter()
            .for_each(|line| self.down_now.add(line));
        outage_line
            .into_iter()
            .for_each(|line| self.outages.add(line));
        slower_line
            .into_iter()
            .for_each(|line| self.slower.add(line));
        self.paused += usize::from(status == VisibleStatus::Paused);
        Ok(uptime)
    }

    fn detect_slowdown(&self, check: &Check) -> Result<Option<Slowdown>, StoreError> {
        let period = self.request.period;
        let mut pings = self.handle.newest_pings(check, MAX_EXAMINED_PINGS)?;
        pings.retain(|ping| ping.at >= period.start_of_previous());
        Ok(detect_slowdown(&pings, period.start, period.end))
    }

    fn check_url(&self, check: &Check) -> Option<String> {
        // As in alerts: a mail is forwarded, and the UUID would let its readers send pings.
        let base = self.request.pages_url.as_ref()?;
        let unique_key = UniqueKey::of_check(check.uuid);
        Some(format!("{base}/cloaked/{unique_key}/"))
    }

    fn finish(self) -> SummaryContents {
        let SummaryPeriod {
            interval,
            start,
            end,
        } = self.request.period;
        let times = TimeFormatter {
            now: self.now,
            zone: &self.request.zone,
        };
        let last_day = end.plus_secs(-1);
        let projects = match self.projects.as_slice() {
            [project] => format!("in {}", project.name),
            projects => format!("in {}", format_count(projects.len(), "project")),
        };
        SummaryContents {
            period: format!("{} to {}", times.date(start), times.date(last_day)),
            noun: interval.noun(),
            scope: format!("{} {projects}", format_count(self.check_count, "check")),
            outage_count: self.outages.lines.len() + self.outages.omitted,
            downtime: format_duration(self.total.down),
            down_now: self.down_now,
            outages: self.outages,
            slower: self.slower,
            paused: self.paused,
            projects: self.projects,
            zone: self.request.zone.name().into(),
        }
    }
}

fn empty_period(period: SummaryPeriod) -> UptimePeriod {
    UptimePeriod::new([period.start, period.end], &[])
}

fn add_period(sum: &mut UptimePeriod, part: &UptimePeriod) {
    sum.monitored += part.monitored;
    sum.down += part.down;
    sum.downtimes += part.downtimes;
}

fn describe_project(checks: usize, uptime: &UptimePeriod) -> String {
    let checks = format_count(checks, "check");
    let downtimes = format_count(uptime.downtimes, "downtime");
    match uptime.format_uptime() {
        Some(share) => format!("{checks}, {share} up, {downtimes}"),
        None => format!("{checks}, no pings were expected"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::mail::{self, SummaryLinks};
    use super::*;
    use crate::domain::mail_address::MailAddress;
    use crate::domain::user::summary::{SummaryInterval, SummarySettings};

    fn list(count: usize) -> CheckLines {
        let mut lines = CheckLines::default();
        for _ in 0..count {
            lines.add(CheckLine {
                name: "backup".into(),
                project: String::new(),
                text: "1 h".into(),
                url: None,
                rank: 1,
            });
        }
        lines
    }

    #[test]
    fn the_headline_of_a_summary_is_red_if_a_check_was_or_is_down() {
        let settings = SummarySettings {
            interval: SummaryInterval::Weekly,
            address: MailAddress::parse("a@example.org").unwrap(),
            projects: Box::default(),
        };
        for (outage_count, down_count, is_red) in
            [(0, 0, false), (1, 0, true), (0, 1, true), (1, 1, true)]
        {
            let contents = SummaryContents {
                period: "16 Nov to 22 Nov 2026".into(),
                noun: "week",
                scope: "1 check in Home".into(),
                outage_count,
                downtime: "1 h".into(),
                down_now: list(down_count),
                outages: list(outage_count),
                slower: list(0),
                paused: 0,
                projects: Vec::new(),
                zone: "UTC".into(),
            };
            let date = Timestamp::from_secs(1_800_000_000);
            let links = SummaryLinks::default();
            let mail = mail::render(&settings, &contents, &links, "id".into(), date).unwrap();
            let html = mail.html.unwrap();
            let case = (outage_count, down_count);
            assert_eq!(html.contains("d0342c"), is_red, "{case:?}");
            assert_eq!(html.contains("2da44e"), !is_red, "{case:?}");
        }
    }
}
