//! Comparison of the engine with the model, in memory and in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use overdue::domain::alert::{HoldReason, NotificationState, Outage, OutboxRow};
use overdue::domain::audit::{AuditAction, AuditScope};
use overdue::domain::check::{Check, CheckState};
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::recent_outcomes::RunOutcome;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::Handle;
use redb::{
    ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, TableDefinition,
};

use super::model::{self, CheckLabels, Model};
use super::replay::{CLOCK_JUMP, LoggedPing, ModelPeriod, ReplayedCheck};
use crate::support::disk::Disk;

/// Returns an error with both values unless they are equal. The message is a noun phrase or a
/// statement.
macro_rules! same {
    ($found:expr, $expected:expr, $($message:tt)*) => {
        match (&$found, &$expected) {
            (found, expected) if *found == *expected => {}
            (found, expected) => return Err(format!("{}: found {found:?}, expected {expected:?}", format_args!($($message)*))),
        }
    };
}
pub(crate) use same;

type VerifyResult = Result<(), String>;

/// Compares everything in memory. Returns each check with its model and its replayed state.
pub(crate) fn memory<'a>(
    model: &'a Model,
    handle: &Handle,
    now: i64,
) -> Result<Vec<(Check, &'a model::ModelCheck, ReplayedCheck)>, String> {
    handle.with_state(|state| {
        let projects: Vec<_> = state
            .projects()
            .map(|project_state| project_state.project.id.0)
            .collect();
        same!(
            projects,
            model.projects.keys().copied().collect::<Vec<_>>(),
            "projects"
        );
        for project_state in state.projects() {
            let id = project_state.project.id.0;
            let found = &project_state.project;
            let expected = &model.projects[&id];
            same!(found.name.as_str(), expected.name, "name of project {id}");
            same!(
                found.check_limit,
                expected.check_limit,
                "check limit of project {id}"
            );
            same!(
                u64::from(found.ping_log_limit),
                expected.log_limit,
                "log limit of project {id}"
            );
            same!(
                found.allows_ping_settings,
                expected.allows_ping_settings,
                "settings in pings of project {id}"
            );
            same!(
                found.status_pages,
                expected.status_pages,
                "status pages of project {id}"
            );
            let found = project_state.channels.values();
            let channels: Vec<_> = found
                .map(|channel| {
                    (
                        channel.id.0,
                        channel.uuid,
                        channel.name.as_str(),
                        &channel.settings,
                    )
                })
                .collect();
            let own = model
                .channels
                .iter()
                .filter(|(_, channel)| channel.project == id);
            let own: Vec<_> = own
                .map(|(id, channel)| (*id, channel.uuid, channel.name.as_str(), &channel.settings))
                .collect();
            same!(channels, own, "channels of project {id}");
            let checks: Vec<_> = project_state.checks.iter().map(|id| id.0).collect();
            let own = model
                .checks
                .iter()
                .filter(|(_, check)| check.project == id)
                .map(|(id, _)| *id);
            same!(checks, own.collect::<Vec<_>>(), "checks of project {id}");
        }
        let keys: BTreeMap<_, _> = state
            .keys()
            .map(|key| (key.id.0, model::ModelKey::of(key)))
            .collect();
        same!(keys, model.keys, "keys");
        model.users.verify(state, now)?;
        same!(state.badge_secret.is_some(), true, "a badge secret exists");
        same!(
            model.badge_secret.or(state.badge_secret),
            state.badge_secret,
            "badge secret"
        );
        same!(state.check_count(), model.checks.len(), "number of checks");
        let mut checks = Vec::new();
        for (id, expected) in &model.checks {
            let mut found = state
                .check_by_uuid(expected.uuids.uuid)
                .ok_or(format!("check {id} is missing"))?
                .clone();
            let channels = state
                .channels_of(&found)
                .map(|channel| channel.id)
                .collect();
            let settings = Arc::make_mut(&mut found.settings);
            settings.channels = channels;
            settings
                .parents
                .retain(|parent| state.check(parent).is_some());
            same!(found.id.0, *id, "ID of a check");
            let replay = check(&found, expected, now)?;
            checks.push((found, expected, replay));
        }
        Ok(checks)
    })
}

/// Compares a check with its model. Returns the replayed state.
pub(crate) fn check(
    check: &Check,
    expected: &model::ModelCheck,
    now: i64,
) -> Result<ReplayedCheck, String> {
    let id = check.id.0;
    let uuids = (check.project.0, check.uuid, check.badge);
    same!(
        uuids,
        (expected.project, expected.uuids.uuid, expected.uuids.badge),
        "UUIDs of check {id}"
    );
    settings(check, expected).map_err(|difference| format!("check {id}: {difference}"))?;
    let replay = expected.replay();
    lifecycle(check, &replay, expected.had_higher_threshold, now)
        .map_err(|difference| format!("check {id}: {difference}"))?;
    Ok(replay)
}

fn settings(check: &Check, expected: &model::ModelCheck) -> VerifyResult {
    let settings = &check.settings;
    let labels = CheckLabels {
        name: settings.name.as_str().into(),
        slug: settings.slug.as_str().into(),
        tags: settings.tags.as_str().into(),
        desc: settings.desc.as_str().into(),
        channels: settings.channels.iter().map(|channel| channel.0).collect(),
    };
    same!(labels, expected.labels, "labels");
    same!(
        settings.channels.len(),
        labels.channels.len(),
        "channels without duplicates"
    );
    same!(
        settings
            .parents
            .ids()
            .iter()
            .map(|parent| parent.0)
            .collect::<BTreeSet<_>>(),
        expected.parents,
        "parents"
    );
    same!(
        settings.failure_threshold,
        expected.failure_threshold,
        "failure threshold"
    );
    let schedule = match expected.rules.period {
        ModelPeriod::Seconds(_) => None,
        ModelPeriod::EveryFiveMinutes => Some("*/5 * * * *"),
        ModelPeriod::AtThree => Some("0 3 * * *"),
        ModelPeriod::Ended => Some("2020-01-01"),
    };
    same!(
        settings.schedule.as_ref().map(|schedule| schedule.text()),
        schedule,
        "schedule"
    );
    same!(
        (settings.timeout.get(), settings.grace.get()),
        (expected.timeout, expected.rules.grace),
        "periods"
    );
    let filters = settings.filters;
    let rules = &expected.rules;
    same!(
        [
            settings.manual_resume,
            settings.post_only,
            filters.subject,
            filters.body,
            filters.http_body,
            filters.default_fail
        ],
        [
            rules.manual_resume,
            rules.post_only,
            rules.filter_subject,
            rules.filter_body,
            rules.filter_http_body,
            rules.default_fail
        ],
        "switches"
    );
    same!(!settings.failure_kw.is_empty(), rules.keywords, "keywords");
    Ok(())
}

fn lifecycle(
    check: &Check,
    replay: &ReplayedCheck,
    had_higher_threshold: bool,
    now: i64,
) -> VerifyResult {
    let state = &check.state;
    same!(state.n_pings, replay.log.len() as u64, "n_pings");
    same!(state.status, replay.status, "stored status");
    same!(
        state.last_ping.map(Timestamp::micros),
        replay.last_ping,
        "last_ping"
    );
    same!(
        state.run.map(|run| (run.start.micros(), run.rid)),
        replay.run,
        "run"
    );
    same!(state.last_duration, replay.last_duration, "last_duration");
    let newest: Vec<_> = replay.outcomes.iter().rev().copied().take(32).collect();
    same!(
        state.outcomes.newest_first().collect::<Vec<_>>(),
        newest,
        "outcomes"
    );
    let failures = replay
        .outcomes
        .iter()
        .rev()
        .take_while(|outcome| **outcome != RunOutcome::Success)
        .count();
    let missed_pings = usize::from(state.failures).saturating_sub(failures);
    same!(
        (
            usize::from(state.failures) - missed_pings,
            missed_pings > 0 && !had_higher_threshold
        ),
        (failures, false),
        "failures since the last success"
    );
    same!(
        state.next_ping().map(Timestamp::micros),
        replay.next_ping(),
        "next_ping"
    );
    same!(
        state.deadline(&check.settings).map(Timestamp::micros),
        replay.deadline(),
        "deadline"
    );
    for later in [0, 1, 60, 3600, 100_000, 40_000_000] {
        let at = now + later * 1_000_000;
        same!(
            state.visible_status(&check.settings, Timestamp::from_micros(at)),
            replay.visible_status(at),
            "status {later} s later"
        );
    }
    Ok(())
}

/// Checks that pending alerts are decided on soon: at the latest when the next ping would be
/// overdue, or a lost one could be repeated.
pub(crate) fn decision_times(model: &Model, handle: &Handle, now: i64) -> VerifyResult {
    handle.with_state(|state| {
        for expected in model.checks.values() {
            let Some(check) = state.check_by_uuid(expected.uuids.uuid) else { continue };
            let period = match expected.rules.period {
                ModelPeriod::Seconds(seconds) => seconds,
                ModelPeriod::EveryFiveMinutes => 300,
                ModelPeriod::AtThree | ModelPeriod::Ended => 86_400,
            };
            let longest = match check.state.notification {
                NotificationState::Pending { reason: HoldReason::ServerOutage, .. } => 15 * 60,
                NotificationState::Pending { reason: HoldReason::BelowThreshold, .. } => period + expected.rules.grace,
                NotificationState::Pending { reason: HoldReason::ParentPending, .. } => expected.rules.grace.max(15 * 60) + 1,
                NotificationState::Pending {
                    reason: HoldReason::ParentDown(_) | HoldReason::MaintenanceWindow | HoldReason::Trial,
                    ..
                } => 15 * 60,
                NotificationState::NotNeeded | NotificationState::Notified | NotificationState::Undelivered => continue,
            };
            let NotificationState::Pending { at, .. } = check.state.notification else { continue };
            // The clock may have been set back several times by less than a jump.
            let is_soon = at.micros() - now < longest * 1_000_000 + 10 * CLOCK_JUMP;
            same!(is_soon, true, "check {} is decided on soon, at {at:?}", check.id.0);
        }
        Ok(())
    })
}

/// State that a restart has to restore.
#[derive(PartialEq, Debug)]
pub(crate) struct RestartSnapshot {
    checks: Vec<(CheckId, CheckState)>,
    outbox: Vec<OutboxRow>,
    outages: Vec<Outage>,
}

impl RestartSnapshot {
    pub(crate) fn of(handle: &Handle) -> Self {
        handle.with_state(|state| Self {
            checks: state
                .checks()
                .map(|check| (check.id, check.state))
                .collect(),
            outbox: state
                .outbox
                .rows()
                .map(|row| OutboxRow::clone(row))
                .collect(),
            outages: state.outages.to_vec(),
        })
    }

    /// Takes the outages of an earlier state, if a later one was recorded since: that may merge or
    /// drop earlier ones.
    pub(crate) fn forget_later_outages(&mut self, earlier: &Self) {
        let end = |outages: &[Outage]| outages.last().map(|outage| outage.to);
        if end(&self.outages) > end(&earlier.outages) {
            self.outages.clone_from(&earlier.outages);
        }
    }
}

/// Compares memory and file with the model. `pruned_at` is the latest time at which anything may
/// have been pruned.
pub(crate) fn everything(model: &Model, handle: &Handle, now: i64, pruned_at: i64) -> VerifyResult {
    for (check, expected, replay) in memory(model, handle, now)? {
        let id = check.id.0;
        let log_limit = model.projects[&expected.project].log_limit;
        pings(handle, &check, expected, &replay.log, log_limit)
            .map_err(|difference| format!("check {id}: {difference}"))?;
        flips(handle, &check, &replay, pruned_at)
            .map_err(|difference| format!("check {id}: {difference}"))?;
    }
    model
        .projects
        .keys()
        .try_for_each(|project| audit_log(model, handle, ProjectId(*project)))
}

/// Checks that the audit log of a project has no gap and counts every pause.
fn audit_log(model: &Model, handle: &Handle, project: ProjectId) -> VerifyResult {
    let entries = handle
        .audit_entries(AuditScope::Project(project), u64::MAX, usize::MAX)
        .map_err(|error| format!("the audit log cannot be read: {error}"))?;
    let numbers: Vec<_> = entries.iter().map(|entry| entry.number).collect();
    let expected: Vec<_> = (1..=entries.len() as u64).rev().collect();
    same!(numbers, expected, "numbers of the audit log of {project:?}");
    let pauses = entries
        .iter()
        .filter(|entry| entry.action == AuditAction::Paused)
        .map(|entry| u64::from(entry.count))
        .sum::<u64>();
    let expected = model.pauses.get(&project.0).copied().unwrap_or(0);
    same!(pauses, expected, "pauses in the audit log of {project:?}");
    Ok(())
}

fn pings(
    handle: &Handle,
    check: &Check,
    expected: &model::ModelCheck,
    log: &[LoggedPing],
    log_limit: u64,
) -> VerifyResult {
    let found = handle
        .pings(check)
        .map_err(|error| format!("its pings cannot be read: {error}"))?;
    let pings = log.len() as u64;
    let first_visible = pings.saturating_sub(log_limit) + 1;
    let first_certain = first_visible.max(expected.dropped_up_to + 1);
    let first_found = pings + 1 - found.len() as u64;
    if first_found > first_certain || first_found < first_visible {
        return Err(format!(
            "{} of {pings} pings are listed, limit {log_limit}, {} were beyond it",
            found.len(),
            expected.dropped_up_to
        ));
    }
    for (ping, entry) in found.iter().zip(log.iter().rev()) {
        let body = handle
            .body(check, ping.n)
            .map_err(|error| format!("a body cannot be read: {error}"))?;
        same!(
            ping.body_len as usize,
            entry.body.len(),
            "length of body {}",
            ping.n
        );
        let logged = LoggedPing {
            n: ping.n,
            at: ping.at.micros(),
            kind: ping.kind,
            method: ping.origin.method,
            rid: ping.rid,
            exit: ping.exit_status,
            body: body.unwrap_or_default().into(),
        };
        same!(logged, *entry, "logged ping");
    }
    for n in [0, first_visible.saturating_sub(1), pings + 1, u64::MAX] {
        same!(
            handle.body(check, n).map_err(|error| error.to_string())?,
            None,
            "body {n} beyond the log"
        );
    }
    Ok(())
}

/// Checks that body chunks and uploads refer to each other, in the file of a stopped engine.
pub(crate) fn body_chunks(disk: &Disk) -> VerifyResult {
    let read = || -> Result<_, redb::Error> {
        let database = redb::Builder::new().create_with_backend(disk.database())?;
        let transaction = database.begin_read()?;
        let chunks = transaction.open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces"))?;
        let uploads = transaction.open_table(TableDefinition::<u64, u64>::new("uploads"))?;
        let unreferenced = transaction
            .open_table(TableDefinition::<u64, ()>::new("unreferred"))?
            .len()?;
        let uploads_with_chunks = chunks
            .iter()?
            .map(|row| Ok(row?.0.value().0))
            .collect::<Result<BTreeSet<_>, redb::Error>>()?;
        let referenced_uploads = uploads
            .iter()?
            .map(|row| Ok(row?.0.value()))
            .collect::<Result<BTreeSet<_>, redb::Error>>()?;
        Ok((uploads_with_chunks, referenced_uploads, unreferenced))
    };
    let (uploads_with_chunks, referenced_uploads, unreferenced) =
        read().map_err(|error| error.to_string())?;
    same!(unreferenced, 0, "uploads without a reference");
    same!(
        uploads_with_chunks,
        referenced_uploads,
        "uploads with chunks"
    );
    Ok(())
}

fn flips(handle: &Handle, check: &Check, replay: &ReplayedCheck, pruned_at: i64) -> VerifyResult {
    let since = |from| {
        handle
            .flips(check, from)
            .map_err(|error| format!("its flips cannot be read: {error}"))
    };
    let found = since(Timestamp::from_micros(i64::MIN))?;
    if let Some(from) = found.get(found.len() / 2).map(|flip| flip.at) {
        let later: Vec<_> = found
            .iter()
            .filter(|flip| flip.at >= from)
            .copied()
            .collect();
        same!(since(from)?, later, "flips since {from:?}");
    }
    for (flip, expected) in found.iter().zip(replay.flips.iter().rev()) {
        same!(
            (flip.at.micros(), flip.from, flip.to, flip.cause),
            *expected,
            "flip"
        );
    }
    // A pruned flip also hides the flips before it.
    let kept_from = months_before(pruned_at, 2);
    let certain = replay
        .flips
        .iter()
        .rev()
        .take_while(|(at, ..)| *at >= kept_from)
        .count();
    if found.len() < certain || found.len() > replay.flips.len() {
        return Err(format!(
            "{} of {} flips are kept, at least {certain} expected",
            found.len(),
            replay.flips.len()
        ));
    }
    for pair in found.windows(2) {
        if pair[0].from != pair[1].to {
            return Err(format!("flips are not consecutive: {pair:?}"));
        }
    }
    let since = replay.flips.last().map_or(0, |(at, ..)| *at);
    let newest = handle
        .flips(check, Timestamp::from_micros(since))
        .map_err(|error| error.to_string())?;
    same!(
        newest.len(),
        found
            .iter()
            .filter(|flip| flip.at.micros() >= since)
            .count(),
        "flips since {since}"
    );
    Ok(())
}

/// Returns the start of the month that lies `months` before the month of `time`.
fn months_before(time: i64, months: i64) -> i64 {
    let date = jiff::Timestamp::from_microsecond(time)
        .unwrap()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date();
    let first = date
        .first_of_month()
        .saturating_sub(jiff::Span::new().months(months));
    first
        .to_zoned(jiff::tz::TimeZone::UTC)
        .unwrap()
        .timestamp()
        .as_microsecond()
}
