//! What the writer does when the database fails: after a failed write the file is written and opened again, after a failed read memory
//! is taken back to what the file holds, and a file that is not there any more takes no pings.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::super::apply::SequenceNumbers;
use super::super::housekeeping::HousekeepingPosition;
use super::{Writer, WriterMemory};
use crate::domain::ids::Arrival;
use crate::store::{ProgressReporter, Store, StoreError, catch_panic};

/// How long the writer waits before it tries again to reopen a database that failed.
const REOPEN_PAUSE: Duration = Duration::from_millis(250);
/// How long after the last attempt memory is read anew, or the database opened anew, because of a page that cannot be read.
const DAMAGE_PAUSE: Duration = Duration::from_secs(1);
/// How often the file is looked for at its path, at the least.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long housekeeping rests after it has met a page that cannot be read.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_secs(10);

/// What has failed, and what is known of the database that was open.
pub(super) struct Recovery {
    progress: ProgressReporter,
    fault: DatabaseFault,
    /// What had failed when the file was found to be lost, if anything had.
    fault_before_missing: Option<DatabaseFault>,
    /// A database that failed, out of reach for new readers, until the last one gives it back.
    failed_store: Option<Arc<Store>>,
    /// What was written since the last sync may be lost: the file has to be written again.
    needs_rewrite: bool,
    /// The disk was full and nothing was dead: the file grows into what the disk has left.
    grows_sparsely: bool,
    /// The library panicked while it wrote: closing the database leaves it to be repaired, which reads every page.
    leaks_store: bool,
    /// What has been acknowledged: no database with less is opened.
    acknowledged: SequenceNumbers,
    /// The last words about an attempt that failed, which are not repeated.
    last_message: String,
    /// Uptimes: of the last look at the file, of the last attempt after damage, and of the end of the rest of housekeeping.
    file_checked_at: Option<Duration>,
    attempted_at: Option<Duration>,
    housekeeping_paused_until: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DatabaseFault {
    /// The database refuses everything until it is opened anew.
    Failed,
    /// A page that is needed for writing cannot be read.
    Damaged,
    /// The path does not lead to the file that was opened.
    FileMissing,
}

impl Recovery {
    pub(super) fn new(progress: ProgressReporter, acknowledged: SequenceNumbers) -> Self {
        Self {
            progress,
            fault: DatabaseFault::Failed,
            fault_before_missing: None,
            failed_store: None,
            needs_rewrite: false,
            grows_sparsely: false,
            leaks_store: false,
            acknowledged,
            last_message: String::new(),
            file_checked_at: None,
            attempted_at: None,
            housekeeping_paused_until: Duration::ZERO,
        }
    }

    /// A batch of so many commands could not be written.
    pub(super) fn note_failed_batch(&mut self, count: usize, error: &StoreError) {
        self.fault = if matches!(error, StoreError::Damaged { .. }) { DatabaseFault::Damaged } else { DatabaseFault::Failed };
        self.note_leak(error);
        self.log_once(format!("a batch of commands could not be written: {error}"));
        tracing::debug!("{count} commands are refused");
    }

    fn note_leak(&mut self, error: &StoreError) {
        self.leaks_store |= matches!(error, StoreError::Damaged { panicked: true, .. });
    }

    /// Everything up to these numbers has been acknowledged.
    pub(super) fn set_acknowledged(&mut self, numbers: SequenceNumbers) {
        self.acknowledged = numbers;
    }

    pub(super) fn pause(&self) -> Duration {
        if self.fault == DatabaseFault::Failed { REOPEN_PAUSE } else { DAMAGE_PAUSE }
    }

    /// Logs what has not just been logged.
    fn log_once(&mut self, words: String) {
        if self.last_message != words {
            tracing::error!("{words}");
            self.last_message = words;
        }
    }

    /// Whether an attempt after damage is due at this uptime.
    fn begin_attempt_if_due(&mut self, uptime: Duration) -> bool {
        let due = self.attempted_at.is_none_or(|attempted| uptime >= attempted + DAMAGE_PAUSE);
        if due {
            self.attempted_at = Some(uptime);
        }
        due
    }
}

impl Writer {
    /// Whether there is housekeeping that does not wait for pings, nor rests.
    pub(super) fn has_housekeeping(&self) -> bool {
        self.memory.housekeeping.is_pending() && !self.is_housekeeping_paused()
    }

    /// Whether housekeeping has met what cannot be read, and waits before it goes on.
    pub(super) fn is_housekeeping_paused(&self) -> bool {
        self.shared.clock.uptime() < self.recovery.housekeeping_paused_until
    }

    /// Lets housekeeping go on behind what cannot be read, after a while.
    pub(super) fn skip_damaged_range(&mut self, before: HousekeepingPosition, error: &StoreError) -> Result<(), StoreError> {
        self.recovery.log_once(format!("housekeeping goes round rows that cannot be read, which stay in the file: {error}"));
        self.recovery.note_leak(error);
        self.recovery.housekeeping_paused_until = self.shared.clock.uptime() + HOUSEKEEPING_PAUSE;
        if self.memory.housekeeping.skip_unreadable_upload() {
            self.memory.housekeeping.resume_at(self.limits, before, before.sweep_from);
            return Ok(());
        }
        let store = self.shared.store.get()?;
        let skip = self.limits.slice_rows as u64;
        let beyond = Arrival(before.sweep_from.0.saturating_add(skip).min(before.checkpoint.arrival.0));
        let from = catch_panic(|| store.snapshot()?.first_readable_arrival(before.sweep_from, before.checkpoint.arrival))?;
        self.memory.housekeeping.resume_at(self.limits, before, from.max(beyond));
        Ok(())
    }

    /// Looks whether the path still leads to the file that was opened. Whoever pings must not be told that it is on disk when the file
    /// is about to vanish.
    pub(super) fn check_file_exists(&mut self) {
        let uptime = self.shared.clock.uptime();
        let Self { shared, recovery, .. } = self;
        if recovery.fault == DatabaseFault::FileMissing && !shared.writable.load(Ordering::Relaxed)
            || recovery.file_checked_at.is_some_and(|looked| uptime < looked + FILE_CHECK_INTERVAL)
        {
            return;
        }
        recovery.file_checked_at = Some(uptime);
        let Ok(Err(words)) = shared.store.get().map(|store| store.check_file(&self.medium)) else { return };
        // What has failed before is still to be mended when the file is back: memory may be ahead of it.
        recovery.fault_before_missing = (!shared.writable.load(Ordering::Relaxed)).then_some(recovery.fault);
        recovery.fault = DatabaseFault::FileMissing;
        shared.writable.store(false, Ordering::Relaxed);
        recovery
            .log_once(format!("NO PINGS ARE TAKEN: {words}. Put it back, or stop this server, restore the file from a backup, and start"));
    }

    /// Opens the database anew once a page can be read that could not, unless somebody is reading at this moment.
    pub(super) fn reopen_if_readable_again(&mut self) {
        let healed = &self.shared.is_page_readable_again;
        if self.recovery.leaks_store || !healed.load(Ordering::Relaxed) || !self.recovery.begin_attempt_if_due(self.shared.clock.uptime()) {
            return;
        }
        let Some(store) = self.shared.store.try_take() else { return };
        healed.store(false, Ordering::Relaxed);
        let reopened = self.close_store(store).and_then(|()| self.open_store());
        if let Err(error) = &reopened {
            self.recovery.log_once(format!("the database cannot be opened anew: {error}"));
            self.recovery.fault = DatabaseFault::Failed;
            self.shared.writable.store(false, Ordering::Relaxed);
        } else {
            tracing::info!("what could not be read can be: the database was opened anew");
        }
        self.shared.store.put(reopened.ok());
    }

    /// Mends what has failed, as far as it can be now.
    pub(super) fn recover(&mut self) {
        let mended = match self.recovery.fault {
            DatabaseFault::Failed => self.reopen_database(),
            DatabaseFault::Damaged => self.reload_after_damage(),
            DatabaseFault::FileMissing => self.check_file_returned(),
        };
        match mended {
            Ok(true) => {
                self.recovery.last_message.clear();
                self.recovery.fault = DatabaseFault::Failed;
                self.shared.writable.store(true, Ordering::Relaxed);
                tracing::info!("the database takes pings again");
            }
            Ok(false) => {}
            Err(error) => self.recovery.log_once(format!("the database takes no pings yet: {error}")),
        }
    }

    /// Once the medium takes writes again, the database is dropped and opened, and memory is read anew. `false`: not yet.
    fn reopen_database(&mut self) -> Result<bool, StoreError> {
        // On a full disk nothing is taken before something dead has gone, which needs no more space than the file has.
        if !self.is_disk_full {
            self.medium.probe()?;
        }
        // From here on there are no new readers. The others give the file back within a request; until they have, it stays locked.
        let failed = self.recovery.failed_store.take().or_else(|| self.shared.store.take_failed());
        if let Some(failed) = failed {
            match Arc::try_unwrap(failed) {
                Ok(store) => self.close_store(store)?,
                Err(failed) => {
                    self.recovery.failed_store = Some(failed);
                    return Ok(false);
                }
            }
        }
        if self.recovery.needs_rewrite {
            Store::rewrite(&self.medium, &self.recovery.progress)?;
            self.recovery.needs_rewrite = false;
        }
        let store = self.open_store()?;
        self.read_memory(&store)?;
        if self.recovery.grows_sparsely {
            store.grow_sparsely();
        }
        self.shared.store.put(Some(store));
        if self.is_disk_full {
            self.free_space()?;
        }
        Ok(true)
    }

    /// Removes what is dead, in the smallest steps: the space that one frees is what the next one needs.
    fn free_space(&mut self) -> Result<(), StoreError> {
        let mut removed = 0;
        self.memory.housekeeping.use_smallest_slices();
        let done = self.remove_dead(&mut removed);
        self.memory.housekeeping.use_usual_slices(self.limits);
        if removed > 0 {
            tracing::info!("the disk is full: {removed} dead pings and pieces of bodies were removed to make room");
        }
        self.recovery.grows_sparsely = removed == 0;
        if self.recovery.grows_sparsely {
            self.shared.store.get()?.grow_sparsely();
        }
        // Whoever has got on will get on further. Otherwise the disk has to have space first.
        self.is_disk_full = done.is_err() && removed > 0;
        done
    }

    /// The database can be read, except for what is damaged. Memory is read anew, since it is ahead of the file.
    fn reload_after_damage(&mut self) -> Result<bool, StoreError> {
        if !self.recovery.begin_attempt_if_due(self.shared.clock.uptime()) {
            return Ok(false);
        }
        let store = self.shared.store.get()?;
        if store.write_failed() {
            self.recovery.fault = DatabaseFault::Failed;
            return Ok(false);
        }
        self.read_memory(&store)?;
        Ok(true)
    }

    /// Looks whether the file was put back. What it holds is what was open all the while; what had failed before is mended next.
    fn check_file_returned(&mut self) -> Result<bool, StoreError> {
        let store = self.shared.store.get()?;
        if store.check_file(&self.medium).is_err() {
            return Ok(false);
        }
        let Some(trouble) = self.recovery.fault_before_missing.take() else { return Ok(true) };
        self.recovery.fault = trouble;
        Ok(false)
    }

    /// Reads memory from the file, which has to be the same database and to hold all that was acknowledged.
    fn read_memory(&mut self, store: &Store) -> Result<(), StoreError> {
        let (now, body_limit) = (self.next_timestamp(), self.memory.working.body_limit);
        let (mut memory, published, _) = WriterMemory::read(store, body_limit, self.limits, now, &self.shared.random)?;
        memory.working.accepts_pings = self.memory.working.accepts_pings;
        let (found, known) = (memory.working.numbers, self.recovery.acknowledged);
        let same = memory.working.state.instance_id == self.memory.working.state.instance_id;
        if !same || found.arrival < known.arrival || found.id < known.id || found.delivery < known.delivery {
            let reason = if same { "it holds less than was acknowledged" } else { "it is not the database that was open" };
            return Err(self.medium.explain_error(StoreError::Damaged { reason: reason.into(), panicked: false }));
        }
        memory.last_timestamp = now;
        *self.shared.published.write().unwrap_or_else(PoisonError::into_inner) = published;
        self.memory = memory;
        self.shared.feed.notify_of_everything();
        Ok(())
    }

    fn open_store(&self) -> Result<Store, StoreError> {
        let store = Store::open_with_progress(&self.medium, &self.recovery.progress)?;
        store.tolerate_unreadable();
        Ok(store)
    }

    fn close_store(&mut self, store: Store) -> Result<(), StoreError> {
        self.recovery.needs_rewrite |= store.may_have_lost_writes();
        self.recovery.leaks_store = false;
        catch_panic(move || {
            drop(store);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
