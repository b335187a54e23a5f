//! Work that keeps the file small and start-up short: the checkpoint of check rows, the sweep of pings, the pruning of old flips. It is
//! done in slices beside the batches, so that no ping waits for it.

mod checkpoint;
mod chunks;
mod deliveries;
mod sweep;

use super::state::State;
use crate::domain::alert::DeliveryRecord;
use crate::domain::flip::LoggedFlip;
use crate::domain::ids::{Arrival, FlipNumber};
use crate::domain::timestamp::Timestamp;
use crate::store::{Batch, KeptPutResult, MetaKey, StoreError};
use checkpoint::Checkpoint;
use chunks::ChunkPruning;
use deliveries::DeliveryPruning;
use sweep::Sweep;

pub(super) use checkpoint::LogPosition;
pub(super) use sweep::LogSize;

/// How much of each job is put off, and how much is done at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HousekeepingLimits {
    /// Rows that a slice writes, removes or looks at, at the most.
    pub slice_rows: usize,
    /// Bytes of rows after which a slice of a checkpoint ends.
    pub checkpoint_bytes: u64,
    /// Bytes of bodies after which a slice of a sweep ends, unless more came in meanwhile.
    pub sweep_bytes: u64,
    /// A ping or mail that puts more bytes of bodies into the log is written in pieces, and one at a time.
    pub large_body_bytes: usize,
    /// Bytes of a piece, at the most.
    pub chunk_bytes: usize,
    /// Pings that the tail of the log needs before a checkpoint is made. The tail is what start-up has to replay.
    pub min_tail: u64,
    /// Pings that the tail needs for each check that there is. A checkpoint writes one row for each check; this spreads its cost.
    pub tail_per_check: u64,
    /// Bytes of bodies in the tail that are enough for a checkpoint, however few the pings.
    pub tail_bytes: u64,
    /// Entries that the log may have above twice its live ones before it is swept.
    pub slack_entries: u64,
    /// Bytes of bodies that the log may have above twice those of the kept before it is swept: see [limits](crate::docs::limits).
    pub slack_bytes: u64,
    /// Deliveries that are kept at the most: see [limits](crate::docs::limits).
    pub max_deliveries: u64,
    /// Rows for alerts after which a batch takes no further deadlines, and no further commands of a project.
    pub max_alert_rows: usize,
}

impl Default for HousekeepingLimits {
    fn default() -> Self {
        Self {
            slice_rows: 512,
            checkpoint_bytes: 1 << 20,
            sweep_bytes: 4 << 20,
            large_body_bytes: 256 << 10,
            // With what belongs to it, it has a page of 1 MiB.
            chunk_bytes: (1 << 20) - 1024,
            min_tail: 50_000,
            tail_per_check: 10,
            tail_bytes: 8 << 20,
            slack_entries: 10_000,
            slack_bytes: 24 << 20,
            max_deliveries: MAX_DELIVERIES,
            max_alert_rows: 1000,
        }
    }
}

/// Flips that are looked at in the time in which another row is written.
const FLIPS_PER_ROW: usize = 8;
/// Flips are kept for the current month and so many full months before it: see [limits](crate::docs::limits).
const FLIP_MONTHS: i64 = 2;
/// Deliveries are kept for so many days, and so many of them: see [limits](crate::docs::limits).
const DELIVERY_DAYS: i64 = 30;
const MAX_DELIVERIES: u64 = 50_000;

/// What a slice of work is done with.
struct HousekeepingSlice<'a> {
    limits: HousekeepingLimits,
    batch: &'a Batch,
    state: &'a State,
    /// Pings that the batch has appended, and bytes of bodies that it has written.
    appended: (u64, u64),
    /// The ends of both logs.
    newest: LogPosition,
}

/// Where housekeeping stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HousekeepingPosition {
    /// Check rows hold every ping and flip up to here.
    pub(super) checkpoint: LogPosition,
    size: LogSize,
    /// The sweep begins here.
    pub(super) sweep_from: Arrival,
}

/// How far each of the jobs is.
pub(super) struct Housekeeping {
    limits: HousekeepingLimits,
    checkpoint: Checkpoint,
    sweep: Sweep,
    chunks: ChunkPruning,
    /// The next flip to be looked at, in a round that is going on.
    next_flip: Option<FlipNumber>,
    deliveries: DeliveryPruning,
    /// A damaged row of flips has been told.
    is_damage_logged: bool,
    /// What an abandoned import has left is to go.
    import_leftovers: ImportLeftovers,
}

/// How far the removal of what abandoned imports have left is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ImportLeftovers {
    /// There is nothing.
    None,
    /// There is something. Flips that a start would replay cannot go: first comes a checkpoint.
    AwaitingCheckpoint,
    /// It is going.
    Removing,
}

impl Housekeeping {
    /// `note_import_change`: an import may have left something.
    pub(super) fn new(thresholds: HousekeepingLimits, checkpoint: LogPosition, size: LogSize, staged: bool) -> Self {
        let mut checkpoint = Checkpoint::new(checkpoint);
        if staged {
            checkpoint.request();
        }
        Self {
            limits: thresholds,
            checkpoint,
            sweep: Sweep::new(size),
            // What was being written when the server ended belongs to nobody.
            chunks: ChunkPruning::new_due(),
            next_flip: None,
            deliveries: DeliveryPruning::default(),
            is_damage_logged: false,
            import_leftovers: if staged { ImportLeftovers::AwaitingCheckpoint } else { ImportLeftovers::None },
        }
    }

    /// Time for the hourly round: check rows are brought up to date, and what has died goes.
    pub(super) fn begin_hourly_round(&mut self, state: &State) {
        self.checkpoint.request();
        if self.sweep.has_dead(state) {
            self.sweep.request();
        }
        self.next_flip = Some(FlipNumber(0));
        self.deliveries.request();
    }

    /// Where it stands, to begin again there.
    pub(super) fn position(&self) -> HousekeepingPosition {
        HousekeepingPosition { checkpoint: self.checkpoint.position, size: self.sweep.size(), sweep_from: self.sweep.from }
    }

    /// Begins again where it stood, but sweeps only from this arrival on.
    pub(super) fn resume_at(&mut self, thresholds: HousekeepingLimits, standing: HousekeepingPosition, from: Arrival) {
        let pieces = std::mem::replace(&mut self.chunks, ChunkPruning::new_due());
        *self = Self {
            chunks: pieces,
            ..Self::new(thresholds, standing.checkpoint, standing.size, self.import_leftovers != ImportLeftovers::None)
        };
        self.sweep.from = from;
    }

    /// Leaves an upload that could not be read, if it was that, where it is; whether it was.
    pub(super) fn skip_unreadable_upload(&mut self) -> bool {
        self.chunks.skip_unreadable()
    }

    /// Has removed what was written ahead of a command and belongs to no ping.
    pub(super) fn request_chunk_pruning(&mut self) {
        self.chunks.request();
    }

    /// Counts what a batch appends: so many pings, and bytes of their bodies that count as long.
    pub(super) fn count_appended(&mut self, appended: (u64, u64)) {
        self.sweep.count_appended(appended);
    }

    /// Counts pings that a batch has put among the kept.
    pub(super) fn count_kept(&mut self, batch: &Batch, kept: KeptPutResult) -> Result<(), StoreError> {
        batch.set_meta_value(MetaKey::KeptBytes, self.sweep.add_kept(kept))
    }

    /// Something has changed of the imports under way. What one leaves that is `over` goes, if it was not finished.
    pub(super) fn note_import_change(&mut self, batch: &Batch, state: &State, over: bool) -> Result<(), StoreError> {
        if over {
            self.checkpoint.request();
            self.import_leftovers = ImportLeftovers::AwaitingCheckpoint;
        }
        batch.set_meta_value(
            MetaKey::ImportLeftovers,
            u64::from(!state.imports.is_empty() || self.import_leftovers != ImportLeftovers::None),
        )
    }

    /// Does the next step of removing what abandoned imports have left; `false`: there was nothing to write.
    fn remove_import_leftovers(&mut self, batch: &Batch, state: &State) -> Result<bool, StoreError> {
        match self.import_leftovers {
            ImportLeftovers::AwaitingCheckpoint if !self.checkpoint.is_pending() => {
                self.next_flip = Some(FlipNumber(0));
                self.sweep.request_kept_pruning();
                self.import_leftovers = ImportLeftovers::Removing;
            }
            ImportLeftovers::Removing if self.next_flip.is_none() && !self.sweep.is_pending() => {
                self.import_leftovers = ImportLeftovers::None;
                batch.set_meta_value(MetaKey::ImportLeftovers, u64::from(!state.imports.is_empty()))?;
                return Ok(true);
            }
            ImportLeftovers::None | ImportLeftovers::AwaitingCheckpoint | ImportLeftovers::Removing => {}
        }
        Ok(false)
    }

    /// Counts deliveries that a batch appends.
    pub(super) fn count_deliveries(&mut self, deliveries: &[DeliveryRecord], state: &State) {
        self.deliveries.count_appended(deliveries, state, self.limits.max_deliveries);
    }

    /// From now on slices are as small as they can be: the space that one frees is what the next one needs.
    pub(super) fn use_smallest_slices(&mut self) {
        self.limits = HousekeepingLimits { slice_rows: 16, sweep_bytes: 1, ..self.limits };
    }

    /// Slices are of their usual size again.
    pub(super) fn use_usual_slices(&mut self, thresholds: HousekeepingLimits) {
        self.limits = thresholds;
    }

    /// Everything that is dead goes, whether or not it is counted.
    pub(super) fn request_full_round(&mut self) {
        self.checkpoint.request();
        self.sweep.request();
        self.chunks.request();
        self.next_flip = Some(FlipNumber(0));
        self.deliveries.request();
    }

    /// Pings in the file.
    pub(super) fn ping_count(&self) -> u64 {
        let size = self.sweep.size();
        size.log_len + size.kept_len
    }

    /// Pings in the file, and bytes of their long bodies.
    pub(super) fn size(&self) -> (u64, u64) {
        let size = self.sweep.size();
        (self.ping_count(), size.log_bytes + size.kept_bytes)
    }

    /// Pieces of bodies that were removed from it.
    pub(super) fn removed_chunks(&self) -> u64 {
        self.chunks.removed
    }

    /// Whether there is work that does not wait for pings.
    pub(super) fn is_pending(&self) -> bool {
        let is_housekeeping = self.checkpoint.is_pending() || self.sweep.is_pending() || self.chunks.is_pending();
        is_housekeeping || self.next_flip.is_some() || self.deliveries.is_pending() || self.import_leftovers != ImportLeftovers::None
    }

    /// Does one slice of whatever is due in a batch that has just appended so many pings and written so many bytes of bodies, and maybe a
    /// piece of an `upload`; `false` when it wrote nothing. Without a time nothing goes for its age.
    pub(super) fn run_slice(
        &mut self,
        batch: &Batch,
        state: &State,
        appended: (u64, u64),
        upload: Option<u64>,
        newest: LogPosition,
        now: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let slice = HousekeepingSlice { limits: self.limits, batch, state, appended, newest };
        let mut wrote = self.checkpoint.run_slice(&slice)?;
        // A sweep that was asked for goes as far as the checkpoint that was asked for with it.
        if !self.checkpoint.is_pending() || appended.0 > 0 {
            wrote |= self.sweep.run_slice(&slice, self.checkpoint.position.arrival)?;
        }
        if self.sweep.take_unreferenced() {
            self.chunks.request();
        }
        // Twice what came in, so that it gets ahead of any rate.
        wrote |= self.chunks.run_slice(batch, self.limits.sweep_bytes.max(2 * appended.1), upload)?;
        wrote |= self.remove_import_leftovers(batch, state)?;
        wrote |= self.prune_flips(batch, state, now)?;
        let before = now.map(|now| now.plus_secs(-DELIVERY_DAYS * 86_400));
        wrote |= self.deliveries.run_slice(&slice, before)?;
        Ok(wrote)
    }

    /// Brings every check row up to date at once, for a clean stop.
    pub(super) fn write_full_checkpoint(&self, batch: &Batch, state: &State, newest: LogPosition) -> Result<(), StoreError> {
        self.checkpoint.write_full(batch, state, newest)
    }

    /// Looks at the next flips, and removes those that are older than their months or of a check that is gone.
    fn prune_flips(&mut self, batch: &Batch, state: &State, now: Option<Timestamp>) -> Result<bool, StoreError> {
        let Some(next) = self.next_flip else { return Ok(false) };
        let (most, before) = (FLIPS_PER_ROW * self.limits.slice_rows, now.map(|now| now.start_of_month(FLIP_MONTHS)));
        let is_old = |at| before.is_some_and(|before| at < before);
        let is_dead = |logged: &LoggedFlip| is_old(logged.flip.at) || !state.is_known_or_imported(logged.check);
        // One that lies ahead holds nothing up.
        let holds = |logged: &LoggedFlip| now.is_some_and(|now| !logged.flip.at.is_ahead_of(now));
        // What a start would replay stays.
        let pruned = batch.prune_flips(next, self.checkpoint.position.flip, most, is_dead, holds)?;
        self.next_flip = pruned.next;
        if let Some(error) = pruned.damaged.filter(|_| !self.is_damage_logged) {
            self.is_damage_logged = true;
            tracing::error!("it stays in the file: {error}");
        }
        Ok(pruned.removed > 0)
    }
}
