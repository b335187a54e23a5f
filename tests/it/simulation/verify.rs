//! What must be true whenever anyone looks: the engine, in memory and in the file, is what the
//! model says, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use overdue::domain::alert::{HoldReason, NotificationState, Outage, OutboxRow};
use overdue::domain::check::{Check, CheckState};
use overdue::domain::ids::CheckId;
use overdue::domain::recent_outcomes::RunOutcome;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::Handle;
use redb::{
    ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, TableDefinition,
};

use super::model::{self, CheckLabels, Model};
use super::replay::{CLOCK_JUMP, LoggedPing, ModelPeriod, ReplayedCheck};
use crate::support::disk::Disk;

/// Fails with the sentence that says what differs.
macro_rules! same {
    ($found:expr, $expected:expr, $($what:tt)*) => {
        match (&$found, &$expected) {
            (found, expected) if *found == *expected => {}
            (found, expected) => return Err(format!("{}: found {found:?}, expected {expected:?}", format_args!($($what)*))),
        }
    };
}
pub(crate) use same;

type VerifyResult = Result<(), String>;

/// Compares all that is in memory, and returns each check with its story.
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
        same!(
            state.badge_secret.is_some(),
            true,
            "whether badges can be signed"
        );
        same!(
            model.badge_secret.or(state.badge_secret),
            state.badge_secret,
            "secret of badges"
        );
        same!(state.check_count(), model.checks.len(), "number of checks");
        let mut checks = Vec::new();
        for (id, expected) in &model.checks {
            let mut found = state
                .check_by_uuid(expected.names.uuid)
                .ok_or(format!("check {id} is gone"))?
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
            same!(found.id.0, *id, "number of a check");
            let story = check(&found, expected, now)?;
            checks.push((found, expected, story));
        }
        Ok(checks)
    })
}

/// Compares a check with its story.
pub(crate) fn check(
    check: &Check,
    expected: &model::ModelCheck,
    now: i64,
) -> Result<ReplayedCheck, String> {
    let id = check.id.0;
    let names = (check.project.0, check.uuid, check.badge);
    same!(
        names,
        (expected.project, expected.names.uuid, expected.names.badge),
        "names of check {id}"
    );
    settings(check, expected).map_err(|difference| format!("check {id}: {difference}"))?;
    let story = expected.replay();
    lifecycle(check, &story, expected.patient, now)
        .map_err(|difference| format!("check {id}: {difference}"))?;
    Ok(story)
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
        "channels, each once"
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
        "failures before an alert"
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

fn lifecycle(check: &Check, story: &ReplayedCheck, patient: bool, now: i64) -> VerifyResult {
    let state = &check.state;
    same!(state.n_pings, story.log.len() as u64, "n_pings");
    same!(state.status, story.status, "stored status");
    same!(
        state.last_ping.map(Timestamp::micros),
        story.last_ping,
        "last_ping"
    );
    same!(
        state.run.map(|run| (run.start.micros(), run.rid)),
        story.run,
        "run"
    );
    same!(state.last_duration, story.last_duration, "last_duration");
    let newest: Vec<_> = story.outcomes.iter().rev().copied().take(32).collect();
    same!(
        state.outcomes.newest_first().collect::<Vec<_>>(),
        newest,
        "outcomes"
    );
    let failures = story
        .outcomes
        .iter()
        .rev()
        .take_while(|outcome| **outcome != RunOutcome::Success)
        .count();
    let further = usize::from(state.failures).saturating_sub(failures);
    same!(
        (
            usize::from(state.failures) - further,
            further > 0 && !patient
        ),
        (failures, false),
        "failures since the last success"
    );
    same!(
        state.next_ping().map(Timestamp::micros),
        story.next_ping(),
        "next_ping"
    );
    same!(
        state.deadline(&check.settings).map(Timestamp::micros),
        story.deadline(),
        "deadline"
    );
    for later in [0, 1, 60, 3600, 100_000, 40_000_000] {
        let at = now + later * 1_000_000;
        same!(
            state.visible_status(&check.settings, Timestamp::from_micros(at)),
            story.shown(at),
            "status {later} s later"
        );
    }
    Ok(())
}

/// When it is decided again whether downtimes are told lies no further ahead than one more ping may
/// be missing, or lost.
pub(crate) fn decision_times(model: &Model, handle: &Handle, now: i64) -> VerifyResult {
    handle.with_state(|state| {
        for expected in model.checks.values() {
            let Some(check) = state.check_by_uuid(expected.names.uuid) else { continue };
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
            same!(at.micros() - now < longest * 1_000_000 + CLOCK_JUMP, true, "whether check {} is decided on soon, at {at:?}", check.id.0);
        }
        Ok(())
    })
}

/// All that a start has to find again.
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
}

/// Compares all that is in memory and in the file. `pruned_at` is the latest time at which anything
/// may have been pruned.
pub(crate) fn everything(model: &Model, handle: &Handle, now: i64, pruned_at: i64) -> VerifyResult {
    for (check, expected, story) in memory(model, handle, now)? {
        let id = check.id.0;
        let log_limit = model.projects[&expected.project].log_limit;
        pings(handle, &check, expected, &story.log, log_limit)
            .map_err(|difference| format!("check {id}: {difference}"))?;
        flips(handle, &check, &story, pruned_at)
            .map_err(|difference| format!("check {id}: {difference}"))?;
    }
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
    let first_certain = first_visible.max(expected.lost + 1);
    let first_found = pings + 1 - found.len() as u64;
    if first_found > first_certain || first_found < first_visible {
        return Err(format!(
            "{} of {pings} pings are listed, limit {log_limit}, {} once beyond it",
            found.len(),
            expected.lost
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

/// Compares the bodies in pieces with what refers to them, in the file of an engine that has
/// stopped.
pub(crate) fn body_chunks(disk: &Disk) -> VerifyResult {
    let read = || -> Result<_, redb::Error> {
        let database = redb::Builder::new().create_with_backend(disk.clone())?;
        let transaction = database.begin_read()?;
        let pieces = transaction.open_table(TableDefinition::<(u64, u64), &[u8]>::new("pieces"))?;
        let uploads = transaction.open_table(TableDefinition::<u64, u64>::new("uploads"))?;
        let unreferred = transaction
            .open_table(TableDefinition::<u64, ()>::new("unreferred"))?
            .len()?;
        let present = pieces
            .iter()?
            .map(|row| Ok(row?.0.value().0))
            .collect::<Result<BTreeSet<_>, redb::Error>>()?;
        let referred = uploads
            .iter()?
            .map(|row| Ok(row?.0.value()))
            .collect::<Result<BTreeSet<_>, redb::Error>>()?;
        Ok((present, referred, unreferred))
    };
    let (present, referred, unreferred) = read().map_err(|error| error.to_string())?;
    same!(unreferred, 0, "uploads that belong to nobody");
    same!(present, referred, "uploads of which there are pieces");
    Ok(())
}

fn flips(handle: &Handle, check: &Check, story: &ReplayedCheck, pruned_at: i64) -> VerifyResult {
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
    for (flip, expected) in found.iter().zip(story.flips.iter().rev()) {
        same!(
            (flip.at.micros(), flip.from, flip.to, flip.cause),
            *expected,
            "flip"
        );
    }
    // What stands before one that is gone cannot be found.
    let kept_from = months_before(pruned_at, 2);
    let certain = story
        .flips
        .iter()
        .rev()
        .take_while(|(at, ..)| *at >= kept_from)
        .count();
    if found.len() < certain || found.len() > story.flips.len() {
        return Err(format!(
            "{} flips are kept of {}, of which {certain} must be",
            found.len(),
            story.flips.len()
        ));
    }
    for pair in found.windows(2) {
        if pair[0].from != pair[1].to {
            return Err(format!("flips do not follow each other: {pair:?}"));
        }
    }
    let since = story.flips.last().map_or(0, |(at, ..)| *at);
    let newest = handle
        .flips(check, Timestamp::from_micros(since))
        .map_err(|error| error.to_string())?;
    same!(
        newest.len(),
        found
            .iter()
            .filter(|flip| flip.at.micros() >= since)
            .count(),
        "flips from a moment on"
    );
    Ok(())
}

/// When the month began that lies so many months before a moment.
fn months_before(moment: i64, months: i64) -> i64 {
    let date = jiff::Timestamp::from_microsecond(moment)
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
