//! Tells the log what came of a batch: checks that have changed their status, by name and project, never by UUID, and full projects. And
//! counts it for metrics.

use tracing::Level;

use super::apply::Effects;
use super::state::State;
use crate::domain::flip::{Cause, LoggedFlip};
use crate::domain::ids::{FlipNumber, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::words::count;
use crate::log_limit::LogLimit;
use crate::metrics::Metrics;

/// Projects on trial that a line names.
const MOST_NAMED: usize = 10;

/// One for all servers of the process.
static CHANGES: LogLimit = LogLimit::new();

/// Writes a line for each flip of a batch that is on disk; `state` is the one after it.
pub(super) fn flips(state: &State, flips: &[(FlipNumber, LoggedFlip)], now: Moment) {
    if flips.is_empty() || !tracing::enabled!(Level::INFO) {
        return;
    }
    for LoggedFlip { check, flip, .. } in flips.iter().map(|(_, logged)| logged) {
        // A check that went in the same batch is no news.
        let Some(check) = state.check(*check) else { continue };
        let Some(left_out) = CHANGES.admit(now) else { continue };
        let name = Some(check.settings.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(check.settings.slug.as_str());
        let project = state.project(check.project).map_or("", |project_state| project_state.project.name.as_str());
        tracing::info!("check {name:?} of project {project:?} is {}, was {}{left_out}", flip.to.name(), flip.from.name());
    }
}

/// Counts what a batch has put on disk; `state` is the one after it.
pub(super) fn measure(metrics: &Metrics, state: &State, effects: &Effects, now: Moment) {
    metrics.pinged(effects.pings.iter().map(|(_, ping, _)| (ping.kind, ping.origin.scheme)));
    for LoggedFlip { flip, .. } in effects.flips.iter().map(|(_, logged)| logged) {
        let is_missed = matches!(flip.cause, Cause::Late | Cause::Overrun);
        metrics.flipped(flip.to, is_missed.then(|| now.micros_since(flip.at)));
    }
    for delivery in &effects.deliveries {
        let kind = state.channel(delivery.channel).map_or("deleted", |channel| channel.settings.kind().name);
        metrics.delivered(kind, delivery.outcome);
    }
}

/// Writes a line for each project in which a batch found that pings make no more checks: once, until one has been made there again.
pub(super) fn full(state: &State, projects: &[ProjectId]) {
    for project_state in projects.iter().filter_map(|id| state.project(*id)) {
        let (name, count) = (project_state.project.name.as_str(), project_state.checks.len());
        tracing::warn!(
            "pings make no more checks in the project \"{name}\", which has {count}: delete some, or raise the limit with \
             `overdue project set --check-limit`"
        );
    }
}

/// Writes a line if projects are on trial: nobody is told of them, and whoever forgets that would never hear of a failure. Whether there are
/// some.
pub(super) fn trials(state: &State) -> bool {
    let held = state.projects().filter(|project_state| project_state.project.is_held());
    let mut names: Vec<_> = held.map(|held| format!("{:?}", held.project.name.as_str())).collect();
    if names.is_empty() {
        return false;
    }
    let (number, verb) = (count(names.len(), "project"), if names.len() == 1 { "is" } else { "are" });
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    tracing::warn!(
        "{number} {verb} on trial and nobody is told of failures there, until `overdue project release`: {}{more}",
        names.join(", ")
    );
    true
}
