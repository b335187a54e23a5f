//! Housekeeping keeps the file small and the start short: the checkpoint of check rows, the sweep
//! of pings, the pruning of old flips. It runs in slices together with the batches, so that no ping
//! waits for it.

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

pub(super) use checkpoint::PingLogPosition;
pub(super) use sweep::PingLogSize;

/// Limits of housekeeping: the conditions under which a task is due, and the size of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HousekeepingLimits {
    /// Maximum number of rows that a slice writes, removes or reads.
    pub slice_rows: usize,
    /// Bytes of rows after which a slice of a checkpoint ends.
    pub checkpoint_bytes: u64,
    /// Bytes of bodies after which a slice of a sweep ends, unless more arrived in the meantime.
    pub sweep_bytes: u64,
    /// Bytes of bodies above which a ping or mail is written in chunks, one ping or mail at a time.
    pub upload_threshold_bytes: usize,
    /// Maximum size of a chunk in bytes.
    pub chunk_bytes: usize,
    /// Minimum number of pings in the tail of the log for a checkpoint. The tail consists of the
    /// entries after the last checkpoint, which a start must replay.
    pub min_tail: u64,
    /// Number of pings in the tail for each check before a checkpoint. A checkpoint writes one row
    /// for each check; this spreads its cost.
    pub tail_per_check: u64,
    /// Bytes of bodies in the tail that suffice for a checkpoint, with any number of pings.
    pub tail_bytes: u64,
    /// Number of entries that the log may have above twice its live ones before it is swept.
    pub slack_entries: u64,
    /// Maximum number of bytes of bodies in the log above twice the bytes of kept bodies before it
    /// is swept: see [limits](crate::docs::limits).
    pub slack_bytes: u64,
    /// Maximum number of deliveries that are kept: see [limits](crate::docs::limits).
    pub max_deliveries: u64,
    /// Rows for alerts after which a batch takes no further deadlines, and no further commands of a
    /// project.
    pub max_alert_rows: usize,
}

impl Default for HousekeepingLimits {
    fn default() -> Self {
        Self {
            slice_rows: 512,
            checkpoint_bytes: 1 << 20,
            sweep_bytes: 4 << 20,
            upload_threshold_bytes: 256 << 10,
            // With its overhead a chunk fills a page of 1 MiB.
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

/// Number of flips that can be read in the time of writing another row.
const FLIPS_PER_ROW: usize = 8;
/// Full months before the current one for which flips are kept: see [limits](crate::docs::limits).
const FLIP_MONTHS: i64 = 2;
/// Days for which deliveries are kept, and their maximum number: see [limits](crate::docs::limits).
const DELIVERY_DAYS: i64 = 30;
const MAX_DELIVERIES: u64 = 50_000;

/// Context of a slice of work.
struct HousekeepingSlice<'a> {
    limits: HousekeepingLimits,
    batch: &'a Batch,
    state: &'a State,
    /// Number of pings that the batch has appended, and bytes of bodies that it has written.
    appended: (u64, u64),
    /// Ends of both logs.
    newest: PingLogPosition,
}

/// Progress of housekeeping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HousekeepingPosition {
    /// Check rows contain every ping and flip up to here.
    pub(super) checkpoint: PingLogPosition,
    size: PingLogSize,
    /// First arrival to sweep.
    pub(super) sweep_from: Arrival,
}

/// State of the housekeeping tasks.
pub(super) struct Housekeeping {
    limits: HousekeepingLimits,
    checkpoint: Checkpoint,
    sweep: Sweep,
    chunks: ChunkPruning,
    /// Next flip to visit, if a round is in progress.
    next_flip: Option<FlipNumber>,
    deliveries: DeliveryPruning,
    /// True if a damaged row of flips was logged.
    is_unreadable_logged: bool,
    /// Removal of the data of abandoned imports.
    import_leftovers: ImportLeftovers,
}

/// Progress of the removal of data of abandoned imports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ImportLeftovers {
    /// Nothing to remove.
    None,
    /// There is data to remove, after a checkpoint: flips that a startup would replay cannot be
    /// removed.
    AwaitingCheckpoint,
    /// The data is being removed.
    Removing,
}

impl Housekeeping {
    /// `has_import_leftovers`: an abandoned import may have left data.
    pub(super) fn new(
        limits: HousekeepingLimits,
        checkpoint: PingLogPosition,
        size: PingLogSize,
        has_import_leftovers: bool,
    ) -> Self {
        let mut checkpoint = Checkpoint::new(checkpoint);
        if has_import_leftovers {
            checkpoint.request();
        }
        Self {
            limits,
            checkpoint,
            sweep: Sweep::new(size),
            // An upload that was in progress when the server stopped belongs to no ping.
            chunks: ChunkPruning::new_due(),
            next_flip: None,
            deliveries: DeliveryPruning::default(),
            is_unreadable_logged: false,
            import_leftovers: if has_import_leftovers {
                ImportLeftovers::AwaitingCheckpoint
            } else {
                ImportLeftovers::None
            },
        }
    }

    /// Begins the hourly round: updates check rows and removes dead entries.
    pub(super) fn begin_hourly_round(&mut self, state: &State) {
        self.checkpoint.request();
        if self.sweep.has_dead(state) {
            self.sweep.request();
        }
        self.next_flip = Some(FlipNumber(0));
        self.deliveries.request();
    }

    /// Position to resume at later.
    pub(super) fn position(&self) -> HousekeepingPosition {
        HousekeepingPosition {
            checkpoint: self.checkpoint.position,
            size: self.sweep.size(),
            sweep_from: self.sweep.from,
        }
    }

    /// Resumes at a position, but sweeps only from the arrival `from` on.
    pub(super) fn resume_at(
        &mut self,
        limits: HousekeepingLimits,
        position: HousekeepingPosition,
        from: Arrival,
    ) {
        let chunks = std::mem::replace(&mut self.chunks, ChunkPruning::new_due());
        *self = Self {
            chunks,
            ..Self::new(
                limits,
                position.checkpoint,
                position.size,
                self.import_leftovers != ImportLeftovers::None,
            )
        };
        self.sweep.from = from;
    }

    /// Skips an upload that could not be read. Returns true if an upload was the cause.
    pub(super) fn skip_unreadable_upload(&mut self) -> bool {
        self.chunks.skip_unreadable()
    }

    /// Lets the next round visit everything that was skipped because it could not be read.
    pub(super) fn revisit_skipped(&mut self) {
        self.sweep.from = Arrival(0);
        self.chunks.revisit_skipped();
    }

    /// Requests the removal of uploaded bodies that belong to no ping.
    pub(super) fn request_chunk_pruning(&mut self) {
        self.chunks.request();
    }

    /// Counts the pings that a batch appends, and the bytes of their bodies beyond the first 1,024
    /// of each.
    pub(super) fn count_appended(&mut self, appended: (u64, u64)) {
        self.sweep.count_appended(appended);
    }

    /// Counts pings that a batch has added to the kept ones.
    pub(super) fn count_kept(
        &mut self,
        batch: &Batch,
        kept: KeptPutResult,
    ) -> Result<(), StoreError> {
        batch.set_meta_value(MetaKey::KeptBytes, self.sweep.add_kept(kept))
    }

    /// Records a change of open imports. `is_ended`: an import ended, so its data must be removed
    /// unless it was finished.
    pub(super) fn record_import_change(
        &mut self,
        batch: &Batch,
        state: &State,
        is_ended: bool,
    ) -> Result<(), StoreError> {
        if is_ended {
            self.checkpoint.request();
            self.import_leftovers = ImportLeftovers::AwaitingCheckpoint;
        }
        batch.set_meta_value(
            MetaKey::ImportLeftovers,
            u64::from(!state.imports.is_empty() || self.import_leftovers != ImportLeftovers::None),
        )
    }

    /// Takes the next step of removing data of abandoned imports. Returns `false` if there was
    /// nothing to write.
    fn remove_import_leftovers(
        &mut self,
        batch: &Batch,
        state: &State,
    ) -> Result<bool, StoreError> {
        match self.import_leftovers {
            ImportLeftovers::AwaitingCheckpoint if !self.checkpoint.is_pending() => {
                self.next_flip = Some(FlipNumber(0));
                self.sweep.request_kept_pruning();
                self.import_leftovers = ImportLeftovers::Removing;
            }
            ImportLeftovers::Removing if self.next_flip.is_none() && !self.sweep.is_pending() => {
                self.import_leftovers = ImportLeftovers::None;
                batch.set_meta_value(
                    MetaKey::ImportLeftovers,
                    u64::from(!state.imports.is_empty()),
                )?;
                return Ok(true);
            }
            ImportLeftovers::None
            | ImportLeftovers::AwaitingCheckpoint
            | ImportLeftovers::Removing => {}
        }
        Ok(false)
    }

    /// Counts deliveries that a batch appends.
    pub(super) fn count_deliveries(&mut self, deliveries: &[DeliveryRecord], state: &State) {
        self.deliveries
            .count_appended(deliveries, state, self.limits.max_deliveries);
    }

    /// Makes slices as small as possible: the space that one frees is needed by the next one.
    pub(super) fn use_smallest_slices(&mut self) {
        self.limits = HousekeepingLimits {
            slice_rows: 16,
            sweep_bytes: 1,
            ..self.limits
        };
    }

    /// Restores the usual size of slices.
    pub(super) fn use_usual_slices(&mut self, limits: HousekeepingLimits) {
        self.limits = limits;
    }

    /// Requests the removal of all dead entries, even if they are not counted.
    pub(super) fn request_full_round(&mut self) {
        self.checkpoint.request();
        self.sweep.request();
        self.chunks.request();
        self.next_flip = Some(FlipNumber(0));
        self.deliveries.request();
    }

    /// Number of pings in the file.
    pub(super) fn ping_count(&self) -> u64 {
        let size = self.sweep.size();
        size.log_len + size.kept_len
    }

    /// Number of pings in the file, and bytes of their long bodies.
    pub(super) fn size(&self) -> (u64, u64) {
        let size = self.sweep.size();
        (self.ping_count(), size.log_bytes + size.kept_bytes)
    }

    /// Number of removed chunks of bodies.
    pub(super) fn removed_chunks(&self) -> u64 {
        self.chunks.removed
    }

    /// True if there is work that does not wait for pings.
    pub(super) fn is_pending(&self) -> bool {
        let is_housekeeping =
            self.checkpoint.is_pending() || self.sweep.is_pending() || self.chunks.is_pending();
        is_housekeeping
            || self.next_flip.is_some()
            || self.deliveries.is_pending()
            || self.import_leftovers != ImportLeftovers::None
    }

    /// Runs one slice of the due tasks in a batch. `appended` is the number of pings that the batch
    /// has appended and of bytes of bodies that it has written. `upload` is the upload in progress,
    /// which is not removed. Returns `false` if nothing was written. If `now` is `None`, nothing is
    /// removed for its age.
    pub(super) fn run_slice(
        &mut self,
        batch: &Batch,
        state: &State,
        appended: (u64, u64),
        upload: Option<u64>,
        newest: PingLogPosition,
        now: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let slice = HousekeepingSlice {
            limits: self.limits,
            batch,
            state,
            appended,
            newest,
        };
        let mut wrote = self.checkpoint.run_slice(&slice)?;
        // A requested sweep reaches up to the checkpoint that was requested with it.
        if !self.checkpoint.is_pending() || appended.0 > 0 {
            wrote |= self
                .sweep
                .run_slice(&slice, self.checkpoint.position.arrival)?;
        }
        if self.sweep.take_unreferenced() {
            self.chunks.request();
        }
        // Twice the received amount, so that the removal is faster than any rate.
        wrote |=
            self.chunks
                .run_slice(batch, self.limits.sweep_bytes.max(2 * appended.1), upload)?;
        wrote |= self.remove_import_leftovers(batch, state)?;
        wrote |= self.prune_flips(batch, state, now)?;
        let before = now.map(|now| now.plus_secs(-DELIVERY_DAYS * 86_400));
        wrote |= self.deliveries.run_slice(&slice, before)?;
        Ok(wrote)
    }

    /// Updates all check rows at once, for a clean shutdown.
    pub(super) fn write_full_checkpoint(
        &self,
        batch: &Batch,
        state: &State,
        newest: PingLogPosition,
    ) -> Result<(), StoreError> {
        self.checkpoint.write_full(batch, state, newest)
    }

    /// Visits the next flips, and removes flips that are too old or belong to a deleted check.
    fn prune_flips(
        &mut self,
        batch: &Batch,
        state: &State,
        now: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let Some(next) = self.next_flip else {
            return Ok(false);
        };
        let limit = FLIPS_PER_ROW * self.limits.slice_rows;
        let before = now.map(|now| now.start_of_month(FLIP_MONTHS));
        let is_old = |at| before.is_some_and(|before| at < before);
        let is_dead = |logged: &LoggedFlip| {
            is_old(logged.flip.at) || !state.is_known_or_imported(logged.check)
        };
        // A flip in the future does not stop the removal.
        let blocks_successor =
            |logged: &LoggedFlip| now.is_some_and(|now| !logged.flip.at.is_ahead_of(now));
        // Flips that a startup would replay stay.
        let pruned = batch.prune_flips(
            next,
            self.checkpoint.position.flip,
            limit,
            is_dead,
            blocks_successor,
        )?;
        self.next_flip = pruned.next;
        if let Some(error) = pruned.unreadable_row.filter(|_| !self.is_unreadable_logged) {
            self.is_unreadable_logged = true;
            tracing::error!("an unreadable row stays in the file: {error}");
        }
        Ok(pruned.removed > 0)
    }
}
