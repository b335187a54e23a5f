//! What is in the file becomes what is in memory: check rows are the checkpoint, and the pings and flips logged since then are applied
//! to them.

mod audience;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::apply::{Effects, Numbers, WorkingState};
use super::housekeeping::{LogPlace, LogSize, Thresholds};
use super::state::{Change, State, UserChange};
use crate::domain::alert::Telling;
use crate::domain::check::CheckState;
use crate::domain::flip::LoggedFlip;
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::moment::Moment;
use crate::domain::status::Status;
use crate::store::{Mark, Snapshot, Store, StoreError};

/// What is found in the file.
pub(super) struct Loaded {
    pub(super) working: WorkingState,
    /// What its times say of the clock.
    pub(super) times: Times,
    /// Check rows hold every ping and flip up to here.
    pub(super) checkpoint: LogPlace,
    /// How many pings there are, with what bodies.
    pub(super) size: LogSize,
    /// There may be entries of logs of an import that was not finished.
    pub(super) staged: bool,
}

/// Times in the file, seen from a moment.
pub(super) struct Times {
    /// The latest of what happened that does not lie ahead of that moment.
    pub(super) last_stamp: Moment,
    /// The latest of all.
    pub(super) latest: Moment,
    /// That of the ping that came last.
    pub(super) newest: Moment,
    /// When pings could last be taken, as far as the file knows.
    pub(super) alive: Option<Moment>,
    /// Since when the clock had gone without a step, as of the newest record.
    pub(super) steady_since: Option<Moment>,
}

impl Times {
    fn note(&mut self, at: Moment, now: Moment) {
        self.latest = self.latest.max(at);
        if !at.is_ahead_of(now) {
            self.last_stamp = self.last_stamp.max(at);
        }
    }

    /// When pings were last taken before `now`, as far as the file knows. A file of an earlier release knows only when something happened.
    pub(super) fn last_taken(&self, now: Moment) -> Option<Moment> {
        let is_known = |at: &Moment| *at > Moment::default() && !at.is_ahead_of(now);
        let taken = [self.alive, Some(self.newest)].into_iter().flatten().filter(is_known).max();
        taken.or(Some(self.last_stamp)).filter(is_known)
    }
}

/// Reads everything that memory holds, as it is seen from `now`; `limits`: see [`WorkingState`]. Rows that this release cannot read are put aside.
pub(super) fn load(store: &Store, limits: (usize, Thresholds), now: Moment) -> Result<Loaded, StoreError> {
    match read(store, limits, now) {
        Err(StoreError::Corrupt { .. }) => {
            let checks = store.put_aside()?;
            let mut loaded = read(store, limits, now)?;
            pause(store, &mut loaded.working.state, &checks)?;
            Ok(loaded)
        }
        read => read,
    }
}

/// Pauses checks that lack some of their settings, whatever was logged since their rows were written.
fn pause(store: &Store, state: &mut State, checks: &[CheckId]) -> Result<(), StoreError> {
    let batch = store.batch()?;
    for id in checks {
        let Some(mut check) = state.check(*id).cloned() else { continue };
        (check.state.status, check.state.run) = (Status::Paused, None);
        if let Telling::Due { .. } = check.state.telling {
            check.state.telling = Telling::Quiet;
        }
        check.state.expect(&check.settings);
        batch.put_checks([&check])?;
        state.apply(&Change::Check(Box::new(check)));
    }
    batch.commit()
}

fn read(store: &Store, (body_limit, thresholds): (usize, Thresholds), now: Moment) -> Result<Loaded, StoreError> {
    let snapshot = store.snapshot()?;
    let mut state = State::default();
    if let Some(secret) = snapshot.badge_secret()? {
        state.apply(&Change::BadgeSecret(secret));
    }
    if let Some(instance) = snapshot.instance()? {
        state.apply(&Change::Instance(instance));
    }
    state.apply(&Change::Adopted(Arc::new(snapshot.adopted()?)));
    state.apply(&Change::Away(snapshot.away()?.into()));
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
    for (id, source) in snapshot.managed()? {
        state.apply(&Change::Managed(id, Some(source)));
    }
    for row in snapshot.outbox()? {
        state.apply(&Change::Queued(Arc::new(row?)));
    }
    state.nobody_sends();
    let (mut arrival, mut flip) = (0, 0);
    for check in snapshot.checks()? {
        let check = check?;
        arrival = arrival.max(check.state.last_arrival.0);
        flip = flip.max(check.state.last_flip.0);
        state.apply(&Change::Check(Box::new(check)));
    }
    let checkpoint = LogPlace {
        arrival: Arrival(snapshot.mark(Mark::CheckpointArrival)?),
        flip: FlipNumber(snapshot.mark(Mark::CheckpointFlip)?),
        bytes: snapshot.mark(Mark::CheckpointBytes)?,
    };
    let newest = replay(&snapshot, &mut state, checkpoint)?;
    let numbers = Numbers {
        id: snapshot.mark(Mark::NextId)?.max(1),
        arrival: arrival.max(newest.arrival.0) + 1,
        flip: flip.max(newest.flip.0) + 1,
        delivery: snapshot.mark(Mark::NextDelivery)?.max(1),
        bytes: newest.bytes,
    };
    let size = LogSize {
        log_len: snapshot.log_len()?,
        log_bytes: newest.bytes.saturating_sub(snapshot.mark(Mark::SweptBytes)?),
        kept_len: snapshot.kept_len()?,
        kept_bytes: snapshot.mark(Mark::KeptBytes)?,
    };
    let times = times(&snapshot, &state, now)?;
    let audience_notes = audience::notes(&snapshot, &state)?;
    Ok(Loaded {
        working: WorkingState {
            state,
            numbers,
            effects: Effects::default(),
            body_limit,
            is_served: true,
            large: thresholds.large,
            most_alert_rows: thresholds.alert_rows,
            audience_notes,
            rows_before: 0,
            full: BTreeSet::new(),
        },
        times,
        checkpoint,
        size,
        staged: snapshot.mark(Mark::Staged)? != 0,
    })
}

fn times(snapshot: &Snapshot, state: &State, now: Moment) -> Result<Times, StoreError> {
    // The sweep leaves the newest ping.
    let newest = snapshot.newest_ping()?.map(|ping| ping.at).unwrap_or_default();
    let moment = |mark| -> Result<Option<Moment>, StoreError> {
        Ok(i64::try_from(snapshot.mark(mark)?).ok().filter(|micros| *micros > 0).map(Moment::from_micros))
    };
    let alive = moment(Mark::Alive)?;
    let steady_since = moment(Mark::SteadySince)?;
    let mut times = Times { last_stamp: Moment::default(), latest: newest, newest, alive, steady_since };
    times.note(newest, now);
    state.keys().for_each(|key| times.note(key.created, now));
    for CheckState { changed, last_ping, run, .. } in state.checks().map(|check| check.state) {
        [Some(changed), last_ping, run.map(|run| run.start)].into_iter().flatten().for_each(|at| times.note(at, now));
    }
    Ok(times)
}

/// Applies the tails of both logs, merged by the pings during which flips were decided. What is in the log is taken as it is: the
/// deadlines of then are not looked at again, since zone rules may be newer than they were. The ends of both logs.
fn replay(snapshot: &Snapshot, state: &mut State, checkpoint: LogPlace) -> Result<LogPlace, StoreError> {
    let mut newest = checkpoint;
    let mut flips = snapshot.flips_after(checkpoint.flip)?.peekable();
    let mut moved = HashSet::new();
    let mut of_ping = Vec::new();
    for ping in snapshot.pings_after(checkpoint.arrival)? {
        let (arrival, ping) = ping?;
        newest.arrival = arrival;
        newest.bytes += ping.long_bytes();
        while let Some(flip) = flips.next_if(|flip| !matches!(flip, Ok((_, logged)) if logged.arrival > arrival)) {
            let (number, logged) = flip?;
            newest.flip = number;
            if logged.arrival == arrival {
                of_ping.push((number, logged.flip));
            } else {
                apply_flip(state, number, &logged);
                moved.insert(logged.check);
            }
        }
        // Deleted since, or already in its row.
        if let Some(check) = state.check(ping.check).filter(|check| check.state.last_arrival < arrival) {
            let mut next = check.state;
            let (numbers, caused): (Vec<_>, Vec<_>) = of_ping.iter().copied().unzip();
            next.replay(ping.kind, ping.rid, ping.at, &caused);
            // A ping before it may have been put aside.
            next.n_pings = ping.n;
            next.last_arrival = arrival;
            next.last_flip = numbers.last().copied().unwrap_or(next.last_flip);
            state.apply(&Change::Pinged { id: ping.check, state: next, sooner: false });
            moved.insert(ping.check);
        }
        of_ping.clear();
    }
    for flip in flips {
        let (number, logged) = flip?;
        newest.flip = number;
        apply_flip(state, number, &logged);
        moved.insert(logged.check);
    }
    for id in moved {
        if let Some(check) = state.check(id) {
            let mut next = check.state;
            next.expect(&check.settings);
            state.apply(&Change::Pinged { id, state: next, sooner: false });
        }
    }
    Ok(newest)
}

/// Applies a flip that no ping is known to have caused. The row of its check was written with it, except by release 0.1, whose flips do
/// not say during which ping they were decided; the status follows from them alone, whatever their order among the pings.
fn apply_flip(state: &mut State, number: FlipNumber, logged: &LoggedFlip) {
    if let Some(check) = state.check(logged.check).filter(|check| check.state.last_flip < number) {
        let mut next = check.state;
        next.apply_flip(&logged.flip);
        next.last_flip = number;
        state.apply(&Change::Pinged { id: logged.check, state: next, sooner: false });
    }
}
