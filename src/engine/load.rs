//! What is in the file becomes what is in memory: check rows are the checkpoint, and the pings logged since then are applied to them by
//! the same code that applied them first.

use std::sync::Arc;

use super::apply::{Effects, Numbers, WorkingState};
use super::state::{Change, State};
use crate::domain::ids::{Arrival, FlipNumber};
use crate::domain::moment::Moment;
use crate::store::{Mark, Snapshot, Store, StoreError};

/// What start-up finds.
pub(super) struct Loaded {
    pub(super) working: WorkingState,
    /// No stamp may be earlier than this.
    pub(super) last_stamp: Moment,
    /// Check rows hold every ping up to this arrival.
    pub(super) checkpoint: Arrival,
    /// Entries in the arrival log.
    pub(super) log_len: u64,
    /// Entries among the kept pings.
    pub(super) kept_len: u64,
    /// The secret that signs badge URLs, if there is one already.
    pub(super) badge_secret: Option<[u8; 32]>,
}

/// Reads everything that memory holds.
pub(super) fn load(store: &Store, body_limit: usize) -> Result<Loaded, StoreError> {
    let snapshot = store.snapshot()?;
    let mut state = State::default();
    let mut last_stamp = Moment::default();
    for project in snapshot.projects()? {
        state.apply(&Change::Project(Arc::new(project)));
    }
    for key in snapshot.keys()? {
        last_stamp = last_stamp.max(key.created);
        state.apply(&Change::Key(Arc::new(key)));
    }
    for channel in snapshot.channels()? {
        state.apply(&Change::Channel(Arc::new(channel)));
    }
    let (mut arrival, mut flip) = (0, 0);
    for check in snapshot.checks()? {
        let check = check?;
        arrival = arrival.max(check.state.last_arrival.0);
        flip = flip.max(check.state.last_flip.0);
        last_stamp = last_stamp.max(check.state.changed);
        state.apply(&Change::Check(Box::new(check)));
    }
    let checkpoint = Arrival(snapshot.mark(Mark::CheckpointArrival)?);
    let last = replay(&snapshot, &mut state, checkpoint)?;
    let numbers =
        Numbers { id: snapshot.mark(Mark::NextId)?.max(1), arrival: arrival.max(last.arrival) + 1, flip: flip.max(last.flip) + 1 };
    Ok(Loaded {
        working: WorkingState { state, numbers, effects: Effects::default(), body_limit },
        // The sweep leaves the newest ping, so this is the latest of all.
        last_stamp: last_stamp.max(snapshot.newest_ping()?.map(|ping| ping.at).unwrap_or_default()),
        checkpoint,
        log_len: snapshot.log_len()?,
        kept_len: snapshot.kept_len()?,
        badge_secret: snapshot.badge_secret()?,
    })
}

struct Last {
    arrival: u64,
    flip: u64,
}

/// Applies the tails of both logs. The flips that pings cause are in their log already and are only counted.
fn replay(snapshot: &Snapshot, state: &mut State, checkpoint: Arrival) -> Result<Last, StoreError> {
    let mut last = Last { arrival: checkpoint.0, flip: snapshot.mark(Mark::CheckpointFlip)? };
    let mut flips = Vec::new();
    for ping in snapshot.pings_after(checkpoint)? {
        let (arrival, ping) = ping?;
        last.arrival = arrival.0;
        // Deleted since, or already in its row.
        let Some(check) = state.check(ping.check).filter(|check| check.state.last_arrival < arrival) else { continue };
        let mut next = check.state;
        next.ping(&check.settings, ping.kind, ping.rid, ping.at, &mut flips);
        flips.clear();
        next.last_arrival = arrival;
        state.apply(&Change::Pinged { id: ping.check, state: next, sooner: false });
    }
    for flip in snapshot.flips_after(FlipNumber(last.flip))? {
        let (number, logged) = flip?;
        last.flip = number.0;
        if let Some(check) = state.check(logged.check) {
            let next = crate::domain::check::CheckState { last_flip: check.state.last_flip.max(number), ..check.state };
            state.apply(&Change::Pinged { id: logged.check, state: next, sooner: false });
        }
    }
    Ok(last)
}
