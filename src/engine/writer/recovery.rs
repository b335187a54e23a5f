//! Recovery from failures of the database. After a failed write, the file is written again and
//! reopened. After a failed read, memory is restored from the file. While the file is missing, no
//! pings are accepted.

use std::sync::Arc;
use std::time::Duration;

use super::super::apply::SequenceNumbers;
use super::super::housekeeping::HousekeepingPosition;
use super::{Writer, WriterMemory};
use crate::domain::ids::Arrival;
use crate::store::{ProgressReporter, Store, StoreError, catch_panic};
use crate::util::sync::atomic::Ordering;
use crate::util::sync::write;

/// Pause between two attempts to reopen a database that failed.
const REOPEN_PAUSE: Duration = Duration::from_millis(250);
/// Pause after an attempt to read memory again, or to reopen the database, because of an unreadable
/// page.
const DAMAGE_PAUSE: Duration = Duration::from_secs(1);
/// Maximum interval at which the path of the file is checked.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time for which the log is ahead of the synced file. A full log is synced earlier.
const SYNC_INTERVAL: Duration = Duration::from_secs(300);
/// The same time for the log of a cluster, which is trimmed up to what the files contain.
const SHARED_SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two attempts to create a log.
const LOG_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time after a full disk for which each batch is synced: a replay of the log could need more space
/// than the disk has.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(3600);
/// Pause of housekeeping after an unreadable page.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_secs(10);

/// Current failure, and knowledge about the database that was open.
pub(super) struct Recovery {
    progress: ProgressReporter,
    uses_log: bool,
    /// Uptime until which the log is not used, because the disk was full.
    log_paused_until: Option<Duration>,
    fault: DatabaseFault,
    /// Failure that existed when the file was found missing, if any.
    fault_before_missing: Option<DatabaseFault>,
    /// Failed database, unavailable to new readers, until the last reader returns it.
    failed_store: Option<Arc<Store>>,
    /// True if writes since the last sync may be lost, so that the file must be written again.
    needs_rewrite: bool,
    /// True if the disk was full and there were no dead entries: the file grows into the remaining
    /// space.
    grows_sparsely: bool,
    /// True if redb panicked since the database was opened. Closing the database then causes a
    /// repair, which reads every page.
    needs_repair_on_close: bool,
    /// True if it panicked although every page could be read: the repair may meet a damaged page.
    may_have_hidden_damage: bool,
    /// Acknowledged numbers: a database with lower ones is not opened.
    acknowledged: SequenceNumbers,
    /// Last logged message about a failed attempt, which is not repeated.
    last_message: String,
    /// Uptimes: of the last check of the file, of the last attempt after damage, and of the end of
    /// the pause of housekeeping.
    file_checked_at: Option<Duration>,
    attempted_at: Option<Duration>,
    housekeeping_paused_until: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DatabaseFault {
    /// The database refuses all operations until it is reopened.
    Failed,
    /// A page that is needed for writing is unreadable.
    Damaged,
    /// The path no longer leads to the file that was opened.
    FileMissing,
}

impl Recovery {
    pub(super) fn new(
        progress: ProgressReporter,
        uses_log: bool,
        acknowledged: SequenceNumbers,
    ) -> Self {
        Self {
            progress,
            uses_log,
            log_paused_until: None,
            fault: DatabaseFault::Failed,
            fault_before_missing: None,
            failed_store: None,
            needs_rewrite: false,
            grows_sparsely: false,
            needs_repair_on_close: false,
            may_have_hidden_damage: false,
            acknowledged,
            last_message: String::new(),
            file_checked_at: None,
            attempted_at: None,
            housekeeping_paused_until: Duration::ZERO,
        }
    }

    /// Records that a batch of `count` commands could not be written. `met_unreadable`: a page
    /// could not be read since the database was opened.
    pub(super) fn record_failed_batch(
        &mut self,
        count: usize,
        error: &StoreError,
        met_unreadable: bool,
    ) {
        self.fault = if matches!(error, StoreError::Damaged { .. }) {
            DatabaseFault::Damaged
        } else {
            DatabaseFault::Failed
        };
        self.record_library_panic(error, met_unreadable);
        self.log_once(format!("a batch of commands could not be written: {error}"));
        tracing::debug!("{count} commands are refused");
    }

    fn record_library_panic(&mut self, error: &StoreError, met_unreadable: bool) {
        let panicked = matches!(error, StoreError::Damaged { panicked: true, .. });
        self.needs_repair_on_close |= panicked;
        self.may_have_hidden_damage |= panicked && !met_unreadable;
    }

    /// Records that everything up to these numbers was acknowledged.
    pub(super) fn set_acknowledged(&mut self, numbers: SequenceNumbers) {
        self.acknowledged = numbers;
    }

    pub(super) fn pause(&self) -> Duration {
        if self.fault == DatabaseFault::Failed {
            REOPEN_PAUSE
        } else {
            DAMAGE_PAUSE
        }
    }

    /// Logs a message, unless it is the last one again.
    fn log_once(&mut self, message: String) {
        if self.last_message != message {
            tracing::error!("{message}");
            self.last_message = message;
        }
    }

    /// True if an attempt after damage is due at this uptime. It then counts as begun.
    fn begin_attempt_if_due(&mut self, uptime: Duration) -> bool {
        let due = self
            .attempted_at
            .is_none_or(|attempted| uptime >= attempted + DAMAGE_PAUSE);
        if due {
            self.attempted_at = Some(uptime);
        }
        due
    }
}

impl Writer {
    /// True if housekeeping has work that does not wait for pings, and does not pause.
    pub(super) fn has_housekeeping(&self) -> bool {
        self.memory.housekeeping.is_pending() && !self.is_housekeeping_paused()
    }

    /// True if housekeeping pauses because of an unreadable page.
    pub(super) fn is_housekeeping_paused(&self) -> bool {
        self.shared.clock.uptime() < self.recovery.housekeeping_paused_until
    }

    /// Lets housekeeping continue after an unreadable range, after a pause.
    pub(super) fn skip_damaged_range(
        &mut self,
        before: HousekeepingPosition,
        error: &StoreError,
    ) -> Result<(), StoreError> {
        self.recovery.log_once(format!(
            "housekeeping skips unreadable rows, which stay in the file: {error}"
        ));
        let met_unreadable = self.has_met_unreadable();
        self.recovery.record_library_panic(error, met_unreadable);
        self.recovery.housekeeping_paused_until = self.shared.clock.uptime() + HOUSEKEEPING_PAUSE;
        if self.memory.housekeeping.skip_unreadable_upload() {
            self.memory
                .housekeeping
                .resume_at(self.limits, before, before.sweep_from);
            return Ok(());
        }
        let store = self.shared.store.get()?;
        let skip = self.limits.slice_rows as u64;
        let beyond = Arrival(
            before
                .sweep_from
                .0
                .saturating_add(skip)
                .min(before.checkpoint.arrival.0),
        );
        let from = catch_panic(|| {
            store
                .snapshot()?
                .first_readable_arrival(before.sweep_from, before.checkpoint.arrival)
        })?;
        self.memory
            .housekeeping
            .resume_at(self.limits, before, from.max(beyond));
        Ok(())
    }

    /// Stops accepting pings if the path no longer leads to the file that was opened: a ping must
    /// not be acknowledged if the file is about to be lost.
    pub(super) fn detect_missing_file(&mut self) {
        let uptime = self.shared.clock.uptime();
        let Self {
            shared, recovery, ..
        } = self;
        if recovery.fault == DatabaseFault::FileMissing && !shared.writable.load(Ordering::Relaxed)
            || recovery
                .file_checked_at
                .is_some_and(|checked_at| uptime < checked_at + FILE_CHECK_INTERVAL)
        {
            return;
        }
        recovery.file_checked_at = Some(uptime);
        let Ok(store) = shared.store.get() else {
            return;
        };
        let Err(reason) = store.verify_file(&self.medium) else {
            return;
        };
        // An earlier failure must be repaired when the file is back: memory may be ahead of it.
        recovery.fault_before_missing =
            (!shared.writable.load(Ordering::Relaxed)).then_some(recovery.fault);
        recovery.fault = DatabaseFault::FileMissing;
        shared.writable.store(false, Ordering::Relaxed);
        recovery.log_once(format!(
            "NO PINGS ARE ACCEPTED: {reason}. Put the file back, or stop this server, restore the \
            file from a backup, and start it again"
        ));
    }

    /// Creates the log again if its file is missing, and syncs the database once the log has been
    /// ahead of it for [`SYNC_INTERVAL`].
    pub(super) fn maintain_log(&mut self) {
        let uptime = self.shared.clock.uptime();
        let Ok(store) = self.shared.store.get() else {
            return;
        };
        if self.log_check_due_at <= uptime {
            let created = catch_panic(|| store.create_missing_log(&self.medium));
            let interval = if matches!(created, Ok(true)) {
                FILE_CHECK_INTERVAL
            } else {
                LOG_RETRY_INTERVAL
            };
            self.log_check_due_at = uptime + interval;
            if created.is_err() {
                drop(store);
                self.fail_unless_synced(created.map(drop));
                return;
            }
        }
        if self
            .recovery
            .log_paused_until
            .take_if(|until| uptime >= *until)
            .is_some()
        {
            store.set_log_paused(false);
        }
        if !store.is_log_ahead() {
            self.log_ahead_since = None;
            return;
        }
        let since = *self.log_ahead_since.get_or_insert(uptime);
        let interval = if self.is_leader {
            SHARED_SYNC_INTERVAL
        } else {
            SYNC_INTERVAL
        };
        if uptime < since + interval {
            return;
        }
        let activity = &self.shared.writer_activity;
        let synced = catch_panic(|| activity.during_commit(|| store.sync()));
        drop(store);
        self.log_ahead_since = None;
        self.fail_unless_synced(synced);
    }

    /// Stops accepting commands after a failed sync, until the database is reopened.
    fn fail_unless_synced(&mut self, synced: Result<(), StoreError>) {
        if let Err(error) = synced {
            self.is_disk_full = error.is_full();
            let met_unreadable = self.has_met_unreadable();
            self.recovery.record_failed_batch(0, &error, met_unreadable);
            self.shared.writable.store(false, Ordering::Relaxed);
        }
    }

    /// True if the open database remembers a page as unreadable, which may be readable again.
    pub(super) fn has_met_unreadable(&self) -> bool {
        self.has_unreadable() || self.shared.is_page_readable_again.load(Ordering::Relaxed)
    }

    fn has_unreadable(&self) -> bool {
        self.shared
            .store
            .get()
            .is_ok_and(|store| store.has_unreadable())
    }

    /// True if closing the database causes a repair that may meet an unreadable page. The database
    /// then stays open, so that it can still be read.
    fn is_repair_unsafe(&self) -> bool {
        self.recovery.needs_repair_on_close
            && (self.recovery.may_have_hidden_damage || self.has_unreadable())
    }

    /// Reopens the database once an unreadable page is readable again, unless a reader uses it. If
    /// that includes a repair, every page must be readable.
    pub(super) fn reopen_if_readable_again(&mut self) {
        let is_readable = &self.shared.is_page_readable_again;
        if self.is_leader
            || self.is_repair_unsafe()
            || !is_readable.load(Ordering::Relaxed)
            || !self
                .recovery
                .begin_attempt_if_due(self.shared.clock.uptime())
        {
            return;
        }
        let Some(store) = self.shared.store.try_take() else {
            return;
        };
        is_readable.store(false, Ordering::Relaxed);
        let reopened = self.close_store(store).and_then(|()| self.open_store());
        if let Err(error) = &reopened {
            self.recovery
                .log_once(format!("the database cannot be reopened: {error}"));
            self.recovery.fault = DatabaseFault::Failed;
            self.shared.writable.store(false, Ordering::Relaxed);
        } else {
            self.memory.housekeeping.revisit_skipped();
            tracing::info!("an unreadable page is readable again: the database was reopened");
        }
        self.shared.store.put(reopened.ok());
    }

    /// Repairs the failure, as far as that is possible now.
    pub(super) fn recover(&mut self) {
        let result = match self.recovery.fault {
            DatabaseFault::Failed => self.reopen_database(),
            DatabaseFault::Damaged => self.reload_after_damage(),
            DatabaseFault::FileMissing => self.verify_file_returned(),
        };
        match result {
            Ok(true) => {
                self.recovery.last_message.clear();
                self.recovery.fault = DatabaseFault::Failed;
                self.shared.writable.store(true, Ordering::Relaxed);
                tracing::info!("the database accepts pings again");
            }
            Ok(false) => {}
            Err(error) => self
                .recovery
                .log_once(format!("the database does not accept pings yet: {error}")),
        }
    }

    /// Once the medium accepts writes again, closes and reopens the database, and reads memory
    /// again. Returns `false` if that is not possible yet.
    fn reopen_database(&mut self) -> Result<bool, StoreError> {
        if self.is_disk_full {
            self.recovery.log_paused_until = Some(self.shared.clock.uptime() + FULL_DISK_PAUSE);
        }
        // On a full disk, commands are accepted only after dead entries were removed. The removal
        // needs only the space that the file has.
        if !self.is_disk_full {
            self.medium.probe()?;
        }
        // No new readers from here on. The others return the file within a request; until then it
        // stays locked.
        let failed = self
            .recovery
            .failed_store
            .take()
            .or_else(|| self.shared.store.take_failed());
        if let Some(failed) = failed {
            match Arc::try_unwrap(failed) {
                Ok(store) => self.close_store(store)?,
                Err(failed) => {
                    self.recovery.failed_store = Some(failed);
                    return Ok(false);
                }
            }
        }
        let store = self.open_store()?;
        self.shared
            .is_page_readable_again
            .store(false, Ordering::Relaxed);
        self.reload_memory(&store)?;
        if self.recovery.grows_sparsely {
            store.grow_sparsely();
        }
        self.shared.store.put(Some(store));
        if self.is_disk_full {
            self.free_space()?;
        }
        Ok(true)
    }

    /// Removes dead entries in the smallest steps: the space that one frees is needed by the next
    /// one.
    fn free_space(&mut self) -> Result<(), StoreError> {
        let mut removed = 0;
        self.memory.housekeeping.use_smallest_slices();
        let result = self.remove_dead(&mut removed);
        self.memory.housekeeping.use_usual_slices(self.limits);
        if removed > 0 {
            tracing::info!(
                "the disk is full: {removed} dead pings and chunks of bodies were removed to free \
                space"
            );
        }
        self.recovery.grows_sparsely = removed == 0;
        if self.recovery.grows_sparsely {
            self.shared.store.get()?.grow_sparsely();
        }
        // If some entries were removed, another attempt will remove more. Otherwise the disk needs
        // free space first.
        self.is_disk_full = result.is_err() && removed > 0;
        result
    }

    /// Reads memory again, since it is ahead of the file. The database is readable, except for the
    /// damaged part.
    fn reload_after_damage(&mut self) -> Result<bool, StoreError> {
        if !self
            .recovery
            .begin_attempt_if_due(self.shared.clock.uptime())
        {
            return Ok(false);
        }
        let store = self.shared.store.get()?;
        let refuses_writes = store.refuses_writes();
        if refuses_writes {
            self.recovery.needs_repair_on_close = true;
            self.recovery.may_have_hidden_damage |= !self.has_met_unreadable();
        }
        let is_readable_again = self.shared.is_page_readable_again.load(Ordering::Relaxed);
        if store.write_failed()
            || store.has_log_failed()
            || (refuses_writes || is_readable_again) && !self.is_repair_unsafe()
        {
            self.recovery.fault = DatabaseFault::Failed;
            return Ok(false);
        }
        if refuses_writes {
            let reason = if self.recovery.may_have_hidden_damage {
                "a write failed because of a damaged page: stop this server, and restore a backup \
                 if the next start cannot repair the file"
            } else {
                "it cannot be written until its unreadable pages can be read again"
            };
            return Err(StoreError::Damaged {
                reason: reason.into(),
                panicked: false,
            });
        }
        self.reload_memory(&store)?;
        Ok(true)
    }

    /// Checks if the file was put back. Its content is that of the open database. An earlier
    /// failure is repaired next.
    fn verify_file_returned(&mut self) -> Result<bool, StoreError> {
        let store = self.shared.store.get()?;
        if store.verify_file(&self.medium).is_err() {
            return Ok(false);
        }
        let Some(fault) = self.recovery.fault_before_missing.take() else {
            return Ok(true);
        };
        self.recovery.fault = fault;
        Ok(false)
    }

    /// Loads memory from the file, which must be the same database and contain everything that was
    /// acknowledged.
    fn reload_memory(&mut self, store: &Store) -> Result<(), StoreError> {
        let now = self.next_timestamp();
        let ping_body_limit = self.memory.working.ping_body_limit;
        let (mut memory, published, _) = WriterMemory::load(
            store,
            ping_body_limit,
            self.limits,
            now,
            &self.shared.random,
        )?;
        memory.working.accepts_pings = self.memory.working.accepts_pings;
        let numbers = memory.working.numbers;
        let acknowledged = self.recovery.acknowledged;
        let is_same_database =
            memory.working.state.instance_id == self.memory.working.state.instance_id;
        if !is_same_database
            || numbers.arrival < acknowledged.arrival
            || numbers.id < acknowledged.id
            || numbers.delivery < acknowledged.delivery
        {
            let reason = if is_same_database {
                "it lacks data that was acknowledged"
            } else {
                "it is not the database that was open"
            };
            return Err(self.medium.explain_error(StoreError::Damaged {
                reason: reason.into(),
                panicked: false,
            }));
        }
        memory.last_timestamp = now;
        *write(&self.shared.published) = published;
        self.memory = memory;
        self.shared.feed.notify_of_everything();
        Ok(())
    }

    /// Opens the database, after it was rewritten if writes may be lost.
    fn open_store(&mut self) -> Result<Store, StoreError> {
        if self.recovery.needs_rewrite {
            let is_complete = Store::rewrite(&self.medium, &self.recovery.progress)?;
            self.recovery.needs_rewrite = !is_complete;
        }
        let mut store = Store::open_with_progress(&self.medium, &self.recovery.progress)?;
        if self.recovery.uses_log {
            let is_paused = self.recovery.log_paused_until.is_some();
            catch_panic(|| store.begin_log(&self.medium, &self.shared.random, is_paused))?;
            self.log_ahead_since = None;
        }
        store.tolerate_unreadable();
        Ok(store)
    }

    fn close_store(&mut self, store: Store) -> Result<(), StoreError> {
        if store.has_log_failed() && !store.write_failed() {
            // The database contains everything that was acknowledged. Without the failed log,
            // opening it again does not depend on what can be read of that.
            if let Err(error) = catch_panic(|| store.end_log(&self.medium)) {
                tracing::warn!("the journal that failed could not be removed: {error}");
            }
        }
        (
            self.recovery.needs_repair_on_close,
            self.recovery.may_have_hidden_damage,
        ) = (false, false);
        let (may_have_lost_writes, closed) = store.close();
        self.recovery.needs_rewrite |= may_have_lost_writes;
        closed
    }
}

#[cfg(all(test, shuttle))]
mod interleavings;
#[cfg(test)]
mod tests;
