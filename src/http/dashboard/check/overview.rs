//! Overview page of a check: its status as a sentence, ping URL, schedule, channels, and history.

use askama::Template;

use super::history::{self, UptimeBar, UptimeMonth};
use super::log::{self, LogRow, MAX_PINGS_READ};
use super::notifications::{self, CheckChannelRow};
use super::ping_details::{OutputExcerpt, output_excerpt};
use super::plot::{self, DurationPlot};
use super::schedule_preview::{UpcomingRun, upcoming_runs};
use super::timeline::{self, Timeline, TimelinePeriod, TimelineSource};
use super::{CheckHeader, check_time_formatter, recent_flips};
use crate::domain::check::Check;
use crate::domain::dst_changes::dst_warnings;
use crate::domain::explanation::{self, FailureContext, StatusExplanation};
use crate::domain::flip::Flip;
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::ping::{Ping, PingKind, run_durations};
use crate::domain::project::Channel;
use crate::domain::status::{Status, VisibleStatus};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::timezone_mismatch::{self, TimezoneMismatch, find_matching_timezone};
use crate::domain::uptime;
use crate::http::dashboard::deliveries::{DeliveryItem, deliveries_url};
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::live_updates::LiveSubscription;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::{Page, RequiredRight};
use crate::http::dashboard::pause_length::PauseLength;
use crate::http::dashboard::snippet::{PingAddress, Snippet, build_snippets};
use crate::http::dashboard::time_display::DisplayTime;
use crate::http::dashboard::untrusted_text::{TextSpan, split_links};
use crate::http::dashboard::windows::{OpenWindow, open_windows};

/// Number of log entries on this page. The log page has all of them.
const SHOWN_ENTRIES: usize = 20;
/// Maximum number of runs in the plot of durations: see [limits](crate::docs::limits).
const PLOTTED_RUNS: usize = 500;
/// Maximum number of runs in the table below the plot.
const LISTED_RUNS: usize = 30;
/// Number of upcoming runs of the schedule that are shown.
const UPCOMING_RUNS: usize = 5;
/// Maximum number of checks of the project whose time zones are tried for a diagnosis.
const MAX_CHECKS_COMPARED: usize = 200;

#[derive(Template)]
#[template(path = "check.html", config = "src/http/dashboard/askama.toml")]
struct CheckPage {
    layout: Layout,
    top: CheckHeader,
    status_panel: CheckStatusPanel,
    live: Option<LiveSubscription>,
    /// Configuration source that owns the check.
    declared_in: Option<String>,
    /// Target of the form that pins the check, if the viewer has an account.
    pins: Option<String>,
    is_pinned: bool,
    uuid: String,
    /// True if the check has never been pinged.
    is_fresh: bool,
    url: String,
    other_form: Option<AlternativePingUrl>,
    snippets: Vec<Snippet>,
    expected: String,
    /// Limits of runs, in a sentence. Empty without any.
    limits: String,
    diagnosis: Option<(String, String)>,
    channels: Vec<CheckChannelRow>,
    /// Names and pages of its parents.
    parents: Vec<(String, String)>,
    after: String,
    tags: Vec<String>,
    description: Vec<TextSpan>,
}

/// Parts of the page that change with pings and time, for the script that replaces them.
#[derive(Template)]
#[template(path = "_check.html", config = "src/http/dashboard/askama.toml")]
struct CheckStatusFragment {
    status_panel: CheckStatusPanel,
}

/// Values that change with pings and time.
struct CheckStatusPanel {
    explanation: StatusExplanation,
    style: &'static str,
    is_running: bool,
    last: String,
    may_write: bool,
    is_paused: bool,
    /// Lengths of a pause: value and label.
    pause_lengths: [(String, String); 7],
    links: CheckLinks,
    /// Reason why alerts reach no recipient.
    unnotified: Option<&'static str>,
    /// Open maintenance windows that cover the check.
    windows: Vec<OpenWindow>,
    next: Vec<UpcomingRun>,
    clock_changes: Vec<String>,
    /// Last deliveries about the check.
    deliveries: Vec<DeliveryItem>,
    /// Timeline of the chosen period; `None`: the bar of days.
    timeline: Option<Timeline>,
    /// Links to the periods.
    periods: Vec<PeriodLink>,
    overall: Option<String>,
    bar: UptimeBar,
    months: Vec<UptimeMonth>,
    cut: Option<String>,
    plot: Option<DurationPlot>,
    runs: Vec<(DisplayTime, String, bool)>,
    /// Last lines of the output of the job, if the check is down.
    output: Option<OutputExcerpt>,
    rows: Vec<LogRow>,
}

impl CheckStatusPanel {
    fn new(
        request: &PageRequest,
        check: &Check,
        activity: &RecentActivity,
    ) -> Result<Self, PageError> {
        let times = check_time_formatter(check, request);
        let viewer_times = request.time_formatter();
        let schedule = check.settings.schedule.as_ref();
        let history = uptime::uptime_history(
            &activity.flips,
            check.state.status,
            request.now,
            &request.viewer.zone,
        );
        let runs = activity.measured_runs();
        let period = TimelinePeriod::parse(request.query.get("period"), &check.settings);
        let explanation = explanation::explain_status(
            check,
            activity.last_flip,
            activity.failure_context(),
            &times,
        );
        Ok(Self {
            style: status_style(explanation.status),
            is_running: check.state.run.is_some(),
            last: last_ping_text(request, check, &activity.pings, &times),
            may_write: request.is_allowed(RequiredRight::Write),
            is_paused: check.state.status == Status::Paused,
            pause_lengths: PauseLength::options(),
            links: check_links(request, check),
            // A project without channels says so among the alerts.
            unnotified: notifications::unnotified(request, check)
                .filter(|_| request.has_channels()),
            windows: open_windows(request, Some(&check.settings.tags)),
            next: schedule.map_or_else(Vec::new, |schedule| {
                upcoming_runs(schedule, &check.settings.tz, UPCOMING_RUNS, &viewer_times)
            }),
            clock_changes: schedule.map_or_else(Vec::new, |schedule| {
                dst_warnings(schedule, &check.settings.tz, request.now)
            }),
            deliveries: notifications::delivery_rows(request, check)?,
            timeline: timeline::draw_timeline(
                &activity.timeline_source(check),
                period,
                &viewer_times,
            ),
            periods: period_links(request, check, period),
            overall: history::overall_uptime(&history),
            bar: history::uptime_bar(&history, &viewer_times),
            months: history::monthly_uptime(&history, &viewer_times),
            cut: history.incomplete_before.map(|cut| viewer_times.at(cut)),
            plot: plot::plot_durations(&runs, &viewer_times),
            runs: run_rows(&runs, &times),
            output: activity
                .failed_ping(check)
                .map(|ping| output_excerpt(request, check, ping))
                .transpose()?
                .flatten(),
            rows: log::newest_rows(
                request,
                check,
                &activity.pings,
                &activity.flips,
                SHOWN_ENTRIES,
            ),
            explanation,
        })
    }
}

impl CheckStatusPanel {
    /// Uptime in the period that is shown.
    fn uptime(&self) -> Option<&str> {
        match &self.timeline {
            Some(timeline) => timeline.uptime.as_deref(),
            None => self.overall.as_deref(),
        }
    }
}

/// Link to a period of the timeline.
struct PeriodLink {
    label: &'static str,
    url: String,
    is_on: bool,
}

fn period_links(request: &PageRequest, check: &Check, shown: TimelinePeriod) -> Vec<PeriodLink> {
    let page = request.page_url_with_return(&Page::Check(check.uuid));
    let separator = if page.contains('?') { '&' } else { '?' };
    let link = |period: TimelinePeriod| PeriodLink {
        label: period.label(),
        url: format!("{page}{separator}period={}", period.name()),
        is_on: period == shown,
    };
    TimelinePeriod::ALL.into_iter().map(link).collect()
}

/// Other form of the ping URL.
struct AlternativePingUrl {
    /// Key of the other form: UUID or slug.
    by: &'static str,
    /// URL of the page that shows it.
    link: String,
}

/// Targets of its forms and buttons.
struct CheckLinks {
    pause: String,
    resume: String,
    ping: String,
    edit: String,
    copy: String,
    delete: String,
    channels: String,
    zone: String,
    log: String,
    all_channels: String,
    deliveries: String,
}

/// Recent pings and flips of the check.
struct RecentActivity {
    pings: Vec<Ping>,
    durations: Vec<Option<i64>>,
    flips: Vec<Flip>,
    last_flip: Option<Flip>,
}

impl RecentActivity {
    fn read(request: &PageRequest, check: &Check) -> Result<Self, PageError> {
        let pings = request.handle().newest_pings(check, MAX_PINGS_READ)?;
        let last_flip = request
            .handle()
            .flip(check.state.last_flip)?
            .filter(|logged| logged.check == check.id);
        Ok(Self {
            durations: run_durations(&pings),
            flips: recent_flips(request, check)?,
            last_flip: last_flip.map(|logged| logged.flip),
            pings,
        })
    }

    /// Details of the failure that made the check go down.
    fn failure_context(&self) -> FailureContext {
        let at = self
            .last_flip
            .map_or(Timestamp::from_micros(i64::MAX), |flip| flip.at);
        let before = || {
            self.pings
                .iter()
                .zip(&self.durations)
                .filter(|(ping, _)| ping.at <= at)
        };
        let ended = before().find(|(ping, _)| ping.at == at && ping.kind == PingKind::Fail);
        FailureContext {
            last_success: before()
                .find(|(ping, _)| ping.kind == PingKind::Success)
                .map(|(ping, _)| ping.at),
            run_duration: ended.and_then(|(_, took)| *took),
        }
    }

    /// Newest failure with a body that was reported in the present downtime.
    fn failed_ping(&self, check: &Check) -> Option<&Ping> {
        let since = self
            .last_flip
            .filter(|flip| check.state.status == Status::Down && flip.to == Status::Down)?
            .at;
        self.pings
            .iter()
            .take_while(|ping| ping.at >= since)
            .find(|ping| ping.kind == PingKind::Fail && ping.body_len > 0)
    }

    fn timeline_source<'a>(&'a self, check: &'a Check) -> TimelineSource<'a> {
        TimelineSource {
            settings: &check.settings,
            status: check.state.status,
            run: check.state.run.map(|run| run.start),
            pings: &self.pings,
            has_older_pings: check.state.n_pings > self.pings.len() as u64,
            flips: &self.flips,
        }
    }

    /// Measured runs, oldest first.
    fn measured_runs(&self) -> Vec<plot::PlottedRun> {
        let run = |(ping, took): (&Ping, &Option<i64>)| {
            Some(plot::PlottedRun {
                end: ping.at,
                took: (*took)?,
                failed: ping.kind == PingKind::Fail,
            })
        };
        let mut runs: Vec<_> = self
            .pings
            .iter()
            .zip(&self.durations)
            .filter_map(run)
            .take(PLOTTED_RUNS)
            .collect();
        runs.reverse();
        runs
    }

    /// Start times of the last runs. If the start of a run is unknown, its end is used.
    fn run_starts(&self) -> Vec<Timestamp> {
        let ends = self
            .pings
            .iter()
            .zip(&self.durations)
            .filter(|(ping, _)| matches!(ping.kind, PingKind::Success | PingKind::Fail));
        ends.take(timezone_mismatch::MAX_RUNS)
            .map(|(ping, took)| ping.at.plus_micros(-took.unwrap_or(0)))
            .collect()
    }
}

pub(crate) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let live = request.live_subscription();
    let check = request.check()?;
    let activity = RecentActivity::read(request, check)?;
    let status_panel = CheckStatusPanel::new(request, check, &activity)?;
    if &*request.fragment == "check" {
        return Ok(HtmlPage::from_template(&CheckStatusFragment { status_panel }).into());
    }
    let (url, other_form) = ping_urls(request, check)?;
    let shows_key = other_form.as_ref().is_some_and(|form| form.by == "UUID");
    let mail = request.dashboard.mail_address(check.uuid);
    let description = check.settings.desc.as_str();
    let page = CheckPage {
        layout: request
            .layout(crate::channels::alert_text::check_display_name(
                &check.settings,
            ))
            .with_status_icon(status_panel.explanation.status),
        top: CheckHeader::new(request)?,
        status_panel,
        live,
        declared_in: request.declaring_source(check.id.0),
        pins: request
            .viewer
            .signed_in
            .as_ref()
            .map(|_| request.page_url(&Page::AccountPins())),
        is_pinned: request.pinned_checks().contains(&check.uuid),
        uuid: check.uuid.to_string(),
        is_fresh: check.state.n_pings == 0,
        snippets: build_snippets(PingAddress {
            url: &url,
            mail: mail.as_deref(),
        }),
        url,
        other_form,
        expected: expectation_text(check),
        limits: notifications::limits_text(request, check),
        diagnosis: diagnose_zone(request, check, &activity)
            .map(|found| (found.describe(), found.zone.name().to_owned())),
        channels: channel_rows(request, check)?,
        parents: notifications::parent_links(request, check),
        after: failure_threshold_text(check),
        tags: check.settings.tags.iter().map(str::to_owned).collect(),
        description: if description.trim().is_empty() {
            Vec::new()
        } else {
            split_links(description)
        },
    };
    let html = HtmlPage::from_template(&page);
    Ok(if shows_key {
        html.without_caching()
    } else {
        html
    }
    .into())
}

/// Newest measured runs: end, duration, and true for a failure.
fn run_rows(
    runs: &[plot::PlottedRun],
    times: &TimeFormatter<'_>,
) -> Vec<(DisplayTime, String, bool)> {
    let row = |run: &plot::PlottedRun| {
        (
            DisplayTime::clock_time(run.end, times),
            format_duration(run.took),
            run.failed,
        )
    };
    runs.iter().rev().take(LISTED_RUNS).map(row).collect()
}

/// Channels of the project; channels that are notified about the check come first.
fn channel_rows(request: &PageRequest, check: &Check) -> Result<Vec<CheckChannelRow>, PageError> {
    let is_assigned = |channel: &Channel| check.settings.channels.contains(&channel.id);
    let mut rows = notifications::channel_rows(request, is_assigned)?;
    rows.sort_by_key(|row| !row.is_notified());
    Ok(rows)
}

/// Style of a status.
pub(super) fn status_style(status: VisibleStatus) -> &'static str {
    if status == VisibleStatus::Grace {
        "late"
    } else {
        status.name()
    }
}

/// Text with the last ping and, of a check that is down, the next run.
fn last_ping_text(
    request: &PageRequest,
    check: &Check,
    pings: &[Ping],
    times: &TimeFormatter<'_>,
) -> String {
    let last = pings.first().map(|ping| {
        format!(
            "Last ping {}, {}.",
            times.at(ping.at),
            log::ping_label(ping).1
        )
    });
    let is_down = check.state.visible_status(&check.settings, request.now) == VisibleStatus::Down;
    let next = check
        .settings
        .schedule
        .as_ref()
        .filter(|_| is_down)
        .and_then(|schedule| schedule.next_after(request.now, &check.settings.tz));
    let next = next.map(|at| format!("Next run: {} ({}).", times.at(at), times.relative(at)));
    [last, next]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Description of the schedule.
fn expectation_text(check: &Check) -> String {
    let settings = &check.settings;
    let zone = settings
        .schedule
        .as_ref()
        .map_or_else(String::new, |_| format!(" in {}", settings.tz.name()));
    format!(
        "{}{zone}, {} of grace",
        settings.describe_schedule(),
        format_duration(Timestamp::from_secs(settings.grace.get()).micros())
    )
}

fn failure_threshold_text(check: &Check) -> String {
    match check.settings.failure_threshold.get() {
        1 => String::new(),
        after => format!(
            "Alerts after {} in a row.",
            format_count(after.into(), "failure")
        ),
    }
}

fn check_links(request: &PageRequest, check: &Check) -> CheckLinks {
    let uuid = check.uuid;
    let project = request.project().ok().map(|project| project.uuid);
    CheckLinks {
        pause: request.page_url_with_return(&Page::PauseCheck(uuid)),
        resume: request.page_url_with_return(&Page::ResumeCheck(uuid)),
        ping: request.page_url_with_return(&Page::PingCheck(uuid)),
        edit: request.page_url_with_return(&Page::EditCheck(uuid)),
        copy: request.page_url_with_return(&Page::CopyCheck(uuid)),
        delete: request.page_url_with_return(&Page::DeleteCheck(uuid)),
        channels: request.page_url_with_return(&Page::ChannelsOfCheck(uuid)),
        zone: request.page_url_with_return(&Page::ZoneOfCheck(uuid)),
        log: request.page_url_with_return(&Page::Log(uuid)),
        all_channels: project.map_or_else(String::new, |project| {
            request.page_url(&Page::Channels(project))
        }),
        deliveries: project.map_or_else(String::new, |project| {
            deliveries_url(request, project, check)
        }),
    }
}

/// Ping URL in the selected form, and the other form if there are two. A URL by slug contains the
/// ping key of the project, which can create checks, so only users who may change the project see
/// it.
fn ping_urls(
    request: &PageRequest,
    check: &Check,
) -> Result<(String, Option<AlternativePingUrl>), PageError> {
    let by_uuid = request.dashboard.ping_url(check.uuid);
    let by_slug = if request.is_allowed(RequiredRight::Write) {
        request
            .dashboard
            .slug_url(request.project()?.id, &check.settings.slug)
    } else {
        None
    };
    let page_url = request.page_url_with_return(&Page::Check(check.uuid));
    let separator = if page_url.contains('?') { '&' } else { '?' };
    Ok(match by_slug {
        Some(by_slug) if request.query.get("by") == "slug" => (
            by_slug,
            Some(AlternativePingUrl {
                by: "UUID",
                link: page_url,
            }),
        ),
        Some(_) => (
            by_uuid,
            Some(AlternativePingUrl {
                by: "slug",
                link: format!("{page_url}{separator}by=slug"),
            }),
        ),
        None => (by_uuid, None),
    })
}

/// Diagnosis if the pings fit another time zone than that of the check.
pub(super) fn zone_diagnosis(
    request: &PageRequest,
    check: &Check,
) -> Result<Option<String>, PageError> {
    Ok(
        diagnose_zone(request, check, &RecentActivity::read(request, check)?)
            .map(|found| found.describe()),
    )
}

/// Time zone in which the pings of a check would fit its schedule, if they do not in its own.
fn diagnose_zone(
    request: &PageRequest,
    check: &Check,
    activity: &RecentActivity,
) -> Option<TimezoneMismatch> {
    let schedule = check.settings.schedule.as_ref()?;
    let mut zones = vec![request.viewer.zone.clone(), Timezone::utc()];
    request.handle().with_state(|state| {
        for other in state.checks_of(check.project).take(MAX_CHECKS_COMPARED) {
            if !zones.contains(&other.settings.tz) {
                zones.push(other.settings.tz.clone());
            }
        }
    });
    find_matching_timezone(schedule, &check.settings.tz, &activity.run_starts(), &zones)
}
