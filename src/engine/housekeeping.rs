//! Work that keeps the file small and start-up short: the checkpoint of check rows, the sweep of pings, the pruning of old flips. It is
//! done in slices beside the batches, so that no ping waits for it.

mod checkpoint;
mod deliveries;
mod pieces;
mod sweep;

use super::state::State;
use crate::domain::alert::Delivery;
use crate::domain::flip::LoggedFlip;
use crate::domain::ids::{Arrival, FlipNumber};
use crate::domain::moment::Moment;
use crate::store::{Batch, Kept, Mark, StoreError};
use checkpoint::Checkpoint;
use deliveries::DeliveryLog;
use pieces::Pieces;
use sweep::Sweep;

pub(super) use checkpoint::LogPlace;
pub(super) use sweep::LogSize;

/// How much of each job is put off, and how much is done at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Rows that a slice writes, removes or looks at, at the most.
    pub slice: usize,
    /// Bytes of rows after which a slice of a checkpoint ends.
    pub checkpoint_bytes: u64,
    /// Bytes of bodies after which a slice of a sweep ends, unless more came in meanwhile.
    pub sweep_bytes: u64,
    /// A ping or mail that puts more bytes of bodies into the log is written in pieces, and one at a time.
    pub large: usize,
    /// Bytes of a piece, at the most.
    pub piece: usize,
    /// Pings that the tail of the log needs before a checkpoint is made. The tail is what start-up has to replay.
    pub least_tail: u64,
    /// Pings that the tail needs for each check that there is. A checkpoint writes one row for each check; this spreads its cost.
    pub tail_per_check: u64,
    /// Bytes of bodies in the tail that are enough for a checkpoint, however few the pings.
    pub tail_bytes: u64,
    /// Entries that the log may have above twice its live ones before it is swept.
    pub slack: u64,
    /// Bytes of bodies that the log may have above twice those of the kept before it is swept: see [limits](crate::docs::limits).
    pub slack_bytes: u64,
    /// Deliveries that are kept at the most: see [limits](crate::docs::limits).
    pub deliveries: u64,
    /// Rows for alerts after which a batch takes no further deadlines, and no further commands of a project.
    pub alert_rows: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            slice: 512,
            checkpoint_bytes: 1 << 20,
            sweep_bytes: 4 << 20,
            large: 256 << 10,
            // With what belongs to it, it has a page of 1 MiB.
            piece: (1 << 20) - 1024,
            least_tail: 50_000,
            tail_per_check: 10,
            tail_bytes: 8 << 20,
            slack: 10_000,
            slack_bytes: 24 << 20,
            deliveries: MOST_DELIVERIES,
            alert_rows: 1000,
        }
    }
}

/// Flips that are looked at in the time in which another row is written.
const FLIPS_A_ROW: usize = 8;
/// Flips are kept for the current month and so many full months before it: see [limits](crate::docs::limits).
const FLIP_MONTHS: i64 = 2;
/// Deliveries are kept for so many days, and so many of them: see [limits](crate::docs::limits).
const DELIVERY_DAYS: i64 = 30;
const MOST_DELIVERIES: u64 = 50_000;

/// What a slice of work is done with.
struct Slice<'a> {
    thresholds: Thresholds,
    batch: &'a Batch,
    state: &'a State,
    /// Pings that the batch has appended, and bytes of bodies that it has written.
    appended: (u64, u64),
    /// The ends of both logs.
    newest: LogPlace,
}

/// Where housekeeping stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    /// Check rows hold every ping and flip up to here.
    pub(super) done: LogPlace,
    size: LogSize,
    /// The sweep begins here.
    pub(super) from: Arrival,
}

/// How far each of the jobs is.
pub(super) struct Housekeeping {
    thresholds: Thresholds,
    checkpoint: Checkpoint,
    sweep: Sweep,
    pieces: Pieces,
    /// The next flip to be looked at, in a round that is going on.
    next_flip: Option<FlipNumber>,
    deliveries: DeliveryLog,
    /// A damaged row of flips has been told.
    told: bool,
    /// What an abandoned import has left is to go.
    abandoned: Abandoned,
}

/// How far the removal of what abandoned imports have left is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Abandoned {
    /// There is nothing.
    No,
    /// There is something. Flips that a start would replay cannot go: first comes a checkpoint.
    Waits,
    /// It is going.
    Goes,
}

impl Housekeeping {
    /// `staged`: an import may have left something.
    pub(super) fn new(thresholds: Thresholds, checkpoint: LogPlace, size: LogSize, staged: bool) -> Self {
        let mut checkpoint = Checkpoint::new(checkpoint);
        if staged {
            checkpoint.request();
        }
        Self {
            thresholds,
            checkpoint,
            sweep: Sweep::new(size),
            // What was being written when the server ended belongs to nobody.
            pieces: Pieces::due(),
            next_flip: None,
            deliveries: DeliveryLog::default(),
            told: false,
            abandoned: if staged { Abandoned::Waits } else { Abandoned::No },
        }
    }

    /// Time for the hourly round: check rows are brought up to date, and what has died goes.
    pub(super) fn hourly(&mut self, state: &State) {
        self.checkpoint.request();
        if self.sweep.has_dead(state) {
            self.sweep.request();
        }
        self.next_flip = Some(FlipNumber(0));
        self.deliveries.request();
    }

    /// Where it stands, to begin again there.
    pub(super) fn standing(&self) -> Standing {
        Standing { done: self.checkpoint.done, size: self.sweep.size(), from: self.sweep.from }
    }

    /// Begins again where it stood, but sweeps only from this arrival on.
    pub(super) fn begin_again(&mut self, thresholds: Thresholds, standing: Standing, from: Arrival) {
        let pieces = std::mem::replace(&mut self.pieces, Pieces::due());
        *self = Self { pieces, ..Self::new(thresholds, standing.done, standing.size, self.abandoned != Abandoned::No) };
        self.sweep.from = from;
    }

    /// Leaves an upload that could not be read, if it was that, where it is; whether it was.
    pub(super) fn go_round_upload(&mut self) -> bool {
        self.pieces.go_round()
    }

    /// Has removed what was written ahead of a command and belongs to no ping.
    pub(super) fn look_at_pieces(&mut self) {
        self.pieces.request();
    }

    /// Counts what a batch appends: so many pings, and bytes of their bodies that count as long.
    pub(super) fn appended(&mut self, appended: (u64, u64)) {
        self.sweep.appended(appended);
    }

    /// Counts pings that a batch has put among the kept.
    pub(super) fn kept(&mut self, batch: &Batch, kept: Kept) -> Result<(), StoreError> {
        batch.set_mark(Mark::KeptBytes, self.sweep.add_kept(kept))
    }

    /// Something has changed of the imports under way. What one leaves that is `over` goes, if it was not finished.
    pub(super) fn staged(&mut self, batch: &Batch, state: &State, over: bool) -> Result<(), StoreError> {
        if over {
            self.checkpoint.request();
            self.abandoned = Abandoned::Waits;
        }
        batch.set_mark(Mark::Staged, u64::from(!state.stagings.is_empty() || self.abandoned != Abandoned::No))
    }

    /// Does the next step of removing what abandoned imports have left; `false`: there was nothing to write.
    fn remove_abandoned(&mut self, batch: &Batch, state: &State) -> Result<bool, StoreError> {
        match self.abandoned {
            Abandoned::Waits if !self.checkpoint.pending() => {
                self.next_flip = Some(FlipNumber(0));
                self.sweep.look_at_kept();
                self.abandoned = Abandoned::Goes;
            }
            Abandoned::Goes if self.next_flip.is_none() && !self.sweep.pending() => {
                self.abandoned = Abandoned::No;
                batch.set_mark(Mark::Staged, u64::from(!state.stagings.is_empty()))?;
                return Ok(true);
            }
            Abandoned::No | Abandoned::Waits | Abandoned::Goes => {}
        }
        Ok(false)
    }

    /// Counts deliveries that a batch appends.
    pub(super) fn delivered(&mut self, deliveries: &[Delivery], state: &State) {
        self.deliveries.append(deliveries, state, self.thresholds.deliveries);
    }

    /// From now on slices are as small as they can be: the space that one frees is what the next one needs.
    pub(super) fn go_in_small_steps(&mut self) {
        self.thresholds = Thresholds { slice: 16, sweep_bytes: 1, ..self.thresholds };
    }

    /// Slices are of their usual size again.
    pub(super) fn go_in_steps(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// Everything that is dead goes, whether or not it is counted.
    pub(super) fn everything(&mut self) {
        self.checkpoint.request();
        self.sweep.request();
        self.pieces.request();
        self.next_flip = Some(FlipNumber(0));
        self.deliveries.request();
    }

    /// Pings in the file.
    pub(super) fn pings(&self) -> u64 {
        let size = self.sweep.size();
        size.log_len + size.kept_len
    }

    /// Pings in the file, and bytes of their long bodies.
    pub(super) fn size(&self) -> (u64, u64) {
        let size = self.sweep.size();
        (self.pings(), size.log_bytes + size.kept_bytes)
    }

    /// Pieces of bodies that were removed from it.
    pub(super) fn removed_pieces(&self) -> u64 {
        self.pieces.removed
    }

    /// Whether there is work that does not wait for pings.
    pub(super) fn pending(&self) -> bool {
        let is_housekeeping = self.checkpoint.pending() || self.sweep.pending() || self.pieces.pending();
        is_housekeeping || self.next_flip.is_some() || self.deliveries.pending() || self.abandoned != Abandoned::No
    }

    /// Does one slice of whatever is due in a batch that has just appended so many pings and written so many bytes of bodies, and maybe a
    /// piece of an `upload`; `false` when it wrote nothing. Without a time nothing goes for its age.
    pub(super) fn slice(
        &mut self,
        batch: &Batch,
        state: &State,
        appended: (u64, u64),
        upload: Option<u64>,
        newest: LogPlace,
        now: Option<Moment>,
    ) -> Result<bool, StoreError> {
        let slice = Slice { thresholds: self.thresholds, batch, state, appended, newest };
        let mut wrote = self.checkpoint.slice(&slice)?;
        // A sweep that was asked for goes as far as the checkpoint that was asked for with it.
        if !self.checkpoint.pending() || appended.0 > 0 {
            wrote |= self.sweep.slice(&slice, self.checkpoint.done.arrival)?;
        }
        if self.sweep.has_unreferred() {
            self.pieces.request();
        }
        // Twice what came in, so that it gets ahead of any rate.
        wrote |= self.pieces.slice(batch, self.thresholds.sweep_bytes.max(2 * appended.1), upload)?;
        wrote |= self.remove_abandoned(batch, state)?;
        wrote |= self.prune_flips(batch, state, now)?;
        let before = now.map(|now| now.plus_secs(-DELIVERY_DAYS * 86_400));
        wrote |= self.deliveries.slice(&slice, before)?;
        Ok(wrote)
    }

    /// Brings every check row up to date at once, for a clean stop.
    pub(super) fn checkpoint_whole(&self, batch: &Batch, state: &State, newest: LogPlace) -> Result<(), StoreError> {
        self.checkpoint.whole(batch, state, newest)
    }

    /// Looks at the next flips, and removes those that are older than their months or of a check that is gone.
    fn prune_flips(&mut self, batch: &Batch, state: &State, now: Option<Moment>) -> Result<bool, StoreError> {
        let Some(next) = self.next_flip else { return Ok(false) };
        let (most, before) = (FLIPS_A_ROW * self.thresholds.slice, now.map(|now| now.start_of_month(FLIP_MONTHS)));
        let is_old = |at| before.is_some_and(|before| at < before);
        let is_dead = |logged: &LoggedFlip| is_old(logged.flip.at) || !state.may_show(logged.check);
        // One that lies ahead holds nothing up.
        let holds = |logged: &LoggedFlip| now.is_some_and(|now| !logged.flip.at.is_ahead_of(now));
        // What a start would replay stays.
        let pruned = batch.prune_flips(next, self.checkpoint.done.flip, most, is_dead, holds)?;
        self.next_flip = pruned.next;
        if let Some(error) = pruned.damaged.filter(|_| !self.told) {
            self.told = true;
            tracing::error!("it stays in the file: {error}");
        }
        Ok(pruned.removed > 0)
    }
}
