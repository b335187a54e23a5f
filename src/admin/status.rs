//! Status of the server and of everything that it monitors, for `overdue status`.

use std::collections::BTreeMap;

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::context::AdminContext;
use super::error::AdminError;
use super::format_timestamp;
use super::request::AdminRequest;
use crate::channels::alert_text::check_display_name;
use crate::domain::check::Check;
use crate::domain::explanation::summarize_status;
use crate::domain::ids::ProjectId;
use crate::domain::project::Channel;
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::operations::channel::{self, AlertingChannels, ChannelStatus};
use crate::operations::check::{self, CheckDetails};

/// Maximum number of checks in a status: see [limits](crate::docs::limits).
const MAX_LISTED_CHECKS: usize = 100;
/// Number of checks examined at a time. Pings of others wait for one such page at most.
const CHECKS_PER_PAGE: usize = 256;

/// Status of the server.
#[derive(Serialize, Deserialize)]
pub struct ServerStatus {
    /// Version of the program.
    pub version: String,
    /// Address and uptime of the server; `None` if none runs.
    pub server: Option<RunningServer>,
    /// Number of projects.
    pub projects: usize,
    /// Number of checks with each status, by its name.
    pub counts: BTreeMap<String, usize>,
    /// Checks that are down, then late checks; each kind by the start of the problem,
    /// newest first; at most 100.
    pub checks: Vec<CheckProblem>,
    /// Number of checks about which no alert reaches a recipient.
    pub without_alerts: usize,
    /// Channels whose messages do not arrive.
    pub channels: Vec<ChannelProblem>,
    /// Number of messages that wait for delivery.
    pub waiting: usize,
    /// Automatic backups; `None` if they are off, or if no server runs.
    pub backups: Option<BackupRow>,
}

/// A running server.
#[derive(Serialize, Deserialize)]
pub struct RunningServer {
    /// Base URL.
    pub base_url: String,
    /// Addresses on which it accepts HTTP requests.
    pub listen: Vec<String>,
    /// Seconds since its start.
    pub uptime_secs: u64,
    /// True if the server can write its database.
    pub is_writable: bool,
}

/// A check that is down or late.
#[derive(Serialize, Deserialize)]
pub struct CheckProblem {
    /// UUID of the check.
    pub uuid: Uuid,
    /// Project of the check.
    pub project: String,
    /// Name of the check, or its slug.
    pub name: String,
    /// `down` or `grace`.
    pub status: String,
    /// Reason in a few words, such as `exit status 3`.
    pub reason: String,
    /// Time since which the reason applies, RFC 3339.
    pub since: Option<String>,
    /// Time at which a late check goes down, RFC 3339.
    pub down_at: Option<String>,
    /// Reason for holding back the alert.
    pub held: Option<String>,
}

/// A channel whose messages do not arrive.
#[derive(Serialize, Deserialize)]
pub struct ChannelProblem {
    /// UUID of the channel.
    pub uuid: Uuid,
    /// Project of the channel.
    pub project: String,
    /// Name of the channel, or the title of its kind.
    pub name: String,
    /// Status, as in a list of channels.
    pub status: String,
    /// Time since which it has the status, RFC 3339.
    pub since: Option<String>,
    /// Reason for the status.
    pub reason: Option<String>,
}

/// Automatic backups.
#[derive(Serialize, Deserialize)]
pub struct BackupRow {
    /// Start of the newest backup, RFC 3339.
    pub newest: Option<String>,
    /// Time at which the next one is due, RFC 3339.
    pub next: Option<String>,
    /// Time since which backups fail, RFC 3339.
    pub failing_since: Option<String>,
    /// Reason for the last failure.
    pub reason: Option<String>,
}

impl ServerStatus {
    /// True if something needs attention: a check is down, a channel or a backup fails, or the
    /// server does not run or cannot write.
    pub fn needs_attention(&self) -> bool {
        let is_backup_failing = |backups: &BackupRow| backups.failing_since.is_some();
        self.server
            .as_ref()
            .is_none_or(|server| !server.is_writable)
            || self.counts.get(VisibleStatus::Down.name()).copied() > Some(0)
            || !self.channels.is_empty()
            || self.backups.as_ref().is_some_and(is_backup_failing)
    }
}

/// Returns the status of the server, or of one project.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowStatus {
    /// Project whose checks and channels are shown; `None` for all.
    pub project: Option<String>,
}

impl AdminRequest for ShowStatus {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/status";
    type Output = ServerStatus;

    async fn run(self, context: &AdminContext) -> Result<ServerStatus, AdminError> {
        let project = context.project_filter(self.project.as_deref())?;
        let handle = context.handle();
        let MonitoringSummary {
            counts,
            problems,
            without_alerts,
        } = MonitoringSummary::read(handle, project);
        let (projects, waiting) =
            handle.with_state(|state| (state.projects().count(), state.outbox.len()));
        Ok(ServerStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            server: context.urls().map(|urls| RunningServer {
                base_url: urls.base_url.clone(),
                listen: urls.listen.iter().map(ToString::to_string).collect(),
                uptime_secs: handle.clock().uptime().as_secs(),
                is_writable: handle.is_writable(),
            }),
            projects,
            counts,
            checks: problems
                .iter()
                .map(|found| check_problem(handle, found))
                .collect(),
            without_alerts,
            channels: channel_problems(handle, project),
            waiting,
            backups: handle.metrics().backup_status().map(|status| {
                let (failing_since, reason) = status.failing.unzip();
                BackupRow {
                    newest: status.newest.map(format_timestamp),
                    next: status.next.map(format_timestamp),
                    failing_since: failing_since.map(format_timestamp),
                    reason,
                }
            }),
        })
    }
}

/// Checks by their status.
struct MonitoringSummary {
    counts: BTreeMap<String, usize>,
    /// Checks that are down or late, most urgent first.
    problems: Vec<CheckDetails>,
    without_alerts: usize,
}

impl MonitoringSummary {
    /// Reads all checks of a project or of all, page by page.
    fn read(handle: &Handle, project: Option<ProjectId>) -> Self {
        let now = handle.now();
        let mut summary = Self {
            counts: VisibleStatus::BY_URGENCY
                .into_iter()
                .map(|status| (status.name().to_owned(), 0))
                .collect(),
            problems: Vec::new(),
            without_alerts: 0,
        };
        let mut alerting: Option<(ProjectId, AlertingChannels)> = None;
        let mut position = None;
        loop {
            let (found, next) = check::list_page(handle, project, position, CHECKS_PER_PAGE);
            for details in found {
                let CheckDetails { check, .. } = &details;
                let channels = match &alerting {
                    Some((of, channels)) if *of == check.project => channels,
                    _ => {
                        let channels = handle.with_state(|state| {
                            AlertingChannels::compute(state, check.project, handle.transports())
                        });
                        &alerting.insert((check.project, channels)).1
                    }
                };
                if !channels.reach_recipient_of(&check.settings) {
                    summary.without_alerts += 1;
                }
                let status = check.state.visible_status(&check.settings, now);
                if let Some(count) = summary.counts.get_mut(status.name()) {
                    *count += 1;
                }
                if matches!(status, VisibleStatus::Down | VisibleStatus::Grace) {
                    summary.problems.push(details);
                }
            }
            // Only the most urgent ones are kept, so that memory does not grow with the checks.
            summary
                .problems
                .sort_by_key(|details| urgency(&details.check, now));
            summary.problems.truncate(MAX_LISTED_CHECKS);
            position = next;
            if position.is_none() {
                return summary;
            }
        }
    }
}

/// Sort key of a problem: checks that are down first, then by the start, newest first.
fn urgency(check: &Check, now: Timestamp) -> (bool, std::cmp::Reverse<Timestamp>) {
    let is_late = check.state.visible_status(&check.settings, now) != VisibleStatus::Down;
    let since = if is_late {
        check.state.grace_start.unwrap_or(check.state.changed)
    } else {
        check.state.changed
    };
    (is_late, std::cmp::Reverse(since))
}

fn check_problem(handle: &Handle, found: &CheckDetails) -> CheckProblem {
    let CheckDetails { check, project, .. } = found;
    let now = handle.now();
    let status = check.state.visible_status(&check.settings, now);
    let summary = summarize_status(check, check::latest_downtime(handle, check), now);
    CheckProblem {
        uuid: check.uuid,
        project: project.name.as_str().into(),
        name: check_display_name(&check.settings),
        status: status.name().into(),
        since: summary
            .as_ref()
            .and_then(|summary| summary.since)
            .map(format_timestamp),
        down_at: summary
            .as_ref()
            .and_then(|summary| summary.then)
            .map(|(_, at)| format_timestamp(at)),
        held: summary
            .as_ref()
            .and_then(|summary| summary.held)
            .map(str::to_owned),
        reason: summary.map_or_else(String::new, |summary| summary.reason),
    }
}

/// Returns the channels whose messages do not arrive.
fn channel_problems(handle: &Handle, project: Option<ProjectId>) -> Vec<ChannelProblem> {
    let channels = channel::list(handle, project);
    handle.with_state(|state| {
        let problems = channels.iter().filter_map(|(project, channel)| {
            let status = ChannelStatus::compute(state, channel, handle.transports());
            let (since, reason) = status.reason(true);
            reason?;
            Some(ChannelProblem {
                uuid: channel.uuid,
                project: project.name.as_str().into(),
                name: channel_name(channel),
                status: status.name().into(),
                since: since.map(format_timestamp),
                reason: reason.map(str::to_owned),
            })
        });
        problems.collect()
    })
}

fn channel_name(channel: &Channel) -> String {
    match channel.name.as_str() {
        "" => channel.settings.kind().title.into(),
        name => name.into(),
    }
}
