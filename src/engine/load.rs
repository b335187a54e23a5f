//! Loads the file into memory: check rows are the checkpoint, and the pings and flips logged since
//! then are applied to them.

mod audience;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::apply::{Effects, SequenceNumbers, WorkingState};
use super::housekeeping::{HousekeepingLimits, PingLogPosition, PingLogSize};
use super::state::{Change, State, UserChange};
use crate::domain::alert::NotificationState;
use crate::domain::check::CheckState;
use crate::domain::flip::LoggedFlip;
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::store::{MetaKey, Snapshot, Store, StoreError};

/// Content of the file.
pub(super) struct LoadedDatabase {
    pub(super) working: WorkingState,
    /// Times in the file, for the examination of the clock.
    pub(super) timestamps: FileTimestamps,
    /// Check rows contain every ping and flip up to here.
    pub(super) checkpoint: PingLogPosition,
    /// Number and size of the pings.
    pub(super) log_size: PingLogSize,
    /// True if there may be log entries of an import that was not finished.
    pub(super) has_import_leftovers: bool,
}

/// Times in the file, relative to a moment.
pub(super) struct FileTimestamps {
    /// Time of the latest event that is not after that moment.
    pub(super) latest_past: Timestamp,
    /// Time of the latest event.
    pub(super) latest: Timestamp,
    /// Time of the newest ping.
    pub(super) newest_ping: Timestamp,
    /// Last time at which pings could be received, if the file contains it.
    pub(super) last_available_stored: Option<Timestamp>,
    /// Time since which the clock had no jump, as of the newest record.
    pub(super) steady_since: Option<Timestamp>,
}

impl FileTimestamps {
    fn include(&mut self, at: Timestamp, now: Timestamp) {
        self.latest = self.latest.max(at);
        if !at.is_ahead_of(now) {
            self.latest_past = self.latest_past.max(at);
        }
    }

    /// Last time before `now` at which pings could be received. A file of an earlier release
    /// contains only times of events.
    pub(super) fn last_available(&self, now: Timestamp) -> Option<Timestamp> {
        let is_known = |at: &Timestamp| *at > Timestamp::default() && !at.is_ahead_of(now);
        let last = [self.last_available_stored, Some(self.newest_ping)]
            .into_iter()
            .flatten()
            .filter(is_known)
            .max();
        last.or(Some(self.latest_past)).filter(is_known)
    }
}

/// Reads everything that is held in memory, relative to `now`. `limits`: see [`WorkingState`]. Rows
/// that this release cannot read are quarantined.
pub(super) fn load(
    store: &Store,
    limits: (usize, HousekeepingLimits),
    now: Timestamp,
) -> Result<LoadedDatabase, StoreError> {
    match load_rows(store, limits, now) {
        Err(StoreError::InvalidRow { .. }) => {
            let checks = store.quarantine_unreadable_rows()?;
            let mut loaded = load_rows(store, limits, now)?;
            pause_incomplete_checks(store, &mut loaded.working.state, &checks)?;
            Ok(loaded)
        }
        result => result,
    }
}

/// Pauses checks that lack some of their settings, regardless of later log entries.
fn pause_incomplete_checks(
    store: &Store,
    state: &mut State,
    checks: &[CheckId],
) -> Result<(), StoreError> {
    let batch = store.batch()?;
    for id in checks {
        let Some(mut check) = state.check(*id).cloned() else {
            continue;
        };
        (check.state.status, check.state.run) = (Status::Paused, None);
        if check.state.is_alert_held() {
            check.state.notification = NotificationState::NotNeeded;
        }
        check.state.update_grace_start(&check.settings);
        batch.put_checks([&check])?;
        state.apply(&Change::Check(Box::new(check)));
    }
    batch.commit()
}

/// Reads everything like [`load`], but fails at a row that this release cannot read.
pub(super) fn load_rows(
    store: &Store,
    (ping_body_limit, limits): (usize, HousekeepingLimits),
    now: Timestamp,
) -> Result<LoadedDatabase, StoreError> {
    let snapshot = store.snapshot()?;
    let mut state = State::default();
    if let Some(secret) = snapshot.badge_secret()? {
        state.apply(&Change::BadgeSecret(secret));
    }
    if let Some(instance) = snapshot.instance()? {
        state.apply(&Change::Instance(instance));
    }
    state.apply(&Change::LegacySecrets(Arc::new(snapshot.legacy_secrets()?)));
    state.apply(&Change::Outages(snapshot.outages()?.into()));
    for project in snapshot.projects()? {
        state.apply(&Change::Project(Arc::new(project)));
    }
    for key in snapshot.keys()? {
        state.apply(&Change::Key(Arc::new(key)));
    }
    for channel in snapshot.channels()? {
        state.apply(&Change::Channel(Arc::new(channel)));
    }
    for user in snapshot.users()? {
        state.apply(&Change::User(UserChange::User(Arc::new(user))));
    }
    for session in snapshot.sessions()? {
        state.apply(&Change::User(UserChange::Session(Arc::new(session))));
    }
    for link in snapshot.links()? {
        state.apply(&Change::User(UserChange::Link(Arc::new(link))));
    }
    for window in snapshot.windows()? {
        state.apply(&Change::Window(Arc::new(window)));
    }
    for (scope, number) in snapshot.newest_audit_numbers()? {
        state.set_newest_audit_number(scope, number);
    }
    for (id, source) in snapshot.sources()? {
        state.apply(&Change::Source(id, Some(source)));
    }
    for row in snapshot.outbox()? {
        state.apply(&Change::OutboxRow(Arc::new(row?)));
    }
    state.clear_sending();
    let mut arrival = 0;
    let mut flip = 0;
    for check in snapshot.checks()? {
        let check = check?;
        arrival = arrival.max(check.state.last_arrival.0);
        flip = flip.max(check.state.last_flip.0);
        state.apply(&Change::Check(Box::new(check)));
    }
    let checkpoint = PingLogPosition {
        arrival: Arrival(snapshot.meta_value(MetaKey::CheckpointArrival)?),
        flip: FlipNumber(snapshot.meta_value(MetaKey::CheckpointFlip)?),
        bytes: snapshot.meta_value(MetaKey::CheckpointBytes)?,
    };
    let newest = replay(&snapshot, &mut state, checkpoint)?;
    let numbers = SequenceNumbers {
        id: snapshot.meta_value(MetaKey::NextId)?.max(1),
        arrival: arrival.max(newest.arrival.0) + 1,
        flip: flip.max(newest.flip.0) + 1,
        delivery: snapshot.meta_value(MetaKey::NextDelivery)?.max(1),
        body_bytes: newest.bytes,
    };
    let log_size = PingLogSize {
        log_len: snapshot.log_len()?,
        log_bytes: newest
            .bytes
            .saturating_sub(snapshot.meta_value(MetaKey::SweptBytes)?),
        kept_len: snapshot.kept_len()?,
        kept_bytes: snapshot.meta_value(MetaKey::KeptBytes)?,
    };
    let timestamps = read_timestamps(&snapshot, &state, now)?;
    let audience_states = audience::read_audience_states(&snapshot, &state)?;
    Ok(LoadedDatabase {
        working: WorkingState {
            state,
            numbers,
            effects: Effects::default(),
            ping_body_limit,
            accepts_pings: true,
            upload_threshold_bytes: limits.upload_threshold_bytes,
            max_alert_rows: limits.max_alert_rows,
            audience_states,
            alert_rows_before: 0,
            unevaluated_checks: Vec::new(),
            projects_at_check_limit: BTreeSet::new(),
        },
        timestamps,
        checkpoint,
        log_size,
        has_import_leftovers: snapshot.meta_value(MetaKey::ImportLeftovers)? != 0,
    })
}

fn read_timestamps(
    snapshot: &Snapshot,
    state: &State,
    now: Timestamp,
) -> Result<FileTimestamps, StoreError> {
    // The sweep keeps the newest ping.
    let newest = snapshot
        .newest_ping()?
        .map(|ping| ping.at)
        .unwrap_or_default();
    let moment = |key| -> Result<Option<Timestamp>, StoreError> {
        Ok(i64::try_from(snapshot.meta_value(key)?)
            .ok()
            .filter(|micros| *micros > 0)
            .map(Timestamp::from_micros))
    };
    let last_available_stored = moment(MetaKey::LastAvailable)?;
    let steady_since = moment(MetaKey::SteadySince)?;
    let mut timestamps = FileTimestamps {
        latest_past: Timestamp::default(),
        latest: newest,
        newest_ping: newest,
        last_available_stored,
        steady_since,
    };
    timestamps.include(newest, now);
    state
        .keys()
        .for_each(|key| timestamps.include(key.created, now));
    for CheckState {
        changed,
        last_ping,
        run,
        ..
    } in state.checks().map(|check| check.state)
    {
        [Some(changed), last_ping, run.map(|run| run.start)]
            .into_iter()
            .flatten()
            .for_each(|at| timestamps.include(at, now));
    }
    Ok(timestamps)
}

/// Applies the tails of both logs, merged by the pings that caused flips. Log entries are applied
/// as they are: earlier deadlines are not computed again, since time zone rules may have changed.
/// Returns the ends of both logs.
fn replay(
    snapshot: &Snapshot,
    state: &mut State,
    checkpoint: PingLogPosition,
) -> Result<PingLogPosition, StoreError> {
    let mut newest = checkpoint;
    let mut flips = snapshot.flips_after(checkpoint.flip)?.peekable();
    let mut changed_checks = HashSet::new();
    let mut ping_flips = Vec::new();
    for ping in snapshot.pings_after(checkpoint.arrival)? {
        let (arrival, ping) = ping?;
        newest.arrival = arrival;
        newest.bytes += ping.excess_body_bytes();
        while let Some(flip) =
            flips.next_if(|flip| !matches!(flip, Ok((_, logged)) if logged.arrival > arrival))
        {
            let (number, logged) = flip?;
            newest.flip = number;
            if logged.arrival == arrival {
                ping_flips.push((number, logged.flip));
            } else {
                apply_flip(state, number, &logged);
                changed_checks.insert(logged.check);
            }
        }
        // Deleted since, or already contained in its row.
        if let Some(check) = state
            .check(ping.check)
            .filter(|check| check.state.last_arrival < arrival)
        {
            let mut next = check.state;
            let (numbers, caused): (Vec<_>, Vec<_>) = ping_flips.iter().copied().unzip();
            next.replay(ping.kind, ping.rid, ping.at, &caused);
            // An earlier ping may have been quarantined.
            next.n_pings = ping.n;
            next.last_arrival = arrival;
            next.last_flip = numbers.last().copied().unwrap_or(next.last_flip);
            state.apply(&Change::CheckState {
                id: ping.check,
                state: next,
                is_due_earlier: false,
            });
            changed_checks.insert(ping.check);
        }
        ping_flips.clear();
    }
    for flip in flips {
        let (number, logged) = flip?;
        newest.flip = number;
        apply_flip(state, number, &logged);
        changed_checks.insert(logged.check);
    }
    for id in changed_checks {
        if let Some(check) = state.check(id) {
            let mut next = check.state;
            next.update_grace_start(&check.settings);
            state.apply(&Change::CheckState {
                id,
                state: next,
                is_due_earlier: false,
            });
        }
    }
    Ok(newest)
}

/// Applies a flip that no known ping caused. The row of its check was written with it, except by
/// release 0.1, whose flips do not refer to a ping. The status follows from the flips alone,
/// regardless of their order among the pings.
fn apply_flip(state: &mut State, number: FlipNumber, logged: &LoggedFlip) {
    if let Some(check) = state
        .check(logged.check)
        .filter(|check| check.state.last_flip < number)
    {
        let mut next = check.state;
        next.apply_flip(&logged.flip);
        next.last_flip = number;
        state.apply(&Change::CheckState {
            id: logged.check,
            state: next,
            is_due_earlier: false,
        });
    }
}
