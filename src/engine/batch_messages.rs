//! Logs the results of a batch: changes of the status of checks (by name and project, never by
//! UUID), full projects and imported projects. Also counts them for metrics.

use tracing::Level;

use super::apply::Effects;
use super::state::{State, UnnotifiedReason};
use crate::domain::check::Check;
use crate::domain::flip::{FlipCause, LoggedFlip};
use crate::domain::formatting::format_count;
use crate::domain::ids::{CheckId, FlipNumber, ProjectId};
use crate::domain::project::Project;
use crate::domain::timestamp::Timestamp;
use crate::metrics::Metrics;
use crate::util::log_limit::LogLimit;

/// Maximum number of projects named in a line.
const MAX_PROJECTS_NAMED: usize = 10;

/// Shared by all servers of the process.
static FLIP_LOG_LIMIT: LogLimit = LogLimit::new();
static UNNOTIFIED_LOG_LIMIT: LogLimit = LogLimit::new();

/// Writes a line for each flip of a batch that is on disk. `state` is the state after it.
pub(super) fn write_flip_messages(
    state: &State,
    flips: &[(FlipNumber, LoggedFlip)],
    now: Timestamp,
) {
    if flips.is_empty() || !tracing::enabled!(Level::INFO) {
        return;
    }
    for LoggedFlip { check, flip, .. } in flips.iter().map(|(_, logged)| logged) {
        // A check that was deleted in the same batch is not logged.
        let Some(check) = state.check(*check) else {
            continue;
        };
        let Some(suppressed) = FLIP_LOG_LIMIT.admit(now) else {
            continue;
        };
        let (name, project) = check_and_project_names(state, check);
        tracing::info!(
            "check {name:?} of project {project:?} is {}, was {}{suppressed}",
            flip.to.name(),
            flip.from.name()
        );
    }
}

/// Writes a line for each alert of a batch that reaches no channel. `state` is the state after it.
pub(super) fn write_unnotified_messages(
    state: &State,
    checks: &[(CheckId, UnnotifiedReason)],
    now: Timestamp,
) {
    for (check, unnotified) in checks {
        let Some(check) = state.check(*check) else {
            continue;
        };
        let Some(suppressed) = UNNOTIFIED_LOG_LIMIT.admit(now) else {
            continue;
        };
        let (name, project) = check_and_project_names(state, check);
        tracing::warn!(
            "check {name:?} of project {project:?} is down, and nobody is notified: {}{suppressed}",
            unnotified.description()
        );
    }
}

/// Name of a check, or its slug if it has none, and the name of its project.
fn check_and_project_names<'a>(state: &'a State, check: &'a Check) -> (&'a str, &'a str) {
    let name = Some(check.settings.name.as_str())
        .filter(|name| !name.is_empty())
        .unwrap_or(check.settings.slug.as_str());
    (
        name,
        state
            .project(check.project)
            .map_or("", |project_state| project_state.project.name.as_str()),
    )
}

/// Counts what a batch has stored. `state` is the state after it.
pub(super) fn count_batch(metrics: &Metrics, state: &State, effects: &Effects, now: Timestamp) {
    metrics.record_pings(
        effects
            .pings
            .iter()
            .map(|(_, ping, _)| (ping.kind, ping.origin.scheme)),
    );
    for LoggedFlip { flip, .. } in effects.flips.iter().map(|(_, logged)| logged) {
        let is_missed = matches!(flip.cause, FlipCause::MissedPing | FlipCause::Overrun);
        metrics.record_flip(flip.to, is_missed.then(|| now.micros_since(flip.at)));
    }
    for delivery in &effects.deliveries {
        let kind = state
            .channel(delivery.channel)
            .map_or("deleted", |channel| channel.settings.kind().name);
        metrics.record_delivery(kind, delivery.result);
    }
}

/// Writes a line for each project in which pings create no further checks. It is written once,
/// until a ping creates a check there again.
pub(super) fn write_check_limit_messages(state: &State, projects: &[ProjectId]) {
    for project_state in projects.iter().filter_map(|id| state.project(*id)) {
        let name = project_state.project.name.as_str();
        let count = project_state.checks.len();
        tracing::warn!(
            "the project \"{name}\" has {count} checks, so pings create no more: delete some \
            checks, or raise the limit with `overdue project set --check-limit`"
        );
    }
}

/// Writes a warning if projects are on trial: their failures are not alerted, which a user may have
/// forgotten. Returns true if there are any.
pub(super) fn write_trial_message(state: &State) -> bool {
    let projects: Vec<_> = state
        .projects()
        .map(|project_state| &*project_state.project)
        .filter(|project| project.is_on_trial())
        .collect();
    if projects.is_empty() {
        return false;
    }
    let number = format_count(projects.len(), "project");
    let verb = if projects.len() == 1 { "is" } else { "are" };
    tracing::warn!(
        "{number} {verb} on trial: no alerts are sent for failures there until `overdue project \
        release`: {}",
        project_names(&projects)
    );
    true
}

/// Writes a line if some of these projects alert from now on. The projects were imported, or their
/// trial has ended.
pub(super) fn write_import_message(state: &State, projects: &[ProjectId]) {
    let projects = projects
        .iter()
        .filter_map(|id| state.project(*id))
        .map(|project_state| &*project_state.project);
    let live: Vec<_> = projects.filter(|project| !project.is_on_trial()).collect();
    if !live.is_empty() {
        let number = format_count(live.len(), "imported project");
        let verb = if live.len() == 1 { "sends" } else { "send" };
        tracing::info!(
            "{number} {verb} alerts from now on: {}",
            project_names(&live)
        );
    }
}

/// Names of projects, shortened to the first [`MAX_PROJECTS_NAMED`].
fn project_names(projects: &[&Project]) -> String {
    let names: Vec<_> = projects
        .iter()
        .take(MAX_PROJECTS_NAMED)
        .map(|project| format!("{:?}", project.name.as_str()))
        .collect();
    let omitted = projects.len() - names.len();
    names.join(", ")
        + &if omitted > 0 {
            format!(" and {omitted} more")
        } else {
            String::new()
        }
}
